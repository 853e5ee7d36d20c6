/**
 * What a server must do for a store that decides before it asks (optimistic-store.ts).
 *
 * The store decides on its cached views and sends an *attempt*: what the decision depends on, and what to write if that
 * holds. The server compares, then writes everything or nothing; on a miss it answers with what is there, and the store
 * decides again. Rules about leases are in the core; a server compares, stores and appends.
 *
 * What a commit depends on:
 *  1. `claims` of a place: exactly these live entries overlap its read set, each with the same claim number. A renewal
 *     does not change the claim number, so by itself it does not make a commit miss that only compares claims. Commands
 *     that depend on their own entry alone compare none (`ENTRY_ONLY` in core/decide.ts), and renewals are among them.
 *     Entries whose deadlines the decision treated as running are covered by `beforeUs`.
 *  2. `own` of a place: the version of the entry of the read set's `leaseId`, live or not; 0: there is none.
 *  3. Every entry that is written has the version that it had when it was read. An entry on whose deadline the decision relied
 *     (`Decision.reliedOn`) is written unchanged, so that its version is compared.
 *  4. Whether the read set's request id has had an effect before.
 *  5. The epoch of the read set's resource.
 *  6. The server's clock: `fromUs <= now < beforeUs`, read after everything is locked.
 *  7. Wall times never go back: no commit that the server has dated in these realms is later than `wallMs`. Redis dates
 *     every commit that writes there; PostgreSQL those that lock the realm, and the renewals of the entries compared. An
 *     attempt at depth `entry` without events or epochs does not depend on it.
 *  8. The revision of the settings (of the whole group).
 *
 * In which order a server writes is its own affair: all of an attempt is written, or nothing.
 *
 * A namespace that was deleted and created again is found by the server's adapter, which sends the group once more; what was
 * cached of the earlier one then misses.
 *
 * Not compared: the highest fence of the realms. When it has grown meanwhile the server adds one number to all new
 * fences of the attempt, and says by how much; the store then decides again, for the answer only.
 */
import type { EpochMark, RequestMark } from '../../core/commit.ts'
import type { LeaseEvent } from '../../core/event.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { ReadSet, PriorEffect, Wake } from '../../core/realm.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { EntryQuery, Found, Store } from '../../store-port/store.ts'

/** An entry, and the numbers that tell whether it has changed. Where they begin is for the store to say, above 0. */
export interface VersionedEntry {
  readonly entry: Entry
  /** Raised by every change. */
  readonly version: number
  /** The claim number: raised by every change but a renewal of the lease or a keep-alive of the ticket. */
  readonly claim: number
}

/** A live entry that the decision has seen, by its id and its claim number. */
export interface SeenClaim {
  readonly id: LeaseId
  readonly claim: number
  /** The entry as it was seen, so that a server need not send again what has not changed. */
  readonly record?: VersionedEntry
}

/** A precondition: one read set, and what the decision has seen there. */
export interface Place {
  readonly readSet: ReadSet
  readonly realm: string
  readonly own: number
  /** Null at depth `entry`: whatever else is there does not matter. */
  readonly claims: readonly SeenClaim[] | null
  /**
   * The decision does nothing but prolong the entry of the read set's own id, as a waiter's keep-alive does. Instead of
   * all `claims`, a server may then compare those of the same holder, and check that no entry there has expired: only
   * these could have led to another decision.
   */
  readonly isKeepAlive?: boolean
  /**
   * The decision does nothing but file a ticket behind this one. Instead of all `claims`, a server then compares the one
   * that was made last.
   */
  readonly behind?: SeenClaim
  readonly hasPrior: boolean
  readonly epoch: number
}

/** One entry to put, or to remove with all its events (`after` is null). */
export interface EntryWrite {
  readonly id: LeaseId
  readonly before: VersionedEntry | null
  readonly after: VersionedEntry | null
}

