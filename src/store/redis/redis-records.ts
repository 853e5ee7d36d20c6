/**
 * Entries and events as texts on the server (redis-layout.ts has the words before the RECORD), and back. What a record
 * is, the core says; here it becomes a JSON array. The fence stands before it, because the server may move it.
 *
 * And a group of attempts as the argument of the script that commits (redis-commit-script.ts), and its answer. The argument is
 * plain JSON, whose fields the script reads by these names. What is undefined is left out, because
 * `cjson.null` counts as true in Lua. Numbers that the script only compares or copies are texts.
 */
import type { LeaseEventType } from '../../core/event.ts'
import {
  isLive,
  liveDeadline,
  type Entry,
  type EntryState,
  type LeaseId,
} from '../../core/lease.ts'
import {
  decodeEntry,
  decodeEvent,
  encodeEntry,
  encodeEvent,
  type RecordBody,
  type RecordedEvent,
} from '../../core/record.ts'
import {
  ancestorsOf,
  hasEpoch,
  isTree,
  realmOf,
  type Extent,
  type Resource,
  type Reach,
} from '../../core/resource.ts'
import { recordedEvents } from '../../core/commit.ts'
import { REQUEST_MEMORY_MS_MIN } from '../../core/limits.ts'
import { US_PER_MS } from '../../core/time.ts'
import type { SettingKey, SettingRow, SettingScope } from '../../core/settings.ts'
import { notUnderstood } from '../../drivers/redis-errors.ts'
import type {
  VersionedEntry,
  Attempt,
  EntryWrite,
  GroupReply,
  Place,
  PlaceView,
  Reply,
  SeenClaim,
} from '../optimistic/backend.ts'
import { isPending, withUntold } from '../optimistic/attempt-plan.ts'
import { FOLLOWERS } from '../subscribers.ts'

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

/** Points in time, and how many of their units are a millisecond. An event counts them from its own time. */
const UNITS_PER_MS: Readonly<Record<string, number>> = {
  createdAtMs: 1,
  grantedAtMs: 1,
  renewedAtMs: 1,
  expiresAtMs: 1,
  terminatedAtMs: 1,
  changedAtMs: 1,
  deadline: US_PER_MS,
  holdUntilUs: US_PER_MS,
  lockedUntil: US_PER_MS,
  offered: US_PER_MS,
  orderUs: US_PER_MS,
}

