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
import { entryText, eventText, fenceOf, recordOf, type KeptRecord } from './redis-rows.ts'

/** Renewals come by the thousand, and the entry itself remembers its latest; this is for an id used for another. */
const RENEWAL_REQUEST_MS = 60_000

export function pushAttempt(
  args: string[],
  attempt: Attempt,
  channelOf: (session: string) => string,
): void {
  const { places, events, requests, epochs, wakes, fences } = attempt
  const writes = attempt.writes.filter(({ before, after }) => before !== null || after !== null)
  args.push(
    `${attempt.fromUs} ${attempt.beforeUs} ${attempt.wallMs} ` +
      `${fences?.first ?? 0} ${fences?.last ?? 0} ${places.length} ${writes.length} ` +
      `${events.length} ${requests.length} ${epochs.length} ${wakes.length}`,
  )
  for (const place of places) pushPlace(args, place)
  const texts = new Map<Entry, string>()
  for (const write of writes) pushWrite(args, write, texts)
  const textOf = (entry: Entry): string => texts.get(entry) ?? entryText(entry)
  for (const event of events) {
    args.push(eventText(event, { keepMs: requestMs(event, writes), textOf }))
  }
  for (const { requestId, leaseId, type, keepUntilMs } of requests) {
    args.push(`${requestId} ${leaseId} ${type} ${keepUntilMs}`)
  }
  for (const { resource, epoch } of epochs) args.push(resource, String(epoch))
  for (const { session, leaseId } of wakes) args.push(channelOf(session), leaseId)
}

function pushPlace(args: string[], { footprint, own, claims, hasPrior, epoch }: Place): void {
  const { leaseId, requestId, resource } = footprint
  const request = requestId ?? '-'
  args.push(
    `${leaseId} ${own} ${hasPrior ? 1 : 0} ${epoch} ${shapeOf(footprint)} ${request}`,
    resource,
    claims === null ? '*' : claims.map(({ id, claim }) => `${id} ${claim} `).join(''),
  )
}

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

function pushWrite(args: string[], write: EntryWrite, texts: Map<Entry, string>): void {
  const { id, before, after } = write
  const kept = after ?? before
  if (kept === null) return
  const { entry } = kept
  const mode = modeOf(write)
  const text = after === null ? '' : entryText(entry)
  if (after !== null) texts.set(entry, text)
  const live = after === null ? 0 : (liveDeadline(entry)?.us ?? 0)
  const ended = after === null ? 0 : (endedAtMs(entry) ?? 0)
  const tickets = Number(isPending(after)) - Number(isPending(before))
  args.push(
    `${id} ${before?.version ?? 0} ${after?.version ?? 0} ${kept.claim} ${fenceOf(entry)} ` +
      `${live} ${entry.ttlMs} ${ended} ${tickets} ${mode}${shapeOf(entry)} ${text}`,
  )
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

function requestMs(event: Attempt['events'][number], writes: readonly EntryWrite[]): number {
  if (event.requestId === null) return 0
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
    entries: recordsOf(records),
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

/** Ids and records by turns. */
export function recordsOf(pairs: readonly string[]): readonly KeptRecord[] {
  const records: KeptRecord[] = []
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    records.push(recordOf(pairs[at] ?? '', pairs[at + 1] ?? ''))
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
