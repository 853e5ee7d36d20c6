/**
 * Polls one session for as long as it is owned. Ownership is looked at before each poll, in the same turn of the event
 * loop in which the poll begins, never after it. At most one poll of a session is under way.
 */
import { newAbortController } from '../runtime/abort-listeners.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { PollContext, PollFunction } from './contract.ts'

export interface PollerParts {
  readonly sessionId: string
  readonly lease: Omit<PollContext, 'signal'>
  readonly poll: PollFunction
  readonly intervalMs: number
  readonly pollTimeoutMs: number
  readonly runtime: Runtime
  readonly isOwned: () => boolean
  readonly onFailed: (error: unknown, failures: number) => void
  /** It has done nothing but fail, or not returned, for the poll timeout. */
  readonly onStuck: () => void
}

export type StopResult = 'stopped' | 'still_running'

export class SessionPoller {
  readonly #parts: PollerParts
  /** Of the poll that is under way. Each has its own: what one listens to must not gather until the session goes. */
  #controller: AbortController | null = null
  #running: Promise<void> | null = null
  #timer: Timer | null = null
  #isStopped = false
  #failures = 0
  readonly #fault: RepeatedFault
  #failingSinceMs: number | null = null

  constructor(parts: PollerParts) {
    this.#parts = parts
    const clock = { monotonicMs: () => parts.runtime.monotonicMs() }
    this.#fault = new RepeatedFault('fleet/poll', clock)
    this.kick()
  }

  /** The poll that is under way, if there is one. */
  get running(): Promise<void> | null {
    return this.#running
  }

  /** It polls no more, though a poll may still be under way. */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Polls now if it may; otherwise it looks again an interval later, or when it is kicked. */
  kick(): void {
    if (this.#isStopped || this.#running !== null) return
    this.#timer?.cancel()
    if (this.#parts.isOwned()) this.#running = this.#run()
    else this.#wait(this.#parts.intervalMs)
  }

  /** No poll begins after this. */
  abort(reason: unknown): void {
    this.#isStopped = true
    this.#timer?.cancel()
    this.#controller?.abort(reason)
  }

  /** Tells a poll that is under way to stop, and waits for it. */
  async stop(reason: unknown, withinMs: number): Promise<StopResult> {
    this.abort(reason)
    if (this.#running === null) return 'stopped'
    const { runtime } = this.#parts
    let timer: Timer | null = null
    const late = new Promise<StopResult>((resolve) => {
      timer = runtime.setTimer(withinMs, () => resolve('still_running'), { keepAlive: true })
    })
    const ended = this.#running.then((): StopResult => 'stopped')
    return Promise.race([ended, late]).finally(() => timer?.cancel())
  }

  async #run(): Promise<void> {
    const { runtime, intervalMs, pollTimeoutMs } = this.#parts
    const beganMs = runtime.monotonicMs()
    const controller = newAbortController()
    this.#controller = controller
    const timer = runtime.setTimer(pollTimeoutMs, () => this.#late(), { keepAlive: true })
    try {
      const { sessionId, lease, poll } = this.#parts
      await poll(sessionId, { ...lease, signal: controller.signal })
      this.#failures = 0
      this.#failingSinceMs = null
      this.#fault.succeeded()
    } catch (error) {
      this.#failures += 1
      this.#failingSinceMs ??= beganMs
      // A poll that was told to stop may say so by throwing.
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
      this.#parts.onStuck()
    }
    if (!this.#isStopped) this.#wait(beganMs + intervalMs - nowMs)
  }

  #late(): void {
    const { pollTimeoutMs } = this.#parts
    const error = new Error(`the poll did not return within ${pollTimeoutMs} ms`)
    this.abort(error)
    this.#fail(error, this.#failures + 1)
    this.#parts.onStuck()
  }

  #fail(error: unknown, failures: number): void {
    this.#fault.failed(error)
    this.#parts.onFailed(error, failures)
  }

  #wait(delayMs: number): void {
    const { runtime } = this.#parts
    this.#timer = runtime.setTimer(Math.max(0, delayMs), () => this.kick(), { keepAlive: true })
  }
}
