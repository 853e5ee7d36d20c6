/**
 * The port every store implements.
 *
 * A store keeps realms: live entries (leases, offers, tickets), ended ones until retention removes them, and the
 * ledger. It knows nothing about leases: it reads what a read set touches, lets `decide` choose, and commits what
 * the ruling says, or nothing at all. One `Store` serves one namespace.
 *
 * The port leaves room for stores that decide before they ask. Such a store calls `decide` with a cached or assumed
 * view and an estimate of its own clock, and commits under the condition that what the read set names has not moved
 * (`depth`) and that its clock is still below `validUntilUs`; on a miss it decides again with the fresh view. So
 * `decide` is pure and may be called more than once, and an uncontended command costs one round trip.
 */
import type { Commit } from '../core/commit.ts'
import type { LeaseEvent, LeaseEventType } from '../core/event.ts'
import type { Entry, EntryState, LeaseId } from '../core/lease.ts'
import type { CountedRefusal } from '../core/refusal.ts'
import type { ReadSet, RealmView } from '../core/realm.ts'
import type { Reach, Resource } from '../core/resource.ts'
import type { SettingKey, SettingRow, SettingScope } from '../core/settings.ts'
import type { Now } from '../core/time.ts'

/** What `decide` tells the store to make true. */
export interface Ruling<Outcome> {
  readonly outcome: Outcome
  readonly commit: Commit
  /** Ticks; see `Decision.validUntilUs`. */
  readonly validUntilUs: number | null
}

/** One view per read set, in the same order. Pure. */
export type Decide<Outcome> = (views: readonly RealmView[], now: Now) => Ruling<Outcome>

export interface EntryQuery {
  readonly ids?: readonly LeaseId[]
  readonly resource?: Resource
  /** Live entries that touch this reach, on whatever resource; not combined with anything but the limit. */
  readonly overlapping?: Reach
  readonly holder?: string
  readonly session?: string
  /** Absent, without `ids`: whatever is live. States of live entries are not asked for together with those of ended ones. */
  readonly states?: readonly EntryState[]
  /** Of states of ended ones: what is live until its lock delay has passed, and nothing else. Absent: nothing of that. */
  readonly delayed?: true
  /** `passed`: live entries whose deadline is over on the store's clock but that are not settled yet. */
  readonly deadline?: 'running' | 'passed'
  /** Goes on where another answer to the same query was cut short (`Found.next`). Not with `ids`, `overlapping` or `passed`. */
  readonly after?: string
  /** 1..LIST_LIMIT_MAX, with `overlapping` 1..INSPECT_LIMIT_MAX. */
  readonly limit: number
}

/**
 * Entries as they are kept, and the time at which they were read: by id in the order of the ids, live ones in order of
 * creation, ended ones in the order of their ends.
 */
export interface Found {
  readonly now: Now
  readonly entries: readonly Entry[]
  /** True when the limit cut the answer short. */
  readonly more: boolean
  /** What to pass as `after` to go on; opaque. Null unless the answer was cut short and can be gone on with. */
  readonly next: string | null
  /** What to pass as `after` to go on behind the last entry of an answer about what has ended; null if there is none. */
  readonly lastEnd: string | null
}

/** A place in the ledger. Opaque; positions of one store compare by order of commit. */
export type Position = string

export interface LedgerEntry {
  readonly position: Position
  readonly event: LeaseEvent
}

export interface HistoryQuery {
  readonly leaseId?: LeaseId
  readonly resource?: Resource
  /** Only of resources of these kinds. */
  readonly kinds?: readonly string[]
  readonly holder?: string
  readonly types?: readonly LeaseEventType[]
  readonly fromMs?: number
  readonly toMs?: number
  /** Only what was committed after this position (or before it, when `newestFirst`). */
  readonly after?: Position
  /**
   * The reader has seen everything up to `after`, and misses none that follows: refused with `INVALID_INPUT` (`after`,
   * `prunedUpTo`) once the end of an entry behind it was pruned. Not asked with `newestFirst`.
   */
  readonly unbroken?: boolean
  readonly newestFirst?: boolean
  readonly limit: number
}

/** Of refusals, by the time of the last of each. */
export type RefusalQuery = Pick<
  HistoryQuery,
  'leaseId' | 'resource' | 'holder' | 'fromMs' | 'toMs' | 'newestFirst' | 'limit'
>

