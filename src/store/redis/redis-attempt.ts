/**
 * Groups of attempts as arguments of the script, and its answers. Few arguments with many numbers in each: encoding and
 * sending an argument costs more than taking it apart in Lua.
 */
import { endedAtMs, liveDeadline, type Entry } from '../../core/lease.ts'
import { REQUEST_MEMORY_MS_MIN } from '../../core/limits.ts'
import type { PriorEffect } from '../../core/realm.ts'
import { isTree, type Reach } from '../../core/resource.ts'
import type { SettingKey, SettingRow, SettingScope } from '../../core/settings.ts'
import type {
  Attempt,
  EntryWrite,
  GroupReply,
  Kept,
  Place,
  PlaceView,
  Reply,
} from '../speculation/backend.ts'
import { entryText, eventText, recordOf, recordText, type KeptRecord } from './redis-rows.ts'

/** Renewals come by the thousand, and the entry itself remembers its latest; this is for an id used for another. */
const RENEWAL_REQUEST_MS = 60_000

export function pushAttempt(
  args: string[],
  attempt: Attempt,
  channelOf: (session: string) => string,
): void {
  const { places, events, epochs, wakes } = attempt
  const writes = attempt.writes.filter(({ before, after }) => before !== null || after !== null)
  const marks = marksOf(attempt, writes)
  args.push(
    headOf(attempt) +
      countText(places.length) +
      countText(writes.length) +
      countText(events.length) +
      countText(marks.length) +
      countText(epochs.length) +
      countText(wakes.length),
  )
  for (const place of places) pushPlace(args, place)
  const texts = new Map<Entry, string>()
  const requests = renewalRequests(events)
  for (const write of writes) {
    pushWrite(args, write, { texts, request: requests.get(write.id) ?? '-' })
  }
  const textOf = (entry: Entry): string => texts.get(entry) ?? entryText(entry)
  for (const event of events) args.push(eventText(event, textOf))
  args.push(...marks)
  for (const { resource, epoch } of epochs) args.push(resource, String(epoch))
  for (const { session, leaseId } of wakes) args.push(channelOf(session), leaseId)
}

function headOf({ fromUs, beforeUs, wallMs, fences }: Attempt): string {
  const fence = fences === null ? NO_FENCES : tickDigits(fences.first) + tickDigits(fences.last)
  return tickDigits(fromUs) + tickDigits(beforeUs) + String(wallMs).padStart(13, '0') + fence
}

function tickDigits(us: number): string {
  return String(us).padStart(16, '0')
}

const NO_FENCES = '0'.repeat(32)

/** Three characters that Lua can read without making a string. */
function countText(count: number): string {
  if (count < 90) return `!!${String.fromCharCode(33 + count)}`
  const digits = [Math.floor(count / 8_100), Math.floor(count / 90) % 90, count % 90]
  return String.fromCharCode(...digits.map((digit) => 33 + digit))
}

function pushPlace(args: string[], { footprint, own, claims, hasPrior, epoch }: Place): void {
  const { leaseId, requestId, resource } = footprint
  args.push(
    `${leaseId}${hasPrior ? 1 : 0}${shapeOf(footprint)}${requestId ?? NO_REQUEST}${own} ${epoch}`,
    resource,
    claims === null ? '*' : claims.map(({ id, claim }) => `${id} ${claim} `).join(''),
  )
}

const NO_REQUEST = '-'.repeat(36)

/** Flat, or of a tree: exact, or with its subtree. */
function shapeOf({ resource, extent }: Reach): 'f' | 'x' | 's' {
  if (!isTree(resource)) return 'f'
  return extent === 'subtree' ? 's' : 'x'
}

/**
 * How much of an entry changes: `k` nothing but its text, `u` whether and how it stands in the way, `s` its session too;
 * `n` it is new, `x` nothing of it is kept.
 */
type WriteMode = 'k' | 'u' | 's' | 'n' | 'x'

interface WriteFacts {
  /** Of each entry that is written. */
  readonly texts: Map<Entry, string>
  /** The request that renewed it, or `-`. */
  readonly request: string
}

function pushWrite(args: string[], write: EntryWrite, { texts, request }: WriteFacts): void {
  const { id, before, after } = write
  const entry = (after ?? before)?.entry
  if (entry === undefined) return
  const mode = modeOf(write)
  const ended = after === null ? 0 : (endedAtMs(entry) ?? 0)
  const tickets = Number(isPending(after)) - Number(isPending(before))
  args.push(`${mode}${shapeOf(entry)}${id}${before?.version ?? 0} ${tickets} ${ended}`)
  if (after === null) args.push('0 0 0 0')
  else {
    const text = entryText(entry)
    texts.set(entry, text)
    args.push(recordText(after, text, request))
  }
  if (mode === 'k') return
  args.push(entry.resource)
  if (mode === 's') args.push(before?.entry.session ?? '', entry.session)
  else if (mode !== 'u') args.push(entry.holder, (before?.entry ?? entry).session)
}

