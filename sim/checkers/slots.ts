/**
 * A counted resource never has more leases than any of them shares with: not by the store's own clock, and not in the
 * views of their holders. Derived leases take the place of what they were derived from. With how many a lease shares
 * does not change while it lives, whatever becomes of its mode.
 */
import type { Lease } from '../../src/core/lease.ts'
import { hasPassed } from '../../src/core/time.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { justifiedViews } from './i1-exclusion.ts'
import { walk, type Step } from './ledger-walk.ts'
import { placesOf } from './obstacles.ts'

export const slotsNeverExceeded: Checker = {
  promise: 'I1',
  name: 'slots never exceeded',
  check: (evidence) => [...inLedger(evidence), ...inBelief(evidence), ...forgotten(evidence)],
}

function inLedger({ ledger, parents }: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  for (const step of walk(ledger)) {
    for (const { event } of step.events) {
      if (event.type !== 'lease.issued' || event.lease.slots === null) continue
      const { resource } = event.lease
      const there = runningAt(event.lease, step).filter(({ id }) => !parents.has(id))
      const slots = Math.min(...there.map(placesOf))
      if (there.length <= slots) continue
      complaints.push(
        `${resource} has ${there.length} leases in ${slots} slots at ${seconds(step.atUs)}`,
      )
    }
  }
  return complaints
}

function runningAt({ resource }: Lease, { live, tick }: Step): readonly Lease[] {
  return [...live.values()].filter((entry): entry is Lease => {
    if (entry.kind !== 'lease' || entry.state !== 'active') return false
    return entry.resource === resource && !hasPassed(entry.deadline, tick)
  })
}

function inBelief(evidence: Evidence): readonly Complaint[] {
  const counted = justifiedViews(evidence).filter((view) => view.slots !== null)
  return counted.flatMap(({ resource, fromUs }) => {
    const holders = counted.filter((other) => {
      return other.resource === resource && other.fromUs <= fromUs && other.untilUs > fromUs
    })
    const count = new Set(holders.map((other) => other.leaseId)).size
    const slots = Math.min(...holders.map(placesOf))
    if (count <= slots) return []
    return [`${count} held one of the ${slots} slots of ${resource} at ${seconds(fromUs)}`]
  })
}

function forgotten({ lives, handles }: Evidence): readonly Complaint[] {
  const slots = new Map(lives.map(({ lease }) => [lease.id, lease.slots]))
  return handles.flatMap(({ looks }) => {
    const odd = looks.find(
      (look) => slots.has(look.leaseId) && slots.get(look.leaseId) !== look.slots,
    )
    if (odd === undefined) return []
    const { resource, leaseId, atUs } = odd
    const told = `${slots.get(leaseId) ?? 'no'} slots of ${resource}, then ${odd.slots ?? 'none'}`
    return [`${short(leaseId)} was given in ${told} at ${seconds(atUs)}`]
  })
}
