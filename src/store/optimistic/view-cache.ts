/**
 * What a process remembers of realms between its calls: the live entries that it wrote or read, and the facts of their
 * realms. A `CachedView` is what `decide` sees of a read set before the server is asked. Bounded; what was forgotten is
 * taken for absent. A cached view that is wrong costs a round trip and nothing else.
 */
import type { EpochMark } from '../../core/commit.ts'
import { isLive, type Entry, type LeaseId } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import type { PriorEffect, ReadSet, RealmView } from '../../core/realm.ts'
import { overlap, realmOf, type Resource } from '../../core/resource.ts'
import type { Settings } from '../../core/settings.ts'
import { TransientMap } from '../../runtime/transient-map.ts'
import { LiveIndex } from '../live-index.ts'
import type { EntryWrite, Place, PlaceView, SeenClaim, VersionedEntry } from './backend.ts'

/** Changed in place: they change with every commit. */
interface RealmFacts {
  lastFence: number
  lastWallMs: number
  ticketCount: number
  epoch: number
  /** When the server last confirmed all that is there, by its clock. */
  confirmedUs: number
}

export interface CachedView extends Readonly<RealmFacts> {
  readonly readSet: ReadSet
  readonly records: ReadonlyMap<LeaseId, VersionedEntry>
  readonly prior: PriorEffect | null
  /** It would lead to a refusal that nothing else in it lets the server confirm: the server is to say what is there. */
  readonly isDoubtful: boolean
}

export interface CommitFacts {
  readonly lastFence: number
  readonly epochs: readonly EpochMark[]
  readonly wallMs: number
  /** When the server confirmed all that is there; 0 if it was not asked. */
  readonly confirmedUs: number
}

const NO_FACTS: Readonly<RealmFacts> = {
  ...{ lastFence: 0, lastWallMs: 0, ticketCount: 0, epoch: 0, confirmedUs: 0 },
}
/** Most acquires see nothing, and a map is not cheap to make. */
const NO_RECORDS: ReadonlyMap<LeaseId, VersionedEntry> = new Map()
/** What no entry ever has. */
const NO_VERSION = -1
const ENTRIES_MAX = 200_000
const REALMS_MAX = 200_000
/**
 * On its way to the oldest key of a map, V8 passes over all that were deleted before it. So many of them are dropped at
 * once: one at a time took 15 to 100 µs each.
 */
const DROPPED_TOGETHER = 1_000

export class ViewCache {
  readonly #records = new TransientMap<LeaseId, VersionedEntry>()
  readonly #live = new LiveIndex()
  readonly #realms = new Map<string, RealmFacts>()

  viewOf(readSet: ReadSet): CachedView {
    const facts = this.#realms.get(realmOf(readSet.resource)) ?? NO_FACTS
    // Others may have left the queue since; that it is full is for the server to say.
    const isDoubtful = facts.ticketCount >= TICKETS_PER_REALM_MAX
    return { ...facts, readSet, records: this.#recordsAt(readSet), prior: null, isDoubtful }
  }

  #recordsAt(readSet: ReadSet): ReadonlyMap<LeaseId, VersionedEntry> {
    const near = readSet.depth === 'claims' ? this.#near(readSet) : []
    const own = this.#records.get(readSet.leaseId)
    if (near.length === 0 && own === undefined) return NO_RECORDS
    const records = new Map<LeaseId, VersionedEntry>()
    for (const record of near) records.set(record.entry.id, record)
    if (own !== undefined) records.set(own.entry.id, own)
    return records
  }

