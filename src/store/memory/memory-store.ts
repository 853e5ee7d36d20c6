/**
 * Keeps realms in the memory of one process. Every promise of the port holds while the process lives; nothing
 * survives it. Decisions run one after the other, so none ever misses.
 */
import { queueMicrotask } from '../../runtime/system-runtime.ts'
import { closedError } from '../../core/errors.ts'
import type { Commit } from '../../core/commit.ts'
import type { Wake } from '../../core/realm.ts'
import type { LeaseEvent } from '../../core/event.ts'
import {
  endedAtMs,
  isLive,
  isWaiting,
  liveDeadline,
  type Entry,
  type LeaseId,
} from '../../core/lease.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import type { Footprint, PriorEffect, RealmView } from '../../core/realm.ts'
import { kindOf, overlap, realmOf, type Reach, type Resource } from '../../core/resource.ts'
import { resolveSettings, type SettingRow } from '../../core/settings.ts'
import { hasPassed, type Now } from '../../core/time.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import { parsePosition } from '../../store-port/position.ts'
import type {
  Decide,
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  SettingChange,
  Store,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../../store-port/store.ts'
import { advance, nowOf, readTicks, type ClockState } from '../embedded-clock.ts'
import { LazyView } from '../lazy-view.ts'
import { LiveIndex } from '../live-index.ts'

export interface MemoryStoreOptions {
  readonly ticks: TickSource
  readonly url?: string
}

interface KeptRequest extends PriorEffect {
  readonly keepUntilMs: number | null
}

interface KeptEvent {
  readonly sequence: number
  readonly event: LeaseEvent
}

export class MemoryStore implements Store {
  readonly description: StoreDescription
  readonly #ticks: TickSource
  readonly #entries = new Map<LeaseId, Entry>()
  readonly #numbers = new Map<LeaseId, number>()
  #lastNumber = 0
  readonly #live = new LiveIndex()
  readonly #tickets = new Map<string, Set<LeaseId>>()
  readonly #requests = new Map<string, KeptRequest>()
  readonly #epochs = new Map<Resource, number>()
  readonly #settings = new Map<string, SettingRow>()
  readonly #listeners = new Map<string, Set<(signal: WakeSignal) => void>>()
  readonly #followers = new Set<() => void>()
  #ledger: KeptEvent[] = []
  #sequence = 0
  #lastFence = 0
  #clock: ClockState | null = null
  #closed = false

  constructor({ ticks, url = 'memory:' }: MemoryStoreOptions) {
    this.#ticks = ticks
    this.description = {
      url,
      clock: 'monotonic clock of this process',
      durability: 'none: everything is lost when the process ends',
    }
  }

  async transact<Outcome>(
    footprints: readonly Footprint[],
    decide: Decide<Outcome>,
  ): Promise<Outcome> {
    this.#refuseIfClosed()
    const clock = this.#advanced()
    const now = nowOf(clock)
    const views = footprints.map((footprint) => this.#view(footprint, now))
    const ruling = decide(views, now)
    // A decision without effect leaves no trace, so the next one may be made at the same tick.
    const isNew = clock.generation !== this.#clock?.generation
    if (isNew || ruling.commit.changes.length > 0) this.#clock = clock
    this.#apply(ruling.commit)
    return ruling.outcome
  }

  async find(query: EntryQuery): Promise<Found> {
    this.#refuseIfClosed()
    const now = nowOf(this.#advanced())
    const entries: Entry[] = []
    const after = Number(query.after ?? 0)
    for (const entry of this.#candidates(query)) {
      if (!matches(entry, query, now) || this.#numberOf(entry) <= after) continue
      if (entries.length === query.limit) {
        const last = entries.at(-1)
        const next = last === undefined ? null : String(this.#numberOf(last))
        return { now, entries, more: true, next }
      }
      entries.push(entry)
    }
    return { now, entries, more: false, next: null }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    this.#refuseIfClosed()
    const after = query.after === undefined ? null : parsePosition(query.after)
    const ordered = query.newestFirst === true ? this.#ledger.toReversed() : this.#ledger
    const found: LedgerEntry[] = []
    for (const { sequence, event } of ordered) {
      if (found.length === query.limit) break
      const passed = query.newestFirst === true ? -sequence : sequence
      if (after !== null && passed <= (query.newestFirst === true ? -after : after)) continue
      if (tells(event, query)) found.push({ position: String(sequence), event })
    }
    return found
  }

  async end(): Promise<Position> {
    this.#refuseIfClosed()
    return String(this.#sequence)
  }

  async settings(): Promise<readonly SettingRow[]> {
    this.#refuseIfClosed()
    return [...this.#settings.values()]
  }

  async configure(change: SettingChange): Promise<void> {
    this.#refuseIfClosed()
    const { key, value, scope, resourceId } = change
    const slot = JSON.stringify([key, scope, resourceId])
    if (value === null) this.#settings.delete(slot)
    else this.#settings.set(slot, { key, value, scope, resourceId })
  }

  async prune(policy: PrunePolicy): Promise<Pruned> {
    this.#refuseIfClosed()
    const ended = [...this.#entries.values()].filter((entry) => isPrunable(entry, policy))
    const gone = new Set(ended.slice(0, policy.batch).map((entry) => entry.id))
    for (const id of gone) {
      this.#entries.delete(id)
      this.#numbers.delete(id)
    }
    const superseded = supersededEvents(this.#ledger, policy, (id) => this.#entries.get(id))
    const kept = this.#ledger.filter((row) => !gone.has(row.event.leaseId) && !superseded.has(row))
    const events = this.#ledger.length - kept.length
    this.#ledger = kept
    for (const [requestId, request] of this.#requests) {
      const over = request.keepUntilMs !== null && request.keepUntilMs < policy.nowMs
      if (over || gone.has(request.leaseId)) this.#requests.delete(requestId)
    }
    return { leases: gone.size, events, more: ended.length > gone.size }
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    this.#refuseIfClosed()
    const listeners = this.#listeners.get(session) ?? new Set()
    listeners.add(listener)
    this.#listeners.set(session, listeners)
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(session) === listeners) {
        this.#listeners.delete(session)
      }
    }
  }

  follow(listener: () => void): Unsubscribe {
    this.#followers.add(listener)
    return () => this.#followers.delete(listener)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#listeners.clear()
    this.#followers.clear()
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw closedError()
  }

  #advanced(): ClockState {
    return advance(this.#clock, readTicks(this.#ticks, 'memory/process/0'))
  }

  #view(footprint: Footprint, now: Now): RealmView {
    const { resource, leaseId, requestId } = footprint
    const entries = new Map<LeaseId, Entry>()
    if (footprint.depth === 'claims') this.#collect(entries, footprint)
    const prior = requestId === null ? null : (this.#requests.get(requestId) ?? null)
    for (const id of prior === null ? [leaseId] : [leaseId, prior.leaseId]) {
      const entry = this.#entries.get(id)
      if (entry !== undefined) entries.set(id, entry)
    }
    return new LazyView({
      entries,
      lastFence: this.#lastFence,
      countTickets: this.#countTickets,
      readEpoch: this.#readEpoch,
      footprint,
      now,
      prior,
      settings: resolveSettings([...this.#settings.values()], resource),
    })
  }

  #collect(entries: Map<LeaseId, Entry>, reach: Reach): void {
    for (const id of this.#live.near(reach)) {
      const entry = this.#entries.get(id)
      if (entry !== undefined && overlap(entry, reach)) entries.set(id, entry)
    }
  }

  #apply(commit: Commit): void {
    for (const { id, before, after } of commit.changes) this.#put(id, before, after)
    for (const event of commit.events) this.#append(event)
    for (const mark of commit.requests) this.#requests.set(mark.requestId, mark)
    for (const { resource, epoch } of commit.epochs) this.#epochs.set(resource, epoch)
    this.#lastFence = Math.max(this.#lastFence, commit.lastFence)
    if (commit.events.length > 0) for (const follower of this.#followers) queueMicrotask(follower)
    for (const wake of commit.wakes) this.#wake(wake)
  }

  #put(id: LeaseId, before: Entry | undefined, after: Entry | null): void {
    if (before !== undefined && isLive(before)) this.#unlist(before)
    if (after === null) return this.#forget(id, before)
    this.#entries.set(id, after)
    if (before === undefined) this.#numbers.set(id, (this.#lastNumber += 1))
    if (!isLive(after)) return
    this.#live.add(after.resource, id)
    if (after.state === 'pending') this.#listTicket(after)
  }

  /** What the ledger told of an entry goes with it, so that what is left always folds. */
  #forget(id: LeaseId, before: Entry | undefined): void {
    this.#entries.delete(id)
    this.#numbers.delete(id)
    if (before === undefined) return
    this.#ledger = this.#ledger.filter(({ event }) => event.leaseId !== id)
    for (const [requestId, { leaseId, keepUntilMs }] of this.#requests) {
      if (leaseId === id && keepUntilMs === null) this.#requests.delete(requestId)
    }
  }

  /** In the order of creation, from 1. */
  #numberOf({ id }: Entry): number {
    return this.#numbers.get(id) ?? 0
  }

  /** In order of creation, each once. */
  #inOrder(entries: readonly Entry[]): readonly Entry[] {
    const wanted = new Set(entries)
    return [...this.#entries.values()].filter((entry) => wanted.has(entry))
  }

  #unlist(entry: Entry): void {
    this.#live.remove(entry.resource, entry.id)
    if (entry.state === 'pending') this.#unlistTicket(entry)
  }

  #listTicket(ticket: Entry): void {
    const realm = realmOf(ticket.resource)
    const ids = this.#tickets.get(realm) ?? new Set()
    this.#tickets.set(realm, ids.add(ticket.id))
  }

  #unlistTicket(ticket: Entry): void {
    const realm = realmOf(ticket.resource)
    const ids = this.#tickets.get(realm)
    ids?.delete(ticket.id)
    if (ids?.size === 0) this.#tickets.delete(realm)
  }

  readonly #readEpoch = (resource: Resource): number => this.#epochs.get(resource) ?? 0

  readonly #countTickets = (resource: Resource, now: Now): number => {
    let count = 0
    for (const id of this.#tickets.get(realmOf(resource)) ?? []) {
      const ticket = this.#entries.get(id)
      if (ticket !== undefined && isWaiting(ticket, now)) count += 1
    }
    return count
  }

  #append(event: LeaseEvent): void {
    this.#sequence += 1
    this.#ledger.push({ sequence: this.#sequence, event })
    if (event.requestId === null) return
    const { leaseId, type } = event
    this.#requests.set(event.requestId, { leaseId, type, keepUntilMs: null })
  }

  #wake({ session, leaseId }: Wake): void {
    for (const listener of this.#listeners.get(session) ?? []) {
      queueMicrotask(() => listener({ leaseIds: [leaseId] }))
    }
  }

  #candidates(query: EntryQuery): Iterable<Entry> {
    if (query.overlapping !== undefined) {
      const entries = new Map<LeaseId, Entry>()
      this.#collect(entries, query.overlapping)
      return entries.values()
    }
    if (query.ids === undefined) return this.#entries.values()
    const found = query.ids
      .map((id) => this.#entries.get(id))
      .filter((entry) => entry !== undefined)
    return found.length > 1 ? this.#inOrder(found) : found
  }
}