export interface Attempt {
  readonly places: readonly Place[]
  /** Commit only while `fromUs <= now < beforeUs` by the server's clock. */
  readonly fromUs: number
  readonly beforeUs: number
  /** Of its events. */
  readonly wallMs: number
  readonly writes: readonly EntryWrite[]
  readonly events: readonly LeaseEvent[]
  readonly requests: readonly RequestMark[]
  readonly epochs: readonly EpochMark[]
  /** The sessions to wake, without those whose ticket waits in this process. */
  readonly wakes: readonly Wake[]
  /**
   * The new fences that this attempt gives, if any; `first` is `last + 1` where it gives none but later ones must be greater; every fence in `writes` and `events` from `first` on is new. The
   * server adds at least `max(0, highest of the places' realms + 1 - first)` to each (attempts of one call may move together,
   * so that they stay apart), and records the last one as the highest of all these realms.
   */
  readonly fences: { readonly first: number; readonly last: number } | null
}

/** What is at a place. */
export interface PlaceView {
  /**
   * At depth `claims` all live entries that overlap the read set; at any depth the entry of its own id in whatever
   * state; and the entry that `prior` names. An entry that was only renewed since may be given as the attempt has it, unless
   * the attempt would write it: then the next one would miss as well.
   */
  readonly entries: readonly VersionedEntry[]
  readonly lastFence: number
  /** Wall time of the realm's last event, 0 if none. */
  readonly lastWallMs: number
  /** Live tickets of the whole realm; of no meaning at depth `entry`. */
  readonly ticketCount: number
  readonly prior: PriorEffect | null
  readonly epoch: number
  /** The place was `behind` a claim; what came before that one was not read, and is given as the attempt has it. */
  readonly isPartial?: boolean
}

export type Reply =
  | { readonly kind: 'committed'; readonly fencesMovedBy: number }
  /** Nothing was written. One view per place. */
  | { readonly kind: 'missed'; readonly views: readonly PlaceView[] }
  /**
   * The server's clock is more than 5 s behind the last commit of a realm, or of the bucket that the realm is in. Nothing
   * was written.
   */
  | { readonly kind: 'clock_behind'; readonly behindMs: number }
  /** This attempt alone came to an error, which says whether something may have been written. */
  | { readonly kind: 'failed'; readonly error: unknown }

/** All that a process has in flight at one moment, for one call. Its attempts are carried out in order. */
export interface Group {
  /** The revision that the decisions were made with; with another one all of them miss. */
  readonly settingsRevision: number
  readonly attempts: readonly Attempt[]
}

export interface GroupReply {
  /** The server's clock, read after all locks of the group were taken. */
  readonly nowUs: number
  readonly settingsRevision: number
  /** The settings, if their revision is another than that of the group. */
  readonly settings: readonly SettingRow[] | null
  /** One per attempt, in the same order. */
  readonly replies: readonly Reply[]
}

/** As `Found` of the port, with the server's clock. */
export interface FoundEntries extends Omit<Found, 'now'> {
  readonly nowUs: number
}

/**
 * A server that keeps realms of one namespace. Every call ends in bounded time. It throws `STORE_UNAVAILABLE` when
 * certainly nothing was written, and `STORE_OUTCOME_UNKNOWN` when the answer was lost. An error that `attempt` throws
 * holds for the whole group; where attempts fare differently, each has its own reply.
 *
 * The methods that it shares with `Store` keep the contract of `Store`, but that `subscribe` need not deliver the
 * wake-ups of this process: the store itself does.
 */
export interface Backend extends Omit<Store, 'transact' | 'find'> {
  /** Part of every tick: deadlines written under another domain are never compared. */
  readonly clockDomain: string
  /**
   * Whether it answers before even a short turn is over. Then a new holder runs before the next request of its process is
   * sent; with a slower server the next release would have to wait for the answer to that request.
   */
  readonly isQuick: boolean

  /** Throws `INVALID_INPUT` for read sets that this server cannot decide about together. */
  refuseApart?(readSets: readonly ReadSet[]): void

  /**
   * One round trip, atomic attempt by attempt; an empty group reads the clock and the settings. A driver that lost the
   * answer may send it again by itself: the second time it misses, and its view shows what the first time wrote.
   */
  attempt(group: Group): Promise<GroupReply>

  /**
   * Several calls of `attempt` between which no other process can change what the first of them was about; all of them are
   * committed at the end. For a request that keeps missing. Absent: the server cannot lock anything between two calls.
   */
  holding?<Result>(work: (attempt: Backend['attempt']) => Promise<Result>): Promise<Result>

  find(query: EntryQuery): Promise<FoundEntries>
}
