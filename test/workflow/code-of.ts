/** The code of the error that a call ends with, or that there was none. */
export async function codeOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'no error',
    (error: { readonly code: unknown }) => error.code,
  )
}
