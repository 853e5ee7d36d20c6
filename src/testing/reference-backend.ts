/**
 * The reference server of the stores that decide before they ask: a memory store for what is kept, and the comparisons of
 * the port written down as plainly as possible. It lives in this process; several stores may share it, as processes
 * share a server. What PostgreSQL and Redis do in their own languages is compared with this.
 */
import { isLive, liveDeadline, type Entry, type LeaseId } from '../core/lease.ts'
import { NOTHING, type Commit } from '../core/commit.ts'
import type { LeaseEvent } from '../core/event.ts'
import type { ReadSet, RealmView } from '../core/realm.ts'
import { overlap, realmOf } from '../core/resource.ts'
import type {
  Attempt,
  Backend,
  EntryWrite,
  FoundEntries,
  Group,
  GroupReply,
  VersionedEntry,
  Place,
  PlaceView,
  Reply,
  SeenClaim,
} from '../store/optimistic/backend.ts'
import { withUntold } from '../store/optimistic/attempt-plan.ts'
import { domainName } from '../store/embedded-clock.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import type {
  EntryQuery,
  Pruned,
  PrunePolicy,
  SettingChange,
  Store,
  StoreDescription,
} from '../store-port/store.ts'
import { allEntries } from './all-entries.ts'
import { STORE_CLOCK_BEHIND_US_MAX } from '../core/limits.ts'
import { hasPassed } from '../core/time.ts'
import type { TickSource } from '../runtime/tick-source.ts'

/** The clock of the server. Its tick is wall time, as on any server, and the memory store below counts on the same. */
export interface ServerTickSource {
  /** In microseconds since 1970. */
  nowUs(): number
  readonly source: TickSource
}

export interface ReferenceBackendOptions {
  /** The clock of the server. */
  readonly ticks: ServerTickSource
  /** What keeps entries, ledger and settings; a memory store of its own unless a test checks each commit. */
  readonly store?: Store
}

interface Call {
  readonly nowUs: number
  readonly isCurrent: boolean
}

interface Moment {
  readonly attempt: Attempt
  readonly nowUs: number
}

interface Numbers {
  readonly version: number
  readonly claim: number
}

interface RealmTimes {
  readonly lastUs: number
  readonly lastWallMs: number
}

const NO_TIMES: RealmTimes = { lastUs: 0, lastWallMs: 0 }

export class ReferenceBackend implements Backend {
  readonly clockDomain: string
  readonly isQuick: boolean = true
  readonly description: StoreDescription = {
    url: 'server:',
    clock: 'of the test',
    durability: 'none',
  }
  /** How many calls came, and how many attempts of them missed. */
  calls = 0
  misses = 0
  readonly #ticks: ServerTickSource
  readonly #kept: Store
  readonly #numbers = new Map<LeaseId, Numbers>()
  readonly #realms = new Map<string, RealmTimes>()
  #settingsRevision = 0
  /** Ends when no caller holds the server exclusively. */
  #held: Promise<void> | null = null

  constructor({ ticks, store }: ReferenceBackendOptions) {
    this.#ticks = ticks
    this.#kept = store ?? new MemoryStore({ ticks: ticks.source })
    this.clockDomain = domainName(ticks.source.domain ?? 'server', 1)
  }

