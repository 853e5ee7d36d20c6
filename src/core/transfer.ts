/**
 * Decides a transfer: one commit ends the old lease and gives the resource to another, so no instant is unowned, and a
 * crash at any point leaves exactly one owner.
 *
 * A named receiver passes the queue by design; it gets a new id and a higher fence, the same mode, extent and TTL, and
 * the same end of `maxHoldMs`. `next` offers to the queue instead, and changes nothing if no ticket there fits.
 */
import type { Transfer } from './command.ts'
import { isBlocked } from './conflict.ts'
import { inheritedDelegation, parentOf } from './delegation.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import { grant } from './acquire.ts'
import { isHeld, isWaiting, type Claim, type Lease } from './lease.ts'
import { endedOutcome, type TransferOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'

export function decideTransfer(
  view: RealmView,
  command: Transfer,
  now: Now,
): Decision<TransferOutcome> {
  const draft = new Draft(view, now, command)
  const { prior } = view
  // Before the look at the lease: where no history is kept, the request is all that is left of what it ended.
  if (prior?.type === 'lease.transferred' && prior.leaseId === command.leaseId) {
    return draft.answer({ kind: 'transferred', lease: transferredBefore(view, command) })
  }
  const own = ownLease(view, { ...command, effect: 'lease.transferred' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  // The view is about another resource, and so are its fences.
  if (own.lease.resource !== command.resource) {
    return draft.answer({ kind: 'not_found', leaseId: own.lease.id })
  }
  const taken = view.entries.get(command.newLeaseId)
  if (command.to !== null && taken !== undefined) {
    return draft.answer({ kind: 'id_taken', leaseId: taken.id, resource: taken.resource })
  }
  if (parentOf(own.lease) !== null) {
    const problem = 'a derived lease cannot be transferred; its parent can derive another'
    return draft.answer({ kind: 'invalid_derivation', leaseId: own.lease.id, problem })
  }
  settle(draft)
  const lease = draft.lease(own.lease.id)
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  if (command.to === null && !someoneFits(draft, lease)) {
    return draft.answer({ kind: 'nobody_waiting', leaseId: lease.id })
  }
  end(draft, lease, command)
  if (command.to !== null) {
    const received = give(draft, lease, command, command.to)
    makeOffers(draft)
    wakeReceiver(draft, received)
    return draft.answer({ kind: 'transferred', lease: received })
  }
  makeOffers(draft)
  return draft.answer({ kind: 'transferred', lease: null })
}

/** A repeat finds what the first one gave; null if it has gone to the queue, or is no more. */
function transferredBefore(view: RealmView, command: Transfer): Lease | null {
  const received = view.entries.get(command.newLeaseId)
  return received?.kind === 'lease' ? received : null
}

/**
 * Only a waiter that can be offered it in this very commit: one that must come and look for itself, because it waits for
 * several resources or reaches further than this command sees, may find that it cannot have it, and then none would.
 */
function someoneFits(draft: Draft, lease: Lease): boolean {
  const others = [...draft.entries.values()].filter((entry) => entry.id !== lease.id)
  return others.some((entry) => {
    if (!isWaiting(entry, draft.now) || entry.offer !== null || entry.group !== null) return false
    return draft.sees(entry) && !isBlocked(entry, others, draft.now)
  })
}

/** A receiver that waits for this very resource, alone or among others, is served; its own claim finds the lease. */
function wakeReceiver(draft: Draft, received: Lease): void {
  for (const entry of draft.entries.values()) {
    if (!isWaiting(entry, draft.now) || entry.holder !== received.holder) continue
    if (entry.resource === received.resource) draft.wake(entry)
  }
}

function end(draft: Draft, lease: Lease, { to, requestId }: Transfer): void {
  const { renewals } = lease
  const reason = to === null ? 'transferred to the next in the queue' : `transferred to ${to}`
  const facts = { before: 'active', after: 'released', reason, requestId } as const
  draft.record({
    type: 'lease.transferred',
    ...eventCommon(lease, draft.now, { ...facts, renewals }),
    to,
  })
}

function give(draft: Draft, lease: Lease, command: Transfer, to: string): Lease {
  // What was derived from the lease has ended with it, and has given back what it did not use.
  const { delegation: _delegation, under: _under, ...rest } = lease
  const delegation = inheritedDelegation(draft.lease(lease.id))
  const claim: Claim = {
    ...rest,
    ...(delegation === null ? {} : { delegation }),
    id: command.newLeaseId,
    holder: to,
    session: command.toSession ?? to,
    createdAtMs: draft.now.wallMs,
  }
  // A holder that was asked to finish cannot give away more than what it was left.
  const { revoking } = lease
  const holdUntilUs = revoking === null ? lease.holdUntilUs : lease.deadline.us
  const fence = draft.nextFence()
  const { epoch } = lease
  const inherited = { holdUntilUs, revoking, epoch }
  return grant(draft, { claim, fence, before: null, adopted: false, ...inherited })
}
