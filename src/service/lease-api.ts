/**
 * What every face speaks: the client, the CLI, and later the servers. One interface over one store, one namespace.
 *
 * Being refused is a value here (`kind`); only a store that fails, or input that cannot be read, throws a
 * `LeaseError`. Nothing here waits for a resource: `acquire` files a ticket and answers `queued`, and `claim` asks
 * again. Waiting itself is the client's business.
 */
import type { Budget } from '../core/budget.ts'
import type { Blocker } from '../core/conflict.ts'
import type { LeaseError } from '../core/errors.ts'
import type { LeaseEventType } from '../core/event.ts'
import type { Note } from '../core/input.ts'
import type {
  CycleStep,
  EntryState,
  LeaseId,
  LeaseInfo,
  Metadata,
  ReleaseReason,
} from '../core/lease.ts'
import type {
  Dropped,
  Queued,
  QueuedAll,
  Refusal,
  UpgradeWithdrawn,
  Upgrading,
  Waiting,
  Withdrawn,
} from '../core/outcome.ts'
import type { Extent, Mode, Resource } from '../core/resource.ts'
import type { Scope } from '../core/scope.ts'
import type { SettingKey, SettingRow, SettingScope, Settings } from '../core/settings.ts'
import type {
  LedgerEntry,
  Position,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../store-port/store.ts'

export type { LedgerEntry, Position, StoreDescription, Unsubscribe, WakeSignal }

export interface AcquireRequest {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly mode?: Mode
  readonly extent?: Extent
  readonly holder: string
  readonly session: string
  readonly ttlMs?: number
  /** Its holder renews it by itself, so that its default TTL is 30 s unless another was configured. Default false. */
  readonly isRenewed?: boolean
  readonly maxRenewals?: number
  readonly maxHoldMs?: number
  /** Makes the resource one that takes so many leases at once. */
  readonly slots?: number
  /** -100..100, default 0. */
  readonly priority?: number
  readonly lockDelayMs?: number
  /** Whether somebody who waits may ask this holder to finish. */
  readonly breakable?: boolean
  /** When it has to wait: asks holders that allow it to finish within so long. */
  readonly breakGraceMs?: number
  readonly reason?: string
  readonly metadata?: Metadata
  /** 0: do not wait. `configured`: as long as `acquisition_timeout_ms` says. */
  readonly waitMs: number | 'configured'
  readonly claimWindowMs?: number
  /** What the lease, and all that is derived from it, may be used for. Default: everything. */
  readonly scope?: Partial<Scope>
  /** How much of it; a dimension that is absent is unlimited. */
  readonly budget?: Budget
  /**
   * Leases of the same holder, at most 64, that cannot be released before this request ends. A request that one of them
   * blocks is refused at once; a cycle of requests that wait under what the next one waits for is a `DEADLOCK`.
   */
  readonly under?: readonly LeaseId[]
  /**
   * The session does one thing after another, as a person at a shell or an agent does: it releases nothing while it
   * waits, so a request that the session itself blocks is refused at once.
   */
  readonly sequential?: boolean
}

/** What is the same for all of several resources. */
export interface AcquireAllRequest extends Omit<
  AcquireRequest,
  'leaseId' | 'resource' | 'mode' | 'extent' | 'slots' | 'scope' | 'budget'
> {
  /** Chosen by the requester, as the lease ids are. */
  readonly group: string
  /** 1..64, none of which overlaps another. */
  readonly members: readonly AllMember[]
}

export interface AllMember {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly mode?: Mode
  readonly extent?: Extent
}

export interface TicketRef {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent?: Extent
  readonly holder: string
  readonly session: string
  /**
   * What its waiter expects: an offer, because it was woken by name; or nothing new, when it only keeps its ticket alive.
   * Either saves the store a look at the whole queue. Absent: the waiter wants to know how things stand.
   */
  readonly expects?: 'offer' | 'nothing'
  /**
   * Leases of the same holder that the ticket is taken to be under from now on, because its client stands still; empty
   * when it no longer does. Without effect where the request said what it is under.
   */
  readonly implied?: readonly LeaseId[]
}

/** A waiter whose claim can go along with a release, in the same commit. */
export interface Standby {
  /** Of its ticket. */
  readonly id: LeaseId
  readonly resource: Resource
  readonly orderUs: number
  /** Whether nothing is under way for its ticket. */
  readonly isReady: () => boolean
  /** A release is about to leave, with its claim; hears what came of that, null if it was not its turn. */
  readonly board: () => (claim: Promise<ClaimAnswer | null>) => void
}

/**
 * Names a lease. The resource saves a look-up for those who know it; a holder's handle always does, a person with an
 * id on a command line does not.
 */
export interface LeaseRef {
  readonly leaseId: LeaseId
  readonly resource?: Resource
  /** Of the lease, when the resource is given; default `exact`. */
  readonly extent?: Extent
}

export interface RenewRequest extends LeaseRef {
  readonly holder: string
  readonly ttlMs?: number
  /** Repeating a request with the same id has the first effect and no other. */
  readonly requestId?: string
}

export interface ReleaseRequest extends LeaseRef {
  readonly holder: string
  /** Of whoever releases; where it is not the lease's own, the lease's session hears of it. */
  readonly session?: string
  readonly releaseReason?: ReleaseReason
  readonly requestId?: string
  /** The holder's last words, for whoever holds the resource next. Default: those it has. */
  readonly note?: Note
}

/** Several leases of one holder, given back in one commit. */
export interface ReleaseAllRequest {
  readonly holder: string
  readonly session?: string
  readonly releaseReason?: ReleaseReason
  /** 1..64. */
  readonly members: readonly ReleaseMember[]
}

export interface ReleaseMember {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent?: Extent
  /** One for each: the effect is kept with each lease. */
  readonly requestId: string
  readonly note?: Note
}

export interface RevokeRequest extends LeaseRef {
  /** The operator. */
  readonly by: string
  readonly reason?: string
  /** How long the holder may take to finish; default 0, at once. */
  readonly graceMs?: number
  readonly requestId?: string
}

export interface HolderRequest extends LeaseRef {
  readonly holder: string
  readonly requestId?: string
}

/** What the holder says of its lease from now on, 1 KiB together; what is left out is gone. */
export interface UpdateRequest extends HolderRequest {
  readonly reason?: string
  readonly metadata?: Metadata
}

export interface UpgradeRequest extends HolderRequest {
  /** Whether the wish stands until the others have left. */
  readonly mayWait: boolean
  /** As of an acquire, and whether it is implied. */
  readonly under?: readonly LeaseId[]
  readonly implied?: boolean
  readonly sequential?: boolean
}

export interface TransferRequest extends HolderRequest {
  /** The receiver; null: whoever is next in the queue. */
  readonly to: string | null
  /** The id of the lease that a named receiver gets. */
  readonly newLeaseId: LeaseId
}

export interface AdoptRequest extends HolderRequest {
  readonly session: string
}

/** A lease inside one that `by` holds, with less of everything. */
export interface DeriveRequest {
  readonly leaseId: LeaseId
  readonly parent: LeaseRef
  /** The holder of the parent. */
  readonly by: string
  readonly holder: string
  readonly session: string
  /** Within the parent's; without it the parent's own, shared with the others that are derived so. */
  readonly resource?: Resource
  readonly extent?: Extent
  readonly mode?: Mode
  /** Default: what is left of the parent. */
  readonly ttlMs?: number
  /** Default: nothing is allowed. */
  readonly scope?: Partial<Scope>
  /** A dimension that is absent is unlimited, which a limited parent refuses. */
  readonly budget?: Budget
  /** Who is to check its grants. Default: as for the parent; no other than that, if it names one. */
  readonly audience?: string
  readonly reason?: string
}

export interface SpendRequest extends HolderRequest {
  readonly amounts: Budget
}

export type SpendAnswer = { readonly kind: 'spent'; readonly lease: LeaseInfo } | Refusal
export interface AdvanceRequest extends HolderRequest {
  /** The next epoch, as the holder believes. */
  readonly from: number
  /** How many epochs to use up, 1..100000; default 1. */
  readonly count?: number
  readonly reason?: string
}

export type AcquireAnswer =
  | { readonly kind: 'granted'; readonly lease: LeaseInfo; readonly repeated: boolean }
  | Queued
  | Refusal
export type ClaimAnswer = AcquireAnswer | Waiting | Dropped
export type AcquireAllAnswer =
  | {
      readonly kind: 'granted_all'
      readonly leases: readonly LeaseInfo[]
      readonly repeated: boolean
    }
  | QueuedAll
  | Dropped
  | Refusal
export type RenewAnswer = { readonly kind: 'renewed'; readonly lease: LeaseInfo } | Refusal
export type ReleaseAnswer = { readonly kind: 'released'; readonly lease: LeaseInfo } | Refusal
export type RevokeAnswer = { readonly kind: 'revoked'; readonly leaseId: LeaseId } | Refusal
export type WithdrawAnswer = Withdrawn | Refusal
export type UpgradeAnswer =
  | { readonly kind: 'upgraded'; readonly lease: LeaseInfo; readonly changed: boolean }
  | Upgrading
  | UpgradeWithdrawn
  | Refusal
export type DowngradeAnswer =
  { readonly kind: 'downgraded'; readonly lease: LeaseInfo; readonly changed: boolean } | Refusal
export type UpdateAnswer = { readonly kind: 'updated'; readonly lease: LeaseInfo } | Refusal
export type TransferAnswer =
  { readonly kind: 'transferred'; readonly lease: LeaseInfo | null } | Refusal

/** The epochs from `from` up to and without `to` are the holder's to use, and nobody else's ever. */
export type AdvanceAnswer =
  | {
      readonly kind: 'advanced'
      readonly lease: LeaseInfo
      readonly from: number
      readonly to: number
    }
  | Refusal

export interface ListFilter {
  readonly resource?: Resource
  readonly holder?: string
  readonly session?: string
  /** As it stands at the moment of reading. Without it: what is live, active and pending. */
  readonly state?: EntryState
  /** Goes on where another list with the same filter was cut short: its `next`. */
  readonly after?: string
  readonly limit?: number
}

export interface LeaseList {
  readonly leases: readonly LeaseInfo[]
  readonly more: boolean
  /** To be passed as `after`; absent where there is no more, or nothing to go on with. */
  readonly next?: string
}

/** All there is to know about one resource at this moment. */
export interface Inspection {
  readonly resource: Resource
  readonly leases: readonly LeaseInfo[]
  /** Who waits, in the order in which they will be served. */
  readonly queue: readonly LeaseInfo[]
  /** What would stand in the way of a new exclusive lease. */
  readonly blockers: readonly Blocker[]
  /** Cycles of requests that wait for each other, that one in the queue is part of. */
  readonly cycles: readonly (readonly CycleStep[])[]
}

export interface HistoryFilter {
  readonly leaseId?: LeaseId
  readonly resource?: Resource
  readonly holder?: string
  readonly types?: readonly LeaseEventType[]
  readonly fromMs?: number
  readonly toMs?: number
  readonly after?: Position
  readonly newestFirst?: boolean
  readonly limit?: number
}

export interface WatchFilter {
  readonly resource?: Resource
  /** Only of resources of these kinds. */
  readonly kinds?: readonly string[]
  readonly holder?: string
  readonly types?: readonly LeaseEventType[]
  /** Only what was committed after this position; without it, only what is committed from now on. */
  readonly after?: Position
  readonly signal?: AbortSignal
  readonly observer?: WatchObserver
}

/** Hears how a watch fares, beside what it yields. */
export interface WatchObserver {
  /** The store cannot be read for now, told once; the watch goes on by itself. */
  onAway(error: LeaseError): void
  /** It can be read again. */
  onBack(): void
  /** Everything up to here was yielded and taken, or is not wanted. */
  onPosition(position: Position): void
}

export interface CleanupResult {
  readonly expired: number
  readonly prunedLeases: number
  readonly prunedEvents: number
}

export interface SettingTarget {
  readonly scope: SettingScope
  readonly resourceId: string | null
}

export interface LeaseApi {
  readonly store: StoreDescription

  acquire(request: AcquireRequest): Promise<AcquireAnswer>
  claim(ticket: TicketRef): Promise<ClaimAnswer>
  /** Several resources at once, or none of them. Each ticket of a wait is withdrawn by itself. */
  acquireAll(request: AcquireAllRequest): Promise<AcquireAllAnswer>
  claimAll(tickets: readonly TicketRef[]): Promise<AcquireAllAnswer>
  withdraw(ticket: TicketRef & { readonly why: 'timed_out' | 'aborted' }): Promise<WithdrawAnswer>
  renew(request: RenewRequest): Promise<RenewAnswer>
  release(request: ReleaseRequest): Promise<ReleaseAnswer>
  /** All that are still held end in one commit; tells of each what became of it. */
  releaseAll(request: ReleaseAllRequest): Promise<readonly ReleaseAnswer[]>
  revoke(request: RevokeRequest): Promise<RevokeAnswer>
  /** From shared to exclusive: done, under way, or refused. Asking again tells how it stands. */
  upgrade(request: UpgradeRequest): Promise<UpgradeAnswer>
  withdrawUpgrade(request: HolderRequest): Promise<UpgradeAnswer>
  downgrade(request: HolderRequest): Promise<DowngradeAnswer>
  /** The holder's own words, which whoever is blocked sees. */
  update(request: UpdateRequest): Promise<UpdateAnswer>
  transfer(request: TransferRequest): Promise<TransferAnswer>
  /** Takes over, under this session, a lease that was transferred to this holder. */
  adopt(request: AdoptRequest): Promise<AcquireAnswer>
  derive(request: DeriveRequest): Promise<AcquireAnswer>
  /** All dimensions or none. */
  spend(request: SpendRequest): Promise<SpendAnswer>
  /** Uses up the next epochs of the workflow that the lease is of. */
  advance(request: AdvanceRequest): Promise<AdvanceAnswer>
  /** Ends every live lease and ticket of a holder as `revoked`; tells how many leases. */
  revokeAll(holder: string, by: string, reason?: string): Promise<number>

  get(leaseId: LeaseId): Promise<LeaseInfo | null>
  list(filter: ListFilter): Promise<LeaseList>
  /** `subtree`: also what lies below it. */
  inspect(resource: Resource, extent?: Extent): Promise<Inspection>
  history(filter: HistoryFilter): Promise<readonly LedgerEntry[]>
  /**
   * Yields events in order of commit until the signal aborts or the store is closed. Throws when the store cannot be read
   * at first; later it waits for a store that is away, and goes on where it was.
   */
  watch(filter: WatchFilter): AsyncIterable<LedgerEntry>

  /** Settles everything that is over and prunes what retention no longer keeps. */
  cleanup(): Promise<CleanupResult>

  settingRows(): Promise<readonly SettingRow[]>
  settings(resource: Resource | null): Promise<Settings>
  /** A null value removes the override, or gives the global default back. */
  configure(key: SettingKey, value: string | null, target: SettingTarget): Promise<void>

  onWake(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe>
  /** From now on a release in this process may take the claim of this waiter along. */
  standBy(standby: Standby): Unsubscribe
  close(): Promise<void>
}
