/**
 * Plain attempts as rows, for the server to carry out many with one statement per table.
 */
import type { LeaseEvent } from '../../core/event.ts'
import type { Entry } from '../../core/lease.ts'
import { isTree } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import type { Attempt, EntryWrite, Kept, Place } from '../speculation/backend.ts'
import { eventRow, type EventRow } from './postgres-events.ts'
import { TAKES_EXPIRY, TAKES_RELEASE_REASON, TAKES_TERM } from './postgres-plain-functions.ts'
import { recordsText, recordText, type RecordValue } from './postgres-records.ts'
import { rowOf, type LeaseRow } from './postgres-rows.ts'

/**
 * Plain attempts are carried out before the others of their call. No realm can tell, but the ledger as a whole shows it,
 * so it is done only where it saves much.
 */
const MIXED_MIN = 8

export interface PlainAttempt {
  readonly attempt: Attempt
  readonly place: Place
  readonly write: EntryWrite & { readonly after: Kept }
  /** What the event has in common with the entry that it leaves. */
  readonly takes: number
}

export interface Division {
  /** Index by index of the group. */
  readonly plain: ReadonlyMap<number, PlainAttempt>
  readonly others: readonly Attempt[]
}

/** Attempts of one group depend on each other only through realms that several of them change. */
export function divide(attempts: readonly Attempt[]): Division {
  const plain = new Map<number, PlainAttempt>()
  const others: Attempt[] = []
  const isShared = sharedNames(attempts)
  for (const [index, attempt] of attempts.entries()) {
    const found = isShared(attempt) ? null : plainOf(attempt)
    if (found === null) others.push(attempt)
    else plain.set(index, found)
  }
  const isMixed = plain.size > 0 && others.length > 0
  return isMixed && plain.size < MIXED_MIN
    ? { plain: new Map(), others: attempts }
    : { plain, others }
}

