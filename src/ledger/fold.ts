/**
 * Folds a ledger into the entries that it tells of, and compares them with those that a store keeps. Both come from
 * the core's `evolve`, so a difference means that an event was lost, repeated, reordered or changed.
 *
 * What the ledger does not tell is not compared: when a waiter was last heard of, and, for leases whose renewals are
 * not recorded, what a renewal changes. Nor is `changedAtMs`, which leases that an earlier version changed do not have. Leases that retention has removed are in neither.
 */
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import type { Entry, Lease, LeaseId, Ticket } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import { canonicalJson } from '../core/canonical-json.ts'

/** Throws when an event does not follow from the ones before it. */
export function foldLedger(events: Iterable<LeaseEvent>): ReadonlyMap<LeaseId, Entry> {
  const entries = new Map<LeaseId, Entry>()
  for (const event of events) {
    entries.set(event.leaseId, evolveEntry(entries.get(event.leaseId), event))
  }
  return entries
}

/** An entry on which ledger and store do not agree, as canonical JSON; null where there is none. */
export interface Difference {
  readonly leaseId: LeaseId
  readonly folded: string | null
  readonly kept: string | null
}

export interface DifferenceOptions {
  /** Whether the renewals of a resource are in the ledger; by default all are. */
  readonly recordsRenewals?: (resource: Resource) => boolean
}

/** All entries on which the two do not agree, in order of id; none when the ledger tells the whole state. */
export function differences(
  folded: ReadonlyMap<LeaseId, Entry>,
  kept: ReadonlyMap<LeaseId, Entry>,
  { recordsRenewals = () => true }: DifferenceOptions = {},
): readonly Difference[] {
  const told = (entry: Entry | undefined): object | null => {
    return entry === undefined ? null : toldPart(entry, recordsRenewals)
  }
  const ids = [...new Set([...folded.keys(), ...kept.keys()])].toSorted()
  return ids.flatMap((leaseId) => {
    const [one, other] = [told(folded.get(leaseId)), told(kept.get(leaseId))]
    // Almost all are equal, and were put together in the same order: no keys have to be sorted to see it.
    if (JSON.stringify(one) === JSON.stringify(other)) return []
    const difference = { leaseId, folded: textOf(one), kept: textOf(other) }
    return difference.folded === difference.kept ? [] : [difference]
  })
}

function textOf(told: object | null): string | null {
  return told === null ? null : canonicalJson(told)
}

type ByRenewal = 'deadline' | 'expiresAtMs' | 'renewedAtMs' | 'renewals' | 'ttlMs'

function toldPart(
  entry: Entry,
  recordsRenewals: (resource: Resource) => boolean,
): Omit<Ticket, 'deadline' | 'under' | 'behindOwn'> | Omit<Lease, 'changedAtMs' | ByRenewal> {
  if (entry.kind === 'ticket') {
    const { deadline: _deadline, under: _under, behindOwn: _behindOwn, ...told } = entry
    return told
  }
  const { changedAtMs: _changedAtMs, ...lease } = entry
  if (recordsRenewals(entry.resource)) return lease
  const {
    deadline: _deadline,
    expiresAtMs: _expiresAtMs,
    renewedAtMs: _renewedAtMs,
    ...rest
  } = lease
  const { renewals: _renewals, ttlMs: _ttlMs, ...told } = rest
  return told
}
