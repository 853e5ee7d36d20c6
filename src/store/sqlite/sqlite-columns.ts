/**
 * Entries as rows of `live_leases`, events as rows of `lease_history`, and back. Rows are arrays in the order of the column
 * lists here. And how ids, resources and positions are written in all tables: a resource as a person would write it, a `file:`
 * by its bare path, anything else as `kind:name`.
 */
import { eventWord, LEASE_EVENT_TYPES, type LeaseEventType } from '../../core/event.ts'
import { endedAtMs, liveDeadline, type Entry, type EntryState } from '../../core/lease.ts'
import {
  decodeEntry,
  decodeEvent,
  encodeEntry,
  encodeEvent,
  type RecordBody,
  type RecordedEvent,
} from '../../core/record.ts'
import type { Extent, Resource } from '../../core/resource.ts'
import type { SqliteRow, SqliteValue } from '../../drivers/sqlite-driver.ts'

/** How what a row holds is named outside of it. */
export interface RowNames {
  readonly namespace: string
  /** The number of the namespace, which is part of every position. */
  readonly namespaceNumber: number
  /** Clock domains by number: a row holds the number, an entry the name. */
  domainOf(generation: number): string
  generationOf(domain: string): number
}

export const DEFAULT_NAMESPACE = 'default'

/** Ids as they are kept: bare in the default namespace, so that a person can use them, marked in any other. */
export function keyOf(id: string, { namespace }: Pick<RowNames, 'namespace'>): string {
  return namespace === DEFAULT_NAMESPACE ? id : `${namespace}/${id}`
}

export function idOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/** Positions of one namespace are below it, and those of the next one above. */
export const POSITIONS_PER_NAMESPACE: number = 2 ** 40
export const NAMESPACES_MAX: number = 2 ** 13

/** The number of an event in the table, of all namespaces, from its number in its own. */
export function sequenceOf(number: number, { namespaceNumber }: RowNames): number {
  return namespaceNumber * POSITIONS_PER_NAMESPACE + number
}

export function numberOf(sequence: number): number {
  return sequence % POSITIONS_PER_NAMESPACE
}

/**
 * A number by which the events of a lease are found, made of the front of its id, which grows with time in those that
 * Tenure makes. Two leases may share one, so the id is compared as well.
 */
export function leaseNumberOf(id: string): number {
  const digits = id.slice(0, 8) + id.slice(9, 13) + id.slice(15, 16)
  const number = Number.parseInt(digits, 16)
  return Number.isNaN(number) ? 0 : number
}

const FILE_PREFIX = 'file:'

export function pathOf(resource: Resource): string {
  return resource.startsWith(FILE_PREFIX) ? resource.slice(FILE_PREFIX.length) : resource
}

export function resourceOf(path: string): Resource {
  return (path.startsWith('/') ? `${FILE_PREFIX}${path}` : path) as Resource
}

export const ENTRY_COLUMNS =
  'id, file_path, agent_id, session, status, extent, fence, clock, live_until_us, body'

