/** The bound of a call to the store. */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import { answerWithin } from '../runtime/answer-within.ts'
import type { Runtime } from '../runtime/runtime.ts'

export interface CallBound {
  readonly runtime: Runtime
  readonly withinMs: number
  readonly onLate?: () => void
}

/** Settles as the call does, or rejects with `STORE_OUTCOME_UNKNOWN` when there is no answer in time. */
export function callWithin<Answer>(
  { runtime, withinMs, onLate }: CallBound,
  call: Promise<Answer>,
): Promise<Answer> {
  const lateError = (): LeaseError => {
    onLate?.()
    return new LeaseError('STORE_OUTCOME_UNKNOWN', `no answer came within ${withinMs} ms`)
  }
  return answerWithin({ runtime, withinMs, keepAlive: true, onLate: lateError }, call)
}

/** The error of a store. Any other error is a bug, and is thrown as it is. */
export function asLeaseError(error: unknown): LeaseError {
  if (isLeaseError(error)) return error
  throw error
}
