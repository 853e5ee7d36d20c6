/**
 * The state of leases at a past instant, from the ledger alone. Wall times within a realm do not go back where ownership
 * changes, so the events up to an instant are those that had happened; a lease whose end had come but that no commit had
 * settled was over, unless something that happened to it later shows that it was held on.
 */
import type { LeaseEvent } from '../core/event.ts'
import { describeEntry, type Entry, type LeaseInfo } from '../core/lease.ts'
import { US_PER_MS, type Now } from '../core/time.ts'
import { foldLedger } from './fold.ts'
import { HeldUntil, type KeptLeases } from './held-until.ts'

export interface ReplayOptions {
  /** The moment, in milliseconds since 1970 on the wall clock of the store. */
  readonly atMs: number
  /** What the store keeps now. Without it a lease whose renewals are not recorded may be told as over while it is held. */
  readonly kept?: KeptLeases
}

/** Every lease and ticket that had been heard of, as it stood, in order of id. */
export function replayLedger(
  events: Iterable<LeaseEvent>,
  { atMs, kept }: ReplayOptions,
): readonly LeaseInfo[] {
  const all = [...events]
  const until = new HeldUntil(all, kept)
  const past = all.filter((event) => event.atMs <= atMs)
  const entries = [...foldLedger(past).values()].toSorted((a, b) => (a.id < b.id ? -1 : 1))
  return entries.map((entry) => {
    const isUnclear = entry.kind === 'lease' && entry.expiresAtMs <= atMs
    const known = isUnclear ? until.extended(entry) : entry
    return describeEntry(known, instantOf(known, atMs))
  })
}

/** The instant on the clock of the entry: as far from its deadline as the wall time is from its expiry. */
function instantOf(entry: Entry, atMs: number): Now {
  const { domain, us } = entry.deadline
  const leftMs = entry.kind === 'lease' ? entry.expiresAtMs - atMs : 1
  const tick = { domain, us: us - leftMs * US_PER_MS }
  return { tick, wallMs: atMs, domainSinceUs: 0, toleranceUs: 0 }
}
