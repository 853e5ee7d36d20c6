/**
 * Lets handovers begin in groups. A session rests from the moment its poller stops until the receiver has begun; if a
 * thousand began at once, all of them would rest until the last had been received. So groups follow each other, small
 * ones first: a receiver that has just started is slow with the first few. A group waits while the store has too many
 * transfers to answer, because the sessions of the next are polled on until it begins; it does not wait for a poll that
 * takes its time.
 */
import type { Runtime } from '../runtime/runtime.ts'

const GROUP_MAX = 16
const EVERY_MS = 10

export class Gate {
  readonly #runtime: Runtime
  readonly #waiting: (() => void)[] = []
  #underWay = 0
  #group = 1
  /** How many may still pass before the next group; null while nobody has come for a while. */
  #left: number | null = null

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Resolves when it is this one's turn. */
  pass(): Promise<void> {
    if (this.#left === null) {
      this.#group = 1
      this.#open()
    }
    const left = this.#left ?? 0
    if (left === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#left = left - 1
    return Promise.resolve()
  }

  /** Counts a transfer among those that the store has to answer. */
  async transfer<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    this.#underWay += 1
    try {
      return await call()
    } finally {
      this.#underWay -= 1
    }
  }

  #open(): void {
    this.#left = this.#group
    this.#runtime.setTimer(EVERY_MS, () => this.#next(), { keepAlive: true })
  }

  #next(): void {
    if (this.#waiting.length === 0) {
      this.#left = null
      return
    }
    this.#group = Math.min(GROUP_MAX, 2 * this.#group)
    this.#open()
    const free = Math.max(0, this.#group - this.#underWay)
    for (const resolve of this.#waiting.splice(0, free)) {
      this.#left = (this.#left ?? 1) - 1
      resolve()
    }
  }
}
