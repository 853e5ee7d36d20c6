/**
 * The options of the library's methods. Written by `npm run protocol` from src/protocol/library.ts: change them there.
 */
import type { Budget } from '../core/budget.ts'
import type { LeaseEventType } from '../core/event.ts'
import type { EntryState, LeaseId, Metadata, ReleaseReason } from '../core/lease.ts'
import type { Extent, Mode } from '../core/resource.ts'
import type { Scope } from '../core/scope.ts'
import type { Position } from '../service/lease-api.ts'
import type { Lease } from './contract.ts'

/**
 * Of `acquire` and `withLease`. `tryAcquire` takes all but `waitMs`, `signal` and `breakGraceMs`; `acquireAll`, and
 * `withLease` for several, all but `mode`, `extent`, `slots`, `leaseId`, `scope` and `budget`.
 */
export interface AcquireOptions {
  /**
   * `shared` leases exclude exclusive ones, and `exclusive` excludes all others. Default: `exclusive`, or `shared`
   * with `slots`.
   */
  readonly mode?: Mode
  /**
   * `subtree`: the lease covers everything below as well. Default: `exact`. Only tree kinds (`file:`) have
   * subtrees. It is `exact` however the name is spelt: a trailing slash means a subtree on the command line only.
   */
  readonly extent?: Extent
  /**
   * Makes the resource one that takes so many shared leases at once, 1..10000. Where leases name different numbers,
   * the smallest among the live leases and the request counts.
   */
  readonly slots?: number
  /**
   * What the lease, and all that is derived from it, may be used for. Default: everything. A set that is left out
   * allows nothing.
   */
  readonly scope?: Partial<Scope>
  /** How much of it. Default: unlimited. A dimension that is left out is unlimited. */
  readonly budget?: Budget
  /**
   * How long the lease lives without renewal, 1..2592000000. Default: the configured `default_ttl_seconds`; where
   * none is configured 30 s, or with `autoRenew: false` one hour.
   */
  readonly ttlMs?: number
  /** How often it may be renewed; -1: no limit, -1..2147483647. Default: the configured `max_renewals`. */
  readonly maxRenewals?: number
  /** No renewal carries the lease beyond this time since its grant, 1..31536000000. */
  readonly maxHoldMs?: number
  /** In the queue, a point counts like having come ten seconds sooner, -100..100. Default: 0. */
  readonly priority?: number
  /**
   * How long the resource is not granted after this lease has expired or was revoked, 0..2592000000. Default: 0.
   */
  readonly lockDelayMs?: number
  /** A waiter may ask this holder to finish. Default: false. */
  readonly breakable?: boolean
  /** If it has to wait, asks the holders that are `breakable` to finish within so long, 0..2592000000. */
  readonly breakGraceMs?: number
  /** Shown to blocked requests. 1 KiB together with `metadata`. */
  readonly reason?: string
  /** Text, numbers and truth values by name, beside `reason`; shown to blocked requests. */
  readonly metadata?: Metadata
  /**
   * How long to wait for the resource, 0..86400000. Default: the configured `acquisition_timeout_ms`. 0: not at
   * all; `Infinity`: until it is granted or cancelled. The wait ends exactly then, whatever call is under way; only
   * for its first answer the store always has a second. A wait that is named here also covers a store that is away:
   * it is asked again until the time is over, and then the error is `STORE_UNAVAILABLE` if every call failed, else
   * `WAIT_TIMEOUT`, also when a call was still under way.
   */
  readonly waitMs?: number
  /**
   * Leases of this client, or their ids, that cannot be released before this request ends, at most 64. Default: the
   * leases of the `withLease` calls that this call is made inside of, and outside of any what follows from a
   * standstill of the client; `[]`: none. A request that one of them blocks is refused at once (`RESOURCE_HELD`),
   * and a cycle of requests that wait under what the next one waits for is refused with `DEADLOCK`.
   */
  readonly under?: readonly (Lease | LeaseId)[]
  /** False: the lease is not renewed unless `renew()` is called. Default: true. */
  readonly autoRenew?: boolean
  /** Cancels the wait (`ABORTED`); has no effect once the lease is granted. */
  readonly signal?: AbortSignal
  /**
   * Chosen by the caller to make a retry of a whole acquire recognisable: if the lease exists and is still held, it
   * is returned, with no more than what is left of it. Default: a new UUID.
   */
  readonly leaseId?: LeaseId
}

/** One of several resources that are acquired together, where a name is not enough. */
export interface Wanted {
  /** Its name. */
  readonly resource: string
  /**
   * `shared` leases exclude exclusive ones, and `exclusive` excludes all others. Default: `exclusive`, or `shared`
   * with `slots`.
   */
  readonly mode?: Mode
  /**
   * `subtree`: the lease covers everything below as well. Default: `exact`. Only tree kinds (`file:`) have
   * subtrees. It is `exact` however the name is spelt: a trailing slash means a subtree on the command line only.
   */
  readonly extent?: Extent
}

/** Of `lease.renew` and `set.renew`. */
export interface RenewOptions {
  /** A new TTL, 1..2592000000. Default: the one that the lease has. */
  readonly ttlMs?: number
}

/** Of `lease.spend`. */
export interface SpendOptions {
  /**
   * A UUID of the caller’s own, such as that of its tool call: under one id amounts are spent once, however often.
   */
  readonly requestId?: LeaseId
}

