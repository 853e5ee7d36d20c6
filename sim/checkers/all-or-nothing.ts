/**
 * Several resources at once, or none of them: what was asked for together is granted in one commit, all of it; and as
 * soon as one of them is in line, so are the others. Nobody ever holds a part.
 */
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
    const group = of.get(event.leaseId)
    const isIssued = event.type === 'lease.issued'
    if (group === undefined || seen.has(group) || !(isIssued || event.type === 'lease.queued')) {
      return []
    }
    seen.add(group)
    const all = members.get(group) ?? []
    const count = all.filter((id) => {
      const isNow = step.events.some((other) => {
        return other.event.type === 'lease.issued' && other.event.leaseId === id
      })
      return isIssued ? isNow : step.live.get(id)?.state === 'pending'
    }).length
    if (count === all.length) return []
    const how = isIssued ? 'were granted' : 'are in line'
    return [`${count} of ${all.length} that belong together ${how} at ${seconds(step.atUs)}`]
  })
}
