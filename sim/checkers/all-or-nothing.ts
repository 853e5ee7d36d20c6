/**
 * Several resources at once, or none of them: what was asked for together is granted in one commit, all of it; and as
 * soon as one of them is in line, so are the others. No request ever holds a part. A lease that was transferred to the requester is
 * taken over together with the rest, under an id of its own.
 */
import type { LeaseEvent } from '../../src/core/event.ts'
import type { LeaseId } from '../../src/core/lease.ts'
import { seconds, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { groupsOf, type Groups } from './groups.ts'
import { atEachStep, type Step } from './ledger-walk.ts'

export const allOrNothing: Checker = {
  promise: 'I1',
  name: 'all or nothing',
  check: (evidence: Evidence) => {
    const groups = groupsOf(evidence)
    if (groups.members.size === 0) return []
    return atEachStep(evidence.ledger, (step) => partsAt(step, groups))
  },
}

function partsAt(step: Step, { of, members }: Groups): readonly Complaint[] {
  const seen = new Set<string>()
  return step.events.flatMap(({ event }) => {
    const isIssued = isGiven(event)
    const group = of.get(isIssued ? askedAs(event) : event.leaseId)
    if (group === undefined || seen.has(group) || !(isIssued || event.type === 'lease.queued')) {
      return []
    }
    seen.add(group)
    const all = members.get(group) ?? []
    const count = all.filter((id) => {
      const isNow = step.events.some((other) => isGiven(other.event) && askedAs(other.event) === id)
      return isIssued ? isNow : step.live.get(id)?.state === 'pending'
    }).length
    if (count === all.length) return []
    const how = isIssued ? 'were granted' : 'are in line'
    return [`${count} of ${all.length} that belong together ${how} at ${seconds(step.atUs)}`]
  })
}

function isGiven({ type, requestId }: LeaseEvent): boolean {
  return type === 'lease.issued' || (type === 'lease.adopted' && requestId !== null)
}

/** The id under which it was asked for. */
function askedAs({ type, leaseId, requestId }: LeaseEvent): LeaseId {
  return type === 'lease.adopted' ? (requestId ?? leaseId) : leaseId
}
