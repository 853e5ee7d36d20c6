/**
 * The time for which an instance takes nothing that was not its own, because the store has lost data: those that
 * were granted something may not have heard of it yet, and go on until their own deadlines. It runs from the moment at
 * which the loss is seen, which is after everything that the store granted before it.
 */
import type { HolderClock, Term } from '../client/holder-clock.ts'

/** What a holder gives away of its term, for clocks that run at different rates, is added here. */
const RATE_ALLOWED = 0.99

export class LossRest {
  readonly #clock: HolderClock
  #term: Term | null = null

  constructor(clock: HolderClock) {
    this.#clock = clock
  }

  /** 0 while anything may be taken. */
  get leftMs(): number {
    if (this.#term === null) return 0
    return Math.max(0, this.#clock.remainingMs(this.#term, this.#clock.now()))
  }

  /** `ttlMs` is the longest TTL of leases in the fleet. */
  begin(ttlMs: number): void {
    // Twice: the term is shortened where it is read, and must be longer than a holder's.
    this.#term = { from: this.#clock.now(), spanMs: ttlMs / RATE_ALLOWED / RATE_ALLOWED }
  }
}