export interface SettingChange {
  readonly key: SettingKey
  /** Null removes an override; a global value falls back to its default. */
  readonly value: string | null
  readonly scope: SettingScope
  readonly resourceId: string | null
}

export interface PrunePolicy {
  /** Ended leases and tickets older than this, and than their own TTL, go with their whole history; refusals as well. */
  readonly endedBeforeMs: number
  readonly nowMs: number
  /** At most so many entries in one call, so that no other call waits long behind it. */
  readonly batch: number
}

export interface Pruned {
  readonly leases: number
  readonly events: number
  /** True when the batch was full and there may be more. */
  readonly more: boolean
}

/** A commit concerns a session. Without ids the client reads its own entries. */
export interface WakeSignal {
  readonly leaseIds: readonly LeaseId[] | null
}

export type Unsubscribe = () => void

/** What a store's clock is and what it is worth, for people (`tenure doctor`) and documentation. */
export interface StoreDescription {
  readonly url: string
  readonly clock: string
  readonly durability: string
}

/** What else can be looked at, for `tenure doctor`. Each look says what it found, or throws what is wrong, one thing a line. */
export interface Checkup {
  readonly looks: readonly { readonly name: string; look(): Promise<string> }[]
  /**
   * Goes on by the store's clock as it is now, although commits were made at a later time. Never gives a lease to another
   * early: those that were granted meanwhile stay until their deadlines. Says what it did. Absent where no such time is kept.
   */
  acceptClock?(): Promise<string>
  close(): Promise<void>
}

/**
 * Hears of a transaction that a store keeps back in its process, behind others, or because it must be decided again. A
 * store that keeps none back tells it nothing.
 */
export interface Requester {
  /** It is kept back: nothing of it is done before `begins`. */
  onKeptBack(): void
  /**
   * It is about to be decided, at a time that is read after this. Said again before each further decision: what came of
   * the ones before was nothing. False: the caller does not want it any more. Then it is dropped, and throws `ABORTED`.
   */
  begins(): boolean
}

export interface Store {
  readonly description: StoreDescription

  /**
   * Runs `decide` against the latest state of the read sets and commits atomically. Two calls whose read sets
   * overlap behave as if one ran after the other, in an order that the ledger shows. `now` grows with every
   * decision that follows another in that order.
   *
   * `requester` hears when it is about to be decided, and may drop it instead.
   *
   * Throws `STORE_UNAVAILABLE` when nothing was committed, `STORE_CONFLICT` when the realms kept moving, and
   * `STORE_OUTCOME_UNKNOWN` when the answer was lost and the commit may have happened.
   */
  transact<Outcome>(
    readSets: readonly ReadSet[],
    decide: Decide<Outcome>,
    requester?: Requester,
  ): Promise<Outcome>

  /** Reads entries and the store's clock in one consistent look. */
  find(query: EntryQuery): Promise<Found>

  /**
   * Reads the ledger in order of commit. Throws `INVALID_INPUT` (`after`) for a position that this store cannot have given:
   * the caller would wait for ever for what comes after it.
   */
  history(query: HistoryQuery): Promise<readonly LedgerEntry[]>

  /** The position after the last event; what comes later is new. */
  end(): Promise<Position>

  /**
   * Adds to what was refused before, beside the ledger: no event, no wake-up, no follower hears of it. At most
   * `REFUSALS_MAX` rows are kept (core/refusal.ts). A call whose answer was lost may be counted or not.
   */
  countRefusals(refusals: readonly CountedRefusal[]): Promise<void>

  refusals(query: RefusalQuery): Promise<readonly CountedRefusal[]>

  settings(): Promise<readonly SettingRow[]>

  /** In force for every process from its next call on. */
  configure(change: SettingChange): Promise<void>

  prune(policy: PrunePolicy): Promise<Pruned>

  /**
   * Calls `listener` when a commit, of any process, wakes the session. At least once per wake-up after the promise
   * has settled; spurious calls are allowed, lost ones are made up for by the waiter's own keep-alive.
   */
  subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe>

  /** Calls `listener` soon after the ledger may have grown, by any process. */
  follow(listener: () => void): Unsubscribe

  /** Refuses new calls with `CLOSED`, lets those under way end, and frees everything. */
  close(): Promise<void>
}

/** The methods of a store that only read. */
export type StoreQuestions = Pick<
  Store,
  'description' | 'find' | 'history' | 'end' | 'refusals' | 'settings' | 'close'
>
