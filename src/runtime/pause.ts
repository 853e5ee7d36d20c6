/** Pauses between attempts, and how long they should be. */
import type { Runtime, Timer } from './runtime.ts'

export interface PauseOptions {
  /** Whether the pause keeps the process alive. */
  readonly keepAlive: boolean
  /** Ends the pause early. */
  readonly signal?: AbortSignal
}

/** Resolves after `pauseMs`, or when the signal aborts. */
export function pause(
  runtime: Pick<Runtime, 'setTimer'>,
  pauseMs: number,
  { keepAlive, signal }: PauseOptions,
): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const end = (): void => {
      timer.cancel()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer: Timer = runtime.setTimer(pauseMs, end, { keepAlive })
    signal?.addEventListener('abort', end)
  })
}

/** Exponential back-off: `firstMs` after the first failure, twice as long after each further one, at most `maxMs`. */
export function backOffMs(
  failures: number,
  { firstMs, maxMs }: { readonly firstMs: number; readonly maxMs: number },
): number {
  return Math.min(maxMs, firstMs * 2 ** Math.max(0, failures - 1))
}
