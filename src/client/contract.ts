/**
 * What applications hold: the `Tenure` client and the `Lease` handle. The contract stands here once; `tenure-client.ts`
 * and `lease-handle.ts` keep it.
 */
import type { Budget } from '../core/budget.ts'
import type { Blocker } from '../core/conflict.ts'
import type { LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'
import type { Mode } from '../core/resource.ts'
import type { Scope, ScopedAct } from '../core/scope.ts'
import type {
  SettingKey,
  SettingRow,
  SettingValue,
  SettingScope,
  Settings,
} from '../core/settings.ts'
import type { CleanupResult, HistoryEntry, Inspection, LedgerEntry } from '../service/lease-api.ts'
import type {
  AcquireOptions,
  AdoptOptions,
  AdvanceOptions,
  DeriveOptions,
  HistoryOptions,
  ListOptions,
  ReasonOptions,
  ReleaseOptions,
  RenewOptions,
  RevokeOptions,
  SettingOptions,
  SpendOptions,
  UpdateOptions,
  UpgradeOptions,
  Wanted,
  WatchOptions,
} from './options.ts'

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

/** What is the same for all of several resources. */
export type AcquireAllOptions = Omit<
  AcquireOptions,
  'mode' | 'extent' | 'slots' | 'leaseId' | 'scope' | 'budget'
>

/** Does not wait, and so asks no holder to finish. */
export type TryAcquireOptions = Omit<AcquireOptions, 'waitMs' | 'signal' | 'breakGraceMs'>

export type Attempt =
  | { readonly kind: 'granted'; readonly lease: Lease }
  | {
      readonly kind: 'held'
      readonly blockers: readonly Blocker[]
      readonly retryAfterMs: number
    }

/** The epochs from `from` up to and without `to`. */
export interface EpochRange {
  readonly from: number
  readonly to: number
}

/** False: the lease had the mode already, and nothing happened. */
export interface ModeChange {
  readonly changed: boolean
}

/**
 * Who gets a lease: a holder by name, or `'next'`: the next waiter in the queue. A holder that is called `next` is
 * meant by `{ holder: 'next' }`.
 */
export type Receiver = string | { readonly holder: string }

export interface LeaseEvents {
  /** No confirmation came when it should have; the lease may be lost at `remainingMs`. */
  readonly uncertain: { readonly remainingMs: number; readonly cause: LeaseError | null }
  /** Confirmed again after `uncertain`. */
  readonly recovered: { readonly remainingMs: number }
  readonly renewed: { readonly remainingMs: number; readonly renewals: number }
  /**
   * A waiter or an operator asked for the lease: it is not renewed any more, and ends no later than `remainingMs` from
   * now. Releasing it sooner serves them sooner.
   */
  readonly revoking: {
    readonly by: string
    readonly reason: string | null
    readonly remainingMs: number
  }
  /** The end, for whatever reason but the holder's own release. `signal` aborts with the same error. */
  readonly lost: { readonly error: LeaseError }
}

/**
 * A lease as its holder sees it. It renews itself at a third of its TTL until it is released, abandoned or lost.
 * `state` and `remainingMs` are computed from the clock at every read: they do not wait for any call to return, and
 * they end no later than the store's own deadline.
 */
export interface Lease extends FencedLease, AsyncDisposable {
  readonly holder: string
  /** `shared` from the moment `downgrade` is called, whether or not the store has heard of it. */
  readonly mode: Mode
  /** A new one after an upgrade. */
  readonly fence: number
  /** The next epoch of the workflow that the lease is of; null for any other resource. */
  readonly epoch: number | null
  readonly state: HandleState
  readonly remainingMs: number
  readonly renewals: number
  /** Aborts with a `LeaseError` when the lease is lost. Never aborts because of `release()`. */
  readonly signal: AbortSignal
  /** What the store said last. */
  readonly info: LeaseInfo
  /** The lease that it was derived from; null for one that was acquired. */
  readonly parentId: LeaseId | null
  /** How many derivations it is below the root. */
  readonly depth: number
  readonly scope: Scope
  /** A dimension that is absent is unlimited. */
  readonly budget: Budget
  /**
   * What is left of the budget in the dimensions that are limited, as far as this client knows: others may have spent
   * since, and what a child gives back is seen with the next renewal. The store decides when it is spent.
   */
  readonly budgetLeft: Budget
  /**
   * The signed token that others check without a store: the chain from the root to this lease, with the times of the last
   * confirmed renewal. It does not change when something is spent. Reading it throws `MISSING_SIGNATURE` for a client
   * without a key, and what `renew` throws for a lease that is over.
   */
  readonly grant: string

  /**
   * Joins a renewal that is under way, unless it names a TTL. Throws `LEASE_LOST` at the latest when the lease is lost,
   * whether or not the store answers; `LEASE_TERMINAL` after `release`; `RENEWAL_LIMIT` and `RENEWAL_DOES_NOT_EXTEND`,
   * which leave the lease as it is; and what the store throws.
   */
  renew(options?: RenewOptions): Promise<void>
  /**
   * Acquires something else under this lease: it says that this lease will not be released before, so that a deadlock is
   * found at once. The same as `acquire` of the client with `under: [lease]`.
   */
  acquire(resource: string, options?: Omit<AcquireOptions, 'under'>): Promise<Lease>
  /**
   * Uses up the next epochs of a workflow, in one commit: no other holder ever gets them, and the next holder of the
   * workflow goes on after them. Throws `LEASE_LOST` at the latest when the lease is lost, `INVALID_INPUT` for a lease that
   * has no epochs, and what the store throws; then the epochs it might have used are lost, and stay unused.
   */
  advance(options?: AdvanceOptions): Promise<EpochRange>
  /**
   * A lease inside this one, for another holder, with less of everything; it renews itself like any other, no further
   * than this one, and is lost when this one ends. What its budget takes from this one's comes back, less what it spent,
   * when it ends. Throws `INVALID_DERIVATION` for what is larger than what this lease has left, and then nothing has
   * changed; `RESOURCE_HELD` when another derived lease is in the way; `LEASE_LOST` at the latest when this one is lost.
   */
  derive(options: DeriveOptions): Promise<Lease>
  /**
   * Uses up some of the budget, in all dimensions or in none, and tells what is left of those that are limited. Throws
   * `BUDGET_EXHAUSTED` with the dimension, what was asked and what is left, and `INVALID_INPUT` for a `requestId` that
   * stood for other amounts.
   */
  spend(amounts: Budget, options?: SpendOptions): Promise<Budget>
  /**
   * Whether an act is within the scope of the lease and, as far as this client knows, `spending` within what is left of its
   * budget. False for a lease that is over, and for an act that names nothing. Throws `INVALID_INPUT` for a field that is
   * not known: it might be the one that is not allowed. Others check a signed grant instead (`authorizeGrant`).
   */
  allows(act: ScopedAct, spending?: Budget): boolean
  /**
   * From shared to exclusive in place: the same id, a new `fence`, and no moment at which another could slip in. Lets
   * no new sharer in while it waits for the others to leave; joins an upgrade that is under way. Throws `WAIT_TIMEOUT`
   * exactly on time, `ABORTED`, `RESOURCE_HELD` if it may not wait, `DEADLOCK` if another sharer is at it already, and
   * `LEASE_LOST`. Whatever it throws but the last, the lease is shared as before.
   */
  upgrade(options?: UpgradeOptions): Promise<ModeChange>
  /**
   * From exclusive to shared in place, with the same id and fence; takes back an upgrade that is under way. Throws
   * `INVALID_DERIVATION` while a lease derived from it is exclusive, or waits to be: the store keeps it exclusive then,
   * and this handle counts as shared until the next `upgrade`, which has no other to wait for.
   */
  downgrade(): Promise<ModeChange>
  /**
   * Says how things stand: blocked callers see `reason` and `metadata` from now on, and the history keeps it. 1 KiB
   * together, as at the acquire. Throws `LEASE_LOST` at the latest when the lease is lost.
   */
  update(options: UpdateOptions): Promise<void>
  /**
   * The lease of the same resource that was granted before this one and has ended, with its last `reason` and `metadata`;
   * null if there was none, or if the history of it is no longer kept. One or two reads; nothing is kept for it.
   */
  previous(): Promise<LeaseInfo | null>
  /**
   * Gives the lease away in one step, so that it is never without an owner. A named receiver passes the queue: its
   * lease has a new id, which is returned, and a higher fence, and is its own at once; it takes it over by `adopt` or
   * by acquiring the resource. `'next'` goes to the first in the queue that fits, returns null, and throws `WAIT_TIMEOUT`
   * if there is none. Afterwards this handle is lost, with `transferred` as the reason. When it throws anything with
   * the effect `none`, the lease is as it was.
   */
  transfer(to: Receiver): Promise<LeaseId | null>
  /**
   * Idempotent. A store that is away is asked again for 10 s; then it throws `STORE_OUTCOME_UNKNOWN`, goes on for a
   * minute in the background, and can be called again; after that the lease ends by itself at its deadline. Throws
   * `LEASE_LOST` or `LEASE_EXPIRED` when there was nothing left to release: what was lost by its own clock is given back
   * in the background from that moment on, unless it has a `lockDelayMs`; then from this call on.
   */
  release(options?: ReleaseOptions): Promise<void>
  /**
   * Stops renewing without releasing, also at disposal and when the client closes: the lease lives on until its
   * deadline, for another client that has its id. The handle still counts its time, and can still be renewed or released.
   */
  abandon(): void
  /**
   * Returns a function that takes the listener off again. A listener that throws does not harm the lease; a name that
   * is no event is refused.
   */
  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void
  /** As `on`, for one event: afterwards the listener is taken off. */
  once<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): () => void
  /** Takes off a listener that `on` or `once` was given; without effect for any other. */
  off<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name]) => void,
  ): void
  /** `release()` if still held; never throws for a lease that is already gone. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Leases that were acquired together. Each is a lease like any other; the set is as good as the worst of them.
 */
