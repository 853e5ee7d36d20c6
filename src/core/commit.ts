/**
 * What a decision means for a store: the entries to put or remove, the events to append, the sessions to wake. A
 * store carries this out and understands none of it.
 */
import type { LeaseEvent } from './event.ts'
import { isLive, type Entry, type LeaseId } from './lease.ts'
import { REQUEST_MEMORY_MS_MIN } from './limits.ts'
import type { Decision, RealmView, Wake } from './realm.ts'
import type { RecordedEvent } from './record.ts'
import type { Resource } from './resource.ts'

export interface EntryChange {
  readonly id: LeaseId
  /** The entry as it was read; undefined when it is new. */
  readonly before: Entry | undefined
  /** Null: nothing of it is kept. */
  readonly after: Entry | null
  /**
   * It was renewed, advanced or kept alive, and that is all: no decision about another entry depends on it, but one that
   * rewrites it as it is (`Decision.reliedOn`).
   */
  readonly renewal: boolean
}

/** A request id that must be remembered although no event in the ledger carries it. */
export interface RequestMark {
  readonly requestId: string
  readonly leaseId: LeaseId
  readonly type: LeaseEvent['type']
  readonly keepUntilMs: number
}

/** How far the epoch of a resource has come, to be remembered whatever becomes of its leases and of the ledger. */
export interface EpochMark {
  readonly resource: Resource
  readonly epoch: number
}

export interface Commit {
  readonly changes: readonly EntryChange[]
  readonly events: readonly LeaseEvent[]
  readonly requests: readonly RequestMark[]
  readonly epochs: readonly EpochMark[]
  readonly wakes: readonly Wake[]
  /**
   * The lowest and the highest fence that are new with it, or 0. `firstFence` above `lastFence`: it brings no new fence, but
   * later ones must be above `lastFence`, as after an import.
   */
  readonly firstFence: number
  readonly lastFence: number
}

/** What an answer without effect commits. */
export const NOTHING: Commit = {
  changes: [],
  events: [],
  requests: [],
  epochs: [],
  wakes: [],
  firstFence: 0,
  lastFence: 0,
}

export function commitOf(view: RealmView, decision: Decision<unknown>): Commit {
  const { events, entries } = decision
  if (events.length === 0) return NOTHING
  const recorded = events.filter((event) =>
    isRecorded(view, event, entryAfter(entries, event.leaseId)),
  )
  const changes = changesOf(view, decision)
  return {
    changes,
    events: recorded,
    requests: [...requestMarks(events, recorded, entries), ...leaseMarks(decision, changes)],
    epochs: epochsOf(events),
    wakes: [...wakesOf(decision), ...decision.wakes],
    firstFence: decision.firstFence,
    lastFence: decision.lastFence,
  }
}

/** What of a commit tells which event ended which entry. */
export interface EventsAndChanges {
  readonly events: readonly LeaseEvent[]
  readonly changes: readonly Pick<EntryChange, 'id' | 'after'>[]
}

/**
 * The events of a commit, each with the entry that it ended. What has ended is history: a store takes it out of what is
 * live and keeps it with the last event that tells of it.
 */
export function recordedEvents({ events, changes }: EventsAndChanges): readonly RecordedEvent[] {
  let ended: Map<LeaseId, Entry> | null = null
  for (const { id, after } of changes) {
    if (after !== null && !isLive(after)) (ended ??= new Map()).set(id, after)
  }
  if (ended === null) return events.map((event) => ({ event, ended: null }))
  const last = new Map(events.map((event) => [event.leaseId, event]))
  return events.map((event) => {
    const { leaseId } = event
    return { event, ended: last.get(leaseId) === event ? (ended.get(leaseId) ?? null) : null }
  })
}

type Entries = ReadonlyMap<LeaseId, Entry>

/** Whatever an event is about, it leaves an entry of it. */
function entryAfter(entries: Entries, id: LeaseId): Entry {
  const entry = entries.get(id)
  if (entry === undefined) throw new Error(`a decision about ${id} left no entry of it`)
  return entry
}

/**
 * Whether an entry stays, and its events with it: while it lives, and beyond that if history is kept and has told of it
 * from the beginning. What is configured meanwhile must not leave gaps in the ledger of a lease.
 */
function isKept(view: RealmView, entry: Entry): boolean {
  return isLive(entry) || (view.settings.keep_history && entry.recorded)
}

