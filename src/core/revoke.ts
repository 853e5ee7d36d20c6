/**
 * Decides a revocation. An operator needs no right of a holder. The holder is told by a wake-up; until it has heard,
 * only the fence protects.
 */
import type { Revoke } from './command.ts'
import { Draft, eventCommon } from './draft.ts'
import type { LeaseId } from './lease.ts'
import { endedOutcome, type RevokeOutcome } from './outcome.ts'
import { ownLease } from './own-lease.ts'
import type { Decision, PriorEffect, RealmView } from './realm.ts'
import { fail, makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'

export function decideRevoke(view: RealmView, command: Revoke, now: Now): Decision<RevokeOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, requestId } = command
  const reason = command.reason ?? `revoked by ${command.by}`
  if (view.prior !== null) return draft.answer(repeatOf(view.prior, leaseId))
  settle(draft)
  const waiting = draft.entries.get(leaseId)
  if (waiting?.kind === 'ticket' && waiting.state === 'pending') {
    fail(draft, waiting, 'aborted', { reason, requestId })
    makeOffers(draft)
    return draft.answer({ kind: 'revoked', leaseId })
  }
  const own = ownLease(view, { leaseId, holder: null, effect: 'lease.revoked' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  const lease = draft.entries.get(leaseId) ?? own.lease
  if (lease.kind !== 'lease') return draft.answer({ kind: 'not_found', leaseId })
  if (lease.state !== 'active') return draft.answer(endedOutcome(lease))
  draft.record({
    ...eventCommon(lease, now, {
      before: 'active',
      after: 'revoked',
      renewals: lease.renewals,
      reason,
      requestId,
    }),
    type: 'lease.revoked',
    by: command.by,
  })
  makeOffers(draft)
  return draft.answer({ kind: 'revoked', leaseId })
}

/** The request was heard before: a lease was revoked, or a waiter taken out of the queue, and not a second time. */
function repeatOf(prior: PriorEffect, leaseId: LeaseId): RevokeOutcome {
  const same = prior.leaseId === leaseId
  if (same && (prior.type === 'lease.revoked' || prior.type === 'lease.failed')) {
    return { kind: 'revoked', leaseId }
  }
  return { kind: 'request_reused', leaseId }
}
