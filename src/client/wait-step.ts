/**
 * Decides how a wait goes on, and what its caller hears where it comes to nothing; `waiting.ts` does the waiting. Pure.
 *
 *  1. Granted, or refused for good: the wait is over.
 *  2. Queued: keep the ticket alive, and claim again when the answer says so, or when woken.
 *  3. Dropped: the ticket is gone but the wait is not over, so file it again under the same id.
 *  4. The answer was lost: ask the same again, because the id makes that safe. A request that never had an answer at
 *     all is given up after a few tries, or when the time for a first answer is used up.
 *  5. The store is away: a waiter that has a ticket, or whose caller said how long to wait, keeps trying; any
 *     other hears of it at once.
 *  6. Anything but a `LeaseError` is a mistake of the program: the wait ends with it, and what it may have left is withdrawn.
 */
import type { Blocker } from '../core/conflict.ts'
import { isLeaseError, LeaseError, show, type Effect } from '../core/errors.ts'
import type { LeaseInfo } from '../core/lease.ts'
import type { Held, Refusal } from '../core/outcome.ts'
import { backOffMs } from '../runtime/pause.ts'
import { isUnavailable, TRY_AGAIN } from './retry.ts'
import type { GrantedAnswer, QueuedAnswer, WaitAnswer } from './pending-request.ts'

export type Question = 'acquire' | 'claim'

/** What became of a question. */
export type Report =
  | { readonly kind: 'answered'; readonly answer: WaitAnswer }
  | { readonly kind: 'failed'; readonly error: unknown }

export interface Progress {
  /** The question that the report is about. */
  readonly question: Question
  /** Whether a ticket was ever filed. */
  readonly hasQueued: boolean
  /** Whether the caller said how long to wait, so that the wait lasts that long whatever fails. */
  readonly coversAbsence: boolean
  /** Failures in a row. */
  readonly failures: number
  /** Within how long a request that never had an answer may still be sent again. */
  readonly againWithinMs: number
}

export type Step =
  | { readonly kind: 'granted'; readonly granted: GrantedAnswer }
  | { readonly kind: 'queued'; readonly queued: QueuedAnswer }
  | { readonly kind: 'waiting'; readonly keepAliveMs: number }
  | { readonly kind: 'ask'; readonly question: Question; readonly afterMs: number }
  | { readonly kind: 'held'; readonly held: Held }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** `leftBehind`: the store may have done something that must be undone. */
  | { readonly kind: 'failed'; readonly error: unknown; readonly leftBehind: boolean }

const TRIES_MAX = 3

export function nextStep(progress: Progress, report: Report): Step {
  return report.kind === 'failed'
    ? afterFailure(progress, report.error)
    : afterAnswer(report.answer)
}

function afterAnswer(answer: WaitAnswer): Step {
  switch (answer.kind) {
    case 'granted':
    case 'granted_all':
      return { kind: 'granted', granted: answer }
    case 'queued':
    case 'queued_all':
      return { kind: 'queued', queued: answer }
    case 'waiting':
      return { kind: 'waiting', keepAliveMs: answer.keepAliveMs }
    case 'dropped':
      return { kind: 'ask', question: 'acquire', afterMs: 0 }
    case 'held':
      return { kind: 'held', held: answer }
    case 'not_found':
    case 'not_holder':
    case 'terminal':
    case 'expired':
    case 'id_taken':
    case 'request_reused':
    case 'renewal_limit':
    case 'does_not_extend':
    case 'queue_full':
    case 'deadlock':
    case 'stale_epoch':
    case 'no_epoch':
    case 'nobody_waiting':
    case 'already_adopted':
    case 'malformed_setting':
    case 'invalid_derivation':
    case 'budget_exhausted':
    case 'look_further':
      return { kind: 'refused', refusal: answer }
  }
}

function afterFailure(progress: Progress, error: unknown): Step {
  if (!isLeaseError(error)) return { kind: 'failed', error, leftBehind: true }
  const { question, hasQueued, coversAbsence, failures, againWithinMs } = progress
  const isUnknown = error.code === 'STORE_OUTCOME_UNKNOWN'
  const again = { kind: 'ask', question, afterMs: backOffMs(failures, TRY_AGAIN) } as const
  if ((hasQueued || coversAbsence) && (isUnknown || isUnavailable(error))) return again
  if (isUnknown && failures < TRIES_MAX && again.afterMs < againWithinMs) return again
  return { kind: 'failed', error, leftBehind: isUnknown || hasQueued }
}

export function overError({ id: leaseId, resource, ttlMs }: LeaseInfo): LeaseError {
  const message = `lease ${leaseId} of ${resource} was over before its grant arrived`
  return new LeaseError('LEASE_EXPIRED', message, { details: { leaseId, resource, ttlMs } })
}

/** A wait as it stands when it is over. */
export interface EndedWait {
  /** What was waited for, as messages name it. */
  readonly subject: string
  readonly waitedMs: number
  readonly blockers: readonly Blocker[]
  readonly effect: Effect
  /** The last thing that went wrong on the way to the store, whether or not it has answered since. */
  readonly lastFailure: LeaseError | null
  /** Why the state of the resource is unknown: the last question failed, or has had no answer for long. */
  readonly silence: LeaseError | null
  /** The store was away all the while, and nothing was left there. */
  readonly isAway: boolean
}

export function timeoutError(wait: EndedWait): LeaseError {
  const { subject, waitedMs, effect, silence } = wait
  const cause = silence ?? wait.lastFailure
  const options = { details: detailsOf(wait), effect, ...(cause === null ? {} : { cause }) }
  if (silence !== null) {
    const message = `waited ${waitedMs} ms for ${subject}, but the store did not answer: ${silence.message}`
    return new LeaseError(wait.isAway ? silence.code : 'WAIT_TIMEOUT', message, options)
  }
  const [first] = wait.blockers
  const who = first === undefined ? '' : `: ${show(first.holder)} is in the way`
  const message = `${subject} did not become free within ${waitedMs} ms${who}`
  return new LeaseError('WAIT_TIMEOUT', message, options)
}

export function abortedError(wait: EndedWait, cause: unknown): LeaseError {
  const options = { details: detailsOf(wait), cause, effect: wait.effect }
  return new LeaseError('ABORTED', `the wait for ${wait.subject} was cancelled`, options)
}

function detailsOf(wait: EndedWait): Readonly<Record<string, unknown>> {
  const { subject: resource, waitedMs, blockers, silence } = wait
  const store = silence === null ? {} : { store: { code: silence.code, message: silence.message } }
  return { resource, waitedMs, blockers, ...store }
}
