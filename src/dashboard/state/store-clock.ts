/**
 * The wall time of the store, by the last answer and the last event. Deadlines are the store's, so bars run by this clock; the
 * browser's own may be minutes off.
 */
import { monotonicMs, wallMs } from '../page-runtime.ts'

export class StoreClock {
  #aheadMs: number = wallMs() - monotonicMs()
  #isHeard = false

  nowMs(): number {
    return monotonicMs() + this.#aheadMs
  }

  /** An answer that was under way for no more than `tookMs` said so. */
  heard(nowMs: number, tookMs: number): void {
    this.#aheadMs = nowMs + tookMs / 2 - monotonicMs()
    this.#isHeard = true
  }

  /** An event happened at this time, so that the store's clock says at least that. */
  heardEvent(atMs: number): void {
    if (!this.#isHeard) this.heard(atMs, 0)
    else this.#aheadMs = Math.max(this.#aheadMs, atMs - monotonicMs())
  }
}
