/**
 * What a decision means for a store: the entries to put or remove, the events to append, the sessions to wake. A
 * store carries this out and understands none of it.
 */
import type { LeaseEvent } from './event.ts'
import { isLive, type Entry, type LeaseId } from './lease.ts'
import { REQUEST_MEMORY_MS_MIN } from './limits.ts'
import type { Decision, RealmView } from './realm.ts'

export interface EntryChange {
  readonly id: LeaseId
  /** The entry as it was read; undefined when it is new. */
  readonly before: Entry | undefined
  /** Null: nothing of it is kept. */
  readonly after: Entry | null
}

/** A request id that must be remembered although no event in the ledger carries it. */
export interface RequestMark {
  readonly requestId: string
  readonly leaseId: LeaseId
  readonly type: LeaseEvent['type']
  readonly keepUntilMs: number
}

export interface Wake {
  readonly session: string
  readonly leaseId: LeaseId
}

export interface Commit {
  readonly changes: readonly EntryChange[]
  readonly events: readonly LeaseEvent[]
  readonly requests: readonly RequestMark[]
  readonly wakes: readonly Wake[]
  /** The highest fence that the events give, or 0. */
  readonly lastFence: number
}

const NOTHING: Commit = { changes: [], events: [], requests: [], wakes: [], lastFence: 0 }

export function commitOf(view: RealmView, decision: Decision<unknown>): Commit {
  const { events, entries } = decision
  if (events.length === 0) return NOTHING
  const { keep_history: keepHistory } = view.settings
  const recorded = keepHistory ? events.filter((event) => isRecorded(view, event)) : []
  const requests = requestMarks(events, recorded, entries)
  return {
    changes: changesOf(view, decision, keepHistory),
    events: recorded,
    requests: keepHistory ? requests : [...requests, ...leaseMarks(decision)],
    wakes: wakesOf(events),
    lastFence: highestFence(events),
  }
}

function changesOf(
  view: RealmView,
  { events, entries }: Decision<unknown>,
  keepHistory: boolean,
): readonly EntryChange[] {
  const changed = new Set(events.map((event) => event.leaseId))
  const changes: EntryChange[] = []
  for (const id of changed) {
    const entry = entries.get(id)
    const kept = entry !== undefined && (keepHistory || isLive(entry)) ? entry : null
    changes.push({ id, before: view.entries.get(id), after: kept })
  }
  return changes
}

function isRecorded(view: RealmView, event: LeaseEvent): boolean {
  if (event.type === 'lease.waiting') return false
  return event.type !== 'lease.renewed' || view.settings.record_renewals
}

function requestMarks(
  events: readonly LeaseEvent[],
  recorded: readonly LeaseEvent[],
  after: ReadonlyMap<LeaseId, Entry>,
): readonly RequestMark[] {
  if (recorded.length === events.length) return []
  const marks: RequestMark[] = []
  for (const event of events) {
    if (event.requestId === null || recorded.includes(event)) continue
    const ttlMs = after.get(event.leaseId)?.ttlMs ?? 0
    const keepUntilMs = event.atMs + Math.max(REQUEST_MEMORY_MS_MIN, ttlMs)
    marks.push({
      requestId: event.requestId,
      leaseId: event.leaseId,
      type: event.type,
      keepUntilMs,
    })
  }
  return marks
}

/**
 * A lease of which nothing is kept leaves its id behind, so that an acquire which is delivered late, or twice, is not
 * granted again.
 */
function leaseMarks({ events, entries }: Decision<unknown>): readonly RequestMark[] {
  const marks = new Map<LeaseId, RequestMark>()
  for (const { leaseId, atMs } of events) {
    const entry = entries.get(leaseId)
    if (entry?.kind !== 'lease' || entry.state === 'active' || isLive(entry)) continue
    const keepUntilMs = atMs + Math.max(REQUEST_MEMORY_MS_MIN, entry.ttlMs)
    const type = `lease.${entry.state}` as const
    marks.set(leaseId, { requestId: leaseId, leaseId, type, keepUntilMs })
  }
  return [...marks.values()]
}

/** Who must hear of an event: the waiter whose turn it is, and whoever was ended by somebody else. */
function wakesOf(events: readonly LeaseEvent[]): readonly Wake[] {
  const wakes: Wake[] = []
  for (const event of events) {
    if (concernsAnother(event)) wakes.push({ session: event.session, leaseId: event.leaseId })
  }
  return wakes
}

function concernsAnother(event: LeaseEvent): boolean {
  if (event.type === 'lease.failed') return event.failure === 'aborted'
  return event.type === 'lease.offered' || event.type === 'lease.revoked'
}

function highestFence(events: readonly LeaseEvent[]): number {
  let highest = 0
  for (const event of events) {
    if (event.type === 'lease.issued') highest = Math.max(highest, event.lease.fence)
    if (event.type === 'lease.offered') highest = Math.max(highest, event.fence)
  }
  return highest
}
