/**
 * A group of attempts as the argument of the script that commits (redis-commit-script.ts), and its answer. The argument is
 * plain JSON, whose fields the script reads by these names. What is absent is left out, because the script would take a
 * null for something. Numbers that the script only compares or copies are texts.
 */
import { recordedEvents } from '../../core/commit.ts'
import { endedAtMs, liveDeadline, type LeaseId } from '../../core/lease.ts'
import { REQUEST_MEMORY_MS_MIN } from '../../core/limits.ts'
import type { RecordedEvent } from '../../core/record.ts'
import { ancestorsOf, hasEpoch, isTree, realmOf, type Reach } from '../../core/resource.ts'
import type {
  Attempt,
  EntryWrite,
  GroupReply,
  Place,
  PlaceView,
  Reply,
  SeenClaim,
  VersionedEntry,
} from '../optimistic/backend.ts'
import type { SettingKey, SettingRow, SettingScope } from '../../core/settings.ts'
import { notUnderstood } from '../../drivers/redis-errors.ts'
import { LEDGER_SESSION } from './redis-layout.ts'
import {
  entryText,
  eventText,
  isLiveRecord,
  recordsOf,
  typeOf,
  wordOf,
  type PlacedRecord,
} from './redis-records.ts'

interface GroupArgument {
  /** The clock that a test has set. */
  readonly clock?: number
  readonly revision: number
  readonly sender: string
  /** Where it is told that the ledger has grown. */
  readonly ledgerChannel: string
  /** What the script reads at once: of the hashes `live`, `known` and `epochs`. */
  readonly fields: readonly string[]
  readonly known: readonly string[]
  readonly epochs: readonly string[]
  readonly attempts: readonly AttemptArgument[]
}

interface AttemptArgument {
  readonly from: number
  readonly before: number
  readonly wall: number
  readonly firstFence?: number
  readonly lastFence?: number
  readonly places: readonly PlaceArgument[]
  readonly writes: readonly WriteArgument[]
  readonly events: readonly EventArgument[]
  readonly marks: readonly MarkArgument[]
  readonly epochs: Attempt['epochs']
  readonly wakes: readonly { readonly channel: string; readonly leaseId: string }[]
}

interface PlaceArgument {
  readonly id: LeaseId
  readonly realm: string
  readonly own: string
  readonly request?: string
  readonly hasPrior?: true
  readonly epoch?: number
  /** Of a tree; elsewhere it is the realm. */
  readonly resource?: string
  readonly above?: readonly string[]
  readonly subtree?: true
  /** All live entries there, as realms list them; or the last of them; neither if they do not matter. */
  readonly claims?: string
  readonly behind?: string
}

interface WriteArgument {
  readonly id: LeaseId
  /** Its version before; `0` if it was not there. */
  readonly before: string
  readonly isRecorded?: true
  /** Nothing is kept of it. */
  readonly isGone?: true
  /** Of an entry that is live: version and claim, fence, deadline, record. */
  readonly head?: string
  readonly fence?: number
  readonly untilUs?: string
  readonly text?: string
  /** Where its claim is listed, if that changes, and how; without `claim` it is not any more. */
  readonly place?: string
  readonly isTree?: true
  readonly claim?: string
  /** Its rank among the deadlines; false: none any more. */
  readonly due?: number | false
  readonly realm?: string
  /** How many tickets of the realm there are more. */
  readonly tickets?: number
  /** Whose set of live ids it joins or leaves, by whether it is live. */
  readonly holder?: string
  readonly joins?: string
  readonly leaves?: string
}

interface EventArgument {
  readonly id: LeaseId
  readonly fence: number
  readonly text: string
  readonly request?: string
  /** The entry was not live before. */
  readonly begins?: true
  /** The version of the entry that it ended. */
  readonly version?: string
  /** When that entry ended, if earlier than this. */
  readonly late?: number
}

interface MarkArgument {
  readonly request: string
  readonly text: string
  readonly isLong?: true
}

export interface GroupFacts {
  readonly clock: number | undefined
  readonly settingsRevision: number
  readonly sender: string
  readonly channelOf: (session: string) => string
}

export function groupArgument(attempts: readonly Attempt[], facts: GroupFacts): string {
  const { clock, settingsRevision: revision, sender, channelOf } = facts
  const group: GroupArgument = {
    ...(clock === undefined ? {} : { clock }),
    revision,
    sender,
    ledgerChannel: channelOf(LEDGER_SESSION),
    ...namesIn(attempts),
    attempts: attempts.map((attempt) => attemptArgument(attempt, channelOf)),
  }
  return JSON.stringify(group)
}

