/**
 * What a decision sees and what it says. A view is the part of a realm that a command's read set touches: the live
 * entries that overlap it, and the entry of its own id in whatever state.
 */
import type { LeaseDenied, LeaseEvent, LeaseEventType } from './event.ts'
import type { Entry, LeaseId } from './lease.ts'
import type { Reach } from './resource.ts'
import type { Settings } from './settings.ts'

/** What a store must read for a command. */
export interface ReadSet extends Reach {
  readonly leaseId: LeaseId
  /** When given, the store tells whether this request already had its effect. */
  readonly requestId: string | null
  /**
   * `entry`: the command depends on the entry of `leaseId` alone, so strangers cannot make its commit miss.
   * `claims`: it depends on the set of live entries that overlap `resource`.
   */
  readonly depth: 'entry' | 'claims'
  /** It depends on what its own session has anywhere there, so that nothing may be left out of its view (`leftOut`). */
  readonly isWhole?: true
  /**
   * What is lost if this comes too late: a lease that its holder has, or the place of a waiter. Of all that a process has to
   * send, a store sends first what is lost first.
   */
  readonly urgency?: Urgency
}

export type Urgency = 'lease' | 'place'

/** The effect that a request id had when it was first heard. */
export interface PriorEffect {
  readonly leaseId: LeaseId
  readonly type: LeaseEventType
}

export interface RealmView {
  /** What the read set touches, and the entry that `prior` names, in whatever state. */
  readonly entries: ReadonlyMap<LeaseId, Entry>
  /** What was looked for by its id and is not there; without it nothing says so of what the read set does not touch. */
  readonly absent?: ReadonlySet<LeaseId>
  /** How many tickets that wait are not among `entries`; all of them come before any that is filed now. Absent: none. */
  readonly leftOut?: number
  /** The highest fence ever given in the realm, 0 if none. */
  readonly lastFence: number
  /** Live tickets in the whole realm, not only in the read set. At depth `entry` no decision asks for it. */
  readonly ticketCount: number
  /**
   * How far the epoch of the read set's resource has come, 0 if it never advanced. It outlives leases, retention and
   * an unkept history. Only resources with an epoch (`hasEpoch`) have another than 0.
   */
  readonly epoch: number
  readonly prior: PriorEffect | null
  readonly settings: Settings
}

/** A session that must hear of something that concerns its lease or ticket. */
export interface Wake {
  readonly session: string
  readonly leaseId: LeaseId
}

export interface Decision<Outcome> {
  readonly outcome: Outcome
  readonly events: readonly LeaseEvent[]
  /** What it refused and is to be counted; no part of the commit. */
  readonly refusals: readonly LeaseDenied[]
  /** The view's entries as the events leave them. */
  readonly entries: ReadonlyMap<LeaseId, Entry>
  /** Entries that it leaves as they are because of their deadlines: had one been renewed, the decision could be another. */
  readonly reliedOn: readonly LeaseId[]
  /** The waiters that must look for themselves, besides those that the events concern. */
  readonly wakes: readonly Wake[]
  /**
   * The earliest deadline that the decision treated as still running, in ticks; null if none. A store that decides
   * before it commits must not commit at or after it.
   */
  readonly validUntilUs: number | null
  /** The lowest and the highest of the fences that it gives, or 0. */
  readonly firstFence: number
  readonly lastFence: number
}
