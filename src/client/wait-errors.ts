/** How a wait that came to nothing is told. */
import type { Blocker } from '../core/conflict.ts'
import { LeaseError, show, type Effect } from '../core/errors.ts'

/** A wait as it stands when it is over. */
export interface EndedWait {
  /** What was waited for, as messages name it. */
  readonly subject: string
  readonly waitedMs: number
  readonly blockers: readonly Blocker[]
  readonly effect: Effect
  /** The last thing that went wrong on the way to the store, whether or not it has answered since. */
  readonly lastFailure: LeaseError | null
  /** Why nobody knows how the resource stands: the last question failed, or has had no answer for long. */
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
