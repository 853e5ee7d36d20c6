/** Runs instances of a fleet as processes, does things to them, and gathers what they logged. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OpenManagerOptions } from '../../src/fleet.ts'
import { nowUs } from './chaos-log.ts'
import { pollsOf, type PollerLog, type PollInterval } from './fleet-check.ts'
import { readFleetLog, type FleetLine } from './fleet-log.ts'

/** Between two looks at whole logs. */
const LOOK_EVERY_MS = 150

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/fleet-worker.js')

export interface FleetWorkerOptions {
  readonly url: string
  readonly log: string
  /** Fenced files to write to, or null. */
  readonly writes: string | null
  readonly sessions: number
  readonly intervalMs: number
  /** How long a poll takes. */
  readonly pollMs: number
  readonly manager: OpenManagerOptions
}

export type StageOptions = Omit<FleetWorkerOptions, 'log' | 'writes'> & {
  readonly directory: string
  readonly hasWrites?: boolean
}

/** Always the same ones, which are valid UUIDs. */
export function sessionIds(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => {
    return `00000000-0000-4000-8000-${(index + 1).toString(16).padStart(12, '0')}`
  })
}

export class FleetWorker {
  readonly name: string
  readonly logPath: string
  readonly process: ChildProcess
  /** Its instance id, when it has started and made its first pass. */
  readonly started: Promise<string>
  readonly ended: Promise<number | null>
  wasHarmed = false
  #stderr = ''

  constructor(name: string, options: FleetWorkerOptions) {
    this.name = name
    this.logPath = options.log
    this.process = spawn(process.execPath, [WORKER, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const { stdout, stderr } = this.process
    if (stdout === null || stderr === null) throw new Error('the worker has no pipes')
    stderr.on('data', (chunk: Buffer) => (this.#stderr += chunk.toString()))
    this.ended = once(this.process, 'close').then(([code]) => code as number | null)
    this.started = new Promise((resolve, reject) => {
      createInterface({ input: stdout }).once('line', resolve)
      void this.ended.then(() => reject(new Error(`${name} ended: ${this.#stderr}`)))
    })
    this.started.catch(() => undefined)
  }

  get lines(): readonly FleetLine[] {
    return readFleetLog(this.logPath)
  }

  get log(): PollerLog {
    return { worker: this.name, wasHarmed: this.wasHarmed, lines: this.lines }
  }

  get stderr(): string {
    return this.#stderr
  }

  async kill(): Promise<void> {
    this.wasHarmed = true
    this.process.kill('SIGKILL')
    await this.ended
  }

  /** In the middle of a poll. Resolves when it has stopped. */
  async pause(): Promise<void> {
    this.wasHarmed = true
    this.process.kill('SIGUSR2')
    await untilSo(() => isStopped(this.process))
  }

  resume(): void {
    this.process.kill('SIGCONT')
  }

  /** In order. */
  async stop(): Promise<void> {
    this.process.kill('SIGTERM')
    const code = await this.ended
    if (code !== 0) throw new Error(`${this.name} ended with ${code}: ${this.#stderr}`)
  }
}

export class FleetStage {
  readonly #options: StageOptions
  readonly workers: FleetWorker[] = []

  constructor(options: StageOptions) {
    this.#options = options
  }

  get sessions(): number {
    return this.#options.sessions
  }

  get writes(): string {
    return path.join(this.#options.directory, 'writes.db')
  }

  async start(changes: Partial<StageOptions> = {}): Promise<FleetWorker> {
    const worker = this.launch(changes)
    await worker.started
    return worker
  }

  /** Without waiting for it. */
  launch(changes: Partial<StageOptions> = {}): FleetWorker {
    const { directory, hasWrites = false, ...options } = { ...this.#options, ...changes }
    const name = `worker-${this.workers.length}`
    const log = path.join(directory, `${name}.log`)
    const writes = hasWrites ? this.writes : null
    const worker = new FleetWorker(name, { ...options, log, writes })
    this.workers.push(worker)
    return worker
  }

  get logs(): readonly PollerLog[] {
    return this.workers.map(({ log }) => log)
  }

  get polls(): readonly PollInterval[] {
    return this.logs.flatMap(pollsOf)
  }

  /** Who has polled each session since a moment: sessions by worker. */
  pollersSince(atUs: number): ReadonlyMap<string, ReadonlySet<string>> {
    const byWorker = new Map<string, Set<string>>()
    for (const { worker, session, fromUs } of this.polls) {
      if (fromUs < atUs) continue
      byWorker.set(worker, (byWorker.get(worker) ?? new Set()).add(session))
    }
    return byWorker
  }

  /** Resolves when every session is polled, by these workers alone, and none of them has more than its bound. */
  async untilSpread(workers: readonly FleetWorker[], sessions: number): Promise<void> {
    const bound = Math.ceil((1.2 * sessions) / workers.length)
    const names = workers.map(({ name }) => name)
    for (;;) {
      const sinceUs = nowUs()
      let state: Spread = 'too early'
      while (state === 'too early') {
        await sleep(LOOK_EVERY_MS)
        state = spreadOf(this.pollersSince(sinceUs), { names, bound, sessions })
      }
      if (state === 'so') return
    }
  }

  async stopAll(): Promise<void> {
    const alive = this.workers.filter(({ process }) => process.exitCode === null && !process.killed)
    await Promise.all(alive.map(async (worker) => worker.stop()))
  }

  killAll(): void {
    for (const { process } of this.workers) process.kill('SIGKILL')
  }
}

/** `otherwise`: somebody polls who should not, or too much, or one session was polled by two meanwhile. */
type Spread = 'so' | 'too early' | 'otherwise'

function spreadOf(
  pollers: ReadonlyMap<string, ReadonlySet<string>>,
  wanted: {
    readonly names: readonly string[]
    readonly bound: number
    readonly sessions: number
  },
): Spread {
  const counts = [...pollers.values()].map(({ size }) => size)
  const polled = counts.reduce((sum, count) => sum + count, 0)
  const isOdd =
    [...pollers.keys()].some((name) => !wanted.names.includes(name)) ||
    counts.some((count) => count > wanted.bound) ||
    polled > wanted.sessions
  if (isOdd) return 'otherwise'
  return polled === wanted.sessions && pollers.size === wanted.names.length ? 'so' : 'too early'
}

function isStopped({ pid = 0 }: ChildProcess): boolean {
  const status = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  return status.slice(status.lastIndexOf(')') + 2).startsWith('T')
}

/** Asks again until it is so; the test's own timeout ends the wait. */
export async function untilSo(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(20)
}
