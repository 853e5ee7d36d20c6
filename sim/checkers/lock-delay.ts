/**
 * After an end that the holder may not have noticed, an expiry or a revocation, no conflicting request is granted, nor is
 * offered anything, for as long as the lease said. When the delay began is computed here; a change of the deciding clock
 * is I3's business.
 */
import {
  clockChanged,
  seconds,
  short,
  type Checker,
  type Complaint,
  type Evidence,
} from '../evidence.ts'
import { lastTerm, phaseAt, type LeaseLife } from '../lease-life.ts'
import { atEachStep, type Step } from './ledger-walk.ts'
import { clash } from './reach.ts'

const CLOCK_SLACK_US = 50

export const lockDelayRespected: Checker = {
  promise: 'I3',
  name: 'lock delay respected',
  check: (evidence) => {
    const delayed = evidence.lives.filter((life) => life.lease.lockDelayMs > 0)
    if (delayed.length === 0) return []
    return atEachStep(evidence.ledger, (step) => {
      return delayed.flatMap((life) => comersWithin(life, step, evidence))
    })
  },
}

function comersWithin(life: LeaseLife, step: Step, evidence: Evidence): readonly Complaint[] {
  const { lease, end, issued } = life
  const sinceUs = beginning(life)
  const untilUs = sinceUs + lease.lockDelayMs * 1000
  const isEnded = end !== null && end.commit <= step.commit
  if (!isEnded || step.atUs + CLOCK_SLACK_US >= untilUs) return []
  if (clockChanged(evidence, { fromUs: issued.atUs, toUs: step.atUs })) return []
  const before = { ...lease, mode: phaseAt(life, step.commit).mode }
  return step.events.flatMap(({ event }) => {
    const comer = step.live.get(event.leaseId)
    const isLetIn = event.type === 'lease.issued' || event.type === 'lease.offered'
    if (!isLetIn || comer === undefined || !clash(before, comer)) return []
    return [
      `${event.type} of ${event.resource} to ${event.holder} at ${seconds(step.atUs)}; the lock ` +
        `delay of ${short(lease.id)} lasts until ${seconds(untilUs)}`,
    ]
  })
}

/** When an end that the holder may not have noticed was; never for one that it brought about itself. */
function beginning(life: LeaseLife): number {
  const { end } = life
  const { dueUs, isAsked } = lastTerm(life)
  if (end?.event.type === 'lease.expired') return dueUs
  if (end?.event.type !== 'lease.revoked') return -Infinity
  return isAsked ? Math.min(dueUs, end.atUs) : end.atUs
}