function matches(entry: Entry, query: EntryQuery, now: Now): boolean {
  if (query.resource !== undefined && entry.resource !== query.resource) return false
  if (query.holder !== undefined && entry.holder !== query.holder) return false
  if (query.session !== undefined && entry.session !== query.session) return false
  if (query.states !== undefined && !query.states.includes(entry.state)) return false
  if (query.deadline === undefined) return true
  const deadline = liveDeadline(entry)
  if (deadline === null) return false
  return hasPassed(deadline, now.tick) === (query.deadline === 'passed')
}

function tells(event: LeaseEvent, query: HistoryQuery): boolean {
  if (query.leaseId !== undefined && event.leaseId !== query.leaseId) return false
  if (query.resource !== undefined && event.resource !== query.resource) return false
  if (query.kinds !== undefined && !query.kinds.includes(kindOf(event.resource))) return false
  if (query.holder !== undefined && event.holder !== query.holder) return false
  if (query.types !== undefined && !query.types.includes(event.type)) return false
  if (query.fromMs !== undefined && event.atMs < query.fromMs) return false
  return query.toMs === undefined || event.atMs <= query.toMs
}

function isPrunable(entry: Entry, policy: PrunePolicy): boolean {
  const ended = endedAtMs(entry)
  return ended !== null && ended < policy.endedBeforeMs && ended + entry.ttlMs < policy.nowMs
}

/** Old renewals and advances of a lease say nothing once a later one is kept, unless they may still be repeated. */
function supersededEvents(
  ledger: readonly KeptEvent[],
  { endedBeforeMs, nowMs }: PrunePolicy,
  entryOf: (id: LeaseId) => Entry | undefined,
): ReadonlySet<KeptEvent> {
  const superseded = new Set<KeptEvent>()
  const latest = new Map<string, KeptEvent>()
  for (const row of ledger) {
    const { type, leaseId } = row.event
    if (type !== 'lease.renewed' && type !== 'lease.advanced') continue
    const key = `${type} ${leaseId}`
    const earlier = latest.get(key)
    if (earlier !== undefined && isForgettable(earlier.event)) superseded.add(earlier)
    latest.set(key, row)
  }
  return superseded

  function isForgettable({ type, leaseId, atMs, requestId }: LeaseEvent): boolean {
    if (atMs >= endedBeforeMs) return false
    if (type === 'lease.advanced') return atMs + (entryOf(leaseId)?.ttlMs ?? TTL_MS_MAX) < nowMs
    return requestId === null || atMs < nowMs - TTL_MS_MAX
  }
}