/** Of `lease.advance`. */
export interface AdvanceOptions {
  /** How many epochs to use up, 1..100000. Default: 1. */
  readonly count?: number
  /** Kept in the history. */
  readonly reason?: string
}

/** Of `lease.derive`. */
export interface DeriveOptions {
  /** Who holds the derived lease. */
  readonly holder: string
  /**
   * Where that holder hears of what others do to it. Default: this client’s own. Name the session of another
   * process to let it take the lease over with `adopt`.
   */
  readonly session?: string
  /** Within the parent’s. Default: the parent’s own, shared with the others that are derived so. */
  readonly resource?: string
  /**
   * `subtree`: everything below as well, within the parent’s. Default: `exact`, or with the parent’s own resource
   * the parent’s.
   */
  readonly extent?: Extent
  /** Whether it has its resource to itself. Default: `exclusive` for a resource of its own, else `shared`. */
  readonly mode?: Mode
  /** No longer than the parent has left, 1..2592000000. Default: as long as that. */
  readonly ttlMs?: number
  /** Within the parent’s. Default: nothing is allowed. A set that is left out allows nothing. */
  readonly scope?: Partial<Scope>
  /**
   * Taken out of the parent’s. Default: unlimited. A dimension that is left out is unlimited, which a limited
   * parent refuses.
   */
  readonly budget?: Budget
  /** Shown to blocked requests. 1 KiB together with `metadata`. */
  readonly reason?: string
  /** Who is to check the grant. Default: as for the parent; no other than that, if it names one. */
  readonly audience?: string
  /** False: the lease is not renewed unless `renew()` is called. Default: true. */
  readonly autoRenew?: boolean
}

/** Of `lease.upgrade`. */
export interface UpgradeOptions {
  /** How long to wait for the others to leave, 0..86400000. Default: the configured `acquisition_timeout_ms`. */
  readonly waitMs?: number
  /** Takes the request back (`ABORTED`). */
  readonly signal?: AbortSignal
}

/** Of `adopt`. */
export interface AdoptOptions {
  /** False: the lease is not renewed unless `renew()` is called. Default: true. */
  readonly autoRenew?: boolean
}

/** Of `lease.release` and `set.release`. */
export interface ReleaseOptions {
  /** Why the lease ends. Default: `voluntary`. */
  readonly reason?: ReleaseReason
  /**
   * A note for the next holder of the resource (`previous()`), such as the last tick of a job. Default: what it
   * has.
   */
  readonly metadata?: Metadata
}

/** Of `lease.update` and `set.update`. */
export interface UpdateOptions {
  /** Shown to blocked requests. Default: as it is. */
  readonly reason?: string
  /** In place of what it has. Default: as it is. */
  readonly metadata?: Metadata
}

/** Of `list`, and but for `limit` of `listAll`. */
export interface ListOptions {
  /** Of this resource only. */
  readonly resource?: string
  /** Of this holder only. */
  readonly holder?: string
  /** What this session has; leases themselves tell only a digest of theirs. */
  readonly session?: string
  /** As it stands at the moment of reading. Default: what is live, `active` and `pending`. */
  readonly state?: EntryState
  /** How many at most, 1..10000. Default: 1000. */
  readonly limit?: number
}

/** Of `history`. */
export interface HistoryOptions {
  /** Of this lease only. */
  readonly leaseId?: LeaseId
  /** Of this resource only. */
  readonly resource?: string
  /** Of this holder only. */
  readonly holder?: string
  /** Only these types of events. */
  readonly types?: readonly LeaseEventType[]
  /** Not before this wall time of the store. */
  readonly fromMs?: number
  /** Not after this wall time of the store. */
  readonly toMs?: number
  /** Only what was committed after this position. */
  readonly after?: Position
  /**
   * For a reader that has seen everything up to `after`: refused once an event behind it was pruned, beside
   * renewals and advances that a later one supersedes. `details.prunedUpTo` is where nothing is missing. Default:
   * false.
   */
  readonly unbroken?: boolean
  /** The newest first. Default: false. */
  readonly newestFirst?: boolean
  /**
   * Also what was refused: the last of each resource, holder and reason, with how often (`count`), as
   * `lease.denied` in the order of time. It is counted beside the ledger, and comes on top of the limit, at most as
   * many. Default: true.
   */
  readonly refusals?: boolean
  /** How many at most, 1..10000. Default: 1000. */
  readonly limit?: number
}

/** Of `watch`. */
export interface WatchOptions {
  /** Of this resource only. */
  readonly resource?: string
  /** Of this holder only. */
  readonly holder?: string
  /** Only these types of events. */
  readonly types?: readonly LeaseEventType[]
  /** Goes on after this position. Default: from now on. */
  readonly after?: Position
  /** Ends the watch. */
  readonly signal?: AbortSignal
}

/** Of `releaseAll` and `revoke`. */
export interface ReasonOptions {
  /** Kept in the history; by default it says who did it. */
  readonly reason?: string
}

/** Of `revoke`. */
export interface RevokeOptions {
  /** Kept in the history; by default it says who did it. */
  readonly reason?: string
  /**
   * How long the holder may take to finish; it hears of it through `revoking`, 0..2592000000. Default: 0. 0: the
   * lease ends at once.
   */
  readonly graceMs?: number
}

/** Of `config`. */
export interface SettingOptions {
  /** A kind (`work`) or a resource (`work:W-17`) whose value is meant. Default: the global one. */
  readonly for?: string
}
