/**
 * I3: a lease that was neither released, transferred nor revoked is not granted to another holder before its TTL has
 * passed since the last grant or renewal that the store acknowledged. When that is, is computed from the request's TTL
 * and the moment of the commit, not taken from the ledger.
 *
 * When the store's host reboots, all its processes are dead and their leases end. When the store merely finds
 * itself on another clock, the full TTL still has to pass.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import {
  areAncestorAndDescendant,
  clockChanged,
  seconds,
  short,
  type Checker,
  type Complaint,
  type Evidence,
} from '../evidence.ts'
import { lastTerm, phaseAt, type LeaseLife } from '../lease-life.ts'
import { clash } from './reach.ts'

/** Ticks grow by at least one with every decision, so the store's clock may be this far ahead of true time. */
const CLOCK_SLACK_US = 50

export const neverEarly: Checker = {
  promise: 'I3',
  name: 'never early',
  check: (evidence) => [...givenAway(evidence), ...endedByStrangers(evidence)],
}

function givenAway(evidence: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  evidence.lives.forEach((life, index) => {
    const { lease, issued } = life
    for (const before of evidence.lives.slice(0, index)) {
      const { dueUs } = lastTerm(before)
      if (issued.atUs + CLOCK_SLACK_US >= dueUs) continue
      const earlier = { ...before.lease, mode: phaseAt(before, issued.commit).mode }
      if (!clash(earlier, lease) || isExempt(before, life, evidence)) continue
      if (areAncestorAndDescendant(evidence.parents, before.lease.id, lease.id)) continue
      complaints.push(
        `${lease.resource} was given to ${lease.holder} at ${seconds(issued.atUs)}; the lease of ` +
          `${before.lease.holder} (${short(before.lease.id)}) ran until ${seconds(dueUs)}`,
      )
    }
  })
  return complaints
}

function isExempt({ issued, end }: LeaseLife, later: LeaseLife, evidence: Evidence): boolean {
  if (end !== null && end.event.type !== 'lease.expired' && end.commit <= later.issued.commit) {
    return true
  }
  return evidence.clockChanges.some(
    ({ atUs, why }) => why === 'store_reboot' && atUs >= issued.atUs && atUs <= later.issued.atUs,
  )
}

/** A lease ends as released only because its own session asked for it, and never expires before its time. */
function endedByStrangers(evidence: Evidence): readonly Complaint[] {
  const asked = new Set<string>()
  const complaints: Complaint[] = []
  for (const entry of evidence.log) {
    if (entry.kind === 'asked' && GIVING_UP.has(entry.method)) {
      asked.add(`${entry.session} ${entry.leaseId}`)
    }
  }
  for (const life of evidence.lives) {
    const { lease, end, sessions, askedAs } = life
    const isOwn = sessions.some((who) => askedAs.some((id) => asked.has(`${who} ${id}`)))
    const isGivenUp =
      end?.event.type === 'lease.released' || end?.event.type === 'lease.transferred'
    if (end !== null && isGivenUp && !isOwn) {
      complaints.push(endedEarly(lease.id, lease.holder, end.atUs, 'was released by a stranger'))
    }
    if (end?.event.type !== 'lease.expired') continue
    if (clockChanged(evidence, { fromUs: life.issued.atUs, toUs: end.atUs })) continue
    if (end.atUs + CLOCK_SLACK_US < lastTerm(life).dueUs) {
      complaints.push(endedEarly(lease.id, lease.holder, end.atUs, 'expired before its time'))
    }
  }
  return complaints
}

const GIVING_UP: ReadonlySet<string> = new Set(['release', 'withdraw', 'transfer'])

function endedEarly(leaseId: LeaseId, holder: string, atUs: number, how: string): Complaint {
  return `the lease of ${holder} (${short(leaseId)}) ${how} at ${seconds(atUs)}`
}