export interface LeaseSet extends AsyncDisposable {
  /** In the order in which they were asked for. */
  readonly leases: readonly Lease[]
  /** `lost` if any is lost, else `released` if any is, else `uncertain` if any is. */
  readonly state: HandleState
  /** Of the one that ends first. */
  readonly remainingMs: number
  /** Aborts when any of them is lost, with its reason. */
  readonly signal: AbortSignal
  /** Hears the events of each of them, and of which one; returns a function that takes the listener off again. */
  on<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name], lease: Lease) => void,
  ): () => void
  /** As `on`, for the first such event of any of them: afterwards the listener is taken off. */
  once<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name], lease: Lease) => void,
  ): () => void
  /** Takes off a listener that `on` or `once` was given; without effect for any other. */
  off<Name extends keyof LeaseEvents>(
    name: Name,
    listener: (event: LeaseEvents[Name], lease: Lease) => void,
  ): void
  /** Says the same of each of them, whatever becomes of the others. Throws the first error, as `Lease.update` does. */
  update(options: UpdateOptions): Promise<void>
  /** Renews each of them, whatever becomes of the others. Throws the first error, as `Lease.renew` does. */
  renew(options?: RenewOptions): Promise<void>
  /**
   * Releases all of them together: one request and one commit for all that are still held, whatever became of the
   * others. Throws the first error, as `Lease.release` does.
   */
  release(options?: ReleaseOptions): Promise<void>
}