/** Of the ids that are live only those are looked for in the ledger whose record there changes. */
function namesIn(attempts: readonly Attempt[]): Pick<GroupArgument, 'fields' | 'known' | 'epochs'> {
  const [fields, known, epochs] = [new Set(['state']), new Set<string>(), new Set<string>()]
  for (const { places, writes, events } of attempts) {
    for (const { readSet, realm, own } of places) {
      const { leaseId, resource, requestId } = readSet
      fields.add(leaseId).add(realm)
      if (own === 0) known.add(leaseId)
      if (requestId !== null) known.add(requestId)
      if (hasEpoch(resource)) epochs.add(resource)
      if (!isTree(resource)) continue
      fields.add(resource)
      for (const above of ancestorsOf(resource)) fields.add(above)
    }
    for (const { id, before, after } of writes) {
      const entry = (after ?? before)?.entry
      if (entry === undefined) continue
      fields.add(id).add(entry.resource)
      if (!isLiveRecord(before) || !isLiveRecord(after)) known.add(id)
    }
    for (const { requestId } of events) if (requestId !== null) known.add(requestId)
  }
  return { fields: [...fields], known: [...known], epochs: [...epochs] }
}

function attemptArgument(attempt: Attempt, channelOf: GroupFacts['channelOf']): AttemptArgument {
  const { fromUs, beforeUs, wallMs, fences, epochs } = attempt
  const writes = attempt.writes.filter(({ before, after }) => before !== null || after !== null)
  return {
    from: fromUs,
    before: beforeUs,
    wall: wallMs,
    ...(fences === null ? {} : { firstFence: fences.first, lastFence: fences.last }),
    places: attempt.places.map(placeArgument),
    writes: writes.map(writeArgument),
    events: eventArguments(attempt, writes),
    marks: attempt.requests.map((mark) => markArgument(mark, wallMs)),
    epochs,
    wakes: attempt.wakes.map(({ session, leaseId }) => ({ channel: channelOf(session), leaseId })),
  }
}

function placeArgument(place: Place): PlaceArgument {
  const { readSet, realm, own, claims, behind, hasPrior, epoch } = place
  const { leaseId, requestId, resource } = readSet
  const argument: Mutable<PlaceArgument> = { id: leaseId, realm, own: String(own) }
  if (requestId !== null) argument.request = requestId
  if (hasPrior) argument.hasPrior = true
  if (hasEpoch(resource)) argument.epoch = epoch
  if (behind !== undefined) argument.behind = claimText(behind)
  else if (claims !== null) argument.claims = claims.map(claimText).join('')
  if (!isTree(resource)) return argument
  argument.resource = resource
  argument.above = ancestorsOf(resource)
  if (readSet.extent === 'subtree') argument.subtree = true
  return argument
}

type Mutable<Shape> = { -readonly [Field in keyof Shape]: Shape[Field] }

function claimText({ id, claim, record }: SeenClaim): string {
  return `${id} ${claim}${record === undefined ? 'e' : extentOf(record.entry)} `
}

/** `s` for a subtree, `e` for what is exact. */
function extentOf({ resource, extent }: Reach): string {
  return isTree(resource) && extent === 'subtree' ? 's' : 'e'
}

function writeArgument(write: EntryWrite): WriteArgument {
  const { id, before, after } = write
  const entry = (after ?? before)?.entry
  if (entry === undefined) throw new Error(`nothing is to be written of entry ${id}`)
  const argument: Mutable<WriteArgument> = { id, before: String(before?.version ?? 0) }
  if (entry.recorded) argument.isRecorded = true
  if (after === null) argument.isGone = true
  const isLive = isLiveRecord(after)
  if (after !== null && isLive) {
    const { fence, untilUs, text } = entryText(after.entry)
    Object.assign(argument, { head: `${after.version} ${after.claim}`, fence, text })
    argument.untilUs = String(untilUs)
  }
  addLists(argument, write)
  const tickets = Number(isPending(after)) - Number(isPending(before))
  if (tickets === 0) return argument
  return Object.assign(argument, { tickets, realm: realmOf(entry.resource) })
}

/** In which lists it changes: of claims, deadlines, holders and sessions. */
function addLists(argument: Mutable<WriteArgument>, { before, after }: EntryWrite): void {
  const was = before !== null && isLiveRecord(before) ? before : null
  const is = after !== null && isLiveRecord(after) ? after : null
  if (was === null && is === null) return
  const entry = (is ?? was)?.entry
  if (entry === undefined) return
  if (was?.claim !== is?.claim) {
    argument.place = entry.resource
    if (isTree(entry.resource)) argument.isTree = true
    if (is !== null) argument.claim = `${is.claim}${extentOf(entry)}`
  }
  argument.due = is === null ? false : (liveDeadline(is.entry)?.us ?? 0)
  if (was === null || is === null) argument.holder = entry.holder
  if (was?.entry.session === is?.entry.session) return
  if (was !== null) argument.leaves = was.entry.session
  if (is !== null) argument.joins = is.entry.session
}