/** The same fields by other names and with later times, also of the records within. What is not listed stays as it is. */
function renamed(
  fields: RecordBody,
  names: Readonly<Record<string, string>>,
  laterMs = 0,
): RecordBody {
  const all: Record<string, unknown> = {}
  for (const name in fields) {
    const field = fields[name]
    const other = names[name] ?? name
    if (RECORDS.has(name)) all[other] = renamed(field as RecordBody, names, laterMs)
    else if (typeof field !== 'number') all[other] = field
    else all[other] = field + laterMs * (UNITS_PER_MS[name] ?? UNITS_PER_MS[other] ?? 0)
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
  /** Its rank in the order of creation, or for one that has ended in that of the ends, on the scale of positions. */
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

/** After the word for its type. */
type EventFields = readonly [
  resource: Resource,
  holder: string,
  session: string,
  /** `true` for an acquire, which is known by the id of its lease. */
  requestId: string | true | null,
  body: RecordBody,
]

/** Left out of the event of a release. */
const RELEASE_REASON_USUAL = 'voluntary'

const TYPE_PREFIX = 'lease.'

/** The word for a type in marks and events. */
export function wordOf(type: LeaseEventType): string {
  return type.slice(TYPE_PREFIX.length)
}

export function typeOf(word: string): LeaseEventType {
  return `${TYPE_PREFIX}${word}` as LeaseEventType
}

/** A text, and the numbers that stand before it, which the server writes by their offset from its position. */
export interface EventText {
  readonly fence: number
  readonly atMs: number
  readonly text: string
}

export function eventText(recorded: RecordedEvent): EventText {
  const record = encodeEvent(recorded, CLOCK_DOMAIN, true)
  const { atMs, resource, holder, session, leaseId, fence } = record
  const requestId = record.requestId === leaseId ? true : record.requestId
  const { releaseReason, ...others } = record.body
  const isUsual = record.type === 'lease.released' && releaseReason === RELEASE_REASON_USUAL
  const body = renamed(isUsual ? others : record.body, LETTERS, -atMs)
  const fields: EventFields = [resource, holder, session, requestId, body]
  return { fence, atMs, text: JSON.stringify([wordOf(record.type), ...fields]) }
}

/** An event of the ledger, and the version of the entry that it ended. */
export interface StoredEvent extends RecordedEvent {
  readonly version: number
}

/** Events of layout 5, which stay as they were written, have all numbers in full, and their time in the record. */
const EVENT_PATTERN = /^(\S+) (-?\d*) (?:(-?\d+) )?(\d+) (\[.*\])$/s

export function eventOf(text: string, position: number): StoredEvent {
  const [, leaseId, fenceText, offsetMs, version, json] = EVENT_PATTERN.exec(text) ?? []
  if (leaseId === undefined || json === undefined) {
    throw new Error("an entry of the ledger is not Tenure's")
  }
  const [word, ...fields] = JSON.parse(json) as [string, ...unknown[]]
  const isFull = offsetMs === undefined
  const atMs = isFull ? Number(fields.shift()) : msOf(position) - Number(offsetMs)
  const [resource, holder, session, request, kept] = fields as unknown as EventFields
  const requestId = request === true ? leaseId : request
  const type = typeOf(word)
  const keys = { leaseId, resource, holder, session, type, atMs, requestId }
  const fence = isFull ? Number(fenceText) : fenceText === '-' ? 0 : position - Number(fenceText)
  const usual = type === 'lease.released' ? { releaseReason: RELEASE_REASON_USUAL } : {}
  const body = { ...usual, ...renamed(kept, NAMES, isFull ? 0 : atMs) }
  return { ...decodeEvent({ ...keys, fence, body }, CLOCK_DOMAIN, true), version: Number(version) }
}

/** What scripts show: mostly an id, a position and a text. */
export type ShownRecord = readonly [name: string, position: number, text: string]

/** Of a live entry its text is shown, of an ended one the event that ended it, with its position. */
export function placedRecord([id, position, text]: ShownRecord): PlacedRecord {
  if (position === 0) return liveOf(id, text)
  const { ended, version } = eventOf(text, position)
  if (ended === null) throw new Error(`the event at ${position} did not end entry ${id}`)
  return { entry: ended, version, claim: version, place: position }
}

export function isLiveRecord(kept: VersionedEntry | null): kept is VersionedEntry {
  return kept !== null && isLive(kept.entry)
}

/** Its wall time. */
export function msOf(position: number): number {
  return Math.floor(position / US_PER_MS)
}

interface GroupFacts {
  readonly settingsRevision: number
  readonly sender: string
  readonly channelOf: (session: string) => string
}

export function groupArgument(attempts: readonly Attempt[], facts: GroupFacts): string {
  const { settingsRevision, sender, channelOf } = facts
  return JSON.stringify({
    ...{ settingsRevision, sender },
    ledgerChannel: channelOf(FOLLOWERS),
    attempts: attempts.map((attempt) => attemptArgument(attempt, channelOf)),
  })
}

function attemptArgument(attempt: Attempt, channelOf: GroupFacts['channelOf']): object {
  const { fromUs, beforeUs, wallMs, fences, epochs } = attempt
  const writes = attempt.writes.filter(({ before, after }) => before !== null || after !== null)
  return {
    fromUs,
    beforeUs,
    wallMs,
    fences: fences ?? undefined,
    epochs,
    places: attempt.places.map(placeArgument),
    writes: writes.map(writeArgument),
    events: eventArguments(attempt, writes),
    marks: attempt.requests.map((mark) => markArgument(mark, wallMs)),
    wakes: attempt.wakes.map(({ session, leaseId }) => ({ channel: channelOf(session), leaseId })),
  }
}

/** `resource` is that of a tree; elsewhere it is the realm. */
function placeArgument({ readSet, realm, own, claims, behind, hasPrior, epoch }: Place): object {
  const { leaseId, requestId, resource, extent } = readSet
  const tree = isTree(resource)
  return {
    id: leaseId,
    realm,
    ownVersion: String(own),
    request: requestId ?? undefined,
    hasPrior: hasPrior || undefined,
    epoch: hasEpoch(resource) ? epoch : undefined,
    // All live entries there, as realms list them; or the last of them; neither if they do not matter.
    claims: behind === undefined ? claims?.map(claimText).join('') : undefined,
    behind: behind && claimText(behind),
    resource: tree ? resource : undefined,
    above: tree ? ancestorsOf(resource) : undefined,
    subtree: (tree && extent === 'subtree') || undefined,
  }
}

function claimText({ id, claim, record }: SeenClaim): string {
  return `${id} ${claim}${record === undefined ? 'e' : extentOf(record.entry)} `
}

/** `s` for a subtree, `e` for what is exact. */
function extentOf({ resource, extent }: Reach): string {
  return isTree(resource) && extent === 'subtree' ? 's' : 'e'
}

/** One literal, here and for a place and an attempt: objects that are put together from others cost several times as much. */
function writeArgument({ id, before, after }: EntryWrite): object {
  const written = (after ?? before)?.entry
  if (written === undefined) throw new Error(`nothing is to be written of entry ${id}`)
  const was = isLiveRecord(before) ? before : null
  const is = isLiveRecord(after) ? after : null
  const live = (is ?? was)?.entry
  const record = is === null ? undefined : entryText(is.entry)
  const isListedAnew = live !== undefined && was?.claim !== is?.claim
  const isMoved = was?.entry.session !== is?.entry.session
  const tickets = Number(isPending(after)) - Number(isPending(before))
  return {
    id,
    // Its version; 0 if it was not there.
    expected: String(before?.version ?? 0),
    isRecorded: written.recorded || undefined,
    // Nothing is kept of it.
    isGone: after === null || undefined,
    head: is === null ? undefined : `${is.version} ${is.claim}`,
    fence: record?.fence,
    untilUs: record?.untilUs,
    text: record?.text,
    // The resource in whose list its claim is, and as what; absent: it is removed from that list.
    listedAt: isListedAnew ? live.resource : undefined,
    isTree: (isListedAnew && isTree(live.resource)) || undefined,
    listedEntry: isListedAnew && is !== null ? `${is.claim}${extentOf(live)}` : undefined,
    // Its deadline in the set of deadlines; false: it is removed there.
    due: dueOf(is, live),
    // Whose sets of live ids it joins or leaves.
    holder: was === null || is === null ? live?.holder : undefined,
    leaves: isMoved ? was?.entry.session : undefined,
    joins: isMoved ? is?.entry.session : undefined,
    // How many tickets of the realm there are more.
    tickets: tickets === 0 ? undefined : tickets,
    realm: tickets === 0 ? undefined : realmOf(written.resource),
  }
}

function dueOf(is: VersionedEntry | null, live: Entry | undefined): number | false | undefined {
  if (is === null) return live === undefined ? undefined : false
  return liveDeadline(is.entry)?.us ?? 0
}

function eventArguments({ events }: Attempt, writes: readonly EntryWrite[]): readonly object[] {
  const changes = writes.map(({ id, after }) => ({ id, after: after?.entry ?? null }))
  const begun = new Set<LeaseId>()
  return recordedEvents({ events, changes }).map((recorded) => {
    const { event, ended } = recorded
    const { leaseId: id, requestId } = event
    const write = writes.find((one) => one.id === id)
    const begins = write !== undefined && !isLiveRecord(write.before) && !begun.has(id)
    begun.add(id)
    return {
      id,
      ...eventText(recorded),
      request: requestId ?? undefined,
      // The entry was not live before.
      begins: begins || undefined,
      // The version of the entry that it ended.
      version: ended === null ? undefined : String(write?.after?.version ?? 1),
    }
  })
}

function markArgument(
  { requestId, leaseId, type, keepUntilMs }: Attempt['requests'][number],
  wallMs: number,
): object {
  const text = `${leaseId} ${wordOf(type)} ${keepUntilMs}`
  const isLong = keepUntilMs - wallMs > REQUEST_MEMORY_MS_MIN || undefined
  return { request: requestId, text, isLong }
}

/**
 * Clock, revision, settings, how far the clock is behind, how many attempts the group had; then, by number from 1 on,
 * those of which there is more to say than that they were committed: by how much their fences were moved, or views.
 */
type ScriptAnswer = readonly [
  nowUs: number,
  revision: number,
  settings: readonly string[] | null,
  clockLagMs: number,
  attempts: number,
  ...told: unknown[],
]

const COMMITTED: Reply = { kind: 'committed', fencesMovedBy: 0 }

/**
 * The script has run when this reads its answer, so whatever cannot be understood leaves open what was written. An
 * unreadable answer to one attempt does not fail the others.
 */
export function groupReplyOf(
  answer: unknown,
  attempts: readonly Attempt[],
  url: string,
): GroupReply {
  try {
    const [nowUs, revision, settings, lagMs] = answer as ScriptAnswer
    const clockLagMs = numberOf(lagMs)
    return {
      nowUs: numberOf(nowUs),
      settingsRevision: numberOf(revision),
      settings: settings === null ? null : settingRows(settings),
      replies:
        clockLagMs > 0
          ? attempts.map(() => ({ kind: 'clock_behind', behindMs: clockLagMs }))
          : repliesOf(answer as ScriptAnswer, attempts, url),
    }
  } catch (error) {
    throw notUnderstood(error, { url, effect: attempts.length > 0 ? 'writes' : 'reads' })
  }
}

function repliesOf(
  answer: ScriptAnswer,
  attempts: readonly Attempt[],
  url: string,
): readonly Reply[] {
  const count = answer[4]
  if (count !== attempts.length) {
    throw new Error(`expected answers to ${attempts.length} attempts, got ${String(count)}`)
  }
  const replies = attempts.map(() => COMMITTED)
  for (let at = 5; at < answer.length; at += 2) {
    const index = numberOf(answer[at]) - 1
    const attempt = attempts[index]
    if (attempt === undefined) throw new Error(`expected one of ${count} attempts, got ${index}`)
    replies[index] = replyOf(answer[at + 1], attempt, url)
  }
  return replies
}

function replyOf(reply: unknown, { places }: Attempt, url: string): Reply {
  try {
    if (typeof reply === 'number') return { kind: 'committed', fencesMovedBy: reply }
    const views = reply as readonly (readonly unknown[])[]
    if (views.length !== places.length) {
      throw new Error(`expected ${places.length} views, got ${views.length}`)
    }
    return { kind: 'missed', views: views.map((view, index) => viewFrom(view, places[index])) }
  } catch (error) {
    return { kind: 'failed', error: notUnderstood(error, { url, effect: 'writes' }) }
  }
}

function numberOf(told: unknown): number {
  if (typeof told !== 'number') throw new Error(`expected a number, got ${String(told)}`)
  return told
}

function viewFrom(told: readonly unknown[], place: Place | undefined): PlaceView {
  const [fence, wallMs, tickets, epoch, leaseId, word, isPartial, gone, ...records] = told
  return {
    entries: withUntold(
      (records as readonly ShownRecord[]).map(placedRecord),
      gone as readonly LeaseId[] | null,
      place,
    ),
    lastFence: numberOf(fence),
    lastWallMs: numberOf(wallMs),
    ticketCount: numberOf(tickets),
    prior: leaseId === '' ? null : { leaseId: String(leaseId), type: typeOf(String(word)) },
    epoch: numberOf(epoch),
    ...(isPartial === 1 ? { isPartial: true } : {}),
  }
}

export function settingField({ key, scope, resourceId }: Omit<SettingRow, 'value'>): string {
  return JSON.stringify([key, scope, resourceId])
}

export function settingRows(pairs: readonly string[]): readonly SettingRow[] {
  const rows: SettingRow[] = []
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    const field = JSON.parse(pairs[at] ?? '') as [SettingKey, SettingScope, string | null]
    const [key, scope, resourceId] = field
    rows.push({ key, value: pairs[at + 1] ?? '', scope, resourceId })
  }
  return rows
}
