/**
 * Decides a revocation. An operator needs no right of a holder. The holder is told by a wake-up; until it has heard,
 * only the fence protects.
 */
import type { Revoke } from './command.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import type { Lease, LeaseId } from './lease.ts'
import { endedOutcome, type RevokeOutcome } from './outcome.ts'
import type { Decision, PriorEffect, RealmView } from './realm.ts'
import { fail, lockDelay, makeOffers, settle } from './settle.ts'
import { deadlineAfter, wallAt, type Now } from './time.ts'

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
  const lease = draft.lease(leaseId)
  if (lease.state !== 'active') return draft.answer(endedOutcome(lease))
  requestEnd(draft, lease, { by: command.by, reason, requestId, graceMs: command.graceMs })
  makeOffers(draft)
  return draft.answer({ kind: 'revoked', leaseId })
}

export interface EndRequest {
  readonly by: string
  readonly reason: string | null
  readonly requestId: string | null
  readonly graceMs: number
}

/**
 * Asks the holder to finish: the deadline comes no later than the end of the grace, and renewal stops. Without a grace
 * the lease ends here.
 */
export function requestEnd(draft: Draft, lease: Lease, request: EndRequest): void {
  if (request.graceMs === 0) return endNow(draft, lease, request)
  const { now } = draft
  const { by, reason, requestId } = request
  const end = deadlineAfter(now, request.graceMs)
  const deadline = end.us < lease.deadline.us ? end : lease.deadline
  const facts = { before: 'active', after: 'active', reason, requestId } as const
  draft.record({
    type: 'lease.revoking',
    ...eventCommon(lease, now, { ...facts, renewals: lease.renewals }),
    by,
    deadline,
    expiresAtMs: wallAt(deadline.us, now),
  })
}

function endNow(draft: Draft, lease: Lease, { by, reason, requestId }: EndRequest): void {
  const { now } = draft
  const facts = { before: 'active', after: 'revoked', reason, requestId } as const
  draft.record({
    type: 'lease.revoked',
    ...eventCommon(lease, now, { ...facts, renewals: lease.renewals }),
    by,
    terminatedAtMs: now.wallMs,
    lockedUntil: lockDelay(lease, deadlineAfter(now, 0), now),
  })
}

const REVOKING_TYPES: ReadonlySet<string> = new Set([
  'lease.revoked',
  'lease.revoking',
  'lease.failed',
])

/** The request was heard before: a lease was revoked, or a waiter taken out of the queue, and not a second time. */
function repeatOf(prior: PriorEffect, leaseId: LeaseId): RevokeOutcome {
  const same = prior.leaseId === leaseId
  if (same && REVOKING_TYPES.has(prior.type)) {
    return { kind: 'revoked', leaseId }
  }
  return { kind: 'request_reused', leaseId }
}
