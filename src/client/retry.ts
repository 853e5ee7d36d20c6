/**
 * Sends a request that carries an id of its own again, with growing pauses, while the store is away or its answer was
 * lost. The id makes that safe: whatever the first try did, the second does not do again. Bounded in time, also when a
 * call never returns. An error that is no `LeaseError` is a mistake of the program, not of the store: it is thrown as it is.
 */
import { isLeaseError, LeaseError, type Effect } from '../core/errors.ts'
import { backOffMs, pause } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'

/** Between the tries of one request. */
export const TRY_AGAIN = { firstMs: 50, maxMs: 1_000 } as const
/** A call without an answer for so long is given up, and the request is sent again beside it. */
const ANSWER_WITHIN_MS = 10_000
const KEEP_ALIVE_MS = 10_000

/** What goes on without a caller is given up after this. Then leases and tickets end by themselves, at their deadlines. */
export const BACKGROUND_WITHIN_MS = 60_000

export interface RetryLimits {
  readonly runtime: Runtime
  readonly withinMs: number
  /** For a caller that would rather hear of the failure than wait. Default: as many as there is time for. */
  readonly triesMax?: number
  /** For so long it keeps the process alive; after that it goes on only if something else does. Default 10 s. */
  readonly keepAliveMs?: number
  /** When it says so, nothing more is sent, whatever became of the last try. */
  readonly stopIf?: () => boolean
  readonly underWay?: UnderWay
}

/** What gives up each call that has no answer yet, as if its time were over: its caller does not wait for it any more. */
export type UnderWay = Set<() => void>

/** Not an asynchronous function: almost every request is answered the first time, and each one more costs all of them. */
export function retry<Answer>(limits: RetryLimits, send: () => Promise<Answer>): Promise<Answer> {
  const { runtime, withinMs, keepAliveMs = KEEP_ALIVE_MS, underWay } = limits
  const beganMs = runtime.monotonicMs()
  const first = answerWithin(
    { runtime, withinMs: tryMs(withinMs), keepAlive: keepAliveMs > 0, underWay },
    send,
  )
  return first.catch((thrown: unknown) => sendAgain({ ...limits, beganMs }, send, thrown))
}

async function sendAgain<Answer>(
  limits: RetryLimits & { readonly beganMs: number },
  send: () => Promise<Answer>,
  failure: unknown,
): Promise<Answer> {
  const { runtime, withinMs, beganMs, triesMax = Infinity, stopIf, underWay } = limits
  const { keepAliveMs = KEEP_ALIVE_MS } = limits
  const passedMs = (): number => runtime.monotonicMs() - beganMs
  let doubt: LeaseError | null = null
  let thrown = failure
  let keepAlive = keepAliveMs > 0
  for (let tries = 1; ; tries += 1) {
    if (!isRetryable(thrown)) throw thrown
    const error = withDoubt(doubt, thrown)
    if (error.effect === 'unknown') doubt = error
    const pauseMs = backOffMs(tries, TRY_AGAIN)
    if (tries === triesMax || passedMs() + pauseMs >= withinMs) throw error
    if (stopIf?.() === true) throw error
    await pause(runtime, pauseMs, { keepAlive })
    if (stopIf?.() === true) throw error
    keepAlive = passedMs() < keepAliveMs
    try {
      return await answerWithin(
        { runtime, withinMs: tryMs(withinMs - passedMs()), keepAlive, underWay },
        send,
      )
    } catch (again) {
      thrown = again
    }
  }
}

/** How long one try may take of what is left. */
function tryMs(leftMs: number): number {
  return Math.max(1, Math.min(leftMs, ANSWER_WITHIN_MS))
}

/** A store that is away has not changed anything now, which says nothing of a try whose answer was lost before. */
export function withDoubt(doubt: LeaseError | null, error: LeaseError): LeaseError {
  return doubt !== null && isUnavailable(error) ? doubt : error
}

/** Whether sending the same request again can give another answer. */
export function isRetryable(error: unknown): error is LeaseError {
  return isUnavailable(error) || (isLeaseError(error) && error.code === 'STORE_OUTCOME_UNKNOWN')
}

/** Nothing was changed, and a later try may fare better. */
export function isUnavailable(error: unknown): error is LeaseError {
  return (
    isLeaseError(error) && (error.code === 'STORE_UNAVAILABLE' || error.code === 'STORE_CONFLICT')
  )
}

/** A mistake of the program says nothing about what the store did before it. */
export function effectOf(error: unknown): Effect {
  return isLeaseError(error) ? error.effect : 'unknown'
}

/** The bound of one call. */
export interface CallBound {
  readonly runtime: Runtime
  readonly withinMs: number
  /** Whether the wait keeps the process alive. Default true. */
  readonly keepAlive?: boolean
  readonly onLate?: () => void
  readonly underWay?: UnderWay | undefined
}

/**
 * Settles as the call does, or rejects with `STORE_OUTCOME_UNKNOWN` when there is no answer in time: the call itself goes
 * on.
 */
export function answerWithin<Answer>(
  { runtime, withinMs, keepAlive = true, onLate, underWay }: CallBound,
  send: () => Promise<Answer>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = send()
    const rest = (): void => {
      timer.cancel()
      underWay?.delete(giveUp)
    }
    const giveUp = (): void => {
      rest()
      onLate?.()
      const message = `the store did not answer within ${Math.round(withinMs)} ms`
      reject(new LeaseError('STORE_OUTCOME_UNKNOWN', message))
    }
    const timer = runtime.setTimer(withinMs, giveUp, { keepAlive })
    underWay?.add(giveUp)
    call.then(
      (answer) => {
        rest()
        resolve(answer)
      },
      (error: unknown) => {
        rest()
        reject(error)
      },
    )
  })
}
