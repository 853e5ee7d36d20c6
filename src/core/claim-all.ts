/**
 * Decides a claim for several resources: their waiter says that it is still there, and takes them all if they are all
 * free. What was transferred to it meanwhile it takes over together with the rest.
 */
import {
  allBlockers,
  transferredTo,
  grantAll,
  memberView,
  mergeViews,
  queuedAll,
  otherTransferAmong,
} from './acquire-all.ts'
import { adoptedBefore, isOwn } from './adopt.ts'
import { deny, endOf, goneOutcome } from './claim.ts'
import type { ClaimAll } from './command.ts'
import { Draft } from './draft.ts'
import { stayInQueue } from './keep-alive.ts'
import { isHeld, type Lease, type Ticket } from './lease.ts'
import type { AcquireAllOutcome, Refusal } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { covers } from './resource.ts'
import { settle } from './settle.ts'
import type { Now } from './time.ts'

export function decideClaimAll(
  views: readonly RealmView[],
  { members }: ClaimAll,
  now: Now,
): Decision<AcquireAllOutcome> {
  const draft = new Draft(mergeViews(views), now, ...members)
  const before = grantedBefore(draft, views, members)
  if ('kind' in before) return draft.answer(before)
  if (before.length === members.length) {
    return draft.answer({ kind: 'granted_all', leases: before, repeated: true })
  }
  settle(draft)
  const tickets = waitingTickets(draft, members, views)
  if ('kind' in tickets) return draft.answer(tickets)
  const transferred = transferredTo(draft, tickets)
  const other = otherTransferAmong(draft, tickets, transferred)
  if (other !== null) {
    deny(draft, tickets, other)
    return draft.answer(other)
  }
  const blockers = allBlockers(draft, tickets, transferred)
  if (blockers.length === 0) return draft.answer(grantAll(draft, tickets, transferred, views))
  for (const [index, ticket] of tickets.entries()) stayInQueue(draft, ticket, members[index])
  return draft.answer(queuedAll(draft, tickets, { blockers, waitMs: 0 }))
}

/** What an earlier claim has taken, if its answer was lost; or why that is no more. */
function grantedBefore(
  draft: Draft,
  views: readonly RealmView[],
  members: ClaimAll['members'],
): readonly Lease[] | Refusal {
  const leases: Lease[] = []
  for (const [index, member] of members.entries()) {
    const adopted = adoptedBefore(memberView(views, index), member, draft.now)
    if (adopted !== null && adopted.kind !== 'granted') return adopted
    const entry = adopted?.lease ?? draft.entries.get(member.leaseId)
    if (entry === undefined || !isHeld(entry, draft.now) || !isOwn(entry, member)) continue
    leases.push(entry)
  }
  return leases
}

/** The tickets that still stand, or what to say when one of them does not. */
function waitingTickets(
  draft: Draft,
  members: ClaimAll['members'],
  views: readonly RealmView[],
): readonly Ticket[] | AcquireAllOutcome {
  const tickets: Ticket[] = []
  for (const [index, member] of members.entries()) {
    const { leaseId } = member
    const entry = draft.entries.get(leaseId)
    if (entry === undefined) return goneOutcome(memberView(views, index).prior, leaseId)
    if (!isOwn(entry, member)) return { kind: 'not_holder', leaseId, holder: entry.holder }
    // A claim that names the wrong place has not looked where the ticket stands, and would find nothing in its way.
    if (!covers(member, entry)) return { kind: 'not_found', leaseId }
    // Held by itself, it is no part of what is asked for together with the others, which would be granted without it.
    if (isHeld(entry, draft.now)) return { kind: 'id_taken', leaseId, resource: entry.resource }
    const ended = endOf(entry)
    if (ended !== null) return ended
    if (entry.kind === 'ticket') tickets.push(entry)
  }
  return tickets
}
