/**
 * What applications hold: the `Tenure` client and the `Lease` handle. The contract stands here once; `tenure-client.ts`
 * and `lease-handle.ts` keep it.
 */
import type { Blocker } from '../core/conflict.ts'
import type { LeaseError } from '../core/errors.ts'
import type { LeaseEventType } from '../core/event.ts'
import type { EntryState, LeaseId, LeaseInfo, Metadata, ReleaseReason } from '../core/lease.ts'
import type { SettingKey, SettingRow, SettingScope, Settings } from '../core/settings.ts'
import type { CleanupResult, Inspection, LedgerEntry, Position } from '../service/lease-api.ts'

/**
 * What this holder knows, at the moment of reading, of a lease it was given.
 *
 *  - `held`: confirmed, and time enough is left.
 *  - `uncertain`: it renews itself, but less than a third of the TTL is left or the last renewal failed. It is still
 *    the holder's until `remainingMs` is over.
 *  - `lost`: over, for whatever reason but the holder's own release. There is no way back.
 *  - `released`: given up by its holder, from the moment `release` is called, whether or not the store has heard of it.
 */
export type HandleState = 'held' | 'uncertain' | 'lost' | 'released'

export interface AcquireOptions {
  /** 1..2592000000; default: the configured `default_ttl_seconds`. */
  readonly ttlMs?: number
  /**
   * How long to wait for the resource; 0: not at all. Default: the configured `acquisition_timeout_ms`. The wait ends
   * exactly then, whatever call is under way; only for its first answer the store always has a second.
   */
  readonly waitMs?: number
  /** -1: no limit. */
  readonly maxRenewals?: number
  /** Automatic and manual renewal stop here. */
  readonly maxHoldMs?: number
  /** False: the lease is not renewed unless `renew()` is called. Default true. */
  readonly autoRenew?: boolean
  /** Shown to whoever is blocked; 1 KiB together with `metadata`. */
  readonly reason?: string
  readonly metadata?: Metadata
  /** Cancels the wait (`ABORTED`); has no effect once the lease is granted. */
  readonly signal?: AbortSignal
  /**
   * Chosen by the caller to make a retry of a whole acquire recognisable: if the lease exists and is still held, it is
   * returned, with no more than what is left of it. Default: a new UUID.
   */
  readonly leaseId?: LeaseId
}

export type TryAcquireOptions = Omit<AcquireOptions, 'waitMs' | 'signal'>

export type Attempt =
  | { readonly kind: 'granted'; readonly lease: Lease }
  | {
      readonly kind: 'held'
      readonly blockers: readonly Blocker[]
      readonly retryAfterMs: number
    }

export interface RenewOptions {
  readonly ttlMs?: number
}

export interface ReleaseOptions {
  /** Default `voluntary`. */
  readonly reason?: ReleaseReason
}

export interface LeaseEvents {
  /** No confirmation came when it should have; the lease may be lost at `remainingMs`. */
  readonly uncertain: { readonly remainingMs: number; readonly cause: LeaseError | null }
  /** Confirmed again after `uncertain`. */
  readonly recovered: { readonly remainingMs: number }
  readonly renewed: { readonly remainingMs: number; readonly renewals: number }
  /** The end, for whatever reason but the holder's own release. `signal` aborts with the same error. */
  readonly lost: { readonly error: LeaseError }
}

/**
 * A lease as its holder sees it. It renews itself at a third of its TTL until it is released, abandoned or lost.
 * `state` and `remainingMs` are computed from the clock at every read: they do not wait for any call to return, and
 * they end no later than the store's own deadline.
 */
export interface Lease extends AsyncDisposable {
  readonly id: LeaseId
  readonly resource: string
  readonly holder: string
  readonly fence: number
  readonly state: HandleState
  readonly remainingMs: number
  readonly renewals: number
  /** Aborts with a `LeaseError` when the lease is lost. Never aborts because of `release()`. */
  readonly signal: AbortSignal
  /** What the store said last. */
  readonly info: LeaseInfo