function isPending(kept: VersionedEntry | null): boolean {
  return kept?.entry.state === 'pending'
}

function eventArguments(
  { events }: Attempt,
  writes: readonly EntryWrite[],
): readonly EventArgument[] {
  const changes = writes.map(({ id, after }) => ({ id, after: after?.entry ?? null }))
  const begun = new Set<LeaseId>()
  return recordedEvents({ events, changes }).map((recorded) => {
    const { leaseId } = recorded.event
    const write = writes.find(({ id }) => id === leaseId)
    const begins = write !== undefined && !isLiveRecord(write.before) && !begun.has(leaseId)
    begun.add(leaseId)
    return eventArgument(recorded, write, begins)
  })
}

function eventArgument(
  recorded: RecordedEvent,
  write: EntryWrite | undefined,
  begins: boolean,
): EventArgument {
  const { event, ended } = recorded
  const { leaseId: id, requestId } = event
  const argument: Mutable<EventArgument> = { id, ...eventText(recorded) }
  if (requestId !== null) argument.request = requestId
  if (begins) argument.begins = true
  if (ended === null) return argument
  argument.version = String(write?.after?.version ?? 1)
  const endMs = endedAtMs(ended)
  if (endMs !== null && endMs < event.atMs) argument.late = endMs
  return argument
}

function markArgument(
  { requestId, leaseId, type, keepUntilMs }: Attempt['requests'][number],
  wallMs: number,
): MarkArgument {
  const text = `${leaseId} ${wordOf(type)} ${keepUntilMs}`
  const isShort = keepUntilMs - wallMs <= REQUEST_MEMORY_MS_MIN
  return isShort ? { request: requestId, text } : { request: requestId, text, isLong: true }
}

/**
 * Clock, revision, settings, how far the clock is behind, how many attempts were looked at; then, by number from 1 on,
 * those of which there is more to say than that they were committed: by how much their fences were moved, or views.
 */
export type ScriptAnswer = readonly [
  nowUs: number,
  revision: number,
  settings: readonly string[] | null,
  behindMs: number,
  attempts: number,
  ...told: unknown[],
]

const COMMITTED: Reply = { kind: 'committed', fencesMovedBy: 0 }

/**
 * The script has run when this reads its answer, so whatever cannot be understood leaves open what was written. An
 * attempt whose own answer is good is not told of that of another.
 */
export function groupReplyOf(
  answer: unknown,
  attempts: readonly Attempt[],
  url: string,
): GroupReply {
  try {
    const [nowUs, revision, settings, behindMs] = answer as ScriptAnswer
    const behind = numberOf(behindMs)
    return {
      nowUs: numberOf(nowUs),
      settingsRevision: numberOf(revision),
      settings: settings === null ? null : settingRows(settings),
      replies:
        behind > 0
          ? attempts.map(() => ({ kind: 'clock_behind', behindMs: behind }))
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
    return { kind: 'missed', views: views.map((view, index) => wholeOf(view, places[index])) }
  } catch (error) {
    return { kind: 'failed', error: notUnderstood(error, { url, effect: 'writes' }) }
  }
}

function numberOf(told: unknown): number {
  if (typeof told !== 'number') throw new Error(`expected a number, got ${String(told)}`)
  return told
}

/** What the server told, and what it left out because the attempt got in line behind it. */
function wholeOf(told: readonly unknown[], place: Place | undefined): PlaceView {
  const view = viewOf(told)
  if (view.isPart !== true) return view
  const other = new Set(view.entries.map(({ entry }) => entry.id))
  const believed = place?.claims?.flatMap(({ id, record }) => {
    return record === undefined || other.has(id) ? [] : [record]
  })
  return { ...view, entries: [...(believed ?? []), ...view.entries] }
}

/** A view as it is told, with the records as the server keeps them. */
export interface RecordView extends PlaceView {
  readonly entries: readonly PlacedRecord[]
}

export function viewOf(view: readonly unknown[]): RecordView {
  const [fence, wallMs, tickets, epoch, leaseId, word, isPart, ...records] = view
  return {
    entries: recordsOf(records),
    lastFence: numberOf(fence),
    lastWallMs: numberOf(wallMs),
    ticketCount: numberOf(tickets),
    prior: leaseId === '' ? null : { leaseId: String(leaseId), type: typeOf(String(word)) },
    epoch: numberOf(epoch),
    ...(isPart === 1 ? { isPart: true } : {}),
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
