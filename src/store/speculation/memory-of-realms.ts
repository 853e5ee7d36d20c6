/**
 * What a store remembers of realms between its calls: the live entries that it wrote or was told of, and the facts of
 * their realms. Bounded; what was forgotten is taken for absent, and costs a round trip if it is not.
 */
import type { EpochMark } from '../../core/commit.ts'
import { isLive, type LeaseId } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import type { Footprint } from '../../core/realm.ts'
import { overlap, realmOf } from '../../core/resource.ts'
import { LiveIndex } from '../live-index.ts'
import type { EntryWrite, Kept, PlaceView } from './backend.ts'
import type { Belief } from './belief.ts'

interface RealmFacts {
  readonly lastFence: number
  readonly lastWallMs: number
  readonly ticketCount: number
  readonly epoch: number
  readonly confirmedUs: number
}

const NO_FACTS: RealmFacts = {
  ...{ lastFence: 0, lastWallMs: 0, ticketCount: 0, epoch: 0, confirmedUs: 0 },
}
const ENTRIES_MAX = 200_000
const REALMS_MAX = 200_000

export class MemoryOfRealms {
  readonly #kept = new Map<LeaseId, Kept>()
  readonly #live = new LiveIndex()
  readonly #realms = new Map<string, RealmFacts>()

  believe(footprint: Footprint): Belief {
    const kept = new Map<LeaseId, Kept>()
    if (footprint.depth === 'claims') {
      for (const one of this.#near(footprint)) kept.set(one.entry.id, one)
    }
    const own = this.#kept.get(footprint.leaseId)
    if (own !== undefined) kept.set(own.entry.id, own)
    const facts = this.#realms.get(realmOf(footprint.resource)) ?? NO_FACTS
    // Others may have left the queue since; that it is full is for the server to say.
    const isDoubtful = facts.ticketCount >= TICKETS_PER_REALM_MAX
    return { footprint, kept, prior: null, ...facts, isDoubtful }
  }

  /** What the server says is at a footprint; whatever was remembered there and is not among it is gone. */
  learn(footprint: Footprint, view: PlaceView, confirmedUs: number): void {
    this.forget(footprint)
    for (const kept of view.entries) this.#put(kept)
    const { lastFence, lastWallMs, ticketCount, epoch } = view
    const facts = { lastFence, lastWallMs, ticketCount, epoch, confirmedUs }
    this.#putFacts(realmOf(footprint.resource), facts)
  }

  /** What has been committed, with the numbers under which it was. */
  note(footprints: readonly Footprint[], writes: readonly EntryWrite[], facts: CommitFacts): void {
    for (const { id, after } of writes) {
      this.#remove(id)
      if (after !== null) this.#put(after)
    }
    for (const { resource } of footprints) {
      const known = this.#realms.get(realmOf(resource)) ?? NO_FACTS
      const lastFence = Math.max(known.lastFence, facts.lastFence)
      const lastWallMs = Math.max(known.lastWallMs, facts.wallMs)
      const confirmedUs = Math.max(known.confirmedUs, facts.confirmedUs)
      this.#putFacts(realmOf(resource), { ...known, lastFence, lastWallMs, confirmedUs })
    }
    for (const write of writes) this.#countTicket(write)
    for (const { resource, epoch } of facts.epochs) {
      const realm = realmOf(resource)
      this.#putFacts(realm, { ...(this.#realms.get(realm) ?? NO_FACTS), epoch })
    }
  }

  #countTicket({ before, after }: EntryWrite): void {
    const entry = after?.entry ?? before?.entry
    const more = Number(isPending(after)) - Number(isPending(before))
    if (entry === undefined || more === 0) return
    const realm = realmOf(entry.resource)
    const known = this.#realms.get(realm) ?? NO_FACTS
    this.#putFacts(realm, { ...known, ticketCount: Math.max(0, known.ticketCount + more) })
  }

  forget(footprint: Footprint): void {
    if (footprint.depth === 'claims') {
      for (const { entry } of [...this.#near(footprint)]) this.#remove(entry.id)
    }
    this.#remove(footprint.leaseId)
  }

  *#near(footprint: Footprint): Iterable<Kept> {
    for (const id of this.#live.near(footprint)) {
      const kept = this.#kept.get(id)
      if (kept !== undefined && overlap(kept.entry, footprint)) yield kept
    }
  }

  #put(kept: Kept): void {
    const { entry } = kept
    if (!isLive(entry)) return
    if (this.#kept.size >= ENTRIES_MAX) this.#dropOldest()
    this.#kept.set(entry.id, kept)
    this.#live.add(entry.resource, entry.id)
  }

  #remove(id: LeaseId): void {
    const known = this.#kept.get(id)
    if (known === undefined) return
    this.#kept.delete(id)
    this.#live.remove(known.entry.resource, id)
  }

  #dropOldest(): void {
    const [oldest] = this.#kept.keys()
    if (oldest !== undefined) this.#remove(oldest)
  }

  #putFacts(realm: string, facts: RealmFacts): void {
    this.#realms.delete(realm)
    if (this.#realms.size >= REALMS_MAX) {
      const [oldest] = this.#realms.keys()
      if (oldest !== undefined) this.#realms.delete(oldest)
    }
    this.#realms.set(realm, facts)
  }
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
