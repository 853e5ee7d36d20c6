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

/** Almost always the first try is the last one, and costs no more than it must. */
export function insist<Answer>(
  { runtime, withinMs, stopIf = () => false }: Insistence,
  send: (attempt: number) => Promise<Answer>,
): Promise<Answer> {
  const untilMs = runtime.monotonicMs() + withinMs
  return answerWithin(runtime, withinMs, () => send(1)).catch((thrown: unknown) => {
    return insistFurther({ runtime, untilMs, stopIf, thrown }, send)
  })
}

interface FurtherInsistence {
  readonly runtime: Runtime
  readonly untilMs: number
  readonly stopIf: () => boolean
  /** What the first try came to. */
  readonly thrown: unknown
}

async function insistFurther<Answer>(
  { runtime, untilMs, stopIf, thrown }: FurtherInsistence,
  send: (attempt: number) => Promise<Answer>,
): Promise<Answer> {
  let doubt: LeaseError | null = null
  let last = thrown
  for (let attempt = 1; ; attempt += 1) {
    const error = inDoubt(doubt, asLeaseError(last))
    if (error.effect === 'unknown') doubt = error
    const pauseMs = FIRST_PAUSE_MS * 4 ** (attempt - 1)
    const isLast = attempt === TRIES_MAX || runtime.monotonicMs() + pauseMs >= untilMs
    if (isLast || !mayRepeat(error)) throw error
    await pause(runtime, pauseMs)
    if (stopIf()) throw error
    try {
      const leftMs = untilMs - runtime.monotonicMs()
      return await answerWithin(runtime, leftMs, () => send(attempt + 1))
    } catch (again) {
      last = again
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
  runtime: Runtime,
  withinMs: number,
  send: () => Promise<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = send()
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
