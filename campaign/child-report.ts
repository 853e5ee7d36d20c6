/** Runs a compiled program of the campaign as a process of its own and takes the JSON that it prints in the end. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { ROOT } from './part.ts'

export interface ChildOptions {
  /** From the root of the repository, as a source. */
  readonly program: string
  readonly order: unknown
  readonly nodeOptions?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Hears each line that is not the last. */
  readonly onLine?: (line: string) => void
}

const STDERR_SHOWN = 500

export function childReport<Report>(options: ChildOptions): Promise<Report> {
  const { program, order, nodeOptions = [], env = {}, onLine } = options
  const compiled = path.join(ROOT, 'dist-dev', program.replace(/\.ts$/, '.js'))
  const args = ['--enable-source-maps', ...nodeOptions, compiled, JSON.stringify(order)]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  let rest = ''
  let last = ''
  let stderr = ''
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = `${rest}${chunk.toString()}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (last !== '') onLine?.(last)
      last = line
    }
  })
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  return new Promise((resolve, reject) => {
    child.once('close', (code) => {
      process.off('exit', kill)
      if (code === 0) resolve(JSON.parse(last) as Report)
      else reject(new Error(`${program} ended with ${code}: ${stderr.slice(-STDERR_SHOWN)}`))
    })
  })
}
