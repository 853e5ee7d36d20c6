/**
 * The grace period after a store has lost data. While it lasts, an instance takes only what was its own before the loss:
 * other instances may not have heard of the loss yet, and work on until their local deadlines. It runs from the moment at
 * which the loss is seen, which is after everything that the store granted before it.
 */
import type { HolderClock, Term } from '../client/holder-clock.ts'

/** A holder shortens its term by this share, for clocks that run at different rates; here the share is added. */
const RATE_ALLOWED = 0.99

export class GracePeriod {
  readonly #clock: HolderClock
  #term: Term | null = null

  constructor(clock: HolderClock) {
    this.#clock = clock
  }

  /** 0 outside a grace period. */
  get leftMs(): number {
    if (this.#term === null) return 0
    return Math.max(0, this.#clock.remainingMs(this.#term, this.#clock.now()))
  }

  /** `ttlMs` is the longest TTL of leases in the fleet. */
  begin(ttlMs: number): void {
    // Twice: `remainingMs` shortens this term as it shortens a holder's, and this one must be longer.
    this.#term = { from: this.#clock.now(), spanMs: ttlMs / RATE_ALLOWED / RATE_ALLOWED }
  }
}
