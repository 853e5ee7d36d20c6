/** Crowds that wait for one resource while each in them holds something else: what becomes of what they hold. */
import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { openTenure, type Tenure } from '../../src/index.ts'
import { openApi } from '../../src/open.ts'

const WORKER = path.resolve(import.meta.dirname, '../../dist-dev/test/processes/crowd-worker.js')
const RESOURCE = 'work:door'
const FILED_WITHIN_MS = 240_000

export interface CrowdOptions {
  readonly store: string
  readonly processes: number
  /** In each process. */
  readonly tasks: number
  readonly ttlMs: number
  readonly forMs: number
}

export interface CrowdReport {
  readonly lost: number
  readonly refused: number
  readonly firstRefusal: string | null
  readonly longestBlockMs: number
  readonly bytesRead: number
}

export interface Crowd {
  readonly reports: readonly CrowdReport[]
  /** What the store itself says of the leases that they held: how many expired. */
  readonly expired: number
  /** Who stood in the queue at the end. */
  readonly queued: number
}

export async function crowd(options: CrowdOptions): Promise<Crowd> {
  const { store, processes, tasks, ttlMs, forMs } = options
  const keeper = await openTenure(store, { holder: 'keeper' })
  const door = await keeper.acquire(RESOURCE, { ttlMs: 60_000 })
  const workers = Array.from({ length: processes }, (_, index) => {
    return new CrowdWorker([store, RESOURCE, `crowd-${index}`, tasks, ttlMs, forMs].map(String))
  })
  try {
    await Promise.all(workers.map((worker) => worker.next()))
    await untilQueued(keeper, processes * tasks)
    for (const worker of workers) worker.go()
    const reports = (await Promise.all(workers.map((worker) => worker.next()))) as CrowdReport[]
    const api = await openApi(store)
    const { queue } = await keeper.inspect(RESOURCE)
    const { leases } = await api.list({ state: 'expired', limit: 10_000 })
    await api.close()
    return { reports, expired: leases.length, queued: queue.length }
  } finally {
    for (const worker of workers) worker.kill()
    await door.release()
    await keeper.close()
  }
}

/** All of them hold something; now all of them must stand in the queue. */
async function untilQueued(keeper: Tenure, count: number): Promise<void> {
  const untilMs = performance.now() + FILED_WITHIN_MS
  for (;;) {
    const { queue } = await keeper.inspect(RESOURCE)
    if (queue.length >= count) return
    if (performance.now() > untilMs) throw new Error(`only ${queue.length} of ${count} wait`)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
}

class CrowdWorker {
  readonly #process: ChildProcess
  readonly #lines: AsyncIterator<string>

  constructor(args: readonly string[]) {
    this.#process = spawn(process.execPath, [WORKER, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const { stdout } = this.#process
    if (stdout === null) throw new Error('a worker has no output')
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
  }

  async next(): Promise<unknown> {
    const { value, done } = await this.#lines.next()
    if (done === true) throw new Error('a worker ended before it had reported')
    return JSON.parse(value)
  }

  go(): void {
    this.#process.stdin?.write('go\n')
  }

  kill(): void {
    this.#process.kill('SIGKILL')
  }
}