  async attempt(group: Group): Promise<GroupReply> {
    while (this.#held !== null) await this.#held
    return this.#carryOutGroup(group)
  }

  /** The whole server waits, which is more than the port asks for. */
  async holding<Result>(work: (attempt: Backend['attempt']) => Promise<Result>): Promise<Result> {
    while (this.#held !== null) await this.#held
    let release = (): void => undefined
    this.#held = new Promise((resolve) => {
      release = () => {
        this.#held = null
        resolve()
      }
    })
    try {
      return await work((group) => this.#carryOutGroup(group))
    } finally {
      release()
    }
  }

  async #carryOutGroup({ settingsRevision, attempts }: Group): Promise<GroupReply> {
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
    const readSets = attempt.places.map(({ readSet }) => readSet)
    return this.#kept.transact(readSets, (views) => {
      const reply = this.#decide(attempt, views, call)
      const commit =
        reply.kind === 'committed' ? this.#carryOut(attempt, reply.fencesMovedBy, call) : NOTHING
      return { outcome: reply, commit, validUntilUs: null }
    })
  }

  #decide(attempt: Attempt, views: readonly RealmView[], { nowUs, isCurrent }: Call): Reply {
    const behindUs =
      Math.max(...attempt.places.map(({ realm }) => this.#timesOf(realm).lastUs)) - nowUs
    if (behindUs > STORE_CLOCK_BEHIND_US_MAX) {
      return { kind: 'clock_behind', behindMs: Math.ceil(behindUs / 1000) }
    }
    const isInTime = attempt.fromUs <= nowUs && nowUs < attempt.beforeUs
    const isAsBelieved = attempt.places.every((place, index) => {
      const view = views[index]
      return view !== undefined && this.#isAsBelieved(place, view, { attempt, nowUs })
    })
    const areUnchanged = attempt.writes.every(({ id, before }) => {
      return this.#versionOf(id) === (before?.version ?? 0)
    })
    if (!isCurrent || !isInTime || !isAsBelieved || !areUnchanged) {
      this.misses += 1
      const told = views.map((view, index) => this.#tell(attempt, attempt.places[index], view))
      return { kind: 'missed', views: told }
    }
    const lastFence = Math.max(...views.map((view) => view.lastFence))
    const first = attempt.fences?.first ?? Infinity
    return { kind: 'committed', fencesMovedBy: Math.max(0, lastFence + 1 - first) }
  }

  #isAsBelieved(place: Place, view: RealmView, { attempt, nowUs }: Moment): boolean {
    const { readSet, own, claims, hasPrior, epoch } = place
    // An attempt without events on its own entry alone is ordered by that entry's version, so its wall time is not compared.
    const comparesWallTime = claims !== null || attempt.events.length + attempt.epochs.length > 0
    if (comparesWallTime && attempt.wallMs < this.#timesOf(place.realm).lastWallMs) return false
    if (this.#versionOf(readSet.leaseId) !== own) return false
    if ((view.prior !== null) !== hasPrior || view.epoch !== epoch) return false
    if (claims === null) return true
    const there = [...view.entries.values()].filter((entry) => isAt(entry, readSet))
    if (place.behind !== undefined) return this.#isYoungest(place.behind, there)
    if (place.isKeepAlive !== true) return this.#areSame(claims, there)
    if (there.some((entry) => this.#isDue(entry, nowUs))) return false
    const holder = view.entries.get(readSet.leaseId)?.holder
    const mine = claims.filter(({ record }) => record?.entry.holder === holder)
    return this.#areSame(
      mine,
      there.filter((entry) => entry.holder === holder),
    )
  }

  #areSame(believed: readonly SeenClaim[], there: readonly Entry[]): boolean {
    const claims = new Map(believed.map(({ id, claim }) => [id, claim]))
    if (there.length !== claims.size) return false
    return there.every(({ id }) => claims.get(id) === this.#numbers.get(id)?.claim)
  }

  #isDue(entry: Entry, us: number): boolean {
    const deadline = liveDeadline(entry)
    return deadline !== null && hasPassed(deadline, { domain: this.clockDomain, us })
  }

  /** 0: there is none. */
  #versionOf(id: LeaseId): number {
    return this.#numbers.get(id)?.version ?? 0
  }

  #timesOf(realm: string): RealmTimes {
    return this.#realms.get(realm) ?? NO_TIMES
  }

  /** Numbers are kept in the order in which entries were made. */
  #isYoungest({ id, claim }: SeenClaim, there: readonly Entry[]): boolean {
    const ids = new Set(there.map((entry) => entry.id))
    const youngest = [...this.#numbers.keys()].findLast((one) => ids.has(one))
    return youngest === id && this.#numbers.get(id)?.claim === claim
  }

  /**
   * What the attempt has a claim of is told only if that claim has changed, or if the attempt would write it and its version has.
   */
  #tell({ writes }: Attempt, place: Place | undefined, view: RealmView): PlaceView {
    if (place === undefined) throw new Error('a view without a place')
    const { readSet, claims } = place
    const seen = new Map(claims?.map(({ id, claim }) => [id, claim]))
    for (const { id, before } of writes) {
      if (this.#versionOf(id) !== (before?.version ?? 0)) seen.delete(id)
    }
    const told: VersionedEntry[] = []
    for (const entry of view.entries.values()) {
      const numbers = this.#numbers.get(entry.id)
      if (numbers === undefined) continue
      const isUntold = isAt(entry, readSet) && seen.get(entry.id) === numbers.claim
      if (!isUntold || entry.id === readSet.leaseId) told.push({ entry, ...numbers })
    }
    const isThere = ({ id }: SeenClaim): boolean => {
      const entry = view.entries.get(id)
      return entry !== undefined && isAt(entry, readSet)
    }
    const gone = claims?.filter((one) => !isThere(one)).map(({ id }) => id) ?? null
    const { lastFence, ticketCount, prior, epoch } = view
    const { lastWallMs } = this.#timesOf(realmOf(readSet.resource))
    const entries = withUntold(told, gone, place)
    return { entries, lastFence, lastWallMs, ticketCount, prior, epoch }
  }

  #carryOut(attempt: Attempt, movedBy: number, { nowUs }: Call): Commit {
    const first = attempt.fences?.first ?? Infinity
    const move = (fence: number): number => (fence >= first ? fence + movedBy : fence)
    for (const { id, before, after } of attempt.writes) {
      // A ticket that is filed anew comes after those that were filed meanwhile.
      if (before === null || !isLive(before.entry)) this.#numbers.delete(id)
      if (after === null) this.#numbers.delete(id)
      else this.#numbers.set(id, { version: after.version, claim: after.claim })
    }
    for (const { realm } of attempt.places) {
      const times = this.#timesOf(realm)
      const lastWallMs = attempt.events.length > 0 ? attempt.wallMs : times.lastWallMs
      this.#realms.set(realm, { lastUs: Math.max(times.lastUs, nowUs), lastWallMs })
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

  async find(query: EntryQuery): Promise<FoundEntries> {
    const { now: _now, ...found } = await this.#kept.find(query)
    return { nowUs: this.#ticks.nowUs(), ...found }
  }

  readonly history: Backend['history'] = (query) => this.#kept.history(query)
  readonly end: Backend['end'] = () => this.#kept.end()
  readonly countRefusals: Backend['countRefusals'] = (refusals) =>
    this.#kept.countRefusals(refusals)
  readonly refusals: Backend['refusals'] = (query) => this.#kept.refusals(query)
  readonly settings: Backend['settings'] = () => this.#kept.settings()
  readonly follow: Backend['follow'] = (listener) => this.#kept.follow(listener)
  readonly subscribe: Backend['subscribe'] = (session, listener) => {
    return this.#kept.subscribe(session, listener)
  }

  async configure(change: SettingChange): Promise<void> {
    this.#settingsRevision += 1
    return this.#kept.configure(change)
  }

  async prune(policy: PrunePolicy): Promise<Pruned> {
    const pruned = await this.#kept.prune(policy)
    const entries = await allEntries(this.#kept)
    const left = new Set(entries.map(({ id }) => id))
    for (const id of this.#numbers.keys()) if (!left.has(id)) this.#numbers.delete(id)
    return pruned
  }

  async close(): Promise<void> {
    // Other stores may share what is kept.
  }
}

function isAt(entry: Entry, readSet: ReadSet): boolean {
  return isLive(entry) && overlap(entry, readSet)
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
