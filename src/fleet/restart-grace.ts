/**
 * After a server came back as another than before it may have forgotten what it granted, and there may be instances
 * that have not heard of it and go on until their own deadlines:
 *
 *  1. A owns a session; its last renewal was answered.
 *  2. The server loses everything and starts again. A is cut off and hears nothing.
 *  3. B reconnects, finds the session free, and could take it while A still polls.
 *
 * So for one TTL from the moment at which the old connection was seen to end, nobody takes what was not its own.
 * An instance that has never met the old server cannot know; until then only the fence protects.
 */
import type { HolderClock, Moment, Term } from '../client/holder-clock.ts'

/** What a holder gives away of its term, for clocks that run at different rates, is added here. */
const RATE_ALLOWED = 0.99

export class RestartGrace {
  readonly #clock: HolderClock
  readonly #ttlMs: number
  #disconnectedAt: Moment | null = null
  #term: Term | null = null

  constructor(clock: HolderClock, ttlMs: number) {
    this.#clock = clock
    this.#ttlMs = ttlMs
  }

  /** Whether nobody may be disturbed yet. */
  get isRunning(): boolean {
    if (this.#term === null) return false
    if (this.#clock.remainingMs(this.#term, this.#clock.now()) > 0) return true
    this.#term = null
    return false
  }

  disconnected(): void {
    this.#disconnectedAt = this.#clock.now()
  }

  restarted(): void {
    const from = this.#disconnectedAt ?? this.#clock.now()
    // Twice: the term is shortened where it is read, and must be longer than a holder's.
    this.#term = { from, spanMs: this.#ttlMs / RATE_ALLOWED / RATE_ALLOWED }
  }
}
