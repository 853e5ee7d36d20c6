/** Bounds the wait for a call. What becomes of the call itself is then unknown. */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'

export interface Bound {
  readonly runtime: Runtime
  readonly withinMs: number
  readonly onLate?: () => void
}

/** Rejects with `STORE_OUTCOME_UNKNOWN` when there is no answer in time, and otherwise with what the call rejects with. */
export function answerWithin<Answer>(
  { runtime, withinMs, onLate }: Bound,
  call: Promise<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      onLate?.()
      reject(new LeaseError('STORE_OUTCOME_UNKNOWN', `no answer came within ${withinMs} ms`))
    }
    const timer = runtime.setTimer(withinMs, giveUp, { keepAlive: true })
    call.then(resolve, reject).finally(() => timer.cancel())
  })
}

/** What a store says. Anything else is a mistake of ours, which is no answer to anything and surfaces as itself. */
export function asLeaseError(error: unknown): LeaseError {
  if (isLeaseError(error)) return error
  throw error
}

/** Ends early when the signal aborts. */
export function pause(runtime: Runtime, pauseMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let timer: Timer | null = null
    const end = (): void => {
      timer?.cancel()
      signal.removeEventListener('abort', end)
      resolve()
    }
    if (signal.aborted) return resolve()
    timer = runtime.setTimer(pauseMs, end, { keepAlive: true })
    signal.addEventListener('abort', end)
  })
}

/** Twice as long after each failure. */
export function backOffMs(
  failures: number,
  { firstMs, mostMs }: { firstMs: number; mostMs: number },
): number {
  return Math.min(mostMs, firstMs * 2 ** Math.max(0, failures - 1))
}
