/**
 * A process that plays all sequences of commands, one command longer each time, and prints how many states it has met. A
 * state that was met goes on once, from the shortest sequence that leads to it; a thread for each processor takes some of
 * those at a time.
 */
import os from 'node:os'
import path from 'node:path'
import { Worker } from 'node:worker_threads'
import type { WorldName } from '../../test/core/overlapping-sequences.ts'
import type { Expanded, ThreadOrder, Ways } from './search-thread.ts'
import { STATES_MAX, StateTable } from './state-table.ts'

export interface SearchOrder {
  readonly world: WorldName
  readonly clients: number
  readonly minutes: number
  /** Sequences of so many commands at most; as long as there is time, unless given. */
  readonly depthMax?: number
}

export interface SearchReport {
  readonly states: number
  readonly steps: number
  /** All sequences of so many commands were played. */
  readonly depth: number
  /** No sequence, however long, leads to another state. */
  readonly isAll: boolean
  readonly failures: readonly string[]
}

const WAYS_AT_ONCE = 64
const SAY_EVERY = 200
const THREAD = path.join(import.meta.dirname, 'search-thread.js')

class Search {
  readonly #untilMs: number
  readonly #depthMax: number
  readonly #threads: readonly Worker[]
  #batches = 0
  steps = 0
  states = 0
  isAll = false
  failures: string[] = []

  constructor({ world, clients, minutes, depthMax = Infinity }: SearchOrder) {
    this.#depthMax = depthMax
    this.#untilMs = performance.now() + minutes * 60_000
    const { memory } = new StateTable()
    const workerData: ThreadOrder = { world, clients, memory }
    this.#threads = Array.from({ length: os.availableParallelism() }, () => {
      return new Worker(THREAD, { workerData })
    })
  }

  /** One command longer each time; the depth that was finished. */
  async run(): Promise<number> {
    let ways: readonly Ways[] = [{ count: 1, length: 0, moves: new Uint16Array() }]
    for (let depth = 1; ; depth += 1) {
      const work = ways.flatMap((some) => [...batchesOf(some)]).values()
      const longer: Ways[] = []
      const areDone = await Promise.all(
        this.#threads.map((thread) => this.#keepBusy(thread, work, longer)),
      )
      if (areDone.includes(false)) return depth - 1
      this.isAll = longer.length === 0
      if (this.isAll) return depth - 1
      if (depth === this.#depthMax) return depth
      ways = longer
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
  }

  /** Until there is no more work; false when the time is over, a promise was broken, or the table is full. */
  async #keepBusy(thread: Worker, work: Iterator<Ways>, longer: Ways[]): Promise<boolean> {
    for (let next = work.next(); next.done !== true; next = work.next()) {
      if (performance.now() > this.#untilMs || this.failures.length > 0) return false
      if (this.states >= STATES_MAX) return false
      const { ways, steps, failure } = await expandedBy(thread, next.value)
      this.steps += steps
      this.states += ways.count
      if (ways.count > 0) longer.push(ways)
      if (failure !== null) this.failures.push(failure)
      this.#batches += 1
      if (this.#batches % SAY_EVERY === 0) process.stdout.write(`${this.states} states\n`)
    }
    return this.failures.length === 0
  }
}

function expandedBy(thread: Worker, ways: Ways): Promise<Expanded> {
  return new Promise((resolve, reject) => {
    thread.once('error', reject)
    thread.once('message', (expanded: Expanded) => {
      thread.off('error', reject)
      resolve(expanded)
    })
    thread.postMessage(ways)
  })
}

function* batchesOf({ count, length, moves }: Ways): Iterable<Ways> {
  for (let from = 0; from < count; from += WAYS_AT_ONCE) {
    const to = Math.min(count, from + WAYS_AT_ONCE)
    yield { count: to - from, length, moves: moves.slice(from * length, to * length) }
  }
}

const search = new Search(JSON.parse(process.argv[2] ?? '') as SearchOrder)
const depth = await search.run()
await search.close()
const { states, steps, isAll, failures } = search
process.stdout.write(
  `${JSON.stringify({ states, steps, depth, isAll, failures } satisfies SearchReport)}\n`,
)