export const INSERT_ENTRY: string = `INSERT INTO live_leases (${ENTRY_COLUMNS}, due_us, namespace)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** For whatever changes an entry: anything but its id, resource and namespace may differ. */
export const UPDATE_ENTRY = `UPDATE live_leases SET agent_id = ?, session = ?, status = ?, extent = ?,
  fence = ?, clock = ?, live_until_us = ?, body = ?, due_us = ? WHERE id = ?`

/**
 * For an entry that goes on as what it is. No index has any of these columns, so a renewal costs its row alone. Does
 * nothing when the row is due at another time than can stay.
 */
export const UPDATE_RENEWAL = `UPDATE live_leases SET live_until_us = ?, body = ?
  WHERE id = ? AND due_us BETWEEN ? AND ?`

/** Then this does it: one index has to be written, and not all of them. */
export const UPDATE_DUE = `UPDATE live_leases SET live_until_us = ?, body = ?, due_us = ?
  WHERE id = ?`

/**
 * A sweep may look at a live entry this much of its TTL too early: then it need not be told of each renewal. A holder
 * that renews at each third of the TTL moves `due_us` with every third renewal.
 */
const EARLY_SHARE = 0.75

/** In the order of `INSERT_ENTRY`. */
export function entryValues(entry: Entry, names: RowNames): SqliteValue[] {
  const { domain, us } = liveTick(entry)
  const record = encodeEntry(entry, domain)
  return [
    keyOf(entry.id, names),
    pathOf(entry.resource),
    entry.holder,
    entry.session,
    entry.state,
    entry.extent,
    record.fence,
    names.generationOf(domain),
    us,
    JSON.stringify(record.body),
    us,
    names.namespace,
  ]
}

/** The values of `UPDATE_ENTRY`, from those of `INSERT_ENTRY`. */
export function updateValues(values: readonly SqliteValue[]): SqliteValue[] {
  const [key = null, , ...rest] = values
  return [...rest.slice(0, -1), key]
}

/** The values of `UPDATE_RENEWAL`, from those of `INSERT_ENTRY`. */
export function renewalValues(values: readonly SqliteValue[], ttlMs: number): SqliteValue[] {
  const [us = null, body = null] = values.slice(8, 10)
  const untilUs = us as number
  return [us, body, values[0] ?? null, untilUs - ttlMs * 1_000 * EARLY_SHARE, untilUs]
}

/** The values of `UPDATE_DUE`, from those of `UPDATE_RENEWAL`. */
export function dueValues(renewal: readonly SqliteValue[]): SqliteValue[] {
  const [untilUs = null, body = null, key = null] = renewal
  return [untilUs, body, untilUs, key]
}

/** Whether an entry goes on as what it was, in everything that an index knows of it. */
export function isSameRow(before: Entry, after: Entry): boolean {
  return (
    before.state === after.state &&
    before.session === after.session &&
    before.holder === after.holder &&
    before.extent === after.extent &&
    fenceOf(before) === fenceOf(after) &&
    liveDeadline(before)?.domain === liveDeadline(after)?.domain
  )
}

function fenceOf(entry: Entry): number {
  return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
}

function liveTick(entry: Entry): { readonly domain: string; readonly us: number } {
  const live = liveDeadline(entry)
  if (live === null) throw new Error(`entry ${entry.id} has ended, and is no part of what is live`)
  return live
}

export function entryOf(row: SqliteRow, names: RowNames): Entry {
  const domain = names.domainOf(row[7] as number)
  return decodeEntry(
    {
      id: idOf(row[0] as string),
      resource: resourceOf(row[1] as string),
      holder: row[2] as string,
      session: row[3] as string,
      state: row[4] as EntryState,
      extent: row[5] as Extent,
      fence: row[6] as number,
      liveUntil: { domain, us: row[8] as number },
      body: JSON.parse(row[9] as string) as RecordBody,
    },
    domain,
  )
}

export const EVENT_COLUMNS =
  'seq, lease_id, agent_id, file_path, session, event_type, event_at, clock, fence, request_id, data'

export const INSERT_EVENT: string = `INSERT INTO lease_history
  (${EVENT_COLUMNS}, lease_number, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** The seed's words, where a refused request is a failed one. */
export function wordOf(type: LeaseEventType): string {
  return type === 'lease.denied' ? 'failed' : eventWord(type)
}

const TYPES: ReadonlyMap<string, LeaseEventType> = new Map(
  LEASE_EVENT_TYPES.filter((type) => type !== 'lease.denied').map((type) => [wordOf(type), type]),
)

/** What a word means; `failed` that holds a ticket was a refusal. */
export function typeOf(word: string, body: RecordBody = {}): LeaseEventType {
  const type = TYPES.get(word)
  if (type === undefined) throw new Error(`event ${word} is not known`)
  return type === 'lease.failed' && 'entry' in body ? 'lease.denied' : type
}

/** An acquire is known by the id of its lease, which the row has already; no index need have it twice. */
const OWN_ID = ''

export function eventValues(
  recorded: RecordedEvent,
  { sequence, domain }: { readonly sequence: number; readonly domain: string },
  names: RowNames,
): SqliteValue[] {
  const record = encodeEvent(recorded, domain)
  const { requestId, leaseId } = record
  return [
    sequence,
    keyOf(leaseId, names),
    record.holder,
    pathOf(record.resource),
    record.session,
    wordOf(record.type),
    record.atMs,
    names.generationOf(domain),
    record.fence,
    requestId === null || requestId === leaseId ? requestId && OWN_ID : keyOf(requestId, names),
    JSON.stringify(record.body),
    leaseNumberOf(leaseId),
    recorded.ended === null ? null : endedAtMs(recorded.ended),
  ]
}

export function eventOf(row: SqliteRow, names: RowNames): RecordedEvent {
  const body = JSON.parse(row[10] as string) as RecordBody
  const leaseId = idOf(row[1] as string)
  const requestKey = row[9] as string | null
  const requestId = requestKey === OWN_ID ? leaseId : requestKey && idOf(requestKey)
  return decodeEvent(
    {
      leaseId,
      resource: resourceOf(row[3] as string),
      holder: row[2] as string,
      session: row[4] as string,
      type: typeOf(row[5] as string, body),
      atMs: row[6] as number,
      requestId,
      fence: row[8] as number,
      body,
    },
    names.domainOf(row[7] as number),
  )
}
