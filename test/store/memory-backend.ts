/**
 * A server for speculating stores that lives in this process: a memory store for what is kept, and the comparisons of
 * the port written down as plainly as possible. Several stores may share it, as processes share a server.
 */
import { isLive, type Entry, type LeaseId } from '../../src/core/lease.ts'
import { NOTHING, type Commit } from '../../src/core/commit.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { Footprint, RealmView } from '../../src/core/realm.ts'
import { overlap, realmOf } from '../../src/core/resource.ts'
import type {
  Attempt,
  Backend,
  EntryWrite,
  FoundKept,
  Group,
  GroupReply,
  Kept,
  Place,
  PlaceView,
  Reply,
  SeenClaim,
} from '../../src/store/speculation/backend.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import type {
  EntryQuery,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  SettingChange,
  Unsubscribe,
  WakeSignal,
} from '../../src/store-port/store.ts'
import type { SettingRow } from '../../src/core/settings.ts'
import type { ServerTicks } from './server-ticks.ts'

interface Call {
  readonly nowUs: number
  readonly isCurrent: boolean
}

interface Numbers {
  readonly version: number
  readonly claim: number
}

export class MemoryBackend implements Backend {
  readonly clockDomain = 'server/test/0#1'
  readonly isQuick: boolean = true
  readonly description = { url: 'server:', clock: 'of the test', durability: 'none' }
  /** How many calls came, and how many attempts of them missed. */
  calls = 0
  misses = 0
  readonly #ticks: Pick<ServerTicks, 'nowUs' | 'source'>
  readonly #kept: MemoryStore
  readonly #numbers = new Map<LeaseId, Numbers>()
  readonly #lastWallMs = new Map<string, number>()
  #settingsRevision = 0

  constructor(ticks: Pick<ServerTicks, 'nowUs' | 'source'>) {
    this.#ticks = ticks
    this.#kept = new MemoryStore({ ticks: ticks.source })
  }

