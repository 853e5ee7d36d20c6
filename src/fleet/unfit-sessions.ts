/**
 * Sessions that should be with another instance, if there is one: their poll does not return here although it was told
 * to, or has done nothing but fail.
 */
import type { Runtime } from '../runtime/runtime.ts'

export class UnfitSessions {
  readonly #runtime: Runtime
  readonly #onReturned: () => void
  /** Until their poll returns, no other begins here. */
  readonly #hanging = new Set<string>()
  readonly #failedUntilMs = new Map<string, number>()

  constructor(runtime: Runtime, onReturned: () => void) {
    this.#runtime = runtime
    this.#onReturned = onReturned
  }

  has(sessionId: string): boolean {
    const untilMs = this.#failedUntilMs.get(sessionId) ?? 0
    return this.hangs(sessionId) || untilMs > this.#runtime.monotonicMs()
  }

  hangs(sessionId: string): boolean {
    return this.#hanging.has(sessionId)
  }

  /** `running` is the poll that has not returned; it never rejects. */
  hanging(sessionId: string, running: Promise<void>): void {
    this.#hanging.add(sessionId)
    void running.then(() => {
      this.#hanging.delete(sessionId)
      this.#onReturned()
    })
  }

  failed(sessionId: string, forMs: number): void {
    this.#failedUntilMs.set(sessionId, this.#runtime.monotonicMs() + forMs)
  }

  prune(): void {
    const nowMs = this.#runtime.monotonicMs()
    for (const [sessionId, untilMs] of this.#failedUntilMs) {
      if (untilMs <= nowMs) this.#failedUntilMs.delete(sessionId)
    }
  }
}
