/**
 * Decides a withdrawal: the waiter gives up. If its claim was answered after it stopped listening, the lease that
 * came of it is released at once, so that a timeout never leaves a grant behind.
 */
import { isOwn } from './adopt.ts'
import type { RefuseDeadlock, Withdraw } from './command.ts'
import { Draft, eventCommon } from './draft.ts'
import { cycleText, isHeld, type LeaseId } from './lease.ts'
import type { Refusal, Withdrawn } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { fail, makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'

export function decideWithdraw(
  view: RealmView,
  command: Withdraw,
  now: Now,
): Decision<Withdrawn | Refusal> {
  const draft = new Draft(view, now, command)
  const known = view.entries.get(command.leaseId)
  if (known !== undefined && !isOwn(known, command)) {
    return draft.answer({ kind: 'not_holder', leaseId: known.id, holder: known.holder })
  }
  settle(draft)
  const entry = draft.entries.get(grantedId(view, command))
  if (entry?.kind === 'ticket' && entry.state === 'pending') {
    fail(draft, entry, command.why)
    makeOffers(draft)
  }
  if (entry === undefined || !isHeld(entry, now) || !isOwn(entry, command)) {
    return draft.answer({ kind: 'withdrawn', released: false })
  }
  draft.record({
    type: 'lease.released',
    ...eventCommon(entry, now, {
      before: 'active',
      after: 'released',
      renewals: entry.renewals,
      reason: command.why,
    }),
    releaseReason: 'aborted',
  })
  makeOffers(draft)
  return draft.answer({ kind: 'withdrawn', released: true })
}

/** The requester may have been given, under another id, a lease that was transferred to it. */
function grantedId({ prior }: RealmView, { leaseId }: Withdraw): LeaseId {
  return prior?.type === 'lease.adopted' ? prior.leaseId : leaseId
}

/**
 * Ends a ticket that can never be served, whichever waiter filed it. One that is no longer there, has been served, or was filed
 * anew since the search, is left alone, and the search must not speak of a cycle.
 */
export function decideRefuseDeadlock(
  view: RealmView,
  command: RefuseDeadlock,
  now: Now,
): Decision<Withdrawn | Refusal> {
  const draft = new Draft(view, now, command)
  settle(draft)
  const ticket = draft.entries.get(command.leaseId)
  const isPending = ticket?.kind === 'ticket' && ticket.state === 'pending' && ticket.offer === null
  if (!isPending || ticket.orderUs !== command.orderUs) {
    return draft.answer({ kind: 'not_found', leaseId: command.leaseId })
  }
  const { cycle } = command
  fail(draft, ticket, 'deadlock', { reason: cycleText(cycle), cycle })
  makeOffers(draft)
  return draft.answer({ kind: 'withdrawn', released: false })
}
