/** What the service answers with: outcomes of the core, with their leases as the world is told about them. */
import { blockersOf, compareTickets } from '../core/conflict.ts'
import { describeEntry, isHeld, isWaiting, type Entry } from '../core/lease.ts'
import type { Granted, ReleaseOutcome } from '../core/outcome.ts'
import type { Reach } from '../core/resource.ts'
import type { Now } from '../core/time.ts'
import { probeClaim } from './commands.ts'
import type { AcquireAnswer, Inspection, ReleaseAnswer } from './lease-api.ts'

export function grantedAnswer(granted: Granted, now: Now): AcquireAnswer {
  const { kind, lease, repeated } = granted
  return { kind, lease: describeEntry(lease, now), repeated }
}

export function releaseAnswer(outcome: ReleaseOutcome, now: Now): ReleaseAnswer {
  if (outcome.kind !== 'released') return outcome
  return { kind: 'released', lease: describeEntry(outcome.lease, now) }
}

export function inspectionOf(
  { resource, extent }: Reach,
  entries: readonly Entry[],
  now: Now,
): Omit<Inspection, 'cycles'> {
  const leases = entries.filter((entry) => isHeld(entry, now)).sort((a, b) => a.fence - b.fence)
  const queue = entries.filter((entry) => isWaiting(entry, now)).sort(compareTickets)
  const probe = { ...probeClaim(resource), extent }
  return {
    resource,
    leases: leases.map((lease) => describeEntry(lease, now)),
    queue: queue.map((ticket) => describeEntry(ticket, now)),
    blockers: blockersOf(probe, [...leases, ...queue, ...lockDelays(entries)], now),
  }
}

function lockDelays(entries: readonly Entry[]): readonly Entry[] {
  return entries.filter((entry) => entry.kind === 'lease' && entry.lockedUntil !== null)
}