/** Whether an attempt names a realm to change, or an entry, that another one names too. */
function sharedNames(attempts: readonly Attempt[]): (attempt: Attempt) => boolean {
  const counts = new Map<string, number>()
  const namesOf = ({ places, writes }: Attempt): ReadonlySet<string> => {
    const realms = places.filter(({ claims }) => claims !== null).map(({ realm }) => realm)
    return new Set([...realms, ...writes.map(({ id }) => id)])
  }
  for (const attempt of attempts) {
    for (const name of namesOf(attempt)) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return (attempt) => [...namesOf(attempt)].some((name) => (counts.get(name) ?? 0) > 1)
}

/** One place, one entry that is its own and stays, at most one event of it, and nothing else. */
function plainOf(attempt: Attempt): PlainAttempt | null {
  const { places, writes, events, requests, epochs, wakes } = attempt
  const [[place], [write], [event]] = [places, writes, events]
  if (places.length !== 1 || writes.length !== 1 || events.length > 1) return null
  if (requests.length + epochs.length + wakes.length > 0) return null
  if (place === undefined || write === undefined || write.after === null) return null
  const { entry } = write.after
  if (write.id !== place.footprint.leaseId || place.own !== (write.before?.version ?? 0))
    return null
  if (entry.resource !== place.footprint.resource || place.epoch !== 0) return null
  if (place.claims !== null && !claimsOnlyItself(place, write)) return null
  const takes = event === undefined ? 0 : takesOf(event, entry)
  if (takes === null) return null
  return { attempt, place, write: { ...write, after: write.after }, takes }
}

/** Null for an event that tells of more, or of something else, than the entry as it is now. */
function takesOf(event: LeaseEvent, entry: Entry): number | null {
  const { leaseId, resource, holder, session } = event
  if (leaseId !== entry.id || resource !== entry.resource) return null
  if (holder !== entry.holder || session !== entry.session || entry.kind !== 'lease') return null
  if (event.type === 'lease.issued') return isSameTerm(event.lease, entry) ? TAKES_TERM : null
  if (event.type === 'lease.renewed') {
    const isSame = isSameTerm(event, entry) && event.expiresAtMs === entry.expiresAtMs
    return isSame ? TAKES_TERM + TAKES_EXPIRY : null
  }
  const isRelease = event.type === 'lease.released' && event.releaseReason === entry.releaseReason
  return isRelease ? TAKES_RELEASE_REASON : null
}

function isSameTerm(a: Term, b: Term): boolean {
  return a.ttlMs === b.ttlMs && a.deadline.us === b.deadline.us
}

interface Term {
  readonly ttlMs: number
  readonly deadline: Tick
}

function claimsOnlyItself({ claims, footprint }: Place, { before }: EntryWrite): boolean {
  if (claims === null || isTree(footprint.resource)) return false
  return claims.every(({ id, claim }) => id === footprint.leaseId && claim === before?.claim)
}

/** In the order of `PLAIN_COLUMNS`. */
type Column = (row: {
  readonly plain: PlainAttempt
  readonly entry: LeaseRow
  readonly event: EventRow | null
}) => RecordValue

const COLUMNS: readonly Column[] = [
  ({ plain }) => plain.place.realm,
  ({ entry }) => entry.resource,
  ({ entry }) => entry.id,
  ({ plain }) => plain.place.own,
  ({ plain }) => plain.place.claims !== null,
  ({ plain }) => plain.place.footprint.requestId,
  ({ plain }) => plain.place.hasPrior,
  ({ plain }) => plain.attempt.fromUs,
  ({ plain }) => Math.min(plain.attempt.beforeUs, Number.MAX_SAFE_INTEGER),
  ({ plain }) => plain.attempt.wallMs,
  ({ plain }) => plain.attempt.fences?.first ?? null,
  ({ entry }) => entry.holder,
  ({ entry }) => entry.session,
  ({ entry }) => entry.state,
  ({ entry }) => entry.mode,
  ({ entry }) => entry.extent,
  ({ entry }) => entry.fence,
  ({ entry }) => entry.ttl_ms,
  ({ entry }) => entry.created_at,
  ({ entry }) => entry.granted_at,
  ({ entry }) => entry.renewed_at,
  ({ entry }) => entry.expires_at,
  ({ entry }) => entry.terminated_at,
  ({ entry }) => entry.ended_at,
  ({ entry }) => entry.renewals,
  ({ entry }) => entry.max_renewals,
  ({ entry }) => entry.release_reason,
  ({ entry }) => entry.reason,
  ({ entry }) => entry.deadline_us,
  ({ entry }) => entry.live_until_us,
  ({ entry }) => entry.version,
  ({ entry }) => entry.claim,
  ({ entry }) => (entry.detail === null ? null : JSON.stringify(entry.detail)),
  ({ event }) => event?.type ?? null,
  ({ event }) => event?.at_ms ?? null,
  ({ event }) => event?.before ?? null,
  ({ event }) => event?.after ?? null,
  ({ event }) => event?.renewals ?? null,
  ({ event }) => event?.reason ?? null,
  ({ event }) => event?.request_id ?? null,
  ({ event }) => event?.fence ?? null,
  ({ plain }) => plain.takes,
  ({ event }) => (event === null || event.data === null ? null : JSON.stringify(event.data)),
]

function rowsOf(plain: PlainAttempt, domain: string): Parameters<Column>[0] {
  const [event] = plain.attempt.events
  const told = event === undefined ? null : eventRow(event, domain)
  return { plain, entry: rowOf(plain.write.after, domain), event: told }
}

/** One value per column. */
export function plainValues(plain: PlainAttempt, domain: string): readonly (string | null)[] {
  const row = rowsOf(plain, domain)
  return COLUMNS.map((column) => {
    const value = column(row)
    return value === null ? null : String(value)
  })
}

/** One array of rows. */
export function plainRows(attempts: Iterable<PlainAttempt>, domain: string): string {
  const rows: string[] = []
  for (const plain of attempts) {
    const row = rowsOf(plain, domain)
    rows.push(recordText(COLUMNS.map((column) => column(row))))
  }
  return recordsText(rows)
}
