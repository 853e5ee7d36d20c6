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

/** What the body of a lease says of its times. The ticks of this store are microseconds of wall time. */
interface Times {
  createdAtMs: number
  ttlMs: number
  grantedAtMs?: number
  expiresAtMs?: number
  deadline?: unknown
}

/** Changes a body so that it tells of its expiry only if that is not the wall time of its deadline. */
function leaveOutExpiry(body: RecordBody, untilUs?: number): void {
  const times = body as unknown as Times
  const { createdAtMs, grantedAtMs = createdAtMs, ttlMs, deadline = untilUs } = times
  const expiresAtMs = times.expiresAtMs ?? grantedAtMs + ttlMs
  if (expiresAtMs === wallOf(deadline)) delete times.expiresAtMs
  else times.expiresAtMs = expiresAtMs
}

function addExpiry(body: RecordBody, untilUs?: number): void {
  const times = body as unknown as Times
  times.expiresAtMs ??= wallOf(times.deadline ?? untilUs) ?? times.createdAtMs + times.ttlMs
}

/** Of a tick of this store; null for one of another clock. */
function wallOf(deadline: unknown): number | null {
  return typeof deadline === 'number' ? Math.floor(deadline / 1_000) : null
}

/** Of the entries within an event. */
function* bodiesIn({ entry, ended }: RecordBody): Generator<RecordBody> {
  for (const inner of [entry, ended]) {
    if (inner !== undefined) yield (inner as { readonly body: RecordBody }).body
  }
}

/** What an event that ends a lease says, and what the lease was at its end, which mostly says the same. */
interface Ending {
  releaseReason?: unknown
  terminatedAtMs?: unknown
  reason?: unknown
  ended?: { readonly body: { releaseReason?: unknown; terminatedAtMs?: unknown } }
}

/** Changes the body of an event so that it says these once. Null where it says nothing and another field would speak for it. */
function leaveOutSaid(event: RecordBody, atMs: number): void {
  const { releaseReason, terminatedAtMs = atMs, ended, ...rest } = event as Ending
  if (releaseReason === undefined && ended === undefined) return
  const own = event as Ending
  if (releaseReason !== undefined)
    own.reason = rest.reason === releaseReason ? undefined : (rest.reason ?? null)
  if (ended === undefined) return
  const { body } = ended
  body.releaseReason =
    body.releaseReason === releaseReason ? undefined : (body.releaseReason ?? null)
  body.terminatedAtMs =
    body.terminatedAtMs === terminatedAtMs ? undefined : (body.terminatedAtMs ?? null)
}

function addSaid(event: RecordBody, atMs: number): void {
  const own = event as Ending
  const { releaseReason, terminatedAtMs = atMs, ended } = own
  if (releaseReason !== undefined && own.reason === undefined) own.reason = releaseReason
  if (ended === undefined) return
  if (ended.body.releaseReason === undefined) ended.body.releaseReason = releaseReason
  if (ended.body.terminatedAtMs === undefined) ended.body.terminatedAtMs = terminatedAtMs
}

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

export interface EntryText {
  readonly fence: number
  readonly untilUs: number
  readonly text: string
}

/** Of a live entry. */
export function entryText(entry: Entry): EntryText {
  const { state, resource, holder, session, extent, fence, liveUntil, body } = encodeEntry(
    entry,
    CLOCK_DOMAIN,
  )
  if (liveUntil === null)
    throw new Error(`entry ${entry.id} has ended, and is no part of what is live`)
  const { us, domain } = liveUntil
  const isOurs = domain === CLOCK_DOMAIN
  leaveOutExpiry(body, isOurs ? us : undefined)
  const short = renamed(body, LETTERS)
  const usual: EntryFields = [state, resource, holder, session, short]
  const isUsual = extent === 'exact' && isOurs
  const fields: EntryFields = isUsual
    ? usual
    : [state, resource, holder, session, short, extent, domain]
  return { fence, untilUs: us, text: JSON.stringify(fields) }
}

