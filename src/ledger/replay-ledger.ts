/**
 * The state of leases at a past instant, from the ledger alone. Wall times within a realm do not go back where ownership
 * changes, so the events up to an instant are those that had happened; a lease whose end had come but that nobody had
 * settled was over.
 */
import type { LeaseEvent } from '../core/event.ts'
import { describeEntry, type Entry, type LeaseInfo } from '../core/lease.ts'
import { US_PER_MS, type Now } from '../core/time.ts'
import { foldLedger } from './fold.ts'

export interface ReplayOptions {
  readonly atMs: number
}

/** Every lease and ticket that had been heard of, as it stood, in order of id. */
export function replayLedger(
  events: Iterable<LeaseEvent>,
  { atMs }: ReplayOptions,
): readonly LeaseInfo[] {
  const past: LeaseEvent[] = []
  for (const event of events) if (event.atMs <= atMs) past.push(event)
  const entries = [...foldLedger(past).values()].toSorted((a, b) => (a.id < b.id ? -1 : 1))
  return entries.map((entry) => describeEntry(entry, instantOf(entry, atMs)))
}

/** The instant on the clock of the entry: as far from its deadline as the wall time is from its expiry. */
function instantOf(entry: Entry, atMs: number): Now {
  const { domain, us } = entry.deadline
  const leftMs = entry.kind === 'lease' ? entry.expiresAtMs - atMs : 1
  const tick = { domain, us: us - leftMs * US_PER_MS }
  return { tick, wallMs: atMs, domainSinceUs: 0, toleranceUs: 0 }
}
