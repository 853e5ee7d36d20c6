/**
 * Runs the chaos: real processes on one SQLite file, some of them killed and some stopped past their TTL, and gathers
 * what they logged. Workers are children of this process and end with it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { differences, foldLedger } from '../../src/ledger/fold.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LedgerEntry } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { readChaosLog, type ChaosLine } from './chaos-log.ts'
import { FencedFiles, type TakenWrite } from './fenced-files.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/chaos-worker.js')

export interface ChaosOptions {
  readonly directory: string
  readonly processes: number
  readonly durationMs: number
}

export interface ChaosReport {
  readonly lines: readonly ChaosLine[]
  readonly taken: readonly TakenWrite[]
  readonly history: readonly LedgerEntry[]
  /** What the tables say that the ledger does not fold to. */
  readonly differences: readonly unknown[]
  readonly kills: number
  readonly stops: number
  /** Workers that ended in another way than by finishing or by our kill. */
  readonly crashes: readonly string[]
}

interface Worker {
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
  readonly #store: string
  readonly #writes: string
  readonly #workers: Worker[] = []
  readonly #crashes: string[] = []
  #kills = 0
  #stops = 0

  constructor(options: ChaosOptions) {
    this.#options = options
    this.#store = path.join(options.directory, 'leases.db')
    this.#writes = path.join(options.directory, 'writes.db')
  }

  async run(): Promise<void> {
    const { processes, durationMs } = this.#options
    const endMs = performance.now() + durationMs
    for (let index = 0; index < processes; index += 1) this.#start(durationMs)
    for (let round = 0; performance.now() < endMs - 1_200; round += 1) {
      await sleep(200 + Math.random() * 300)
      const alive = this.#workers.filter(
        (worker) => worker.process.exitCode === null && !worker.killed,
      )
      const victim = alive[Math.floor(Math.random() * alive.length)]
      if (victim === undefined) continue
      // Who is hit and when is up to chance; that both happen is not.
      if (round % 2 === 1) this.#kill(victim, endMs)
      else void this.#stop(victim)
    }
    await Promise.all(this.#workers.map((worker) => worker.done))
  }

  #start(durationMs: number): void {
    const index = this.#workers.length
    const logPath = path.join(this.#options.directory, `worker-${index}.log`)
    // Two workers share each holder name: a name is not an identity.
    const holder = `agent-${Math.floor(index / 2)}`
    const args = [
      WORKER,
      `sqlite:${this.#store}`,
      this.#writes,
      logPath,
      holder,
      String(durationMs),
    ]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    const worker: Worker = { process: child, done: exited(child), killed: false }
    void worker.done.then(() => {
      if (!worker.killed && child.exitCode !== 0) this.#crashes.push(`${child.exitCode}: ${stderr}`)
    })
    this.#workers.push(worker)
  }

  #kill(worker: Worker, endMs: number): void {
    worker.killed = true
    worker.process.kill('SIGKILL')
    this.#kills += 1
    this.#start(endMs - performance.now())
  }

  async #stop(worker: Worker): Promise<void> {
    this.#stops += 1
    worker.process.kill('SIGSTOP')
    await sleep(600)
    worker.process.kill('SIGCONT')
  }

  killAll(): void {
    for (const worker of this.#workers) worker.process.kill('SIGKILL')
  }

  async report(): Promise<ChaosReport> {
    const files = await FencedFiles.open(this.#writes)
    const taken = files.taken()
    files.close()
    const store = await SqliteStore.open({ path: this.#store })
    const service = new LeaseService({ store, runtime: systemRuntime })
    const history = await wholeHistory(service)
    const kept = await store.find({ limit: 1_000_000 })
    await service.close()
    return {
      lines: this.#logs(),
      taken,
      history,
      differences: differences(
        foldLedger(history.map((entry) => entry.event)),
        new Map(kept.entries.map((entry) => [entry.id, entry])),
      ),
      kills: this.#kills,
      stops: this.#stops,
      crashes: this.#crashes,
    }
  }

  #logs(): readonly ChaosLine[] {
    const { directory } = this.#options
    const names = fs.readdirSync(directory).filter((name) => name.endsWith('.log'))
    return names.flatMap((name) => readChaosLog(path.join(directory, name)))
  }
}

async function wholeHistory(service: LeaseService): Promise<readonly LedgerEntry[]> {
  const history: LedgerEntry[] = []
  for (;;) {
    const last = history.at(-1)
    const after = last === undefined ? {} : { after: last.position }
    const page = await service.history({ ...after, limit: 10_000 })
    history.push(...page)
    if (page.length < 10_000) return history
  }
}

function exited(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => child.once('exit', () => resolve()))
}
