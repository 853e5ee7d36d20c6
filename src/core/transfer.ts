/**
 * Decides a transfer: one commit ends the old lease and gives the resource to another, so no instant is unowned, and a
 * crash at any point leaves exactly one owner.
 *
 * A named receiver passes the queue by design; it gets a new id and a higher fence, the same mode, extent and TTL, and
 * the same end of `maxHoldMs`. `next` offers to the queue instead, and changes nothing if nobody there fits.
 */
import type { Transfer } from './command.ts'
import { isBlocked } from './conflict.ts'
import { Draft, eventCommon } from './draft.ts'
import { grant } from './grant.ts'
import { isHeld, isWaiting, type Claim, type Lease } from './lease.ts'
import { endedOutcome, type TransferOutcome } from './outcome.ts'
import { ownLease } from './own-lease.ts'
import type { Decision, RealmView } from './realm.ts'
import { makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'

export function decideTransfer(
  view: RealmView,
  command: Transfer,
  now: Now,
): Decision<TransferOutcome> {
  const draft = new Draft(view, now, command)
  const own = ownLease(view, { ...command, effect: 'lease.transferred' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  if (own.repeated) return draft.answer({ kind: 'transferred', lease: givenBefore(view, command) })
  const taken = view.entries.get(command.newLeaseId)
  if (command.to !== null && taken !== undefined) {
    return draft.answer({ kind: 'id_taken', leaseId: taken.id, resource: taken.resource })
  }
  settle(draft)
  const lease = draft.lease(own.lease.id)
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  if (command.to === null && !someoneFits(draft, lease)) {
    return draft.answer({ kind: 'nobody_waiting', leaseId: lease.id })
  }
  end(draft, lease, command)
  if (command.to !== null) {
    return draft.answer({ kind: 'transferred', lease: give(draft, lease, command, command.to) })
  }
  makeOffers(draft)
  return draft.answer({ kind: 'transferred', lease: null })
}

/** A repeat finds what the first one gave; null if it has gone to the queue, or is no more. */
function givenBefore(view: RealmView, command: Transfer): Lease | null {
  const given = view.entries.get(command.newLeaseId)
  return given?.kind === 'lease' ? given : null
}

function someoneFits(draft: Draft, lease: Lease): boolean {
  const others = [...draft.entries.values()].filter((entry) => entry.id !== lease.id)
  return others.some((entry) => {
    return (
      isWaiting(entry, draft.now) && entry.offer === null && !isBlocked(entry, others, draft.now)
    )
  })
}

function end(draft: Draft, lease: Lease, { to, requestId }: Transfer): void {
  const { renewals } = lease
  const reason = to === null ? 'transferred to the next in the queue' : `transferred to ${to}`
  const facts = { before: 'active', after: 'released', reason, requestId } as const
  draft.record({
    ...eventCommon(lease, draft.now, { ...facts, renewals }),
    type: 'lease.transferred',
    to,
  })
}

function give(draft: Draft, lease: Lease, command: Transfer, to: string): Lease {
  const claim: Claim = {
    ...lease,
    id: command.newLeaseId,
    holder: to,
    session: to,
    createdAtMs: draft.now.wallMs,
  }
  const { holdUntilUs } = lease
  const fence = draft.nextFence()
  return grant(draft, { claim, fence, before: null, holdUntilUs, adopted: false })
}