const RENEWAL_TYPES: ReadonlySet<LeaseEvent['type']> = new Set<LeaseEvent['type']>([
  'lease.renewed',
  'lease.waiting',
  'lease.advanced',
])

function changesOf(
  view: RealmView,
  { events, entries, reliedOn }: Decision<unknown>,
): readonly EntryChange[] {
  const renewals = new Map<LeaseId, boolean>()
  for (const id of reliedOn) renewals.set(id, true)
  for (const { type, leaseId } of events) {
    renewals.set(leaseId, RENEWAL_TYPES.has(type) && renewals.get(leaseId) !== false)
  }
  const changes: EntryChange[] = []
  for (const [id, renewal] of renewals) {
    const entry = entryAfter(entries, id)
    const after = isKept(view, entry) ? entry : null
    changes.push({ id, before: view.entries.get(id), after, renewal })
  }
  return changes
}

function isRecorded(view: RealmView, event: LeaseEvent, entry: Entry): boolean {
  if (event.type === 'lease.waiting' || !entry.recorded) return false
  if (!isKept(view, entry)) return false
  return event.type !== 'lease.renewed' || view.settings.record_renewals
}

function requestMarks(
  events: readonly LeaseEvent[],
  recorded: readonly LeaseEvent[],
  entries: Entries,
): readonly RequestMark[] {
  const marks: RequestMark[] = []
  for (const event of events) {
    if (event.requestId === null || recorded.includes(event)) continue
    const { ttlMs } = entryAfter(entries, event.leaseId)
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
 * An entry of which nothing is kept leaves its id behind: a lease, so that an acquire which is delivered late, or twice,
 * is not granted again; a ticket that was taken out of the queue, so that its waiter hears so and does not file it anew.
 */
function leaseMarks(
  { events, entries }: Decision<unknown>,
  changes: readonly EntryChange[],
): readonly RequestMark[] {
  const marks: RequestMark[] = []
  for (const { id: leaseId, after } of changes) {
    if (after !== null) continue
    const entry = entryAfter(entries, leaseId)
    const type = endingOf(entry)
    // A waiter that was given a lease by transfer is led to it by its own id.
    if (type === null || events.some(({ requestId }) => requestId === leaseId)) continue
    const atMs = events.at(-1)?.atMs ?? 0
    const keepUntilMs = atMs + Math.max(REQUEST_MEMORY_MS_MIN, entry.ttlMs)
    marks.push({ requestId: leaseId, leaseId, type, keepUntilMs })
  }
  return marks
}

function epochsOf(events: readonly LeaseEvent[]): readonly EpochMark[] {
  const marks: EpochMark[] = []
  for (const event of events) {
    if (event.type === 'lease.advanced') marks.push({ resource: event.resource, epoch: event.to })
  }
  return marks
}

/** How an entry ended, if a process that knows its id has to hear of it. */
function endingOf(entry: Entry): LeaseEvent['type'] | null {
  if (entry.kind === 'ticket') return entry.failure === 'aborted' ? 'lease.failed' : null
  return entry.state === 'active' ? null : `lease.${entry.state}`
}

/** Who must hear of an event: the waiter whose turn it is, and the holder or waiter that another has ended. */
function wakesOf({ events, entries }: Decision<unknown>): readonly Wake[] {
  const wakes: Wake[] = []
  for (const event of events) {
    if (!concernsAnother(event)) continue
    const { session, leaseId } = event
    // A waiter that has claimed its offer already is answered, not woken.
    const isClaimed =
      event.type === 'lease.offered' && entryAfter(entries, leaseId).kind === 'lease'
    if (!isClaimed) wakes.push({ session, leaseId })
  }
  return wakes
}

const WAKING_TYPES: ReadonlySet<LeaseEvent['type']> = new Set<LeaseEvent['type']>([
  'lease.offered',
  'lease.revoked',
  'lease.revoking',
  'lease.transferred',
  'lease.upgraded',
])

function concernsAnother(event: LeaseEvent): boolean {
  if (event.type === 'lease.failed') {
    return event.failure === 'aborted' || event.failure === 'deadlock'
  }
  if (event.type === 'lease.released') return event.releaseReason === 'aborted'
  if (event.type === 'lease.issued') return !event.lease.adopted
  return WAKING_TYPES.has(event.type)
}
