/**
 * When the next automatic renewal of one lease is due, and under which request id it goes. Knows no store and reads no
 * clock.
 *
 * A renewal is due at a third of the term. After a failure it is tried again soon, with growing pauses that stay well
 * inside the term. A renewal that is not answered until doubt sets in is sent once more beside the first, because the
 * one call may hang while the store itself is well.
 */
import type { Effect } from '../core/errors.ts'
import type { Moment } from './holder-clock.ts'
import type { Attention } from './renewal-scheduler.ts'

const FIRST_PAUSE_MS = 100
const PAUSE_MS_MIN = 5
/** The longest pause between two tries, as a part of the term. */
const PAUSE_SHARE = 1 / 12
/** How much sooner than planned a renewal may go along with others: a tenth of the term when all is well. */
const EARLY_SHARE = 0.3

/** A renewal as it is sent. A repeated one keeps its id, and its term runs from before it was first sent. */
export interface PlannedRequest {
  readonly requestId: string | null
  readonly firstSent: Moment
}

export class RenewalPlan {
  #next: Attention | null = null
  #failures = 0
  #isRepeat = false
  #request: PlannedRequest | null = null
  /** An answer to the request was lost, so that it may have happened, whatever was heard since. */
  #inDoubt = false

  get next(): Attention | null {
    return this.#next
  }

  /** The lease is known to be held, and `inMs` from now it should be renewed. */
  confirmed(nowMs: number, inMs: number): void {
    this.#failures = 0
    this.#isRepeat = false
    this.#request = null
    this.#inDoubt = false
    this.#planIn(nowMs, inMs)
  }

  /** The renewal that was sent did not happen, or nothing is known of it: then the next one repeats it. */
  failed(nowMs: number, spanMs: number, effect: Effect): void {
    if (effect === 'unknown') this.#inDoubt = true
    if (!this.#inDoubt) this.#request = null
    const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures, spanMs * PAUSE_SHARE)
    this.#failures = Math.min(this.#failures + 1, 30)
    this.#isRepeat = false
    this.#planIn(nowMs, Math.max(PAUSE_MS_MIN, pauseMs))
  }

  /** No renewal will be sent any more. */
  end(): void {
    this.#next = null
  }

  isDue(nowMs: number): boolean {
    return this.#next !== null && this.#next.earliestMs <= nowMs
  }

  /**
   * The renewal is being sent. Unless it is answered before, it goes once more after `doubtInMs`; a request with an id
   * keeps it until it has a definite answer, so that it counts once.
   */
  sending(
    now: Moment,
    options: { readonly id: () => string | null; doubtInMs: number },
  ): PlannedRequest {
    const sent = this.#request ?? { requestId: options.id(), firstSent: now }
    this.#request = sent.requestId === null ? null : sent
    if (this.#isRepeat || options.doubtInMs <= 0) this.#next = null
    else this.#planAt(now.monotonicMs + options.doubtInMs)
    this.#isRepeat = true
    return sent
  }

  #planIn(nowMs: number, inMs: number): void {
    const delayMs = Math.max(0, inMs)
    const dueMs = nowMs + delayMs
    this.#next = { dueMs, earliestMs: dueMs - delayMs * EARLY_SHARE }
  }

  #planAt(dueMs: number): void {
    this.#next = { dueMs, earliestMs: dueMs }
  }
}
