/**
 * Counts refusals in the store, beside its ledger (core/refusal.ts). No request waits for it: a refusal is answered first. The first is
 * counted at once, those of the next second in one call. A process that is killed meanwhile takes its last second along.
 *
 * If that fails it is reported, and tried again unless the store may have counted already.
 */
import { isLeaseError } from '../core/errors.ts'
import type { LeaseDenied } from '../core/event.ts'
import { RefusalTable } from '../core/refusal.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { Store } from '../store-port/store.ts'

const COUNT_EVERY_MS = 1_000

export class RefusalCounter {
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #fault: RepeatedFault
  #waiting = new RefusalTable()
  #timer: Timer | null = null
  #counting: Promise<void> = Promise.resolve()
  #notBeforeMs = -Infinity
  #closed = false

  constructor(store: Store, runtime: Runtime) {
    this.#store = store
    this.#runtime = runtime
    this.#fault = new RepeatedFault('service/refusals', runtime)
  }

  note(refusals: readonly LeaseDenied[]): void {
    if (refusals.length === 0) return
    this.#waiting.add(refusals.map((event) => ({ event, count: 1 })))
    this.#schedule()
  }

  /** Ends when the store has been asked to count all that was noted so far. */
  count(): Promise<void> {
    this.#counting = this.#counting.then(() => this.#countWaiting())
    return this.#counting
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.count()
  }

  #schedule(): void {
    if (this.#timer !== null || this.#closed) return
    const nowMs = this.#runtime.monotonicMs()
    const waitMs = this.#notBeforeMs - nowMs
    if (waitMs <= 0) {
      this.#notBeforeMs = nowMs + COUNT_EVERY_MS
      return void this.count()
    }
    this.#timer = this.#runtime.setTimer(waitMs, () => void this.count(), { keepAlive: false })
  }

  async #countWaiting(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#waiting.isEmpty) return
    this.#notBeforeMs = this.#runtime.monotonicMs() + COUNT_EVERY_MS
    const refusals = this.#waiting.inOrder()
    this.#waiting = new RefusalTable()
    try {
      await this.#store.countRefusals(refusals)
      this.#fault.succeeded()
    } catch (error) {
      this.#fault.failed(error)
      if (!isLeaseError(error) || error.effect !== 'none') return
      this.#waiting.add(refusals)
      this.#schedule()
    }
  }
}
