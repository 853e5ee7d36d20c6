/**
 * Plain attempts as rows, for the server to carry out many with one statement. There are two kinds: an entry that is new
 * where nobody else is, and one that is there already and changes. Whatever the server can tell from the entry itself,
 * or from what else is in the row, is not sent.
 */
import type { LeaseEvent } from '../../core/event.ts'
import { endedAtMs, liveDeadline, type Lease } from '../../core/lease.ts'
import { isTree } from '../../core/resource.ts'
import type { Attempt, EntryWrite, Kept, Place } from '../speculation/backend.ts'
import { issuedData, wordOf } from './postgres-events.ts'
import { TAKES_RELEASE_REASON, TAKES_TERM } from './postgres-plain-functions.ts'
import type { RecordValue } from './postgres-records.ts'
import { leaseDetail } from './postgres-rows.ts'

/**
 * Plain attempts are carried out before the others of their call. No realm can tell, but the ledger as a whole shows it,
 * so it is done only where it saves much.
 */
const MIXED_MIN = 8

type LeaseIssued = Extract<LeaseEvent, { type: 'lease.issued' }>

export interface NewEntry {
  readonly attempt: Attempt
  readonly place: Place
  readonly after: KeptLease
  readonly event: LeaseIssued
}

export interface ChangedEntry {
  readonly attempt: Attempt
  readonly place: Place
  readonly after: KeptLease
  readonly event: LeaseEvent | null
  /** What the event has in common with the entry that it leaves. */
  readonly takes: number
}

interface KeptLease extends Kept {
  readonly entry: Lease
}

export interface Division {
  /** Index by index of the group. */
  readonly fresh: ReadonlyMap<number, NewEntry>
  readonly changed: ReadonlyMap<number, ChangedEntry>
  readonly others: readonly Attempt[]
}

/** Attempts of one group depend on each other only through realms that several of them change. */
export function divide(attempts: readonly Attempt[]): Division {
  const fresh = new Map<number, NewEntry>()
  const changed = new Map<number, ChangedEntry>()
  const others: Attempt[] = []
  const isShared = sharedNames(attempts)
  for (const [index, attempt] of attempts.entries()) {
    const found = isShared(attempt) ? null : plainOf(attempt)
    if (found === null) others.push(attempt)
    else if ('takes' in found) changed.set(index, found)
    else fresh.set(index, found)
  }
  const isMixed = others.length > 0 && others.length < attempts.length
  return isMixed && fresh.size + changed.size < MIXED_MIN
    ? { fresh: new Map(), changed: new Map(), others: attempts }
    : { fresh, changed, others }
}

