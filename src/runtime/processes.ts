/** This host and its processes: its name, when this one began, and which of them are alive. */
import os from 'node:os'

export function hostName(): string {
  return os.hostname()
}

/** Wall time at the start of this process, with a fraction. */
export function processStartedAtMs(): number {
  return performance.timeOrigin
}

export function ownProcessId(): number {
  return process.pid
}

/** Whether the system keeps, with each file, who may read it. */
export function hasFileModes(): boolean {
  return process.platform !== 'win32'
}

/** A process of another user cannot be asked, but it answers that it is there. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

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
