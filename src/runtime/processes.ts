/** What other programs say. */

export interface OutputOptions {
  readonly cwd: string
  readonly withinMs: number
}

const OUTPUT_BYTES_MAX = 4 * 1_048_576

/** What a program prints; null if it is not there, fails, prints too much, or takes longer. */
export async function outputOf(
  program: string,
  args: readonly string[],
  { cwd, withinMs }: OutputOptions,
): Promise<string | null> {
  const { execFile } = await import('node:child_process')
  const limits = { timeout: withinMs, killSignal: 'SIGKILL', maxBuffer: OUTPUT_BYTES_MAX } as const
  return new Promise((resolve) => {
    execFile(program, args, { cwd, ...limits }, (error, stdout) => {
      resolve(error === null ? stdout : null)
    })
  })
}
