/** When a session may be handed over: `HandoverBackOff` decides for one session, `HandoverLimiter` for all together. */
import type { Runtime } from '../runtime/runtime.ts'

const DOUBLINGS_MAX = 6

interface Receipt {
  /** How often the session has come back. */
  readonly returns: number
  readonly heldUntilMs: number
}

interface Conditions {
  /** The receiver is a foreign instance. */
  readonly isForeign: boolean
  /** The session must leave: this instance is draining, or the session is unhealthy here. */
  readonly isUrgent: boolean
}

/**
 * Back-off against ping-pong. Two instances with different views of the fleet could hand a session to each other for
 * ever. So an instance that received a session holds it for a while, and twice as long each time the session comes back.
 */
export class HandoverBackOff {
  readonly #runtime: Runtime
  readonly #stepMs: number
  readonly #receipts = new Map<string, Receipt>()
  readonly #neglectedUntilMs = new Map<string, number>()
  /** A session whose handover failed is not offered again at once. */
  readonly #failedUntilMs = new Map<string, number>()
  /** When each session was last handed over. */
  readonly #transferredAtMs = new Map<string, number>()

  constructor(runtime: Runtime, stepMs: number) {
    this.#runtime = runtime
    this.#stepMs = stepMs
  }

  /** The time until the session may be handed over; 0 or less: now. An urgent handover waits only after a failure. */
  leftMs(sessionId: string, { isForeign, isUrgent }: Conditions): number {
    const nowMs = this.#runtime.monotonicMs()
    const failedUntilMs = this.#failedUntilMs.get(sessionId) ?? 0
    if (isUrgent) return failedUntilMs - nowMs
    const heldUntilMs = this.#receipts.get(sessionId)?.heldUntilMs ?? 0
    const neglectedUntilMs = isForeign ? (this.#neglectedUntilMs.get(sessionId) ?? 0) : 0
    return Math.max(heldUntilMs, neglectedUntilMs, failedUntilMs) - nowMs
  }

  /** Another instance handed the session to this one. */
  received(sessionId: string): void {
    const nowMs = this.#runtime.monotonicMs()
    const hasReturned = this.#transferredAtMs.has(sessionId)
    const before = this.#receipts.get(sessionId)?.returns ?? 0
    const returns = hasReturned ? Math.min(DOUBLINGS_MAX, before + 1) : 0
    this.#receipts.set(sessionId, { returns, heldUntilMs: nowMs + this.#stepMs * 2 ** returns })
  }

  /** A foreign instance did not take the session: none is offered it again for long. */
  neglected(sessionId: string): void {
    const untilMs = this.#runtime.monotonicMs() + this.#stepMs * 2 ** DOUBLINGS_MAX
    this.#neglectedUntilMs.set(sessionId, untilMs)
  }

  failed(sessionId: string): void {
    this.#failedUntilMs.set(sessionId, this.#runtime.monotonicMs() + this.#stepMs)
  }

  transferred(sessionId: string): void {
    this.#transferredAtMs.set(sessionId, this.#runtime.monotonicMs())
  }

  /** Forgets sessions that have not moved for twice the longest back-off. */
  prune(): void {
    const idleMs = 2 * this.#stepMs * 2 ** DOUBLINGS_MAX
    const oldMs = this.#runtime.monotonicMs() - idleMs
    for (const times of [this.#transferredAtMs, this.#neglectedUntilMs, this.#failedUntilMs]) {
      for (const [id, atMs] of times) if (atMs < oldMs) times.delete(id)
    }
    for (const [id, { heldUntilMs }] of this.#receipts) {
      if (heldUntilMs < oldMs && !this.#transferredAtMs.has(id)) this.#receipts.delete(id)
    }
  }
}

const GROUP_MAX = 16
const EVERY_MS = 10

/**
 * Starts handovers in groups. A session is not polled from the moment its poller stops until the receiver has begun; if a
 * thousand handovers started at once, none of these sessions would be polled until the last was received. So groups
 * follow each other, small ones first, because a receiver that has just started is slow with the first few. A group
 * waits while too many transfers are in flight to the store, and the sessions of the next group are polled until it
 * starts; it does not wait for a slow poll.
 */
export class HandoverLimiter {
  readonly #runtime: Runtime
  readonly #waiting: (() => void)[] = []
  #inFlight = 0
  #group = 1
  /** How many may still start before the next group; null while no handover is waiting. */
  #left: number | null = null

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Resolves when the caller may start its handover. */
  admit(): Promise<void> {
    if (this.#left === null) {
      this.#group = 1
      this.#open()
    }
    const left = this.#left ?? 0
    if (left === 0) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#left = left - 1
    return Promise.resolve()
  }

  /** Counts a transfer as in flight until the store has answered it. */
  async transfer<Answer>(call: () => Promise<Answer>): Promise<Answer> {
    this.#inFlight += 1
    try {
      return await call()
    } finally {
      this.#inFlight -= 1
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
    const free = Math.max(0, this.#group - this.#inFlight)
    for (const resolve of this.#waiting.splice(0, free)) {
      this.#left = (this.#left ?? 1) - 1
      resolve()
    }
  }
}
