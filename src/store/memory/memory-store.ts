/**
 * Keeps realms in the memory of one process. Every promise of the port holds while the process lives; nothing
 * survives it. Decisions run one after the other, so none ever misses.
 */
import { closedError } from '../../core/errors.ts'
import { recordedEvents, type Commit } from '../../core/commit.ts'
import { RefusalTable, type CountedRefusal } from '../../core/refusal.ts'
import type { LeaseEvent } from '../../core/event.ts'
import { isLive, isWaiting, type Entry, type LeaseId } from '../../core/lease.ts'
import type { ReadSet, PriorEffect, RealmView } from '../../core/realm.ts'
import { ancestorsOf, overlap, type Reach, type Resource } from '../../core/resource.ts'
import {
  boundedCut,
  firstPruneClock,
  isSuperseded,
  mayBePruned,
  nextPruneClock,
  type PruneClock,
  type PruneCut,
} from '../../core/retention.ts'
import { resolveSettings, type SettingRow } from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import { rangeOf } from '../position.ts'
import type {
  Decide,
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  RefusalQuery,
  SettingChange,
  Store,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../../store-port/store.ts'
import { advance, nowOf, type ClockState } from '../embedded-clock.ts'
import { LiveIndex } from '../live-index.ts'
import {
  firstOf,
  isAboutEnded,
  matchesEntry,
  matchesEvent,
  refusalsFor,
} from '../query-matching.ts'
import { Subscribers } from '../subscribers.ts'

export interface MemoryStoreOptions {
  readonly ticks: TickSource
  readonly url?: string
}

interface KeptEntry {
  readonly entry: Entry
  /** Its place in the order of creation, or of the ends. */
  readonly number: number
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
  /** In order of creation. */
  readonly #live = new Map<LeaseId, KeptEntry>()
  /** In the order of the ends. */
  readonly #ended = new Map<LeaseId, KeptEntry>()
  #lastNumber = 0
  readonly #index = new LiveIndex()
  readonly #tickets = new LiveIndex()
  readonly #requests = new Map<string, KeptRequest>()
  readonly #epochs = new Map<Resource, number>()
  readonly #refusals = new RefusalTable()
  readonly #settings = new Map<string, SettingRow>()
  readonly #subscribers = new Subscribers()
  #ledger: KeptEvent[] = []
  #sequence = 0
  /** The position of the last event of the entries that were pruned. */
  #prunedUpTo = 0
  #lastFence = 0
  #clock: ClockState | null = null
  #pruneClock: PruneClock | null = null
  #closed = false

  constructor({ ticks, url = 'memory:' }: MemoryStoreOptions) {
    this.#ticks = ticks
    this.description = {
      url,
      clock: 'monotonic clock of this process',
      durability: 'none: everything is lost when the process ends',
    }
  }

  async transact<Outcome>(readSets: readonly ReadSet[], decide: Decide<Outcome>): Promise<Outcome> {
    this.#refuseIfClosed()
    const clock = this.#advanced()
    const now = nowOf(clock)
    const views = readSets.map((readSet) => this.#view(readSet, now))
    const ruling = decide(views, now)
    // A decision without effect leaves no trace, so the next one may be made at the same tick.
    const isNew = clock.generation !== this.#clock?.generation
    if (isNew || ruling.commit.changes.length > 0) {
      this.#clock = clock
      this.#pruneClock ??= firstPruneClock(clock.lastWallMs)
    }
    this.#apply(ruling.commit)
    return ruling.outcome
  }

  async find(query: EntryQuery): Promise<Found> {
    this.#refuseIfClosed()
    const now = nowOf(this.#advanced())
    return { now, ...firstOf(this.#found(query, now), query.limit) }
  }

  *#found(query: EntryQuery, now: Now): Generator<readonly [after: string, Entry]> {
    const after = Number(query.after ?? 0)
    for (const { entry, number } of this.#candidates(query)) {
      if (number > after && matchesEntry(entry, query, now.tick)) yield [String(number), entry]
    }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    this.#refuseIfClosed()
    const { from, to, descending } = rangeOf(query, this.#sequence, this.#prunedUpTo)
    const found: LedgerEntry[] = []
    for (const { sequence, event } of descending ? this.#ledger.toReversed() : this.#ledger) {
      if (found.length === query.limit) break
      if (sequence < from || sequence > to || !matchesEvent(event, query)) continue
      found.push({ position: String(sequence), event })
    }
    return found
  }

  async end(): Promise<Position> {
    this.#refuseIfClosed()
    return String(this.#sequence)
  }

  async countRefusals(refusals: readonly CountedRefusal[]): Promise<void> {
    this.#refuseIfClosed()
    this.#refusals.add(refusals)
  }

  async refusals(query: RefusalQuery): Promise<readonly CountedRefusal[]> {
    this.#refuseIfClosed()
    return refusalsFor(this.#refusals.inOrder(), query)
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
    this.#pruneClock = nextPruneClock(this.#pruneClock, policy.nowMs)
    const cut = boundedCut(policy, this.#pruneClock)
    this.#refusals.removeBefore(cut.endedBeforeMs)
    const lastMs = new Map(this.#ledger.map(({ event }) => [event.leaseId, event.atMs]))
    const ended = [...this.#ended.values()].filter(({ entry }) => {
      return mayBePruned(entry, lastMs.get(entry.id) ?? 0, cut)
    })
    const gone = new Set(ended.slice(0, policy.batch).map(({ entry }) => entry.id))
    for (const id of gone) this.#ended.delete(id)
    const last = this.#ledger.findLast((row) => gone.has(row.event.leaseId))
    this.#prunedUpTo = Math.max(this.#prunedUpTo, last?.sequence ?? 0)
    const before = this.#ledger.length
    this.#ledger = this.#ledger.filter(({ event }) => !gone.has(event.leaseId))
    this.#removeSuperseded(cut)
    const events = before - this.#ledger.length
    for (const [requestId, request] of this.#requests) {
      const over = request.keepUntilMs !== null && request.keepUntilMs < cut.nowMs
      if (over || gone.has(request.leaseId)) this.#requests.delete(requestId)
    }
    return { leases: gone.size, events, more: ended.length > gone.size }
  }

  /** Events that a later one of their type and lease makes needless, with the ids of their requests. */
  #removeSuperseded(cut: PruneCut): void {
    const later = new Set<string>()
    const kept = this.#ledger.toReversed().filter(({ event }) => {
      const kind = `${event.type} ${event.leaseId}`
      const isLast = !later.has(kind)
      later.add(kind)
      const { leaseId, requestId } = event
      if (isLast || !isSuperseded(event, this.#entryOf(leaseId)?.ttlMs ?? null, cut)) return true
      if (requestId !== null) this.#requests.delete(requestId)
      return false
    })
    this.#ledger = kept.toReversed()
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    this.#refuseIfClosed()
    return this.#subscribers.subscribe(session, listener)
  }

  follow(listener: () => void): Unsubscribe {
    return this.#subscribers.follow(listener)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#subscribers.clear()
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw closedError()
  }

  #advanced(): ClockState {
    return advance(this.#clock, this.#ticks, 'memory/process/0')
  }

  #view(readSet: ReadSet, now: Now): RealmView {
    const { resource, leaseId, requestId } = readSet
    const entries = new Map<LeaseId, Entry>()
    if (readSet.depth === 'claims') {
      for (const { entry } of this.#near(readSet)) entries.set(entry.id, entry)
    }
    const prior = requestId === null ? null : (this.#requests.get(requestId) ?? null)
    for (const id of prior === null ? [leaseId] : [leaseId, prior.leaseId]) {
      const entry = this.#entryOf(id)
      if (entry !== undefined) entries.set(id, entry)
    }
    const countTickets = (): number => this.#countTickets(resource, now)
    return {
      ...{ entries, lastFence: this.#lastFence, prior },
      get ticketCount() {
        return countTickets()
      },
      epoch: this.#epochs.get(resource) ?? 0,
      settings: resolveSettings([...this.#settings.values()], resource),
    }
  }

  *#near(reach: Reach): Generator<KeptEntry> {
    for (const id of this.#index.near(reach)) {
      const kept = this.#live.get(id)
      if (kept !== undefined && overlap(kept.entry, reach)) yield kept
    }
  }

  #apply(commit: Commit): void {
    for (const { id, before, after } of commit.changes) this.#put(id, before, after)
    for (const { event, ended } of recordedEvents(commit)) {
      this.#append(event)
      if (ended === null) continue
      // Of several that one commit has ended, the order is that of the events which ended them.
      this.#ended.set(ended.id, { entry: ended, number: (this.#lastNumber += 1) })
    }
    for (const mark of commit.requests) this.#requests.set(mark.requestId, mark)
    for (const { resource, epoch } of commit.epochs) this.#epochs.set(resource, epoch)
    this.#lastFence = Math.max(this.#lastFence, commit.lastFence)
    if (commit.events.length > 0) this.#subscribers.notifyFollowers()
    for (const { session, leaseId } of commit.wakes) {
      this.#subscribers.wake(session, { leaseIds: [leaseId] })
    }
  }

  #put(id: LeaseId, before: Entry | undefined, after: Entry | null): void {
    if (before !== undefined && isLive(before)) {
      this.#index.remove(before.resource, id)
      this.#tickets.remove(before.resource, id)
    }
    if (after === null) return this.#forget(id, before)
    this.#ended.delete(id)
    if (!isLive(after)) return void this.#live.delete(id)
    const number = this.#live.get(id)?.number ?? (this.#lastNumber += 1)
    this.#live.set(id, { entry: after, number })
    this.#index.add(after.resource, id)
    if (after.state === 'pending') this.#tickets.add(after.resource, id)
  }

  /** What the ledger told of an entry goes with it, so that what is left always folds. */
  #forget(id: LeaseId, before: Entry | undefined): void {
    this.#live.delete(id)
    this.#ended.delete(id)
    if (before === undefined) return
    this.#ledger = this.#ledger.filter(({ event }) => event.leaseId !== id)
    for (const [requestId, { leaseId, keepUntilMs }] of this.#requests) {
      if (leaseId === id && keepUntilMs === null) this.#requests.delete(requestId)
    }
  }

  #entryOf(id: LeaseId): Entry | undefined {
    return (this.#live.get(id) ?? this.#ended.get(id))?.entry
  }

  #countTickets(resource: Resource, now: Now): number {
    const whole = ancestorsOf(resource).at(-1) ?? resource
    let count = 0
    for (const id of this.#tickets.near({ resource: whole, extent: 'subtree' })) {
      const ticket = this.#live.get(id)?.entry
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

  *#candidates(query: EntryQuery): Generator<KeptEntry> {
    if (query.overlapping !== undefined) return yield* this.#near(query.overlapping)
    if (isAboutEnded(query)) return yield* this.#ended.values()
    if (query.ids === undefined) return yield* this.#live.values()
    for (const id of new Set(query.ids)) {
      const kept = this.#live.get(id) ?? this.#ended.get(id)
      if (kept !== undefined) yield kept
    }
  }
}