  async attempt({ settingsRevision, attempts }: Group): Promise<GroupReply> {
    this.calls += 1
    const nowUs = this.#ticks.nowUs()
    const isCurrent = settingsRevision === this.#settingsRevision
    const replies: Reply[] = []
    for (const attempt of attempts) replies.push(await this.#attempt(attempt, { nowUs, isCurrent }))
    return {
      nowUs,
      settingsRevision: this.#settingsRevision,
      settings: isCurrent ? null : await this.#kept.settings(),
      replies,
    }
  }

  async #attempt(attempt: Attempt, call: Call): Promise<Reply> {
    const footprints = attempt.places.map(({ footprint }) => footprint)
    return this.#kept.transact(footprints, (views) => {
      const reply = this.#judge(attempt, views, call)
      const commit =
        reply.kind === 'committed' ? this.#carryOut(attempt, reply.fencesMovedBy) : NOTHING
      return { outcome: reply, commit, validUntilUs: null }
    })
  }

  #judge(attempt: Attempt, views: readonly RealmView[], { nowUs, isCurrent }: Call): Reply {
    const isInTime = attempt.fromUs <= nowUs && nowUs < attempt.beforeUs
    const isAsBelieved = attempt.places.every((place, index) => {
      const view = views[index]
      return view !== undefined && this.#isAsBelieved(place, view, attempt)
    })
    const areUnchanged = attempt.writes.every(({ id, before }) => {
      return (this.#numbers.get(id)?.version ?? 0) === (before?.version ?? 0)
    })
    if (!isCurrent || !isInTime || !isAsBelieved || !areUnchanged) {
      this.misses += 1
      const told = views.map((view, index) => this.#tell(attempt.places[index]?.footprint, view))
      return { kind: 'missed', views: told }
    }
    const lastFence = Math.max(...views.map((view) => view.lastFence))
    const first = attempt.fences?.first ?? Infinity
    return { kind: 'committed', fencesMovedBy: Math.max(0, lastFence + 1 - first) }
  }

  #isAsBelieved(place: Place, view: RealmView, { wallMs }: Attempt): boolean {
    const { footprint, own, claims, hasPrior, epoch } = place
    if (wallMs < (this.#lastWallMs.get(place.realm) ?? 0)) return false
    if ((this.#numbers.get(footprint.leaseId)?.version ?? 0) !== own) return false
    if ((view.prior !== null) !== hasPrior || view.epoch !== epoch) return false
    if (claims === null) return true
    const there = [...view.entries.values()].filter((entry) => isAt(entry, footprint))
    if (place.behind !== undefined) return this.#isYoungest(place.behind, there)
    const believed = new Map(claims.map(({ id, claim }) => [id, claim]))
    if (there.length !== believed.size) return false
    return there.every(({ id }) => believed.get(id) === this.#numbers.get(id)?.claim)
  }

  /** Numbers are kept in the order in which entries were made. */
  #isYoungest({ id, claim }: SeenClaim, there: readonly Entry[]): boolean {
    const ids = new Set(there.map((entry) => entry.id))
    const youngest = [...this.#numbers.keys()].findLast((one) => ids.has(one))
    return youngest === id && this.#numbers.get(id)?.claim === claim
  }

  #tell(footprint: Footprint | undefined, view: RealmView): PlaceView {
    if (footprint === undefined) throw new Error('a view without a place')
    const entries: Kept[] = []
    for (const entry of view.entries.values()) {
      const numbers = this.#numbers.get(entry.id)
      if (numbers !== undefined) entries.push({ entry, ...numbers })
    }
    const { lastFence, ticketCount, prior, epoch } = view
    const lastWallMs = this.#lastWallMs.get(realmOf(footprint.resource)) ?? 0
    return { entries, lastFence, lastWallMs, ticketCount, prior, epoch }
  }

  #carryOut(attempt: Attempt, movedBy: number): Commit {
    const first = attempt.fences?.first ?? Infinity
    const move = (fence: number): number => (fence >= first ? fence + movedBy : fence)
    for (const { id, after } of attempt.writes) {
      if (after === null) this.#numbers.delete(id)
      else this.#numbers.set(id, { version: after.version, claim: after.claim })
    }
    if (attempt.events.length > 0) {
      for (const { realm } of attempt.places) this.#lastWallMs.set(realm, attempt.wallMs)
    }
    return {
      changes: attempt.writes.map((write) => changeOf(write, move)),
      events: attempt.events.map((event) => moveEvent(event, move)),
      requests: attempt.requests,
      epochs: attempt.epochs,
      wakes: attempt.wakes,
      firstFence: attempt.fences === null ? 0 : move(first),
      lastFence: attempt.fences === null ? 0 : move(attempt.fences.last),
    }
  }

  async find(query: EntryQuery): Promise<FoundKept> {
    const { entries, more, next } = await this.#kept.find(query)
    return { nowUs: this.#ticks.nowUs(), entries, more, next }
  }

  async history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    return this.#kept.history(query)
  }

  async end(): Promise<Position> {
    return this.#kept.end()
  }

  async settings(): Promise<readonly SettingRow[]> {
    return this.#kept.settings()
  }

  async configure(change: SettingChange): Promise<void> {
    this.#settingsRevision += 1
    return this.#kept.configure(change)
  }

  async prune(policy: PrunePolicy): Promise<Pruned> {
    const pruned = await this.#kept.prune(policy)
    const { entries } = await this.#kept.find({ limit: 1_000_000 })
    const left = new Set(entries.map(({ id }) => id))
    for (const id of this.#numbers.keys()) if (!left.has(id)) this.#numbers.delete(id)
    return pruned
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    return this.#kept.subscribe(session, listener)
  }

  follow(listener: () => void): Unsubscribe {
    return this.#kept.follow(listener)
  }

  async close(): Promise<void> {
    // Other stores may share what is kept.
  }
}

function isAt(entry: Entry, footprint: Footprint): boolean {
  return isLive(entry) && overlap(entry, footprint)
}

type Move = (fence: number) => number

function changeOf({ id, before, after }: EntryWrite, move: Move): Commit['changes'][number] {
  return {
    id,
    before: before?.entry,
    after: after === null ? null : moveEntry(after.entry, move),
    renewal: false,
  }
}

function moveEntry(entry: Entry, move: Move): Entry {
  if (entry.kind === 'lease') return { ...entry, fence: move(entry.fence) }
  if (entry.offer === null) return entry
  return { ...entry, offer: { ...entry.offer, fence: move(entry.offer.fence) } }
}

function moveEvent(event: LeaseEvent, move: Move): LeaseEvent {
  if (event.type === 'lease.issued') {
    return { ...event, lease: { ...event.lease, fence: move(event.lease.fence) } }
  }
  if (event.type === 'lease.offered' || event.type === 'lease.upgraded') {
    return { ...event, fence: move(event.fence) }
  }
  return event
}
