/**
 * Decides an advance: the holder of a workflow uses up its next epochs, one or many in one commit. It looks at its own
 * entry and nothing else, so that no stranger can make it miss.
 *
 * The epoch of an exclusive lease is the workflow's own: it was read at the grant, and only the holder has
 * advanced it since. So comparing with the lease is comparing with the workflow. Holders that share may not advance it.
 */
import type { Advance } from './command.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import { isHeld } from './lease.ts'
import { endedOutcome, type AdvanceOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { hasEpoch } from './resource.ts'
import type { Now } from './time.ts'

export function decideAdvance(
  view: RealmView,
  command: Advance,
  now: Now,
): Decision<AdvanceOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, holder, from, count, reason, requestId } = command
  const own = ownLease(view, { leaseId, holder, effect: 'lease.advanced' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  const { lease } = own
  const to = from + count
  // Before the look at its end: what the request used up stays used up, and its repeat must hear of it.
  if (own.repeated) return draft.answer({ kind: 'advanced', lease, from, to })
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  if (!hasEpoch(lease.resource)) {
    return draft.answer({ kind: 'no_epoch', leaseId, why: 'a workflow' })
  }
  if (lease.mode !== 'exclusive') {
    return draft.answer({ kind: 'no_epoch', leaseId, why: 'a workflow that nobody shares' })
  }
  if (lease.epoch !== from) {
    return draft.answer({ kind: 'stale_epoch', leaseId, from, epoch: lease.epoch })
  }
  const { renewals } = lease
  const facts = { before: 'active', after: 'active', renewals, reason, requestId } as const
  draft.record({ type: 'lease.advanced', ...eventCommon(lease, now, facts), from, to })
  return draft.answer({ kind: 'advanced', lease: draft.lease(leaseId), from, to })
}