/** Whether an attempt names a realm to change, or an entry, that another one names too. */
function sharedNames(attempts: readonly Attempt[]): (attempt: Attempt) => boolean {
  if (attempts.length === 1) return () => false
  const counts = new Map<string, number>()
  const namesOf = ({ places, writes }: Attempt): ReadonlySet<string> => {
    const names = new Set<string>()
    for (const { claims, realm } of places) if (claims !== null) names.add(realm)
    for (const { id } of writes) names.add(id)
    return names
  }
  for (const attempt of attempts) {
    for (const name of namesOf(attempt)) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return (attempt) => {
    for (const name of namesOf(attempt)) if ((counts.get(name) ?? 0) > 1) return true
    return false
  }
}

/** One place, one lease that is its own and stays, at most one event of it, and nothing else. */
function plainOf(attempt: Attempt): NewEntry | ChangedEntry | null {
  const { places, writes, events, requests, epochs, wakes } = attempt
  const [[place], [write], [event = null]] = [places, writes, events]
  if (places.length !== 1 || writes.length !== 1 || events.length > 1) return null
  if (requests.length + epochs.length + wakes.length > 0) return null
  if (place === undefined || write === undefined || place.hasPrior || place.epoch !== 0) return null
  const { after, before } = write
  if (after === null || !isLease(after)) return null
  const { entry } = after
  if (write.id !== place.footprint.leaseId || place.own !== (before?.version ?? 0)) return null
  if (entry.resource !== place.footprint.resource) return null
  if (place.claims !== null && !claimsOnlyItself(place, write)) return null
  if (event !== null && !isAbout(event, entry, attempt.wallMs)) return null
  const common = { attempt, place, after, event }
  return before === null ? newOf({ ...common, event }) : changedOf(common, before)
}

function isLease(kept: Kept): kept is KeptLease {
  return kept.entry.kind === 'lease'
}

/** Null for a lease that does not begin with this, or whose event tells of something else. */
function newOf(
  found: Omit<NewEntry, 'event'> & { readonly event: LeaseEvent | null },
): NewEntry | null {
  const { attempt, place, after, event } = found
  const { entry, version, claim } = after
  const { wallMs, fences } = attempt
  if (place.claims === null || version !== claim || event?.type !== 'lease.issued') return null
  if (place.footprint.requestId === null) return null
  if (fences?.first !== entry.fence || fences.last !== entry.fence) return null
  if (entry.state !== 'active' || entry.renewals !== 0 || entry.renewedAtMs !== null) return null
  if (entry.createdAtMs !== wallMs || entry.grantedAtMs !== wallMs) return null
  const { lease, before, after: state, renewals } = event
  if (before !== null || state !== 'active' || renewals !== 0) return null
  if (lease.fence !== entry.fence || !isSameTerm(lease, entry)) return null
  return { attempt, place, after, event }
}

/** Null for a lease of which more changes than its term and its end, or whose event tells of something else. */
function changedOf(found: Omit<ChangedEntry, 'takes'>, before: Kept): ChangedEntry | null {
  const { attempt, place, after, event } = found
  const [was, is] = [before.entry, after.entry]
  if (was.kind !== 'lease' || attempt.fences !== null) return null
  if (after.version !== before.version + 1 || !hasSameNames(was, is)) return null
  if (event === null) return { ...found, takes: 0 }
  if (event.requestId !== place.footprint.requestId) return null
  if (event.before !== was.state || event.after !== is.state) return null
  const takes = event.renewals === is.renewals ? takesOf(event, is) : null
  return takes === null ? null : { ...found, takes }
}

function hasSameNames(a: Lease, b: Lease): boolean {
  if (a.resource !== b.resource || a.holder !== b.holder || a.session !== b.session) return false
  if (a.mode !== b.mode || a.extent !== b.extent || a.fence !== b.fence) return false
  if (a.createdAtMs !== b.createdAtMs || a.grantedAtMs !== b.grantedAtMs) return false
  return a.maxRenewals === b.maxRenewals && a.reason === b.reason
}

function isAbout(event: LeaseEvent, entry: Lease, wallMs: number): boolean {
  const { leaseId, resource, holder, session } = event
  if (leaseId !== entry.id || resource !== entry.resource || event.atMs !== wallMs) return false
  return holder === entry.holder && session === entry.session
}

/** Null for an event that tells of more, or of something else, than the entry as it is now. */
function takesOf(event: LeaseEvent, entry: Lease): number | null {
  if (event.type === 'lease.renewed') return isSameTerm(event, entry) ? TAKES_TERM : null
  const isRelease = event.type === 'lease.released' && event.releaseReason === entry.releaseReason
  return isRelease ? TAKES_RELEASE_REASON : null
}

type Term = Pick<Lease, 'ttlMs' | 'deadline' | 'expiresAtMs'>

function isSameTerm(a: Term, b: Term): boolean {
  if (a.ttlMs !== b.ttlMs || a.expiresAtMs !== b.expiresAtMs) return false
  return a.deadline.us === b.deadline.us && a.deadline.domain === b.deadline.domain
}

function claimsOnlyItself({ claims, footprint }: Place, { before }: EntryWrite): boolean {
  if (claims === null || isTree(footprint.resource)) return false
  return claims.every(({ id, claim }) => id === footprint.leaseId && claim === before?.claim)
}

type Row = readonly RecordValue[]

/** In the order of `NEW_COLUMNS`. */
export function newRow({ attempt, place, after, event }: NewEntry, domain: string): Row {
  const { entry, version } = after
  const { requestId } = place.footprint
  return [
    entry.resource,
    entry.id,
    requestId === entry.id ? null : requestId,
    attempt.fromUs,
    beforeUs(attempt),
    attempt.wallMs,
    entry.fence,
    entry.holder,
    entry.session,
    entry.mode,
    entry.extent,
    entry.ttlMs,
    entry.expiresAtMs,
    entry.deadline.us,
    version,
    entry.maxRenewals,
    entry.reason,
    json(leaseDetail(entry, domain)),
    event.reason,
    event.requestId,
    json(issuedData(event, domain)),
  ]
}

/** In the order of `CHANGE_COLUMNS`. */
export function changeRow(
  { attempt, place, after, event, takes }: ChangedEntry,
  domain: string,
): Row {
  const { entry, claim } = after
  return [
    place.realm === entry.resource ? null : place.realm,
    entry.resource,
    entry.id,
    place.own,
    place.claims !== null,
    place.footprint.requestId,
    attempt.fromUs,
    beforeUs(attempt),
    attempt.wallMs,
    entry.state,
    entry.ttlMs,
    entry.renewedAtMs,
    entry.expiresAtMs,
    entry.terminatedAtMs,
    endedAtMs(entry),
    entry.renewals,
    entry.releaseReason,
    entry.deadline.us,
    liveDeadline(entry)?.us ?? null,
    claim,
    json(leaseDetail(entry, domain)),
    event === null ? null : wordOf(event.type),
    event?.reason ?? null,
    takes,
  ]
}

function beforeUs(attempt: Attempt): number {
  return Math.min(attempt.beforeUs, Number.MAX_SAFE_INTEGER)
}

function json(value: object | null): RecordValue {
  return value === null ? null : JSON.stringify(value)
}
