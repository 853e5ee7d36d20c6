/**
 * Decides a spending: all dimensions or none. It looks at its own entry and nothing else, as a renewal does, so that
 * spenders of different leases never wait for each other.
 */
import { shortageOf } from './budget.ts'
import type { Spend } from './command.ts'
import { delegationOf } from './delegation.ts'
import { Draft, ownLease } from './draft.ts'
import { isHeld } from './lease.ts'
import { endedOutcome, type SpendOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import type { Now } from './time.ts'

export function decideSpend(view: RealmView, command: Spend, now: Now): Decision<SpendOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, holder, amounts, requestId } = command
  const own = ownLease(view, { leaseId, holder, effect: 'lease.accounted' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  const { lease } = own
  // Before the look at its end: what the request has spent stays spent, and its repeat must hear of it.
  if (own.repeated) return draft.answer({ kind: 'spent', lease })
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  const { limits, used } = delegationOf(lease)
  const shortage = shortageOf(limits, used, amounts)
  if (shortage !== null) return draft.answer({ kind: 'budget_exhausted', leaseId, ...shortage })
  draft.account(lease, { kind: 'spent', amounts }, requestId)
  return draft.answer({ kind: 'spent', lease: draft.lease(leaseId) })
}
