/** Runs the built `tenure` as people do: as a process, with a store in a directory that is gone afterwards. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { loadDriver } from '../../src/store/sqlite/sqlite-client.ts'

export const MAIN: string = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** Far beyond what any command of these tests takes; a process that hangs fails its test instead of the whole run. */
const HANGS_AFTER_MS = 45_000

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly hangsAfterMs?: number
}

export interface Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves once stdout holds the text; the test's own timeout ends the wait. */
  says(text: string): Promise<void>
}

/** Nothing of the surroundings leaks in: no store, holder or colour of whoever runs the tests. */
function cleanEnv(env: RunOptions['env'] = {}): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(TENURE_|GIT_|NO_COLOR|NODE_V8_COVERAGE|XDG_STATE_HOME)/.test(name),
  )
  return { ...Object.fromEntries(inherited), ...env }
}

export function start(args: readonly string[], options: RunOptions = {}): Running {
  return startProgram([process.execPath, MAIN, ...args], options)
}

export function startProgram(command: readonly string[], options: RunOptions = {}): Running {
  const [file = '', ...args] = command
  const child = spawn(file, args, {
    cwd: options.cwd ?? os.tmpdir(),
    env: cleanEnv(options.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (text: Buffer) => (stdout += text.toString()))
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()))
  const hangs = setTimeout(() => child.kill('SIGKILL'), options.hangsAfterMs ?? HANGS_AFTER_MS)
  const ended = once(child, 'close').then(([code]): Ended => {
    clearTimeout(hangs)
    return { code: code as number | null, stdout, stderr }
  })
  const says = async (text: string): Promise<void> => {
    while (!stdout.includes(text)) {
      if (child.exitCode !== null) throw new Error(`ended without saying ${text}: ${stderr}`)
      await once(child.stdout, 'data')
    }
  }
  return { process: child, ended, says }
}

export async function tenure(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return start(args, options).ended
}

export interface Workshop {
  readonly directory: string
  readonly storeFile: string
  readonly storeUrl: string
  /** Runs a command on the workshop's store, from its directory. */
  tenure(args: readonly string[], options?: RunOptions): Promise<Ended>
  /** Runs a command that must succeed, and gives its JSON. */
  json<Answer = never>(args: readonly string[]): Promise<Answer>
  start(args: readonly string[], options?: RunOptions): Running
  /** Changes the store behind its back. */
  sql(text: string): Promise<void>
}

/** Asks again until it is so; the test's own timeout ends the wait. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) continue
}

/** A directory with a store of its own, removed after the test. */
export function workshop(): Workshop {
  const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-test-')))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const storeFile = path.join(directory, 'tenure.db')
  const storeUrl = `sqlite:${storeFile}`
  const placed = (options: RunOptions = {}): RunOptions => ({
    ...options,
    cwd: options.cwd ?? directory,
    env: { TENURE_STORE: storeUrl, ...options.env },
  })
  const run: Workshop['tenure'] = async (args, options) => tenure(args, placed(options))
  return {
    ...{ directory, storeFile, storeUrl },
    tenure: run,
    json: async <Answer>(args: readonly string[]): Promise<Answer> => {
      const { code, stdout, stderr } = await run([...args, '--json'])
      if (code !== 0) throw new Error(`tenure ${args.join(' ')} ended with ${code}: ${stderr}`)
      return JSON.parse(stdout) as Answer
    },
    start: (args, options) => start(args, placed(options)),
    sql: async (text) => {
      const Driver = await loadDriver()
      const database = new Driver(storeFile)
      database.exec(text)
      database.close()
    },
  }
}
