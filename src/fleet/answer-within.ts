/** Bounds the wait for a call. What becomes of the call itself is then unknown. */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'

export interface Bound {
  readonly runtime: Runtime
  readonly withinMs: number
  readonly onLate?: () => void
}

/** Rejects with `STORE_OUTCOME_UNKNOWN` when there is no answer in time, or when the error is not one of ours. */
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
    call
      .then(resolve, (error: unknown) => reject(asLeaseError(error)))
      .finally(() => timer.cancel())
  })
}

export function asLeaseError(error: unknown): LeaseError {
  if (isLeaseError(error)) return error
  const message = `the call failed: ${error instanceof Error ? error.message : String(error)}`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause: error })
}

export function pause(runtime: Runtime, pauseMs: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(pauseMs, resolve, { keepAlive: true })
  })
}
