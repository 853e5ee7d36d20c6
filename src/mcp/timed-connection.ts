/**
 * A connection that also ends for a wait when its time is over, so that a call is answered before its client gives it up. What
 * hears of the end after a grant hears of the connection's own end only.
 */
import type { CallerConnection } from '../client/caller-connection.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

type EndListener = (wasWritten: boolean) => void

export class TimedConnection implements CallerConnection {
  readonly #connection: CallerConnection
  readonly #timer: Timer
  readonly #waiting: EndListener[] = []
  #isOver = false

  constructor(connection: CallerConnection, runtime: Runtime, waitMs: number) {
    this.#connection = connection
    this.#timer = runtime.setTimer(waitMs, () => this.#leave(), { keepAlive: true })
  }

  get isOpen(): boolean {
    return this.#connection.isOpen
  }

  /** Whether the time was over before the wait had come to something. */
  get isOver(): boolean {
    return this.#isOver
  }

  onEnd(listener: EndListener): void {
    this.#waiting.push(listener)
    this.#connection.onEnd(listener)
  }

  /** The wait has come to something. */
  stop(): void {
    this.#timer.cancel()
  }

  #leave(): void {
    this.#isOver = true
    for (const listener of this.#waiting) listener(false)
  }
}