  /**
   * Joins a renewal that is under way, unless it names a TTL. Throws `LEASE_LOST` at the latest when the lease is lost,
   * whether or not the store answers; `LEASE_TERMINAL` after `release`; `RENEWAL_LIMIT` and `RENEWAL_DOES_NOT_EXTEND`,
   * which leave the lease as it is; and what the store throws.
   */
  renew(options?: RenewOptions): Promise<void>
  /**
   * Idempotent, and tried for 10 s at most; when it fails because the store is away it can be called again, and the
   * lease ends by itself at its deadline. Throws `LEASE_LOST` or `LEASE_EXPIRED` when there was nothing left to release.
   */
  release(options?: ReleaseOptions): Promise<void>
  /**
   * Stops renewing without releasing, also at disposal and when the client closes: the lease lives on until its
   * deadline, for whoever else has its id. The handle still counts its time, and can still be renewed or released.
   */
  abandon(): void
  /** Returns a function that takes the listener off again. A listener that throws does not harm the lease. */
  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void
  /** `release()` if still held; never throws for a lease that is already gone. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface ListOptions {
  readonly resource?: string
  readonly holder?: string
  readonly state?: EntryState
  /** 1..10000, default 1000. */
  readonly limit?: number
}

export interface HistoryOptions {
  readonly leaseId?: LeaseId
  readonly resource?: string
  readonly holder?: string
  readonly types?: readonly LeaseEventType[]
  readonly fromMs?: number
  readonly toMs?: number
  readonly after?: Position
  readonly newestFirst?: boolean
  readonly limit?: number
}

export interface WatchOptions {
  readonly resource?: string
  readonly holder?: string
  readonly types?: readonly LeaseEventType[]
  readonly after?: Position
  readonly signal?: AbortSignal
}

export interface ReasonOptions {
  /** Kept in the history; by default it says who did it. */
  readonly reason?: string
}

export interface SettingOptions {
  /** A kind (`work`) or a resource (`work:W-17`) whose value is meant; default: the global one. */
  readonly for?: string
}

/** Configuration that all processes of the store obey from their next call on. */
export interface TenureConfig {
  get(key: SettingKey, options?: SettingOptions): Promise<number | boolean>
  set(key: SettingKey, value: number | boolean | string, options?: SettingOptions): Promise<void>
  /** Removes an override, or gives the global default back. */
  unset(key: SettingKey, options?: SettingOptions): Promise<void>
  /** What is in force globally, or for a resource. */
  all(resource?: string): Promise<Settings>
  /** Every value somebody set, with its scope. */
  overrides(): Promise<readonly SettingRow[]>
}

export type { SettingScope }

/**
 * A client of one store and namespace. Its session is who waits for whom: asking again for what the same session
 * holds is refused, while two sessions with one holder name exclude each other.
 */
export interface Tenure extends AsyncDisposable {
  readonly holder: string
  readonly session: string
  readonly config: TenureConfig

  /** Waits for the lease as long as `waitMs` allows, then throws `WAIT_TIMEOUT`; `RESOURCE_HELD` if it may not wait. */
  acquire(resource: string, options?: AcquireOptions): Promise<Lease>
  /** Never waits. */
  tryAcquire(resource: string, options?: TryAcquireOptions): Promise<Attempt>
  /**
   * Releases when `work` ends: `completed` if it returned, `aborted` if it threw. Throws `LEASE_LOST` when the lease did
   * not last as long as the work. A store that is away at the end costs nothing: the result is returned all the same.
   */
  withLease<Result>(
    resource: string,
    options: AcquireOptions,
    work: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result>

  get(leaseId: LeaseId): Promise<LeaseInfo | null>
  inspect(resource: string): Promise<Inspection>
  list(options?: ListOptions): Promise<readonly LeaseInfo[]>
  isHeld(resource: string): Promise<boolean>
  holds(holder: string, resource: string): Promise<boolean>
  history(options?: HistoryOptions): Promise<readonly LedgerEntry[]>
  watch(options?: WatchOptions): AsyncIterable<LedgerEntry>
  revoke(leaseId: LeaseId, options?: ReasonOptions): Promise<void>
  /** Ends all leases of a holder as `revoked`, whoever it is; returns how many. */
  releaseAll(holder: string, options?: ReasonOptions): Promise<number>
  cleanup(): Promise<CleanupResult>
  /**
   * Releases what this client still holds, cancels its waits (`CLOSED`), and closes the store. Idempotent, and does not
   * wait longer than 10 s for a store that does not answer. Every call after it throws `CLOSED`.
   */
  close(): Promise<void>
}
