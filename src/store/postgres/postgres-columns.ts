/**
 * Records as rows of `tenure.live_leases` and `tenure.ledger`, and back. Rows go to the server and come from it as JSON
 * objects with the names of the columns.
 *
 * All ticks are of one clock, the server's, so a row holds microseconds. A tick of another clock came with an import; its
 * clock is named in the body.
 */
import type { LeaseEventType } from '../../core/event.ts'
import { endedAtMs, type Entry, type EntryState } from '../../core/lease.ts'
import {
  decodeEntry,
  decodeEvent,
  encodeEntry,
  encodeEvent,
  type EntryRecord,
  type EventRecord,
  type RecordBody,
  type RecordedEvent,
} from '../../core/record.ts'
import type { VersionedEntry } from '../optimistic/backend.ts'

/** There is one clock, whatever server has the data, so there is one domain and it never changes. */
export const CLOCK_DOMAIN = 'postgres#1'

export const NOW_US = '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint'

/** The key fields of a record have the names of their columns. */
export interface LiveRow extends Omit<EntryRecord, 'liveUntil'> {
  readonly version: number
  readonly claim: number
  readonly live_until_us: number
  /** The wall time of the last renewal: renewals leave no trace in their realm. */
  readonly renewed_at: number | null
}

export const LIVE_COLUMNS =
  'id, resource, holder, session, state, extent, fence, version, claim, live_until_us, renewed_at, body'

export function liveRow({ entry, version, claim }: VersionedEntry): LiveRow {
  const { liveUntil, body, ...keys } = encodeEntry(entry, CLOCK_DOMAIN, true)
  if (liveUntil === null)
    throw new Error(`entry ${keys.id} has ended, and is no part of what is live`)
  const renewed_at = entry.kind === 'lease' ? entry.renewedAtMs : null
  const told = liveUntil.domain === CLOCK_DOMAIN ? body : { ...body, clock: liveUntil.domain }
  return { ...keys, version, claim, live_until_us: liveUntil.us, renewed_at, body: told }
}

export function keptOf({ version, claim, live_until_us: us, ...row }: LiveRow): VersionedEntry {
  const { clock = CLOCK_DOMAIN, ...body } = row.body as RecordBody & { readonly clock?: string }
  const record = { ...row, liveUntil: { domain: clock, us }, body }
  return { entry: decodeEntry(record, CLOCK_DOMAIN, true), version, claim }
}

/** The fence is that which the event gives, or that of the lease that it ended; 0 for none. */
export interface EventRow extends Pick<EventRecord, 'resource' | 'holder' | 'session' | 'fence'> {
  readonly seq: number
  readonly lease_id: string
  readonly type: string
  readonly at_ms: number
  readonly request_id: string | null
  /** The state in which the event left its entry, if it ended it, and when that was. */
  readonly ended: EntryState | null
  readonly ended_at: number | null
  /** Of the entry that it ended. */
  readonly version: number | null
  readonly data: RecordBody
}

export const EVENT_COLUMNS =
  'seq, lease_id, type, at_ms, request_id, fence, resource, holder, session, ended, ended_at, version, data'

/**
 * Stands for the id of the lease itself in `request_id`: an acquire is known by the id of its lease, which the row has
 * already, and no index need have it twice.
 */
export const OWN_ID = '00000000-0000-0000-0000-000000000000'

/** `version` is that of the entry which the event ended. */
export function eventRow(recorded: RecordedEvent, version: number | null): Omit<EventRow, 'seq'> {
  const { ended } = recorded
  const record = encodeEvent(recorded, CLOCK_DOMAIN, true)
  const { requestId, leaseId, type, atMs, body, ...same } = record
  return {
    ...same,
    lease_id: leaseId,
    type: wordOf(type),
    at_ms: atMs,
    request_id: requestId === leaseId ? OWN_ID : requestId,
    ended: ended?.state ?? null,
    ended_at: ended === null ? null : endedAtMs(ended),
    version: ended === null ? null : version,
    data: body,
  }
}

export function recordedOf(row: EventRow): RecordedEvent {
  const { lease_id: leaseId, request_id, at_ms: atMs, data: body } = row
  const { resource, holder, session, fence } = row
  const requestId = request_id === OWN_ID ? leaseId : request_id
  const keys = { leaseId, resource, holder, session, type: typeOf(row.type), atMs, requestId }
  return decodeEvent({ ...keys, fence, body }, CLOCK_DOMAIN, true)
}

/** What has ended claims nothing; its version stands for both numbers. */
export function endedKept(row: EventRow): VersionedEntry {
  const { version } = row
  return { entry: endedEntry(row), version: version ?? 0, claim: version ?? 0 }
}

export function endedEntry(row: EventRow): Entry {
  const { ended } = recordedOf(row)
  if (ended === null) throw new Error(`event ${row.seq} did not end ${row.lease_id}`)
  return ended
}

const PREFIX = 'lease.'

/** The type of an event without its prefix. */
export function wordOf(type: LeaseEventType): string {
  return type.slice(PREFIX.length)
}

export function typeOf(word: string): LeaseEventType {
  return `${PREFIX}${word}` as LeaseEventType
}
