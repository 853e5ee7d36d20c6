/**
 * Entries and events as texts on the server (redis-layout.ts has the words before the RECORD), and back. What a record
 * is, the core says; here it becomes a JSON array. The fence stands before it, because the server may move it.
 */
import type { LeaseEventType } from '../../core/event.ts'
import { isLive, type Entry, type EntryState } from '../../core/lease.ts'
import {
  decodeEntry,
  decodeEvent,
  encodeEntry,
  encodeEvent,
  type RecordBody,
  type RecordedEvent,
} from '../../core/record.ts'
import type { Extent, Resource } from '../../core/resource.ts'
import type { VersionedEntry } from '../optimistic/backend.ts'

/** The server's clock, whichever server it is: a failover must not end every lease. */
export const CLOCK_DOMAIN = 'redis/time/0#1'

/** Names of fields of records in one letter, because each stands in memory many times. A letter never changes its meaning. */
const LETTERS: Readonly<Record<string, string>> = {
  body: 'b',
  createdAtMs: 'c',
  deadline: 'd',
  entry: 'e',
  grantedAtMs: 'g',
  releaseReason: 'l',
  ended: 'n',
  renewals: 'r',
  ttlMs: 't',
  renewedAtMs: 'u',
  reason: 'w',
  expiresAtMs: 'x',
  terminatedAtMs: 'z',
}
const NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(LETTERS).map(([name, letter]) => [letter, name]),
)

/** The same fields by other names, also of the records within. What is not listed keeps its name. */
function renamed(fields: RecordBody, names: Readonly<Record<string, string>>): RecordBody {
  const all: Record<string, unknown> = {}
  for (const name in fields) {
    const value = fields[name]
    const isRecord = RECORDS.has(name)
    all[names[name] ?? name] = isRecord ? renamed(value as RecordBody, names) : value
  }
  return all
}

const RECORDS: ReadonlySet<string> = new Set(['body', 'entry', 'ended', 'b', 'e', 'n'])

type EntryFields = readonly [
  state: EntryState,
  resource: Resource,
  holder: string,
  session: string,
  body: RecordBody,
  extent?: Extent,
  /** Of its deadline, if that is not one of the server's clock. */
  domain?: string,
]

/** A text, and the fence that stands before it; of a live entry also the end of its deadline. */
export interface RecordText {
  readonly fence: number
  readonly untilUs?: string
  readonly text: string
}

/** Of a live entry. */
export function entryText(entry: Entry): RecordText {
  const { state, resource, holder, session, extent, fence, liveUntil, body } = encodeEntry(
    entry,
    CLOCK_DOMAIN,
    true,
  )
  if (liveUntil === null)
    throw new Error(`entry ${entry.id} has ended, and is no part of what is live`)
  const { us, domain } = liveUntil
  const usual: EntryFields = [state, resource, holder, session, renamed(body, LETTERS)]
  const isUsual = extent === 'exact' && domain === CLOCK_DOMAIN
  const fields = isUsual ? usual : [...usual, extent, domain]
  return { fence, untilUs: String(us), text: JSON.stringify(fields) }
}

/** An entry as the server keeps it. */
export interface PlacedRecord extends VersionedEntry {
  /** Its place in the order of creation, or for one that has ended in that of the ends, on the scale of positions. */
  readonly place: number
}

const LIVE_PATTERN = /^(\d+) (\d+) (\d+) (\d+) (\d+) (\[.*\])$/s

function liveOf(id: string, text: string): PlacedRecord {
  const [, version, claim, fence, us, created, json] = LIVE_PATTERN.exec(text) ?? []
  if (json === undefined) throw new Error(`what is kept of entry ${id} is not Tenure's`)
  const fields = JSON.parse(json) as EntryFields
  const [state, resource, holder, session, body, extent = 'exact', domain = CLOCK_DOMAIN] = fields
  const liveUntil = { domain, us: Number(us) }
  const keys = { id, resource, extent, holder, session, state, fence: Number(fence), liveUntil }
  return {
    entry: decodeEntry({ ...keys, body: renamed(body, NAMES) }, CLOCK_DOMAIN, true),
    version: Number(version),
    claim: Number(claim),
    place: Number(created),
  }
}

type EventFields = readonly [
  word: string,
  atMs: number,
  resource: Resource,
  holder: string,
  session: string,
  /** `true` for an acquire, which is known by the id of its lease. */
  requestId: string | true | null,
  body: RecordBody,
]

const TYPE_PREFIX = 'lease.'

/** The word for a type in marks and events. */
export function wordOf(type: LeaseEventType): string {
  return type.slice(TYPE_PREFIX.length)
}

export function typeOf(word: string): LeaseEventType {
  return `${TYPE_PREFIX}${word}` as LeaseEventType
}

export function eventText(recorded: RecordedEvent): RecordText {
  const record = encodeEvent(recorded, CLOCK_DOMAIN, true)
  const { atMs, resource, holder, session, leaseId, fence } = record
  const requestId = record.requestId === leaseId ? true : record.requestId
  const body = renamed(record.body, LETTERS)
  const word = wordOf(record.type)
  const fields: EventFields = [word, atMs, resource, holder, session, requestId, body]
  return { fence, text: JSON.stringify(fields) }
}

/** An event of the ledger, and the version of the entry that it ended. */
export interface StoredEvent extends RecordedEvent {
  readonly version: number
}

const EVENT_PATTERN = /^(\S+) (\d+) (\d+) (\[.*\])$/s

export function eventOf(text: string): StoredEvent {
  const [, leaseId, fence, version, json] = EVENT_PATTERN.exec(text) ?? []
  if (leaseId === undefined || json === undefined) {
    throw new Error("an entry of the ledger is not Tenure's")
  }
  const [word, atMs, resource, holder, session, request, body] = JSON.parse(json) as EventFields
  const requestId = request === true ? leaseId : request
  const keys = { leaseId, resource, holder, session, type: typeOf(word), atMs, requestId }
  const record = { ...keys, fence: Number(fence), body: renamed(body, NAMES) }
  return { ...decodeEvent(record, CLOCK_DOMAIN, true), version: Number(version) }
}

/** What scripts show, three values each: mostly an id, a position and a text. */
export type Triple = readonly [name: string, position: number, text: string]

export function triplesOf(values: readonly unknown[]): readonly Triple[] {
  const triples: Triple[] = []
  for (let at = 0; at + 2 < values.length; at += 3) {
    triples.push([String(values[at]), Number(values[at + 1]), String(values[at + 2])])
  }
  return triples
}

/** Of a live entry its text is shown, of an ended one the event that ended it, with its position. */
function recordOf([id, position, text]: Triple): PlacedRecord {
  if (position === 0) return liveOf(id, text)
  const { ended, version } = eventOf(text)
  if (ended === null) throw new Error(`the event at ${position} did not end entry ${id}`)
  return { entry: ended, version, claim: version, place: position }
}

export function recordsOf(values: readonly unknown[]): readonly PlacedRecord[] {
  return triplesOf(values).map(recordOf)
}

export function isLiveRecord(kept: VersionedEntry | null): kept is VersionedEntry {
  return kept !== null && isLive(kept.entry)
}
