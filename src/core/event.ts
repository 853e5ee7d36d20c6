/**
 * Ledger events: one per change, carrying everything that `evolve` needs, so that folding a ledger gives the realm
 * again. `before` and `after` are the states of the entry on either side of the event.
 */
import type { AccountChange } from './delegation.ts'
import type {
  CycleStep,
  EntryState,
  Lease,
  LeaseId,
  ReleaseReason,
  Ticket,
  TicketFailure,
  Under,
  Metadata,
} from './lease.ts'
import type { Resource } from './resource.ts'
import type { Tick } from './time.ts'

export interface EventCommon {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly session: string
  /**
   * Wall time of the store. Within a realm it does not go back; only events that were decided with a look at their own
   * lease alone (renewed, advanced, spent) may stand a few milliseconds before or behind their neighbours.
   */
  readonly atMs: number
  readonly before: EntryState | null
  readonly after: EntryState
  /** Renewals of the lease after the event. */
  readonly renewals: number
  /** Why, in words, for a reader of the history. */
  readonly reason: string | null
  /** The request that had this effect; repeating it must not have another. */
  readonly requestId: string | null
}

export interface LeaseIssued extends EventCommon {
  readonly type: 'lease.issued'
  readonly lease: Lease
}

export interface LeaseRenewed extends EventCommon {
  readonly type: 'lease.renewed'
  readonly ttlMs: number
  readonly expiresAtMs: number
  readonly deadline: Tick
}

export interface LeaseReleased extends EventCommon {
  readonly type: 'lease.released'
  readonly releaseReason: ReleaseReason
}

export interface LeaseExpired extends EventCommon {
  readonly type: 'lease.expired'
  readonly terminatedAtMs: number
  readonly lockedUntil: Tick | null
}

export interface LeaseRevoked extends EventCommon {
  readonly type: 'lease.revoked'
  /** Who ended the lease. */
  readonly by: string
  readonly terminatedAtMs: number
  readonly lockedUntil: Tick | null
}

/** The holder was asked to finish; the deadline is the end of the grace. */
export interface LeaseRevoking extends EventCommon {
  readonly type: 'lease.revoking'
  readonly by: string
  readonly deadline: Tick
  readonly expiresAtMs: number
}

/** The holder requests an upgrade, and waits for the other sharers to leave. */
export interface LeaseUpgrading extends EventCommon {
  readonly type: 'lease.upgrading'
  /** False: it no longer does. */
  readonly wished: boolean
  readonly under?: Under
}

export interface LeaseUpgraded extends EventCommon {
  readonly type: 'lease.upgraded'
  readonly fence: number
}

export interface LeaseDowngraded extends EventCommon {
  readonly type: 'lease.downgraded'
}

/** The holder's own words are these from now on: `reason`, which all events have, and `metadata`. */
export interface LeaseUpdated extends EventCommon {
  readonly type: 'lease.updated'
  readonly metadata: Metadata | null
}

/** The lease ended because its holder gave it to another. */
export interface LeaseTransferred extends EventCommon {
  readonly type: 'lease.transferred'
  /** The receiver; null: the first waiter in the queue. */
  readonly to: string | null
}

/** The receiver of a transfer has taken the lease over. */
export interface LeaseAdopted extends EventCommon {
  readonly type: 'lease.adopted'
  readonly deadline: Tick
  readonly expiresAtMs: number
}

/** The holder used up the epochs from `from` up to and without `to`. */
export interface LeaseAdvanced extends EventCommon {
  readonly type: 'lease.advanced'
  readonly from: number
  readonly to: number
}

/** A lock delay has passed; the resource can be granted again. */
export interface LeaseUnlocked extends EventCommon {
  readonly type: 'lease.unlocked'
}

export interface LeaseQueued extends EventCommon {
  readonly type: 'lease.queued'
  readonly ticket: Ticket
}

export interface LeaseOffered extends EventCommon {
  readonly type: 'lease.offered'
  readonly fence: number
  readonly deadline: Tick
}

/** The waiter was heard of. Never recorded: it changes no ownership and no order. */
export interface LeaseWaiting extends EventCommon {
  readonly type: 'lease.waiting'
  readonly deadline: Tick
  /** What it is taken to be under from now on. Absent: as before. */
  readonly implied?: readonly LeaseId[]
  /** Until when it lives counts with that. Absent: it does not stand behind tickets of its own client. */
  readonly behindOwn?: true
}

/** A wait ended without a grant. */
export interface LeaseFailed extends EventCommon {
  readonly type: 'lease.failed'
  readonly failure: TicketFailure
  readonly cycle: readonly CycleStep[] | null
}

/**
 * A request that would not wait, or a renewal, was refused. Ledgers of earlier versions tell of it, always with a ticket; now it
 * is counted beside the ledger (refusal.ts).
 */
export interface LeaseDenied extends EventCommon {
  readonly type: 'lease.denied'
  /** The request; null for a renewal. */
  readonly ticket: Ticket | null
}

/** The budget of a lease was spent, or part of it given to a child or come back from one. */
export interface LeaseAccounted extends EventCommon {
  readonly type: 'lease.accounted'
  readonly change: AccountChange
}

/**
 * Another than the holder wrote to what the lease covers, without asking. It changes no ownership: it is there for those
 * who read the history.
 */
export interface LeaseTrespassed extends EventCommon {
  readonly type: 'lease.trespassed'
  /** Who wrote. */
  readonly by: string
  /** What was written to: the lease's own resource, or one below its subtree. */
  readonly target: Resource
}

export type LeaseEvent =
  | LeaseIssued
  | LeaseRenewed
  | LeaseReleased
  | LeaseExpired
  | LeaseRevoked
  | LeaseRevoking
  | LeaseUpgrading
  | LeaseUpgraded
  | LeaseDowngraded
  | LeaseUpdated
  | LeaseTransferred
  | LeaseAdopted
  | LeaseAdvanced
  | LeaseUnlocked
  | LeaseQueued
  | LeaseOffered
  | LeaseWaiting
  | LeaseFailed
  | LeaseDenied
  | LeaseAccounted
  | LeaseTrespassed

export type LeaseEventType = LeaseEvent['type']

export const LEASE_EVENT_TYPES: readonly LeaseEventType[] = [
  'lease.issued',
  'lease.renewed',
  'lease.released',
  'lease.expired',
  'lease.revoked',
  'lease.revoking',
  'lease.upgrading',
  'lease.upgraded',
  'lease.downgraded',
  'lease.updated',
  'lease.transferred',
  'lease.adopted',
  'lease.advanced',
  'lease.unlocked',
  'lease.queued',
  'lease.offered',
  'lease.waiting',
  'lease.failed',
  'lease.denied',
  'lease.accounted',
  'lease.trespassed',
]

/** An event as people speak of it: "acquired" for `lease.issued`, and for the rest the name without its `lease.`. */
export function eventWord(type: LeaseEventType): string {
  return type === 'lease.issued' ? 'acquired' : type.slice('lease.'.length)
}