  /** What the server says is at a read set; whatever was remembered there and is not among it is gone. */
  learn({ readSet, records, ...view }: CachedView): void {
    this.#forget(readSet, records)
    for (const [id, record] of records) {
      if (this.#records.get(id) !== record) this.#replace(id, record)
    }
    const { lastFence, lastWallMs, ticketCount, epoch, confirmedUs } = view
    const facts = { lastFence, lastWallMs, ticketCount, epoch, confirmedUs }
    Object.assign(this.#factsOf(readSet.resource), facts)
  }

  /** What has been committed, with the numbers under which it was. */
  note(readSets: readonly ReadSet[], writes: readonly EntryWrite[], commit: CommitFacts): void {
    for (const { id, after } of writes) this.#replace(id, after)
    for (const { resource } of readSets) {
      const facts = this.#factsOf(resource)
      facts.lastFence = Math.max(facts.lastFence, commit.lastFence)
      facts.lastWallMs = Math.max(facts.lastWallMs, commit.wallMs)
      facts.confirmedUs = Math.max(facts.confirmedUs, commit.confirmedUs)
    }
    for (const write of writes) this.#countTicket(write)
    for (const { resource, epoch } of commit.epochs) this.#factsOf(resource).epoch = epoch
  }

  #countTicket({ before, after }: EntryWrite): void {
    const more = Number(isPending(after)) - Number(isPending(before))
    const entry = after?.entry ?? before?.entry
    if (more === 0 || entry === undefined) return
    const facts = this.#factsOf(entry.resource)
    facts.ticketCount = Math.max(0, facts.ticketCount + more)
  }

  forget(readSet: ReadSet): void {
    this.#forget(readSet, NO_RECORDS)
  }

  #forget(readSet: ReadSet, except: ReadonlyMap<LeaseId, VersionedEntry>): void {
    if (readSet.depth === 'claims') {
      for (const { entry } of this.#near(readSet)) if (!except.has(entry.id)) this.#remove(entry.id)
    }
    if (!except.has(readSet.leaseId)) this.#remove(readSet.leaseId)
  }

  #near(readSet: ReadSet): readonly VersionedEntry[] {
    const near: VersionedEntry[] = []
    for (const id of this.#live.near(readSet)) {
      const record = this.#records.get(id)
      if (record !== undefined && overlap(record.entry, readSet)) near.push(record)
    }
    return near
  }

  #remove(id: LeaseId): void {
    const known = this.#records.get(id)
    if (known === undefined) return
    this.#records.delete(id)
    this.#live.remove(known.entry.resource, id)
  }

  /** Where an entry is does not change while it is live, and it keeps its place among those that may be forgotten. */
  #replace(id: LeaseId, after: VersionedEntry | null): void {
    if (after === null || !isLive(after.entry)) return this.#remove(id)
    const isNew = !this.#records.has(id)
    if (isNew && this.#records.size >= ENTRIES_MAX) {
      for (const oldest of oldestOf(this.#records.keys())) this.#remove(oldest)
    }
    this.#records.set(id, after)
    if (isNew) this.#live.add(after.entry.resource, id)
  }

  /** To be changed. Those that have been there longest go first, whether or not they are in use. */
  #factsOf(resource: Resource): RealmFacts {
    const realm = realmOf(resource)
    const known = this.#realms.get(realm)
    if (known !== undefined) return known
    if (this.#realms.size >= REALMS_MAX) {
      for (const oldest of oldestOf(this.#realms.keys())) this.#realms.delete(oldest)
    }
    const facts = { ...NO_FACTS }
    this.#realms.set(realm, facts)
    return facts
  }
}

/** Of the keys of a map, which are in the order in which they came. */
function oldestOf(keys: Iterable<string>): readonly string[] {
  const oldest: string[] = []
  for (const key of keys) {
    if (oldest.length === DROPPED_TOGETHER) break
    oldest.push(key)
  }
  return oldest
}

function isPending(record: VersionedEntry | null): boolean {
  return record?.entry.state === 'pending'
}

/** What the server has shown of a read set. */
export function shownView(readSet: ReadSet, view: PlaceView, confirmedUs: number): CachedView {
  const { entries, isPartial: _isPartial, ...facts } = view
  const records = new Map(entries.map((record) => [record.entry.id, record]))
  return { readSet, records, ...facts, isDoubtful: false, confirmedUs }
}

/** The view as `decide` sees it. `lastFence` is given apart, because a server may have moved it on. */
export function realmViewOf(view: CachedView, lastFence: number, settings: Settings): RealmView {
  const { records, ticketCount, prior, epoch } = view
  const entries = new Map<LeaseId, Entry>()
  for (const [id, { entry }] of records) entries.set(id, entry)
  return { entries, lastFence, ticketCount, epoch, prior, settings }
}

/** The view as the server is to compare it. */
export function placeOf({ readSet, records, prior, epoch, isDoubtful }: CachedView): Place {
  return {
    readSet,
    realm: realmOf(readSet.resource),
    own: isDoubtful ? NO_VERSION : (records.get(readSet.leaseId)?.version ?? 0),
    claims: readSet.depth === 'claims' ? claimsOf(readSet, records.values()) : null,
    hasPrior: prior !== null,
    epoch,
  }
}

/** The entry of a read set's own id may have ended, or be on another resource: then it is no claim there. */
function claimsOf(readSet: ReadSet, records: Iterable<VersionedEntry>): readonly SeenClaim[] {
  const claims: SeenClaim[] = []
  for (const record of records) {
    const { entry, claim } = record
    if (isLive(entry) && overlap(entry, readSet)) claims.push({ id: entry.id, claim, record })
  }
  return claims
}
