/**
 * I3: a lease that its own holder did not give up and that nobody revoked is not given to another before its TTL has
 * passed since the last grant or renewal that the store acknowledged. Deadlines are computed here from the request's
 * TTL and the moment of the commit, not taken from the ledger.
 *
 * When the store's host reboots, all who ran on it are dead and nobody waits for them. When the store merely finds
 * itself on another clock, the full TTL still has to pass.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import {
  seconds,
  short,
  type Checker,
  type Complaint,
  type Evidence,
  type LeaseLife,
} from '../evidence.ts'

/** Ticks grow by at least one with every decision, so the store's clock may be this far ahead of true time. */
const CLOCK_SLACK_US = 50

export const neverEarly: Checker = {
  promise: 'I3',
  name: 'never early',
  check: (evidence) => [...givenAway(evidence), ...endedByStrangers(evidence)],
}

function givenAway(evidence: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  const previous = new Map<string, LeaseLife>()
  for (const life of evidence.lives) {
    const { lease, issued } = life
    const before = previous.get(lease.resource)
    previous.set(lease.resource, life)
    if (before === undefined || isExempt(before, issued.atUs, evidence)) continue
    const dueUs = dueAtUs(before)
    if (issued.atUs + CLOCK_SLACK_US >= dueUs) continue
    complaints.push(
      `${lease.resource} was given to ${lease.holder} at ${seconds(issued.atUs)}; the lease of ` +
        `${before.lease.holder} (${short(before.lease.id)}) ran until ${seconds(dueUs)}`,
    )
  }
  return complaints
}

function isExempt(life: LeaseLife, givenAtUs: number, { clockChanges }: Evidence): boolean {
  const type = life.end?.event.type
  if (type === 'lease.released' || type === 'lease.revoked') return true
  return clockChanges.some(
    ({ atUs, why }) => why === 'store_reboot' && atUs >= life.issued.atUs && atUs <= givenAtUs,
  )
}

/** When the time that was acknowledged last is over. */
function dueAtUs({ lease, issued, terms }: LeaseLife): number {
  const last = terms[terms.length - 1] ?? terms[0]
  const wishedUs = last.atUs + last.ttlMs * 1000
  if (lease.maxHoldMs === null) return wishedUs
  return Math.min(wishedUs, issued.atUs + lease.maxHoldMs * 1000)
}

/** A lease ends as released only because its own session asked for it, and never expires before its time. */
function endedByStrangers(evidence: Evidence): readonly Complaint[] {
  const asked = new Set<string>()
  const complaints: Complaint[] = []
  for (const entry of evidence.log) {
    if (entry.kind !== 'asked') continue
    if (entry.method === 'release' || entry.method === 'withdraw') {
      asked.add(`${entry.session} ${entry.leaseId}`)
    }
  }
  for (const life of evidence.lives) {
    const { lease, end } = life
    if (end?.event.type === 'lease.released' && !asked.has(`${lease.session} ${lease.id}`)) {
      complaints.push(endedEarly(lease.id, lease.holder, end.atUs, 'was released by a stranger'))
    }
    if (end?.event.type !== 'lease.expired' || clockChanged(life, end.atUs, evidence)) continue
    if (end.atUs + CLOCK_SLACK_US < dueAtUs(life)) {
      complaints.push(endedEarly(lease.id, lease.holder, end.atUs, 'expired before its time'))
    }
  }
  return complaints
}

function clockChanged(life: LeaseLife, untilUs: number, { clockChanges }: Evidence): boolean {
  return clockChanges.some(({ atUs }) => atUs >= life.issued.atUs && atUs <= untilUs)
}

function endedEarly(leaseId: LeaseId, holder: string, atUs: number, how: string): Complaint {
  return `the lease of ${holder} (${short(leaseId)}) ${how} at ${seconds(atUs)}`
}
