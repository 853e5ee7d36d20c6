/** Runs the built `tenure` as people do: as a process, with a store in a directory that is gone afterwards. */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

export const MAIN: string = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** Far beyond what any command of these tests takes; a process that hangs fails its test instead of the whole run. */
const HANGS_AFTER_MS = 100_000

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly hangsAfterMs?: number
  /** As which user and group; for tests that root runs. */
  readonly uid?: number
  readonly gid?: number
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
    ...(options.uid === undefined ? {} : { uid: options.uid }),
    ...(options.gid === undefined ? {} : { gid: options.gid }),
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

const HOST = fileURLToPath(new URL('command-host.mjs', import.meta.url))
let host: ChildProcess | undefined
let hosted: Promise<unknown> = Promise.resolve()

/** Runs a command in the one process that a test file has for what need not be a process of its own. */
export async function hostedTenure(
  args: readonly string[],
  options: RunOptions = {},
): Promise<Ended> {
  const answer = hosted.then(async () => {
    const child = host ?? fork(HOST, { stdio: 'inherit' })
    host = child
    const hangs = setTimeout(() => child.kill('SIGKILL'), HANGS_AFTER_MS)
    const ended = new Promise<never>((_, reject) => {
      child.once('exit', () => reject(new Error(`tenure ${args.join(' ')} did not end`)))
    })
    const said = new Promise<Ended>((resolve) => child.once('message', resolve))
    child.send({ cwd: options.cwd ?? os.tmpdir(), env: cleanEnv(options.env), words: args })
    try {
      return await Promise.race([said, ended])
    } catch (error) {
      host = undefined
      throw error
    } finally {
      clearTimeout(hangs)
      child.removeAllListeners()
    }
  })
  hosted = answer.catch(() => undefined)
  return answer
}

export interface Workshop {
  readonly directory: string
  readonly storeFile: string
  readonly storeUrl: string
  /** Runs a command on the workshop's store, from its directory. */
  tenure(args: readonly string[], options?: RunOptions): Promise<Ended>
  /** Runs a command as `tenure` does, in a process that all commands of the test file share. */
  hosted(args: readonly string[]): Promise<Ended>
  /** Runs a command that must succeed, and gives its JSON; in the shared process. */
  json<Answer = never>(args: readonly string[]): Promise<Answer>
  start(args: readonly string[], options?: RunOptions): Running
  /** Changes the store behind its back. */
  sql(text: string): Promise<void>
}

const LOOK_EVERY_MS = 20

/** Asks again until it is so; the test's own timeout ends the wait. */
export async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(LOOK_EVERY_MS)
}

/** The bytes of a store that nobody has used yet: a question would not make one. */
async function emptyStore(): Promise<Buffer> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-empty-'))
  const file = path.join(directory, 'tenure.db')
  await (await SqliteStore.open({ path: file })).close()
  const bytes = fs.readFileSync(file)
  fs.rmSync(directory, { recursive: true })
  return bytes
}

const EMPTY_STORE = await emptyStore()

/** A directory with a store of its own, removed after the test. */
export function workshop(): Workshop {
  const directory = newWorkshopDirectory()
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return workshopIn(directory)
}

/** With an empty store. Whoever makes it removes it. */
export function newWorkshopDirectory(): string {
  const directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-test-')))
  fs.writeFileSync(path.join(directory, STORE_NAME), EMPTY_STORE)
  return directory
}

const STORE_NAME = 'tenure.db'

/** One that several tests share, each in a namespace of its own. */
export function workshopIn(directory: string, namespace?: string): Workshop {
  const storeFile = path.join(directory, STORE_NAME)
  const storeUrl = `sqlite:${storeFile}`
  const named = namespace === undefined ? {} : { TENURE_NAMESPACE: namespace }
  const placed = (options: RunOptions = {}): RunOptions => ({
    ...options,
    cwd: options.cwd ?? directory,
    env: { TENURE_STORE: storeUrl, ...named, ...options.env },
  })
  const run: Workshop['tenure'] = async (args, options) => tenure(args, placed(options))
  return {
    ...{ directory, storeFile, storeUrl },
    tenure: run,
    hosted: async (args) => hostedTenure(args, placed()),
    json: async <Answer>(args: readonly string[]): Promise<Answer> => {
      const { code, stdout, stderr } = await hostedTenure([...args, '--json'], placed())
      if (code !== 0) throw new Error(`tenure ${args.join(' ')} ended with ${code}: ${stderr}`)
      return JSON.parse(stdout) as Answer
    },
    start: (args, options) => start(args, placed(options)),
    sql: async (text) => {
      const Driver = await loadSqlite()
      const database = new Driver(storeFile)
      database.exec(text)
      database.close()
    },
  }
}
