/**
 * Decides a release, of one lease or of several together. The holder is compared and the deadline is judged: a late
 * release of a lease that ran out must not free what the next holder has.
 *
 * Several are released in one commit: their events stand next to each other in the ledger, and nothing is
 * offered before the last of them has ended. One that is no longer held does not keep the others.
 *
 * A waiter to which the release hands over need not be told of its offer and come back: it has said beforehand that it
 * claims it.
 */
import { memberView, mergeViews } from './acquire-all.ts'
import { claimOffer } from './claim.ts'
import type { Release, ReleaseAll } from './command.ts'
import { Draft, eventCommon, frequentEvent, ownLease, type OwnLease } from './draft.ts'
import type { Lease } from './lease.ts'
import { endedOutcome, type ReleaseAllOutcome, type ReleaseOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'
import { recordNote } from './update.ts'

export function decideRelease(
  view: RealmView,
  command: Release,
  now: Now,
): Decision<ReleaseOutcome> {
  const draft = new Draft(view, now, command)
  const own = ownOf(view, command)
  if (own.kind === 'refused') return draft.answer(own.refusal)
  if (own.repeated) return draft.answer({ kind: 'released', lease: own.lease })
  settle(draft)
  const outcome = end(draft, command)
  makeOffers(draft)
  if (outcome.kind !== 'released') return draft.answer(outcome)
  const claimed = claimHandedOff(draft, command)
  return draft.answer(claimed === null ? outcome : { ...outcome, claimed })
}

/** Only at the same resource: what else a view tells, its epoch for one, is about that. */
function claimHandedOff(draft: Draft, { handOffTo, resource }: Release): Lease | null {
  const ticket = handOffTo === undefined ? undefined : draft.entries.get(handOffTo)
  if (ticket?.kind !== 'ticket' || ticket.state !== 'pending') return null
  if (ticket.offer === null || ticket.resource !== resource) return null
  return claimOffer(draft, ticket, ticket.offer)
}

/** `views` are those of the members, in the same order. */
export function decideReleaseAll(
  views: readonly RealmView[],
  { members }: ReleaseAll,
  now: Now,
): Decision<ReleaseAllOutcome> {
  const draft = new Draft(mergeViews(views), now, ...members)
  settle(draft)
  const outcomes = members.map((member, index): ReleaseOutcome => {
    const own = ownOf(memberView(views, index), member)
    if (own.kind === 'refused') return own.refusal
    if (own.repeated) return { kind: 'released', lease: own.lease }
    return end(draft, member)
  })
  makeOffers(draft)
  return draft.answer({ kind: 'released_all', outcomes })
}

function ownOf(view: RealmView, { leaseId, holder }: Release): OwnLease {
  return ownLease(view, { leaseId, holder, effect: 'lease.released' })
}

function end(draft: Draft, command: Release): ReleaseOutcome {
  const { leaseId, releaseReason, requestId } = command
  const lease = draft.lease(leaseId)
  if (lease.state !== 'active') return endedOutcome(lease)
  if (command.note !== undefined) recordNote(draft, lease, { note: command.note, requestId: null })
  const common = eventCommon(lease, draft.now, {
    before: 'active',
    after: 'released',
    renewals: lease.renewals,
    reason: releaseReason,
    requestId,
  })
  draft.record(frequentEvent(common, { type: 'lease.released', releaseReason }))
  // Its holder has it released by another process: the one that holds a handle of it must hear so.
  if (command.session !== lease.session) draft.wake(lease)
  return { kind: 'released', lease: draft.lease(leaseId) }
}
