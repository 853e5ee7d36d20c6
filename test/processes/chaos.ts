/**
 * Runs the chaos: real processes on one store while something goes wrong, and gathers what they logged. What goes wrong
 * is up to the test; by default some workers are killed and some stopped past their TTL. Workers are children of this
 * process and end with it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openApi } from '../../src/open.ts'
import type { LedgerEntry } from '../../src/service/lease-api.ts'
import { intervalsOf } from './chaos-check.ts'
import { nowUs, readChaosLog, type ChaosLine } from './chaos-log.ts'
import { FencedFiles, type TakenWrite } from './fenced-files.ts'
import { ledgerDifferences, wholeHistory } from './ledger-check.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/chaos-worker.js')
const CALM_MS = 1_500
/** For everybody to hold something again after the trouble; a machine may have other things to do as well. */
const RESUMED_WITHIN_MS = 20_000
/** The leases and tickets of killed workers are over after this. */
const ALL_OVER_MS = 800

export interface ChaosOptions {
  /** What the workers open. */
  readonly store: string
  /** The same store by another way, for reading the ledger in the end; default: the way of the workers. */
  readonly ledger?: string
  /** For the logs. */
  readonly directory: string
  readonly processes: number
  readonly durationMs: number
  /** Calm at the end, for so long at least: by default a second and a half. */
  readonly calmMs?: number
  /** The calm goes on until so many holds were logged: none unless given. */
  readonly holds?: number
  readonly trouble?: (scene: Scene) => Promise<void>
}

/** What somebody who makes trouble can do and know. */
export interface Scene {
  /** Until the calm at the end has to begin. */
  readonly leftMs: number
  /** Somebody was killed while it held a file: its lease will have to run out. */
  readonly hasOrphan: boolean
  killWorker(): void
  /** Longer than its TTL. */
  stopWorker(): void
}

export interface ChaosReport {
  /** One log for each worker. */
  readonly logs: readonly (readonly ChaosLine[])[]
  readonly lines: readonly ChaosLine[]
  readonly taken: readonly TakenWrite[]
  readonly history: readonly LedgerEntry[]
  /** What the store keeps that its ledger does not fold to. */
  readonly differences: readonly unknown[]
  readonly kills: number
  readonly stops: number
  /** When the trouble was over. */
  readonly calmAtUs: number
  /** Workers that ended in another way than by finishing or by our kill. */
  readonly crashes: readonly string[]
}

interface Worker {
  readonly logPath: string
  readonly process: ChildProcess
  readonly done: Promise<void>
  killed: boolean
}

export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const chaos = new Chaos(options)
  try {
    await chaos.run()
    return await chaos.report()
  } finally {
    chaos.killAll()
  }
}

class Chaos {
  readonly #options: ChaosOptions
  readonly #writes: string
  readonly #workers: Worker[] = []
  readonly #crashes: string[] = []
  #endMs = 0
  #calmAtUs = 0
  #kills = 0
  #stops = 0

  constructor(options: ChaosOptions) {
    this.#options = options
    this.#writes = path.join(options.directory, 'writes.db')
  }

