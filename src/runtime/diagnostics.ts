/**
 * Where everything goes that fails in the background, so that nothing fails in silence. A fault is published on Node's
 * `diagnostics_channel`, where `openTenure({ onDiagnostic })`, the CLI's `--debug` and any other subscriber hear it. A
 * call that fails throws to its caller instead: it is no fault of the background.
 *
 * The channel belongs to the process, not to a client: clients share stores, and what a shared store cannot do concerns
 * all of them.
 */
import { channel } from 'node:diagnostics_channel'

/** The name of the channel. Its messages are `Fault`s. */
export const FAULT_CHANNEL = 'tenure:fault'

export interface Fault {
  /** What failed: the folder and what it was about to do, such as `client/renewal` or `store/redis/subscribe`. */
  readonly source: string
  readonly error: unknown
  /** How often the same has failed in a row, this time included. */
  readonly count: number
}

/** Between two reports of something that keeps failing. */
const REPEAT_MS = 60_000

const faults = channel(FAULT_CHANNEL)

export function report(source: string, error: unknown): void {
  publish({ source, error, count: 1 })
}

/** For `promise.catch(…)` where the caller has nothing to wait for. */
export function reportTo(source: string): (error: unknown) => void {
  return (error) => report(source, error)
}

function publish(fault: Fault): void {
  if (faults.hasSubscribers) faults.publish(fault)
}

/** Hears every fault of this process until the returned function is called. */
export function onFault(listener: (fault: Fault) => void): () => void {
  const subscriber = (message: unknown): void => {
    // A listener that fails must neither end the process, as a failing subscriber does, nor be told of its own failure.
    const warn = (error: unknown): void => {
      process.emitWarning(`a listener for Tenure's diagnostics failed: ${String(error)}`)
    }
    try {
      const result: unknown = listener(message as Fault)
      if (result instanceof Promise) result.catch(warn)
    } catch (error) {
      warn(error)
    }
  }
  faults.subscribe(subscriber)
  return () => {
    faults.unsubscribe(subscriber)
  }
}

/**
 * Reports work that is tried again and again: the first failure, and then one a minute until it succeeds, with the number
 * of failures since the last success.
 */
export class RepeatedFault {
  readonly #source: string
  readonly #clock: { monotonicMs(): number }
  #count = 0
  #reportedAtMs = 0

  constructor(source: string, clock: { monotonicMs(): number }) {
    this.#source = source
    this.#clock = clock
  }

  /** How often it has failed since it last succeeded. */
  get count(): number {
    return this.#count
  }

  failed(error: unknown): void {
    this.#count += 1
    const nowMs = this.#clock.monotonicMs()
    if (this.#count > 1 && nowMs - this.#reportedAtMs < REPEAT_MS) return
    this.#reportedAtMs = nowMs
    publish({ source: this.#source, error, count: this.#count })
  }

  succeeded(): void {
    this.#count = 0
  }
}
