/**
 * A real server on a private port of this machine with data of its own, for tests: it can be killed, restarted
 * with the same port and data, and stopped in its tracks. It ends with the process that started it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Report, Supervised } from './supervisor.mjs'

const SUPERVISOR = fileURLToPath(new URL('supervisor.mjs', import.meta.url))
/** For what hangs: a machine with other work may take its time to recover a server that was killed. */
const READY_WITHIN_MS = 60_000
const LOOK_EVERY_MS = 15
/** Below the ports that systems give to outgoing connections, which could take the port of a killed server. */
const PORTS = { first: 20_000, count: 12_000 }

/** What a program must be told to become a {@link TestServer}. */
export interface ServerProgram extends Supervised {
  readonly url: string
  readonly port: number
  /** Does it serve? Throws, or answers false, as long as it does not. */
  readonly isReady: () => Promise<boolean>
}

export class TestServer {
  readonly url: string
  readonly port: number
  readonly #program: ServerProgram
  readonly #supervisor: ChildProcess
  readonly #waiting: ((report: Report) => void)[] = []
  /** A worker of Vitest outlives a killed run until its test is done; its servers need not. */
  readonly #onRunEnded = (): void => void this.#supervisor.stdin?.end()
  #pid: number | null = null

  private constructor(program: ServerProgram) {
    this.url = program.url
    this.port = program.port
    this.#program = program
    const { folder, command, prepare, endSignal, user } = program
    const supervised: Supervised = { folder, command, prepare, endSignal, user }
    // Detached, because Ctrl-C reaches every process of the terminal's group: it must outlive this process.
    this.#supervisor = spawn(process.execPath, [SUPERVISOR, JSON.stringify(supervised)], {
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const { stdin, stdout } = this.#supervisor
    if (stdin === null || stdout === null) throw new Error('the supervisor has no pipes')
    stdin.on('error', () => {})
    process.once('disconnect', this.#onRunEnded)
    createInterface({ input: stdout }).on('line', (line) => this.#hear(JSON.parse(line) as Report))
  }

  static async start(program: ServerProgram): Promise<TestServer> {
    const server = new TestServer(program)
    try {
      await server.#start()
      return server
    } catch (error) {
      await server.close()
      throw error
    }
  }

  /** The process that the server is, or null while it does not run. */
  get pid(): number | null {
    return this.#pid
  }

  /** Everything the server writes is in it. */
  get folder(): string {
    return this.#program.folder
  }

  /** What the server has written to its log. */
  get log(): string {
    return fs.readFileSync(path.join(this.#program.folder, 'server.log'), 'utf8')
  }

  /** SIGKILL to all its processes. Port and data stay, for `restart`. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Ends in order, and starts again (or just starts, after `kill`) with the same port and data. */
  async restart(): Promise<void> {
    await this.#end('SIGTERM')
    await this.#start()
  }

  /** SIGSTOP to all its processes: connections stay open and the system still accepts new ones. */
  pause(): Promise<void> {
    return this.#signal('SIGSTOP')
  }

  resume(): Promise<void> {
    return this.#signal('SIGCONT')
  }

  /** Ends the server, whatever state it is in, and removes its data. */
  async close(): Promise<void> {
    process.off('disconnect', this.#onRunEnded)
    if (this.#supervisor.exitCode !== null) return
    const ended = new Promise((resolve) => this.#supervisor.once('close', resolve))
    this.#supervisor.stdin?.end()
    await ended
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #start(): Promise<void> {
    const started = this.#nextReport()
    this.#say('start')
    const report = await started
    if (report.kind !== 'started') throw this.#complaint(report)
    const until = performance.now() + READY_WITHIN_MS
    while (!(await this.#program.isReady().catch(() => false))) {
      if (this.#pid === null) throw this.#complaint({ kind: 'exited' })
      if (performance.now() > until) throw this.#complaint({ kind: 'failed', message: 'not ready' })
      await sleep(LOOK_EVERY_MS)
    }
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    if (this.#pid !== null) await this.#signal(signal)
  }

  /** Until the supervisor reports what the signal did. */
  async #signal(signal: NodeJS.Signals): Promise<void> {
    const done = this.#nextReport()
    this.#say(signal)
    await done
  }

  #say(line: string): void {
    this.#supervisor.stdin?.write(`${line}\n`)
  }

  #hear(report: Report): void {
    if (report.kind === 'started') this.#pid = report.pid
    else if (report.kind === 'exited' || report.kind === 'failed') this.#pid = null
    this.#waiting.shift()?.(report)
  }

  #nextReport(): Promise<Report> {
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #complaint(report: Report): Error {
    const what = report.kind === 'failed' ? report.message : report.kind
    const lines = this.log.trimEnd().split('\n').slice(-10).join('\n')
    return new Error(`${this.#program.command[0] ?? ''} did not start (${what}):\n${lines}`)
  }
}

/**
 * Starts on a free port. Somebody may take it between the look and the server's own bind; then another is tried.
 */
export async function startOnFreePort(
  program: (port: number) => ServerProgram,
): Promise<TestServer> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await TestServer.start(program(await freePort()))
    } catch (error) {
      if (attempt === 3 || !/in use/.test(String(error))) throw error
    }
  }
}

/** A folder for all that a server writes, its own if it runs as somebody else. */
export function serverFolder(name: string, user: Supervised['user']): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), `tenure-${name}-`))
  fs.mkdirSync(path.join(folder, 'data'), { mode: 0o700 })
  if (user !== null) {
    for (const owned of [folder, path.join(folder, 'data')]) fs.chownSync(owned, user.uid, user.gid)
  }
  return folder
}

async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.first + Math.floor(Math.random() * PORTS.count)
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = net.createServer()
    probe.once('error', () => resolve(false))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)))
  })
}
