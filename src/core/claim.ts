/**
 * Decides a claim: the waiter says that it is still there. With an offer it becomes the holder; without one its
 * ticket lives for another window. A repeated claim finds the lease that the first one made.
 */
import { queuedOutcome, waitedMsOf, grant } from './acquire.ts'
import { adopt, adoptable, adoptedBefore, isOwn, otherTransfer } from './adopt.ts'
import type { ClaimOffer, KeepAlive, TakeUp } from './command.ts'
import { Draft } from './draft.ts'
import { keepAliveMsOf, stayInQueue } from './keep-alive.ts'
import {
  isHeld,
  isWaiting,
  type Entry,
  type Lease,
  type LeaseId,
  type Offer,
  type Ticket,
} from './lease.ts'
import {
  endedOutcome,
  type ClaimOutcome,
  type Dropped,
  type Held,
  type KeepAliveOutcome,
  type Refusal,
  type TakeUpOutcome,
} from './outcome.ts'
import type { Decision, PriorEffect, RealmView } from './realm.ts'
import { fail, makeOffers, settle } from './settle.ts'
import { hasPassed, type Now } from './time.ts'

export function decideClaim(
  view: RealmView,
  command: ClaimOffer,
  now: Now,
): Decision<ClaimOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId } = command
  const adopted = adoptedBefore(view, command, now)
  if (adopted !== null) return draft.answer(adopted)
  const known = view.entries.get(leaseId)
  if (known === undefined) return draft.answer(goneOutcome(view.prior, leaseId))
  if (!isOwn(known, command)) {
    return draft.answer({ kind: 'not_holder', leaseId, holder: known.holder })
  }
  // The view is about another resource, and so are its fences.
  if (known.resource !== command.resource) return draft.answer({ kind: 'not_found', leaseId })
  if (isHeld(known, now)) return draft.answer({ kind: 'granted', lease: known, repeated: true })
  const ended = endOf(known)
  if (ended !== null) return draft.answer(ended)

  settle(draft)
  const ticket = draft.entries.get(leaseId)
  if (ticket?.kind !== 'ticket') return draft.answer({ kind: 'dropped', leaseId })
  const endedNow = endOf(ticket)
  if (endedNow !== null) return draft.answer(endedNow)
  if (ticket.offer !== null) {
    const lease = claimOffer(draft, ticket, ticket.offer)
    return draft.answer({ kind: 'granted', lease, repeated: false })
  }
  const transferred = adoptable(draft, ticket)
  if (transferred !== null) {
    const lease = takeOver(draft, ticket, transferred)
    return draft.answer({ kind: 'granted', lease, repeated: false })
  }
  const other = otherTransfer(draft, ticket)
  if (other !== null) {
    deny(draft, [ticket], other)
    return draft.answer(other)
  }
  return draft.answer(queuedOutcome(draft, stayInQueue(draft, ticket, command), 0))
}

/**
 * Settles nothing and looks at nothing else. That a ticket was dropped is in the ticket itself; of anything else that is not as
 * it was, only a claim can tell how things stand.
 */
export function decideKeepAlive(
  view: RealmView,
  command: KeepAlive,
  now: Now,
): Decision<KeepAliveOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId } = command
  const ticket = view.entries.get(leaseId)
  if (ticket === undefined || !isOwn(ticket, command)) {
    return draft.answer({ kind: 'claim_needed', leaseId })
  }
  if (ticket.kind === 'ticket' && wasDropped(ticket)) {
    return draft.answer({ kind: 'dropped', leaseId })
  }
  const isAsBefore = isWaiting(ticket, now) && ticket.offer === null && ticket.group === null
  if (!isAsBefore) return draft.answer({ kind: 'claim_needed', leaseId })
  const keepAliveMs = keepAliveMsOf(stayInQueue(draft, ticket, command))
  return draft.answer({ kind: 'waiting', leaseId, waitedMs: waitedMsOf(ticket, now), keepAliveMs })
}

/** What stands beside a shared offer has to be looked at, what stands beside an exclusive one does not. */
export function decideTakeUp(view: RealmView, command: TakeUp, now: Now): Decision<TakeUpOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId } = command
  const ticket = view.entries.get(leaseId)
  const isOwnTicket = ticket?.kind === 'ticket' && isOwn(ticket, command)
  const offer = isOwnTicket && ticket.state === 'pending' ? ticket.offer : null
  if (!isOwnTicket || offer === null || ticket.mode === 'shared') {
    return draft.answer({ kind: 'no_offer', leaseId })
  }
  if (hasPassed(offer.deadline, now.tick)) return draft.answer({ kind: 'no_offer', leaseId })
  const lease = claimOffer(draft, ticket, offer)
  return draft.answer({ kind: 'granted', lease, repeated: false })
}

/** No request passes an exclusive offer, but other shared leases may have been granted beside a shared one since. */
export function claimOffer(draft: Draft, ticket: Ticket, offer: Offer): Lease {
  const fence = ticket.mode === 'shared' ? draft.nextFence() : offer.fence
  return grant(draft, { claim: ticket, fence, before: 'pending' })
}

/** Its waiter was not heard of in time. Of one that failed otherwise its request may have had another effect. */
function wasDropped({ failure }: Ticket): boolean {
  return failure === 'abandoned' || failure === 'lapsed'
}

/** What to say of an entry that has ended; null for a ticket that stands. */
export function endOf(entry: Entry): Dropped | Refusal | null {
  if (entry.kind === 'lease') return endedOutcome(entry)
  const { id: leaseId, state, failure } = entry
  if (state === 'pending') return null
  if (failure === 'deadlock') return { kind: 'deadlock', leaseId, cycle: entry.cycle ?? [] }
  const isForGood = failure === 'aborted' || failure === 'timed_out'
  return isForGood ? { kind: 'terminal', leaseId, state } : { kind: 'dropped', leaseId }
}

/** A ticket of which nothing is kept was dropped, or an operator took it out of the queue and only its id tells so. */
export function goneOutcome(prior: PriorEffect | null, leaseId: LeaseId): Dropped | Refusal {
  const wasEnded = prior?.type === 'lease.failed' && prior.leaseId === leaseId
  return wasEnded ? { kind: 'terminal', leaseId, state: 'failed' } : { kind: 'dropped', leaseId }
}

/** They were transferred a lease that they did not ask for, and would wait for themselves; the waiters behind them go on. */
export function deny(draft: Draft, tickets: readonly Ticket[], { blockers }: Held): void {
  const reason = `has lease ${blockers[0]?.leaseId ?? ''} by transfer`
  for (const ticket of tickets) fail(draft, ticket, 'denied', { reason })
  makeOffers(draft)
}

/** A holder transferred the resource to this waiter past the queue: it has what it waited for, and waits no more. */
function takeOver(draft: Draft, ticket: Ticket, transferred: Lease): Lease {
  fail(draft, ticket, 'aborted', { reason: `has lease ${transferred.id} by transfer` })
  const lease = adopt(draft, transferred, { session: ticket.session, requestId: ticket.id })
  makeOffers(draft)
  return lease
}
