/**
 * What every face speaks: the client, the CLI, the server and its HTTP client. One interface over one store, one namespace.
 *
 * It is a wire: every request is one object of plain data that `src/protocol` describes, every answer survives JSON, and what
 * cannot cross a process stands in a second argument.
 *
 * Being refused is a value here (`kind`); only a store that fails, or input that cannot be read, throws a
 * `LeaseError`. Nothing here waits for a resource: `acquire` files a ticket and answers `queued`, and `claim` asks
 * again. Waiting itself is the client's business.
 */
import type { Blocker } from '../core/conflict.ts'
import type { LeaseError } from '../core/errors.ts'
import type { CycleStep, LeaseId, LeaseInfo } from '../core/lease.ts'
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
import type { Resource } from '../core/resource.ts'
import type { SettingRow, Settings } from '../core/settings.ts'
import type { RequestOf } from '../protocol/requests.ts'
import type {
  Requester,
  LedgerEntry,
  Position,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../store-port/store.ts'
import type { QueuedWaiter } from './waiter-queues.ts'

/** An event of the ledger, or a refusal that is counted beside it. */
export interface HistoryEntry extends LedgerEntry {
  /** Of a refusal only: how often the same was refused so far. Its event is the last of them, and its position that of the event beside it. */
  readonly count?: number
}

export type { Requester, LedgerEntry, Position, StoreDescription, Unsubscribe, WakeSignal }

export type AcquireRequest = RequestOf<'acquire'>
/** What is the same for all of several resources stands beside its members. */
export type AcquireAllRequest = RequestOf<'acquireAll'>
export type AllMember = AcquireAllRequest['members'][number]
export type TicketRef = RequestOf<'claim'>
export type ClaimAllRequest = RequestOf<'claimAll'>
export type WithdrawRequest = RequestOf<'withdraw'>
export type RenewRequest = RequestOf<'renew'>
export type ReleaseRequest = RequestOf<'release'>
export type ReleaseAllRequest = RequestOf<'releaseAll'>
export type RevokeRequest = RequestOf<'revoke'>
/** What names a lease and its holder, and no more. */
export type HolderRequest = RequestOf<'downgrade'>
export type UpdateRequest = RequestOf<'update'>
export type UpgradeRequest = RequestOf<'upgrade'>
export type TransferRequest = RequestOf<'transfer'>
export type TrespassRequest = RequestOf<'trespass'>
export type AdoptRequest = RequestOf<'adopt'>
export type DeriveRequest = RequestOf<'derive'>
export type SpendRequest = RequestOf<'spend'>
export type AdvanceRequest = RequestOf<'advance'>
export type RevokeAllRequest = RequestOf<'revokeAll'>
export type ListFilter = RequestOf<'list'>
export type InspectRequest = RequestOf<'inspect'>
export type HistoryFilter = RequestOf<'history'>
export type WatchFilter = RequestOf<'watch'>
export type SettingChange = RequestOf<'configure'>

/**
 * Names a lease. The resource saves a look-up for a caller that knows it; a holder's handle always does, a person with an
 * id on a command line does not.
 */
export type LeaseRef = DeriveRequest['parent']

/** A waiter to which a release of the same process can hand over: the release carries its claim in the same commit. */
export interface HandOffWaiter extends QueuedWaiter {
  /** Whether nothing is under way for its ticket. */
  readonly isReady: () => boolean
  /** A release is about to leave, with its claim; the waiter hears what came of that, null if it was not its turn. */
  readonly carryClaim: () => (claim: Promise<ClaimAnswer | null>) => void
}

export type SpendAnswer = { readonly kind: 'spent'; readonly lease: LeaseInfo } | Refusal
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
export type TrespassAnswer = { readonly kind: 'trespassed'; readonly lease: LeaseInfo } | Refusal
export type TransferAnswer =
  { readonly kind: 'transferred'; readonly lease: LeaseInfo | null } | Refusal

/** The epochs from `from` up to and without `to` are the holder's to use, and no other's ever. */
export type AdvanceAnswer =
  | {
      readonly kind: 'advanced'
      readonly lease: LeaseInfo
      readonly from: number
      readonly to: number
    }
  | Refusal

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

/** What of a watch cannot cross a process. */
export interface WatchLocals {
  /** Ends the watch. */
  readonly signal?: AbortSignal
  readonly observer?: WatchObserver
}

/** Hears how a watch fares, beside what it yields. */
export interface WatchObserver {
  /** The store cannot be read for now, said once; the watch goes on by itself. */
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

export interface LeaseApi {
  readonly store: StoreDescription

  /** `requester` may want a call no more while a service in its own process keeps it back; elsewhere it hears nothing. */
  acquire(request: AcquireRequest, requester?: Requester): Promise<AcquireAnswer>
  claim(ticket: TicketRef, requester?: Requester): Promise<ClaimAnswer>
  /** Several resources at once, or none of them. Each ticket of a wait is withdrawn by itself. */
  acquireAll(request: AcquireAllRequest, requester?: Requester): Promise<AcquireAllAnswer>
  claimAll(request: ClaimAllRequest, requester?: Requester): Promise<AcquireAllAnswer>
  withdraw(ticket: WithdrawRequest, requester?: Requester): Promise<WithdrawAnswer>
  renew(request: RenewRequest): Promise<RenewAnswer>
  release(request: ReleaseRequest): Promise<ReleaseAnswer>
  /** All that are still held end in one commit; answers for each what became of it. */
  releaseAll(request: ReleaseAllRequest): Promise<readonly ReleaseAnswer[]>
  revoke(request: RevokeRequest): Promise<RevokeAnswer>
  /** From shared to exclusive: done, under way, or refused. Asking again answers how it stands. */
  upgrade(request: UpgradeRequest): Promise<UpgradeAnswer>
  withdrawUpgrade(request: HolderRequest): Promise<UpgradeAnswer>
  downgrade(request: HolderRequest): Promise<DowngradeAnswer>
  /** The holder's own words, which blocked callers see. */
  update(request: UpdateRequest): Promise<UpdateAnswer>
  /** Records in the ledger a write that was made without a lease; it changes no ownership. */
  trespass(request: TrespassRequest): Promise<TrespassAnswer>
  transfer(request: TransferRequest): Promise<TransferAnswer>
  /** Takes over, under this session, a lease that was transferred to this holder. */
  adopt(request: AdoptRequest): Promise<AcquireAnswer>
  derive(request: DeriveRequest): Promise<AcquireAnswer>
  /** All dimensions or none. */
  spend(request: SpendRequest): Promise<SpendAnswer>
  /** Uses up the next epochs of the workflow that the lease is of. */
  advance(request: AdvanceRequest): Promise<AdvanceAnswer>
  /** Ends every live lease and ticket of a holder as `revoked`; returns how many leases. */
  revokeAll(request: RevokeAllRequest): Promise<number>

  get(request: RequestOf<'get'>): Promise<LeaseInfo | null>
  list(filter: ListFilter): Promise<LeaseList>
  inspect(request: InspectRequest): Promise<Inspection>
  history(filter: HistoryFilter): Promise<readonly HistoryEntry[]>
  /**
   * Yields events in order of commit until the signal aborts or the store is closed. Throws when the store cannot be read
   * at first; later it waits for a store that is away, and goes on where it was.
   */
  watch(filter: WatchFilter, locals?: WatchLocals): AsyncIterable<LedgerEntry>

  /** Settles everything that is over and prunes what retention no longer keeps. */
  cleanup(): Promise<CleanupResult>

  settingRows(): Promise<readonly SettingRow[]>
  settings(request: RequestOf<'settings'>): Promise<Settings>
  /** A null value removes the override, or gives the global default back. */
  configure(change: SettingChange): Promise<void>

  onWake(request: RequestOf<'wakes'>, listener: (signal: WakeSignal) => void): Promise<Unsubscribe>
  /**
   * From now on a release in this process may carry the claim of this waiter. Only a service in the waiter's own process
   * has it. Its calls are published under this name (docs/diagnostics.md).
   */
  standBy?(waiter: HandOffWaiter): Unsubscribe
  close(): Promise<void>
}
