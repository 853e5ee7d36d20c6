/**
 * Decides whether a trespass is written down: a write of another than the holder to what a live lease covers. It changes
 * nothing but the ledger and looks at its own entry alone, so that it delays no other command. A lease that has ended meanwhile
 * cannot be written through, and what it does not cover was not its own.
 */
import type { Trespass } from './command.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import { isHeld } from './lease.ts'
import { endedOutcome, type TrespassOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { overlap } from './resource.ts'
import type { Now } from './time.ts'

export function decideTrespass(
  view: RealmView,
  command: Trespass,
  now: Now,
): Decision<TrespassOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, by, target, reason, requestId } = command
  const own = ownLease(view, { leaseId, holder: null, effect: 'lease.trespassed' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  const { lease } = own
  if (own.repeated) return draft.answer({ kind: 'trespassed', lease })
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  const isCovered = overlap(lease, { resource: target, extent: 'exact' })
  if (!isCovered || lease.holder === by) return draft.answer({ kind: 'not_found', leaseId })
  const facts = { before: 'active', after: 'active', renewals: lease.renewals } as const
  const common = eventCommon(lease, now, { ...facts, reason, requestId })
  draft.record({ type: 'lease.trespassed', ...common, by, target })
  return draft.answer({ kind: 'trespassed', lease })
}