/** An entry as the server keeps it. */
export interface KeptRecord extends VersionedEntry {
  /** Its place in the order of creation, or for one that has ended in that of the ends, on the scale of positions. */
  readonly place: number
}

const LIVE_PATTERN = /^(\d+) (\d+) (\d+) (\d+) (\d+) (\[.*\])$/s

function liveOf(id: string, text: string): KeptRecord {
  const [, version, claim, fence, us, created, json] = LIVE_PATTERN.exec(text) ?? []
  if (json === undefined) throw new Error(`what is kept of entry ${id} is not Tenure's`)
  const fields = JSON.parse(json) as EntryFields
  const [state, resource, holder, session, body, extent = 'exact', domain = CLOCK_DOMAIN] = fields
  const liveUntil = { domain, us: Number(us) }
  const whole = renamed(body, NAMES)
  addExpiry(whole, domain === CLOCK_DOMAIN ? liveUntil.us : undefined)
  const keys = { id, resource, extent, holder, session, state, fence: Number(fence), liveUntil }
  return {
    entry: decodeEntry({ ...keys, body: whole }, CLOCK_DOMAIN),
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

export interface EventText {
  readonly fence: number
  readonly text: string
}

const TYPE_PREFIX = 'lease.'

/** The word for a type in marks and events. */
export function wordOf(type: LeaseEventType): string {
  return type.slice(TYPE_PREFIX.length)
}

export function typeOf(word: string): LeaseEventType {
  return `${TYPE_PREFIX}${word}` as LeaseEventType
}

export function eventText(recorded: RecordedEvent): EventText {
  const record = encodeEvent(recorded, CLOCK_DOMAIN)
  const { atMs, resource, holder, session, leaseId, fence, body } = record
  const requestId = record.requestId === leaseId ? true : record.requestId
  const word = wordOf(record.type)
  for (const inner of bodiesIn(body)) leaveOutExpiry(inner)
  leaveOutSaid(body, atMs)
  const short = renamed(body, LETTERS)
  const fields: EventFields = [word, atMs, resource, holder, session, requestId, short]
  return { fence, text: JSON.stringify(fields) }
}

/** An event of the ledger, and the version of the entry that it ended. */
export interface KeptEvent extends RecordedEvent {
  readonly version: number
}

const EVENT_PATTERN = /^(\S+) (\d+) (\d+) (\[.*\])$/s

export function eventOf(text: string): KeptEvent {
  const [, leaseId, fence, version, json] = EVENT_PATTERN.exec(text) ?? []
  if (leaseId === undefined || json === undefined) {
    throw new Error("an entry of the ledger is not Tenure's")
  }
  const [word, atMs, resource, holder, session, request, body] = JSON.parse(json) as EventFields
  const requestId = request === true ? leaseId : request
  const keys = { leaseId, resource, holder, session, type: typeOf(word), atMs, requestId }
  const record = { ...keys, fence: Number(fence), body: renamed(body, NAMES) }
  for (const inner of bodiesIn(record.body)) addExpiry(inner)
  addSaid(record.body, atMs)
  const { event, ended } = decodeEvent(record, CLOCK_DOMAIN)
  return { event, ended, version: Number(version) }
}

/** What scripts show of an entry: of a live one its text, of an ended one the event that ended it, with its position. */
function recordOf(id: string, position: number, text: string): KeptRecord {
  if (position === 0) return liveOf(id, text)
  const { ended, version } = eventOf(text)
  if (ended === null) throw new Error(`the event at ${position} did not end entry ${id}`)
  return { entry: ended, version, claim: version, place: position }
}

/** Ids, positions and texts by turns. */
export function recordsOf(triples: readonly unknown[]): readonly KeptRecord[] {
  const records: KeptRecord[] = []
  for (let at = 0; at + 2 < triples.length; at += 3) {
    records.push(recordOf(String(triples[at]), Number(triples[at + 1]), String(triples[at + 2])))
  }
  return records
}

export function isLiveKept(kept: VersionedEntry | null): boolean {
  return kept !== null && isLive(kept.entry)
}
