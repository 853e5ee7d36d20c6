/**
 * Sends a request that carries an id of its own again while the store is away or its answer was lost. The id makes
 * that safe: whatever the first one did, the second does not do again. Bounded in tries and in time, also when a call
 * never returns.
 */
import { isLeaseError, LeaseError } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'

const TRIES_MAX = 3
const FIRST_PAUSE_MS = 50

export interface Insistence {
  readonly runtime: Runtime
  /** However many tries are left, nothing is waited for longer than this. */
  readonly withinMs: number
  /** When it says so, nothing more is sent, whatever became of the last try. */
  readonly stopIf?: () => boolean
}

export async function insist<Answer>(
  { runtime, withinMs, stopIf = () => false }: Insistence,
  send: (attempt: number) => Promise<Answer>,
): Promise<Answer> {
  const untilMs = runtime.monotonicMs() + withinMs
  let doubt: LeaseError | null = null
  for (let attempt = 1; ; attempt += 1) {
    const leftMs = untilMs - runtime.monotonicMs()
    try {
      return await answerWithin({ runtime, withinMs: leftMs }, send(attempt))
    } catch (thrown) {
      const error = inDoubt(doubt, asLeaseError(thrown))
      if (error.effect === 'unknown') doubt = error
      const pauseMs = FIRST_PAUSE_MS * 4 ** (attempt - 1)
      const isLast = attempt === TRIES_MAX || runtime.monotonicMs() + pauseMs >= untilMs
      if (isLast || !mayRepeat(error)) throw error
      await pause(runtime, pauseMs)
      if (stopIf()) throw error
    }
  }
}

/** A store that is away has not changed anything now, which says nothing of a try whose answer was lost before. */
export function inDoubt(doubt: LeaseError | null, error: LeaseError): LeaseError {
  return doubt !== null && isStoreAway(error) ? doubt : error
}

/** Whether sending the same request again can give another answer. */
export function mayRepeat(error: unknown): boolean {
  const { code } = asLeaseError(error)
  return code === 'STORE_OUTCOME_UNKNOWN' || isStoreAway(error)
}

/** Nothing was changed, and a later try may fare better. */
export function isStoreAway(error: unknown): boolean {
  return (
    isLeaseError(error) && (error.code === 'STORE_UNAVAILABLE' || error.code === 'STORE_CONFLICT')
  )
}

/** An error that nobody foresaw says nothing about what the store did, so the outcome is unknown. */
export function asLeaseError(error: unknown): LeaseError {
  if (isLeaseError(error)) return error
  return new LeaseError('STORE_OUTCOME_UNKNOWN', 'the request failed in an unforeseen way', {
    cause: error,
  })
}

function answerWithin<Answer>(
  { runtime, withinMs }: Insistence,
  call: Promise<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      const message = `the store did not answer within ${Math.round(withinMs)} ms`
      reject(new LeaseError('STORE_OUTCOME_UNKNOWN', message))
    }
    const timer = runtime.setTimer(Math.max(1, withinMs), giveUp, { keepAlive: true })
    call.then(
      (answer) => {
        timer.cancel()
        resolve(answer)
      },
      (error: unknown) => {
        timer.cancel()
        reject(error)
      },
    )
  })
}

function pause(runtime: Runtime, pauseMs: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(pauseMs, resolve, { keepAlive: true })
  })
}
