/**
 * Polls one session for as long as it is owned. Ownership is checked before each poll, in the same turn of the event
 * loop in which the poll begins, never after it. At most one poll of a session is in progress.
 */
import { newAbortController } from '../runtime/abort-listeners.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { PollContext, PollFunction } from './contract.ts'

export interface PollerOptions {
  readonly sessionId: string
  readonly lease: Omit<PollContext, 'signal'>
  readonly poll: PollFunction
  readonly intervalMs: number
  readonly pollTimeoutMs: number
  readonly runtime: Runtime
  readonly isOwned: () => boolean
  readonly onFailed: (error: unknown, failures: number) => void
  /** For the poll timeout, every poll has failed, or one has not returned. */
  readonly onStuck: () => void
}

export type StopResult = 'stopped' | 'still_running'

export class SessionPoller {
  readonly #options: PollerOptions
  /** For the poll in progress. Each poll has its own, so that listeners of past polls do not accumulate on the signal. */
  #controller: AbortController | null = null
  #running: Promise<void> | null = null
  #timer: Timer | null = null
  #isStopped = false
  #failures = 0
  readonly #fault: RepeatedFault
  #failingSinceMs: number | null = null

  constructor(options: PollerOptions) {
    this.#options = options
    const clock = { monotonicMs: () => options.runtime.monotonicMs() }
    this.#fault = new RepeatedFault('fleet/poll', clock)
    this.kick()
  }

  /** The poll in progress, if there is one. */
  get running(): Promise<void> | null {
    return this.#running
  }

  /** No further poll begins, though one may still be in progress. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Polls now if the session is owned; otherwise checks again an interval later, or at the next call. */
  kick(): void {
    if (this.#isStopped || this.#running !== null) return
    this.#timer?.cancel()
    if (this.#options.isOwned()) this.#running = this.#run()
    else this.#wait(this.#options.intervalMs)
  }

  /** No poll begins after this. */
  abort(reason: unknown): void {
    this.#isStopped = true
    this.#timer?.cancel()
    this.#controller?.abort(reason)
  }

  /** Aborts the poll in progress, and waits for it to return. */
  async stop(reason: unknown, withinMs: number): Promise<StopResult> {
    this.abort(reason)
    if (this.#running === null) return 'stopped'
    const hasEnded = await endsWithin(this.#options.runtime, withinMs, this.#running)
    return hasEnded ? 'stopped' : 'still_running'
  }

  async #run(): Promise<void> {
    const { runtime, intervalMs, pollTimeoutMs } = this.#options
    const beganMs = runtime.monotonicMs()
    const controller = newAbortController()
    this.#controller = controller
    const timer = runtime.setTimer(pollTimeoutMs, () => this.#late(), { keepAlive: true })
    try {
      const { sessionId, lease, poll } = this.#options
      await poll(sessionId, { ...lease, signal: controller.signal })
      this.#failures = 0
      this.#failingSinceMs = null
      this.#fault.succeeded()
    } catch (error) {
      this.#failures += 1
      this.#failingSinceMs ??= beganMs
      // A poll that was aborted may throw, which is no failure.
      if (!controller.signal.aborted) this.#fail(error, this.#failures)
    } finally {
      timer.cancel()
      this.#running = null
      this.#controller = null
    }
    if (this.#isStopped) return
    const nowMs = runtime.monotonicMs()
    if (this.#failingSinceMs !== null && nowMs - this.#failingSinceMs >= pollTimeoutMs) {
      this.#failingSinceMs = nowMs
      this.#options.onStuck()
    }
    if (!this.#isStopped) this.#wait(beganMs + intervalMs - nowMs)
  }

  #late(): void {
    const { pollTimeoutMs } = this.#options
    const error = new Error(`the poll did not return within ${pollTimeoutMs} ms`)
    this.abort(error)
    this.#fail(error, this.#failures + 1)
    this.#options.onStuck()
  }

  #fail(error: unknown, failures: number): void {
    this.#fault.failed(error)
    this.#options.onFailed(error, failures)
  }

  #wait(delayMs: number): void {
    const { runtime } = this.#options
    this.#timer = runtime.setTimer(Math.max(0, delayMs), () => this.kick(), { keepAlive: true })
  }
}

/**
 * Sessions that another instance should poll, if there is one: their poll does not return here although it was aborted,
 * or every poll has failed for a while.
 */
export class UnhealthySessions {
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
    return this.isHanging(sessionId) || untilMs > this.#runtime.monotonicMs()
  }

  isHanging(sessionId: string): boolean {
    return this.#hanging.has(sessionId)
  }

  /** `running` is the poll that has not returned; it never rejects. */
  addHanging(sessionId: string, running: Promise<void>): void {
    this.#hanging.add(sessionId)
    void running.then(() => {
      this.#hanging.delete(sessionId)
      this.#onReturned()
    })
  }

  addFailed(sessionId: string, forMs: number): void {
    this.#failedUntilMs.set(sessionId, this.#runtime.monotonicMs() + forMs)
  }

  prune(): void {
    const nowMs = this.#runtime.monotonicMs()
    for (const [sessionId, untilMs] of this.#failedUntilMs) {
      if (untilMs <= nowMs) this.#failedUntilMs.delete(sessionId)
    }
  }
}