function modeOf({ before, after }: EntryWrite): WriteMode {
  if (after === null) return 'x'
  if (before === null) return 'n'
  if (before.entry.session !== after.entry.session) return 's'
  if (before.claim !== after.claim) return 'u'
  const [was, is] = [liveDeadline(before.entry), liveDeadline(after.entry)]
  // The index of deadlines may lag behind a deadline that has moved on, but not behind one that has come nearer.
  const lags = was !== null && is !== null && was.domain === is.domain && was.us <= is.us
  return lags && isPending(before) === isPending(after) ? 'k' : 'u'
}

function isPending(kept: Kept | null): boolean {
  return kept?.entry.state === 'pending'
}

function renewalRequests(events: Attempt['events']): ReadonlyMap<string, string> {
  const requests = new Map<string, string>()
  for (const { type, leaseId, requestId } of events) {
    if (type === 'lease.renewed' && requestId !== null) requests.set(leaseId, requestId)
  }
  return requests
}

/** What request ids have done: `e` as long as its entry is kept, `m` until a moment. */
function marksOf({ events, requests, wallMs }: Attempt, writes: readonly EntryWrite[]): string[] {
  const marks: string[] = []
  for (const event of events) {
    const { requestId, leaseId, type } = event
    if (requestId === null) continue
    marks.push(`${requestId}${requestMs(event, writes)} ${leaseId} ${type} 0 e`)
  }
  for (const { requestId, leaseId, type, keepUntilMs } of requests) {
    marks.push(`${requestId}${keepUntilMs - wallMs} ${leaseId} ${type} ${keepUntilMs} m`)
  }
  return marks
}

function requestMs(event: Attempt['events'][number], writes: readonly EntryWrite[]): number {
  if (event.type === 'lease.renewed') return RENEWAL_REQUEST_MS
  const write = writes.find(({ id }) => id === event.leaseId)
  return Math.max(REQUEST_MEMORY_MS_MIN, write?.after?.entry.ttlMs ?? 0)
}

/** The script's answer: clock, revision, settings, how far the clock is behind, then one answer for each attempt. */
export type ScriptAnswer = readonly [string, string, readonly string[] | null, string, ...unknown[]]

export function groupReplyOf(answer: ScriptAnswer, attempts: readonly Attempt[]): GroupReply {
  const [nowUs, revision, settings, behindMs, ...replies] = answer
  const behind: Reply = { kind: 'clock_behind', behindMs: Number(behindMs) }
  return {
    nowUs: Number(nowUs),
    settingsRevision: Number(revision),
    settings: settings === null ? null : settingRows(settings),
    replies: attempts.map((_, index) => {
      return behind.behindMs > 0 ? behind : replyOf(replies[index])
    }),
  }
}

function replyOf(reply: unknown): Reply {
  if (typeof reply === 'number') return { kind: 'committed', fencesMovedBy: reply }
  const views = reply as readonly (readonly string[])[]
  return { kind: 'missed', views: views.map(viewOf) }
}

/** A view as it is told, with the records as the server keeps them. */
export interface RecordView extends PlaceView {
  readonly entries: readonly KeptRecord[]
}

export function viewOf(view: readonly string[]): RecordView {
  const [fence, wallMs, tickets, epoch, prior = '', type = '', ...records] = view
  return {
    entries: recordsInOrder(records),
    lastFence: Number(fence),
    lastWallMs: Number(wallMs),
    ticketCount: Number(tickets),
    prior: prior === '' ? null : priorOf(prior, type),
    epoch: Number(epoch),
  }
}

/** The server does not name the effect of a request that an entry itself remembers: those are its renewals. */
function priorOf(leaseId: string, type: string): PriorEffect {
  return { leaseId, type: type === '-' ? 'lease.renewed' : (type as PriorEffect['type']) }
}

/** Ids and records by turns, in order of creation. */
function recordsInOrder(pairs: readonly string[]): readonly KeptRecord[] {
  const records: KeptRecord[] = []
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    records.push(recordOf(pairs[at] ?? '', pairs[at + 1] ?? '', at))
  }
  return records
}

/** Ids, records and when they were created, by turns. */
export function recordsOf(triples: readonly string[]): readonly KeptRecord[] {
  const records: KeptRecord[] = []
  for (let at = 0; at + 2 < triples.length; at += 3) {
    const [id = '', text = '', created] = triples.slice(at, at + 3)
    records.push(recordOf(id, text, Number(created)))
  }
  return records
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
