/**
 * Decides an update of the holder's own words: `reason` and `metadata` as the blocked see them. It changes nothing else
 * and looks at its own entry alone, as a renewal does.
 *
 * The last words stay with the lease when it ends, as long as history is kept: the next holder of the resource can read
 * them there, and no other command pays for them.
 */
import type { Update } from './command.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import type { Note } from './input.ts'
import { isHeld, type Lease } from './lease.ts'
import { endedOutcome, type UpdateOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import type { Now } from './time.ts'

export function decideUpdate(view: RealmView, command: Update, now: Now): Decision<UpdateOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, holder, note, requestId } = command
  const own = ownLease(view, { leaseId, holder, effect: 'lease.updated' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  const { lease } = own
  if (own.repeated) return draft.answer({ kind: 'updated', lease })
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  recordNote(draft, lease, { note, requestId })
  return draft.answer({ kind: 'updated', lease: draft.lease(leaseId) })
}

export function recordNote(
  draft: Draft,
  lease: Lease,
  { note, requestId }: Pick<Update, 'note' | 'requestId'>,
): void {
  const { reason, metadata }: Note = note
  const facts = { before: 'active', after: 'active', renewals: lease.renewals } as const
  const common = eventCommon(lease, draft.now, { ...facts, reason, requestId })
  draft.record({ type: 'lease.updated', ...common, metadata })
}
