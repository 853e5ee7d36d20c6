/** Whose error it is that a call of a driver threw. */

/** A mistake in a program, ours or the caller's: no driver's answer, and so never dressed as a store's fault. */
export function isMistake(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof ReferenceError ||
    error instanceof RangeError ||
    error instanceof SyntaxError
  )
}
