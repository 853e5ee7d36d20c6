/**
 * A process that plays all sequences of commands, one command longer each time, and prints how many states it has met.
 *
 * Depth first, so that only the states of one sequence are kept; of the others a hash of what their future depends on, with
 * how many commands were still to come when it was met. A state that was met with as many to come is not played again.
 */
import { PromiseWatch } from '../../test/core/promises.ts'
import { TinyRealm } from '../../test/core/tiny-realm.ts'
import {
  commandsFor,
  keyOf,
  nextStates,
  type State,
  type WorldName,
} from '../../test/core/overlapping-sequences.ts'
import { StateTable } from './state-table.ts'

export interface SearchOrder {
  readonly world: WorldName
  readonly clients: number
  readonly minutes: number
}

export interface SearchReport {
  readonly states: number
  readonly steps: number
  /** All sequences of so many commands were played. */
  readonly depth: number
  readonly failures: readonly string[]
}

const SAY_EVERY = 200_000

class Search {
  readonly #commands: ReturnType<typeof commandsFor>
  readonly #clients: number
  readonly #untilMs: number
  #table = new StateTable()
  steps = 0
  states = 0
  failures: string[] = []

  constructor({ world, clients, minutes }: SearchOrder) {
    this.#clients = clients
    this.#commands = commandsFor(clients, world)
    this.#untilMs = performance.now() + minutes * 60_000
  }

  /** One command longer each time; the depth that was finished. */
  run(): number {
    for (let depth = 1; ; depth += 1) {
      this.#table = new StateTable()
      const realm = new TinyRealm()
      const isDone = this.#play({ realm, watch: new PromiseWatch(realm), instant: 0 }, depth)
      this.states = Math.max(this.states, this.#table.size)
      if (!isDone) return depth - 1
    }
  }

  /** False when the time is over, or a promise was broken. */
  #play(state: State, toCome: number): boolean {
    const outcomes = new Set<string>()
    try {
      for (const next of nextStates(state, outcomes, this.#commands)) {
        this.steps += 1
        if (this.steps % SAY_EVERY === 0) process.stdout.write(`${this.#table.size} states\n`)
        if (performance.now() > this.#untilMs) return false
        if (!this.#table.meet(keyOf(next, this.#clients), toCome)) continue
        next.watch.checkLedger()
        if (toCome > 1 && !this.#play(next, toCome - 1)) return false
      }
      return true
    } catch (error) {
      this.failures.push(error instanceof Error ? error.message : String(error))
      return false
    }
  }
}

const search = new Search(JSON.parse(process.argv[2] ?? '') as SearchOrder)
const depth = search.run()
const { states, steps, failures } = search
process.stdout.write(
  `${JSON.stringify({ states, steps, depth, failures } satisfies SearchReport)}\n`,
)
