/**
 * Back-off against ping-pong. Two instances with different views of the fleet could hand a session to each other for
 * ever. So whoever was handed a session keeps it for a while, and twice as long each time it comes back.
 */
import type { Runtime } from '../runtime/runtime.ts'

const DOUBLINGS_MAX = 6

interface Visit {
  /** How often it came back. */
  readonly returns: number
  readonly keptUntilMs: number
}

interface Handover {
  /** To a foreign instance. */
  readonly isForeign: boolean
  readonly isUrgent: boolean
}

export class HoldOff {
  readonly #runtime: Runtime
  readonly #stepMs: number
  readonly #visits = new Map<string, Visit>()
  readonly #neglectedUntilMs = new Map<string, number>()
  /** Sessions that could not be given away are not offered again at once. */
  readonly #refusedUntilMs = new Map<string, number>()
  /** When each session was last given away, which is remembered as long as it matters. */
  readonly #given = new Map<string, number>()

  constructor(runtime: Runtime, stepMs: number) {
    this.#runtime = runtime
    this.#stepMs = stepMs
  }

  /** Until it may be given away; 0 or less: now. Urgent is what should not be here at all. */
  leftMs(sessionId: string, { isForeign, isUrgent }: Handover): number {
    const nowMs = this.#runtime.monotonicMs()
    const refusedUntilMs = this.#refusedUntilMs.get(sessionId) ?? 0
    if (isUrgent) return refusedUntilMs - nowMs
    const keptUntilMs = this.#visits.get(sessionId)?.keptUntilMs ?? 0
    const neglectedUntilMs = isForeign ? (this.#neglectedUntilMs.get(sessionId) ?? 0) : 0
    return Math.max(keptUntilMs, neglectedUntilMs, refusedUntilMs) - nowMs
  }

  /** It was handed to us. */
  received(sessionId: string): void {
    const nowMs = this.#runtime.monotonicMs()
    const hasReturned = this.#given.has(sessionId)
    const before = this.#visits.get(sessionId)?.returns ?? 0
    const returns = hasReturned ? Math.min(DOUBLINGS_MAX, before + 1) : 0
    this.#visits.set(sessionId, { returns, keptUntilMs: nowMs + this.#stepMs * 2 ** returns })
  }

  /** A foreign instance did not take it: it is not left to one again for long. */
  neglected(sessionId: string): void {
    const untilMs = this.#runtime.monotonicMs() + this.#stepMs * 2 ** DOUBLINGS_MAX
    this.#neglectedUntilMs.set(sessionId, untilMs)
  }

  /** It could not be handed over. */
  refused(sessionId: string): void {
    this.#refusedUntilMs.set(sessionId, this.#runtime.monotonicMs() + this.#stepMs)
  }

  gave(sessionId: string): void {
    this.#given.set(sessionId, this.#runtime.monotonicMs())
  }

  /** Forgets what has been at rest for twice as long as the longest wait. */
  prune(): void {
    const restMs = 2 * this.#stepMs * 2 ** DOUBLINGS_MAX
    const oldMs = this.#runtime.monotonicMs() - restMs
    for (const [id, givenAtMs] of this.#given) if (givenAtMs < oldMs) this.#given.delete(id)
    for (const [id, untilMs] of this.#neglectedUntilMs) {
      if (untilMs < oldMs) this.#neglectedUntilMs.delete(id)
    }
    for (const [id, untilMs] of this.#refusedUntilMs) {
      if (untilMs < oldMs) this.#refusedUntilMs.delete(id)
    }
    for (const [id, { keptUntilMs }] of this.#visits) {
      if (keptUntilMs < oldMs && !this.#given.has(id)) this.#visits.delete(id)
    }
  }
}