  get #calmMs(): number {
    return this.#options.calmMs ?? CALM_MS
  }

  get leftMs(): number {
    return this.#endMs - this.#calmMs - performance.now()
  }

  get hasOrphan(): boolean {
    return this.#workers.some(({ killed, process: { signalCode }, logPath }) => {
      return killed && signalCode !== null && isHolding(logPath)
    })
  }

  async run(): Promise<void> {
    const { processes, durationMs, trouble = killAndStop } = this.#options
    // Made before anybody opens it: who makes it need not wait for others who do the same.
    const files = await FencedFiles.open(this.#writes)
    try {
      for (let index = 0; index < processes; index += 1) this.#start()
      await this.#untilAllWork()
      this.#endMs = performance.now() + durationMs
      await trouble(this)
      this.#calmAtUs = nowUs()
      await sleep(Math.max(this.#calmMs, this.#endMs - performance.now()))
      await this.#untilAllWorkAgain()
      for (const worker of this.#workers) worker.process.stdin?.end()
      await Promise.all(this.#workers.map((worker) => worker.done))
    } finally {
      files.close()
    }
  }

  /** Trouble that comes before anybody works is none. The test's own timeout ends the wait. */
  async #untilAllWork(): Promise<void> {
    const isIdle = ({ logPath }: Worker): boolean => linesOf(logPath).length === 0
    while (this.#workers.some(isIdle) && this.#crashes.length === 0) await sleep(20)
  }

  /** What is asserted of the calm is not a matter of speed; but who never works again is waited for in vain. */
  async #untilAllWorkAgain(): Promise<void> {
    const { holds = 0 } = this.#options
    const untilMs = performance.now() + RESUMED_WITHIN_MS
    const isIdle = ({ logPath, killed }: Worker): boolean => {
      const isStart = ({ kind, atUs }: ChaosLine): boolean =>
        kind === 'start' && atUs > this.#calmAtUs
      return !killed && !linesOf(logPath).some(isStart)
    }
    const isEnough = (): boolean => {
      const lines = this.#workers.flatMap(({ logPath }) => linesOf(logPath))
      return intervalsOf(lines).length >= holds && !this.#workers.some(isIdle)
    }
    while (!isEnough() && this.#crashes.length === 0 && performance.now() < untilMs) await sleep(50)
  }

  killWorker(): void {
    const victim = this.#anyone()
    if (victim === undefined) return
    victim.killed = true
    victim.process.kill('SIGKILL')
    this.#kills += 1
    this.#start()
  }

  stopWorker(): void {
    const victim = this.#anyone()
    if (victim === undefined) return
    this.#stops += 1
    victim.process.kill('SIGSTOP')
    setTimeout(() => victim.process.kill('SIGCONT'), 600)
  }

  /** Somebody who holds a file if possible: that is when it hurts. */
  #anyone(): Worker | undefined {
    const alive = this.#workers.filter(
      (worker) => worker.process.exitCode === null && !worker.killed,
    )
    const holding = alive.filter(({ logPath }) => isHolding(logPath))
    const candidates = holding.length > 0 ? holding : alive
    return candidates[Math.floor(Math.random() * candidates.length)]
  }

  #start(): void {
    const index = this.#workers.length
    const logPath = path.join(this.#options.directory, `worker-${index}.log`)
    // Two workers share each holder name: a name is not an identity.
    const holder = `agent-${Math.floor(index / 2)}`
    const args = [WORKER, this.#options.store, this.#writes, logPath, holder]
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'pipe'] })
    child.stdin.on('error', () => {})
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const worker: Worker = { logPath, process: child, done: exited(child), killed: false }
    void worker.done.then(() => {
      if (!worker.killed && child.exitCode !== 0) this.#crashes.push(`${child.exitCode}: ${stderr}`)
    })
    this.#workers.push(worker)
  }

  killAll(): void {
    for (const worker of this.#workers) worker.process.kill('SIGKILL')
  }

  async report(): Promise<ChaosReport> {
    const files = await FencedFiles.open(this.#writes)
    const taken = files.taken()
    files.close()
    const { store, ledger = store } = this.#options
    const api = await openApi(ledger)
    try {
      await sleep(ALL_OVER_MS)
      await api.cleanup()
      const history = await wholeHistory(api)
      const logs = this.#logs()
      return {
        ...{ logs, taken, history },
        lines: logs.flat(),
        differences: await ledgerDifferences(api, history),
        kills: this.#kills,
        stops: this.#stops,
        calmAtUs: this.#calmAtUs,
        crashes: this.#crashes,
      }
    } finally {
      await api.close()
    }
  }

  #logs(): readonly (readonly ChaosLine[])[] {
    const { directory } = this.#options
    const names = fs.readdirSync(directory).filter((name) => name.endsWith('.log'))
    return names.map((name) => readChaosLog(path.join(directory, name)))
  }
}

/** Who is hit and when is up to chance; that both happen, and that it hurts, is not. */
async function killAndStop(scene: Scene): Promise<void> {
  for (let round = 0; round < 2 || scene.leftMs > 0 || !scene.hasOrphan; round += 1) {
    await sleep(200 + Math.random() * 300)
    if (round % 2 === 1) scene.killWorker()
    else scene.stopWorker()
  }
}

function linesOf(logPath: string): readonly ChaosLine[] {
  return fs.existsSync(logPath) ? readChaosLog(logPath) : []
}

function isHolding(logPath: string): boolean {
  const last = linesOf(logPath).at(-1)
  return last !== undefined && last.kind !== 'end' && last.kind !== 'error'
}

function exited(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => child.once('exit', () => resolve()))
}
