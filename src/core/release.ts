/**
 * Decides a release. The holder is compared and the deadline is judged: a late release of a lease that ran out must
 * not free what the next holder has.
 */
import type { Release } from './command.ts'
import { Draft, eventCommon } from './draft.ts'
import type { Lease } from './lease.ts'
import { endedOutcome, type ReleaseOutcome } from './outcome.ts'
import { ownLease } from './own-lease.ts'
import type { Decision, RealmView } from './realm.ts'
import { makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'

export function decideRelease(
  view: RealmView,
  command: Release,
  now: Now,
): Decision<ReleaseOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, holder } = command
  const own = ownLease(view, { leaseId, holder, effect: 'lease.released' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  if (own.repeated) return draft.answer({ kind: 'released', lease: own.lease })
  settle(draft)
  const lease = leaseIn(draft, own.lease)
  if (lease.state !== 'active') return draft.answer(endedOutcome(lease))
  draft.record({
    ...eventCommon(lease, now, {
      before: 'active',
      after: 'released',
      renewals: lease.renewals,
      reason: command.releaseReason,
      requestId: command.requestId,
    }),
    type: 'lease.released',
    releaseReason: command.releaseReason,
  })
  makeOffers(draft)
  return draft.answer({ kind: 'released', lease: leaseIn(draft, lease) })
}

function leaseIn(draft: Draft, lease: Lease): Lease {
  const entry = draft.entries.get(lease.id)
  return entry?.kind === 'lease' ? entry : lease
}
