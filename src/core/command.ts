/**
 * The commands that the core decides. They are validated before they get here: a command holds facts, not raw input.
 */
import type { Budget } from './budget.ts'
import type { Authority } from './delegation.ts'
import type { Note } from './input.ts'
import type { Extent, Mode, Resource } from './resource.ts'
import type { Scope } from './scope.ts'
import type { CycleStep, LeaseId, Metadata, ReleaseReason, Under } from './lease.ts'

/** How long a request is ready to wait: not at all, as configured, or so many milliseconds. */
export type Wait = { readonly kind: 'none' } | { readonly kind: 'configured' } | WaitUpTo

interface WaitUpTo {
  readonly kind: 'up_to'
  readonly waitMs: number
}

export interface Acquire {
  readonly kind: 'acquire'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly mode: Mode
  readonly extent: Extent
  readonly holder: string
  readonly session: string
  /** Null means the default, which depends on whether the holder renews the lease by itself. */
  readonly ttlMs: number | null
  readonly isRenewed?: boolean
  readonly maxRenewals: number | null
  readonly maxHoldMs: number | null
  readonly slots: number | null
  readonly priority: number
  readonly lockDelayMs: number
  readonly breakable: boolean
  /** When the request has to wait: asks breakable holders to finish within so long. */
  readonly breakGraceMs: number | null
  readonly reason: string | null
  readonly metadata: Metadata | null
  readonly wait: Wait
  readonly claimWindowMs: number
  /** Leases of the same holder that cannot be released before this request ends. Absent: the requester did not say. */
  readonly under?: readonly LeaseId[]
  /** The session does one thing after another, so it releases nothing while it waits. */
  readonly sequential?: boolean
  /** If it has to wait: as of a claim. */
  readonly behindOwn?: boolean
  /** Absent: everything, without limit. */
  readonly authority?: Authority
  /** The name of the token that asks through a server. */
  readonly tokenName?: string
}

/** The waiter's word that it is still there; turns its offer, if it has one, into a lease. */
export interface ClaimOffer {
  readonly kind: 'claim'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly session: string
  /** What the ticket is taken to be under from now on, unless its requester said so. Absent: as it was. */
  readonly implied?: readonly LeaseId[]
  /** Tickets of the same client stand before this one, and are kept alive each third of their window (keep-alive.ts). */
  readonly behindOwn?: boolean
}

/**
 * The waiter's word that it is still there, and no more. It depends on the waiter's own ticket alone, so that a long
 * queue is kept alive at the cost of its tickets, not of their square; a ticket that is no longer merely waiting needs
 * a claim.
 */
export interface KeepAlive {
  readonly kind: 'keep_alive'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly session: string
  readonly implied?: readonly LeaseId[]
  readonly behindOwn?: boolean
}

/**
 * A notified waiter accepts its offer. It commits against its own ticket only, so that no request that joins the queue
 * meanwhile can make it miss; without an offer it falls back to a full claim.
 */
export interface TakeUp {
  readonly kind: 'take_up'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly session: string
}

/** The waiter gives up. If its claim was granted meanwhile, the lease is released. */
export interface Withdraw {
  readonly kind: 'withdraw'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly session: string
  readonly why: 'timed_out' | 'aborted'
}

/** Waiting would never end: the ticket is refused, whichever waiter filed it. */
export interface RefuseDeadlock {
  readonly kind: 'refuse_deadlock'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  /** The place in the queue that it had when the search looked: one that was filed anew has another. */
  readonly orderUs: number
  readonly cycle: readonly CycleStep[]
}

export interface Renew {
  readonly kind: 'renew'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  /** Null means the TTL that the lease already has. */
  readonly ttlMs: number | null
  readonly requestId: string | null
}

export interface Release {
  readonly kind: 'release'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  /** Of the client that releases. Absent or another than the lease's: its own session must hear of it. */
  readonly session?: string
  readonly releaseReason: ReleaseReason
  readonly requestId: string | null
  /** The holder's last words, for the next holder of the resource. Absent: those it has. */
  readonly note?: Note
  /** The ticket of a waiter who is known to be there: an offer to it is claimed in the same commit. */
  readonly handOffTo?: LeaseId
}

