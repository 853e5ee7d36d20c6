/**
 * A thread of a search. It is sent ways to states, as the numbers of the moves that lead there, and answers with the ways to
 * the states behind them that no thread has met before. Ways instead of states: they are a hundred times smaller, and what is
 * played again for them is only where a way differs from the one before it.
 */
import { parentPort, workerData } from 'node:worker_threads'
import {
  afterMove,
  commandsFor,
  firstState,
  keyOf,
  movesFrom,
  type Move,
  type State,
  type WorldName,
} from '../../test/core/overlapping-sequences.ts'
import { StateTable } from './state-table.ts'

export interface ThreadOrder {
  readonly world: WorldName
  readonly clients: number
  readonly memory: SharedArrayBuffer
}

/** So many ways of the same length, one after the other. */
export interface Ways {
  readonly count: number
  readonly length: number
  readonly moves: Uint16Array
}

export interface Expanded {
  readonly ways: Ways
  readonly steps: number
  /** The promise that was broken; the thread has stopped there. */
  readonly failure: string | null
}

class Expansion {
  readonly #clients: number
  readonly #commands: ReturnType<typeof commandsFor>
  readonly #numbers: ReadonlyMap<Move['command'], number>
  readonly #table: StateTable
  /** The states along the way that was played last, and the moves between them. */
  readonly #states: State[] = [firstState()]
  readonly #moves: number[] = []
  #steps = 0

  constructor({ world, clients, memory }: ThreadOrder) {
    this.#clients = clients
    this.#commands = commandsFor(clients, world)
    this.#numbers = new Map(this.#commands.map((command, number) => [command, number]))
    this.#table = new StateTable(memory)
  }

  expand({ count, length, moves }: Ways): Expanded {
    const found: number[] = []
    let failure: string | null = null
    this.#steps = 0
    try {
      for (let index = 0; index < count; index += 1) {
        this.#expandOne(moves.subarray(index * length, (index + 1) * length), found)
      }
    } catch (error) {
      const way = this.#moves.map((move) => JSON.stringify(this.#moveOf(move)))
      failure = `${error instanceof Error ? error.message : String(error)}; after ${way.join(', ')}`
    }
    const longer = length + 1
    const ways = { count: found.length / longer, length: longer, moves: Uint16Array.from(found) }
    return { ways, steps: this.#steps, failure }
  }

  /** Leaves the way on which a promise was broken in `#moves`. */
  #expandOne(way: Uint16Array, found: number[]): void {
    const state = this.#stateAfter(way)
    for (const move of movesFrom(state, new Set(), this.#commands)) {
      this.#steps += 1
      this.#moves.push(
        move.instant * this.#commands.length + (this.#numbers.get(move.command) ?? 0),
      )
      const next = afterMove(state, move)
      if (this.#table.meet(keyOf(next, this.#clients))) {
        next.watch.checkLedger()
        found.push(...this.#moves)
      }
      this.#moves.pop()
    }
  }

  #stateAfter(way: Uint16Array): State {
    let shared = 0
    while (shared < way.length && way[shared] === this.#moves[shared]) shared += 1
    this.#moves.length = shared
    this.#states.length = shared + 1
    for (const move of way.subarray(shared)) {
      this.#moves.push(move)
      this.#states.push(afterMove(this.#last, this.#moveOf(move)))
    }
    return this.#last
  }

  get #last(): State {
    return this.#states.at(-1) ?? firstState()
  }

  #moveOf(number: number): Move {
    const command = this.#commands[number % this.#commands.length]
    if (command === undefined) throw new RangeError(`no move has the number ${number}`)
    return { instant: Math.floor(number / this.#commands.length), command }
  }
}

const expansion = new Expansion(workerData as ThreadOrder)
parentPort?.on('message', (ways: Ways) => {
  const expanded = expansion.expand(ways)
  parentPort?.postMessage(expanded, [expanded.ways.moves.buffer as ArrayBuffer])
})
