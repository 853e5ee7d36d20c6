/** Other programs, run to their end, and what they print. Node's module for it is loaded with the first: most commands start none. */
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { report } from './diagnostics.ts'
import { hasCode } from './file-system.ts'
import { clearTimeout, setTimeout } from './system-runtime.ts'

interface ProgramOptions {
  readonly cwd: string
  /** Default: that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** What it reads from stdin. Default: nothing. */
  readonly input?: string | Buffer
  /** Its stdin ends when it has printed this. Default: behind the input. */
  readonly until?: RegExp
  /** It is ended after so long, or when this process exits, with all that it has started. Default: never. */
  readonly limitMs?: number
}

export interface ProgramEnd {
  /** Null for one that a signal ended. */
  readonly exitCode: number | null
  readonly stdout: Buffer
  readonly stderr: string
}

/** Resolves however the program ended; rejects with the system's error for one that could not be started. */
export async function runProgram(
  [file = '', ...args]: readonly string[],
  { cwd, env, input = '', until, limitMs }: ProgramOptions,
): Promise<ProgramEnd> {
  const { spawn } = process.getBuiltinModule('node:child_process')
  const hasLimit = limitMs !== undefined
  const options = { cwd, detached: hasLimit, ...(env === undefined ? {} : { env }) }
  const child = spawn(file, args, { ...options, stdio: 'pipe' })
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  // No fault: a program that ends without reading all of its input is judged by how it ended.
  child.stdin.once('error', () => undefined)
  if (until === undefined) child.stdin.end(input)
  else {
    child.stdin.write(input)
    child.stdout.on('data', () => {
      if (until.test(Buffer.concat(stdout).toString())) child.stdin.end()
    })
  }
  const end = (): void => endGroup(child)
  const limit = hasLimit ? setTimeout(end, limitMs) : undefined
  // In a group of its own it hears nothing of a signal at the terminal, and would go on after this process.
  if (hasLimit) process.prependOnceListener('exit', end)
  const exitCode = await ended.finally(() => {
    clearTimeout(limit)
    process.off('exit', end)
  })
  return { exitCode, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() }
}

/**
 * Ends a program that leads a group of its own. What it has started has its output open, without whose end the program is not
 * over, and may have left the group.
 */
function endGroup(child: ChildProcessWithoutNullStreams): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  } catch (error) {
    if (!hasCode(error, 'ESRCH')) report('runtime/program', error)
  }
  child.stdout.destroy()
  child.stderr.destroy()
}

/** The parts that the stream gives, as they come. */
function collect(stream: ChildProcessWithoutNullStreams['stdout']): readonly Buffer[] {
  const parts: Buffer[] = []
  stream.on('data', (part: Buffer) => parts.push(part))
  return parts
}

interface OutputOptions {
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
