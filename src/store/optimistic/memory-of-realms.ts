/**
 * What a store remembers of realms between its calls: the live entries that it wrote or was told of, and the facts of
 * their realms. Bounded; what was forgotten is taken for absent, and costs a round trip if it is not.
 */
import type { EpochMark } from '../../core/commit.ts'
import { isLive, type LeaseId } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import type { ReadSet } from '../../core/realm.ts'
import { overlap, realmOf, type Resource } from '../../core/resource.ts'
import { TransientMap } from '../../runtime/transient-map.ts'
import { LiveIndex } from '../live-index.ts'
import type { EntryWrite, Kept } from './backend.ts'
import type { Belief } from './belief.ts'

/** Changed in place: they change with every commit. */
interface RealmFacts {
  lastFence: number
  lastWallMs: number
  ticketCount: number
  epoch: number
  confirmedUs: number
}

const NO_FACTS: Readonly<RealmFacts> = {
  ...{ lastFence: 0, lastWallMs: 0, ticketCount: 0, epoch: 0, confirmedUs: 0 },
}
const NOTHING: ReadonlyMap<LeaseId, Kept> = new Map()
const ENTRIES_MAX = 200_000
const REALMS_MAX = 200_000
/**
 * On its way to the oldest key of a map, V8 passes over all that were deleted before it. So many of them are dropped at
 * once: one at a time took 15 to 100 µs each.
 */
const DROPPED_TOGETHER = 1_000

export class MemoryOfRealms {
  readonly #kept = new TransientMap<LeaseId, Kept>()
  readonly #live = new LiveIndex()
  readonly #realms = new Map<string, RealmFacts>()

  believe(readSet: ReadSet): Belief {
    const kept = this.#keptAt(readSet)
    const facts = this.#realms.get(realmOf(readSet.resource)) ?? NO_FACTS
    const { lastFence, lastWallMs, ticketCount, epoch, confirmedUs } = facts
    // Others may have left the queue since; that it is full is for the server to say.
    const isDoubtful = ticketCount >= TICKETS_PER_REALM_MAX
    return {
      readSet,
      kept,
      lastFence,
      lastWallMs,
      ticketCount,
      prior: null,
      epoch,
      isDoubtful,
      confirmedUs,
    }
  }

  /** Most acquires find nothing, and a map is not cheap to make. */
  #keptAt(readSet: ReadSet): ReadonlyMap<LeaseId, Kept> {
    const near = readSet.depth === 'claims' ? this.#near(readSet) : []
    const own = this.#kept.get(readSet.leaseId)
    if (near.length === 0 && own === undefined) return NOTHING
    const kept = new Map<LeaseId, Kept>()
    for (const one of near) kept.set(one.entry.id, one)
    if (own !== undefined) kept.set(own.entry.id, own)
    return kept
  }

  /** What the server says is at a read set; whatever was remembered there and is not among it is gone. */
  learn({ readSet, kept, ...told }: Belief): void {
    this.#forget(readSet, kept)
    for (const [id, one] of kept) if (this.#kept.get(id) !== one) this.#replace(id, one)
    const facts = this.#factsOf(readSet.resource)
    facts.lastFence = told.lastFence
    facts.lastWallMs = told.lastWallMs
    facts.ticketCount = told.ticketCount
    facts.epoch = told.epoch
    facts.confirmedUs = told.confirmedUs
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
    this.#forget(readSet, NOTHING)
  }

  #forget(readSet: ReadSet, except: ReadonlyMap<LeaseId, Kept>): void {
    if (readSet.depth === 'claims') {
      for (const { entry } of this.#near(readSet)) if (!except.has(entry.id)) this.#remove(entry.id)
    }
    if (!except.has(readSet.leaseId)) this.#remove(readSet.leaseId)
  }

  #near(readSet: ReadSet): readonly Kept[] {
    const near: Kept[] = []
    for (const id of this.#live.near(readSet)) {
      const kept = this.#kept.get(id)
      if (kept !== undefined && overlap(kept.entry, readSet)) near.push(kept)
    }
    return near
  }

  #put(kept: Kept): void {
    const { entry } = kept
    if (!isLive(entry)) return
    if (this.#kept.size >= ENTRIES_MAX) {
      for (const oldest of oldestOf(this.#kept.keys())) this.#remove(oldest)
    }
    this.#kept.set(entry.id, kept)
    this.#live.add(entry.resource, entry.id)
  }

  #remove(id: LeaseId): void {
    const known = this.#kept.get(id)
    if (known === undefined) return
    this.#kept.delete(id)
    this.#live.remove(known.entry.resource, id)
  }

  /** Where an entry is does not change while it is live, and it keeps its place among those that may be forgotten. */
  #replace(id: LeaseId, after: Kept | null): void {
    if (after === null || !isLive(after.entry)) this.#remove(id)
    else if (this.#kept.has(id)) this.#kept.set(id, after)
    else this.#put(after)
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

function isPending(kept: Kept | null): boolean {
  return kept?.entry.state === 'pending'
}

export interface CommitFacts {
  readonly lastFence: number
  readonly epochs: readonly EpochMark[]
  readonly wallMs: number
  /** When the server confirmed all that is there; 0 if it was not asked. */
  readonly confirmedUs: number
}