/** Configuration that all processes of the store obey from their next call on. */
export interface TenureConfig {
  get(key: SettingKey, options?: SettingOptions): Promise<SettingValue>
  set(key: SettingKey, value: SettingValue, options?: SettingOptions): Promise<void>
  /** Removes an override, or gives the global default back. */
  unset(key: SettingKey, options?: SettingOptions): Promise<void>
  /** What is in force globally, or for a resource. */
  all(resource?: string): Promise<Settings>
  /** Every value that was set, with its scope. */
  overrides(): Promise<readonly SettingRow[]>
}

export type { SettingScope }

/**
 * A client of one store and namespace. It is many tasks: what one of them asks for while another has it waits
 * in the one queue with the requests of all other clients. Only a request that is made under the very lease that blocks it
 * is refused at once, because it could never be granted.
 *
 * Its session is what proves that a lease or a place in a queue is this client's; others are shown a digest of it.
 */
export interface Tenure extends AsyncDisposable {
  readonly holder: string
  readonly session: string
  readonly config: TenureConfig

  /** Waits for the lease as long as `waitMs` allows, then throws `WAIT_TIMEOUT`; `RESOURCE_HELD` if it may not wait. */
  acquire(resource: string, options?: AcquireOptions): Promise<Lease>
  /**
   * All of up to 64 resources or none of them, whatever order others ask in: no client holds a part while waiting for the
   * rest. Resources that overlap each other are refused (`INVALID_INPUT`), also the same one twice. What was transferred
   * to this holder is taken over together with the rest.
   */
  acquireAll(
    resources: readonly (string | Wanted)[],
    options?: AcquireAllOptions,
  ): Promise<LeaseSet>
  /**
   * Takes over a lease that was transferred to this holder. Its time runs anew from here, and its fence is its own. Called
   * again by the session that has it, it gives the same handle; any other session hears `LEASE_EXISTS`.
   */
  adopt(leaseId: LeaseId, options?: AdoptOptions): Promise<Lease>
  /** Never waits. */
  tryAcquire(resource: string, options?: TryAcquireOptions): Promise<Attempt>
  /**
   * Releases when `work` ends: `completed` if it returned, `aborted` if it threw. Throws `LEASE_LOST` when the lease did
   * not last as long as the work. A store that is away at the end costs a second at most: the result is returned all the
   * same, and the release goes on in the background. Keeps the process alive as long as the work lasts. For several
   * resources, as `acquireAll`.
   */
  withLease<Result>(
    resource: string,
    work: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result>
  withLease<Result>(
    resource: string,
    options: AcquireOptions,
    work: (lease: Lease) => Promise<Result> | Result,
  ): Promise<Result>
  withLease<Result>(
    resources: readonly (string | Wanted)[],
    work: (leases: LeaseSet) => Promise<Result> | Result,
  ): Promise<Result>
  withLease<Result>(
    resources: readonly (string | Wanted)[],
    options: AcquireAllOptions,
    work: (leases: LeaseSet) => Promise<Result> | Result,
  ): Promise<Result>

  get(leaseId: LeaseId): Promise<LeaseInfo | null>
  inspect(resource: string): Promise<Inspection>
  list(options?: ListOptions): Promise<readonly LeaseInfo[]>
  /** All of them, however many, in order of creation; read page by page while they are asked for. */
  listAll(options?: Omit<ListOptions, 'limit'>): AsyncIterable<LeaseInfo>
  isHeld(resource: string): Promise<boolean>
  holds(holder: string, resource: string): Promise<boolean>
  history(options?: HistoryOptions): Promise<readonly HistoryEntry[]>
  /**
   * Events in order of commit, without loss or repeat, until the signal aborts or the client is closed. Throws when the
   * store cannot be read at first; an outage later only makes it late.
   */
  watch(options?: WatchOptions): AsyncIterable<LedgerEntry>
  /** Ends a lease at once, or asks its holder to finish within a grace. */
  revoke(leaseId: LeaseId, options?: RevokeOptions): Promise<void>
  /** Ends all leases of any holder as `revoked`; returns how many. */
  releaseAll(holder: string, options?: ReasonOptions): Promise<number>
  cleanup(): Promise<CleanupResult>
  /**
   * Releases what this client still holds, cancels its waits (`CLOSED`), and closes the store. Idempotent, and takes 4 s
   * at most, whatever hangs: what could not be released by then ends at its deadline. Every call after it throws `CLOSED`.
   */
  close(): Promise<void>
}