/** An operator ends a lease of any holder, or takes a waiter out of the queue. */
export interface Revoke {
  readonly kind: 'revoke'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly by: string
  readonly reason: string | null
  /** 0: at once. */
  readonly graceMs: number
  readonly requestId: string | null
}

/** From shared to exclusive in place: same id, new fence. Asking again while it waits tells how it stands. */
export interface Upgrade {
  readonly kind: 'upgrade'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly mayWait: boolean
  readonly under?: Under
  /** As of an acquire. */
  readonly sequential?: boolean
}

/** The holder withdraws its upgrade request; without effect once it is. */
export interface WithdrawUpgrade {
  readonly kind: 'withdraw_upgrade'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
}

/** The holder's own words become these; absent ones are gone. */
export interface Update {
  readonly kind: 'update'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly note: Note
  readonly requestId: string | null
}

/** From exclusive to shared in place: same id, same fence. */
export interface Downgrade {
  readonly kind: 'downgrade'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly requestId: string | null
}

/** Ends the lease and gives it to another in the same commit. */
export interface Transfer {
  readonly kind: 'transfer'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  /** Null: to the first waiter in the queue. */
  readonly to: string | null
  /** The session that a named receiver is notified under until it adopts the lease under its own. Absent: its name. */
  readonly toSession?: string
  /** The id of the lease that a named receiver gets. */
  readonly newLeaseId: LeaseId
  readonly requestId: string | null
}

/** The named receiver of a transfer takes the lease over under its own session; the TTL runs anew. */
export interface Adopt {
  readonly kind: 'adopt'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly session: string
}

/**
 * Uses up epochs of a workflow: the next `count` of them, of which the holder believes `from` to be the first. A holder
 * that believes otherwise than the ledger has been passed by another, and is refused.
 */
export interface Advance {
  readonly kind: 'advance'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly from: number
  readonly count: number
  /** Why, in the holder's words, for the history. */
  readonly reason: string | null
  readonly requestId: string | null
}

/** Writes down what has already happened by the clock; changes nothing that `now` did not. */
export interface Settle {
  readonly kind: 'settle'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
}

/** Several resources at once, or none of them. The members share holder, session, wait and group. */
export interface AcquireAll {
  readonly kind: 'acquire_all'
  readonly group: string
  readonly members: readonly Acquire[]
}

/** The waiter for several resources says that it is still there, and takes them all if they are all free. */
export interface ClaimAll {
  readonly kind: 'claim_all'
  readonly members: readonly ClaimOffer[]
}

/** Several leases of one holder are given back together. */
export interface ReleaseAll {
  readonly kind: 'release_all'
  readonly members: readonly Release[]
}

/** A lease inside another, with less of everything. */
export interface Derive {
  readonly kind: 'derive'
  /** Of the new lease. */
  readonly leaseId: LeaseId
  readonly parentId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly mode: Mode
  readonly holder: string
  readonly session: string
  /** The holder of the parent. */
  readonly by: string
  /** Null: as long as the parent has. */
  readonly ttlMs: number | null
  readonly scope: Scope
  readonly budget: Budget
  /** Who is to check its grants; absent: as for the parent. */
  readonly audience?: string
  readonly reason: string | null
  /** The name of the token that asks through a server. */
  readonly tokenName?: string
}

/** Uses up some of a lease's budget. */
export interface Spend {
  readonly kind: 'spend'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly amounts: Budget
  readonly requestId: string | null
}

/** Another process wrote to what a lease of another holder covers. */
export interface Trespass {
  readonly kind: 'trespass'
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  /** Who wrote. */
  readonly by: string
  /** What was written to. */
  readonly target: Resource
  /** How it came about, in words. */
  readonly reason: string | null
  readonly requestId: string | null
}

export type SeveralCommand = AcquireAll | ClaimAll

export type Command =
  | Acquire
  | ClaimOffer
  | KeepAlive
  | TakeUp
  | Withdraw
  | RefuseDeadlock
  | Renew
  | Release
  | Revoke
  | Upgrade
  | WithdrawUpgrade
  | Downgrade
  | Update
  | Transfer
  | Adopt
  | Advance
  | Settle
  | Derive
  | Spend
  | Trespass
