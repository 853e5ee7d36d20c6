/**
 * What applications hold: the `LeaseManager`, which owns sessions for one instance, and the `Fleet` that runs pollers on
 * top of it. The contract stands here once.
 *
 * What is not promised: a poll that is under way when the process is stopped goes on when it is resumed. Nobody can
 * prevent that from outside; pass `fence` to whatever the poll writes to, so that it can refuse.
 */
import type { LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import type { FleetNode } from './fleet-layout.ts'

/**
 * What this instance knows of a session at the moment of reading.
 *
 *  - `owned`: ours, confirmed, and not past the local deadline.
 *  - `uncertain`: a renewal failed, hangs or is overdue. Until the local deadline nobody else has it, but nothing new
 *    should be begun.
 *  - `other`: another instance had it when we asked.
 *  - `unknown`: none of these.
 */
export type LeaseState = 'unknown' | 'owned' | 'other' | 'uncertain'

export interface LeaseInfo {
  readonly sessionId: string
  /** Null when nobody is known to own it. */
  readonly ownerId: string | null
  readonly state: LeaseState
  /** Of our own lease. */
  readonly fence: number | null
  /** Wall time, for people. */
  readonly acquiredAtMs: number | null
  readonly lastRenewedAtMs: number | null
  /** Until the local deadline; 0 when it is not ours. */
  readonly remainingMs: number
}

/** Why a session was lost. */
export type LossReason =
  /** No renewal was confirmed in time. */
  | 'deadline_passed'
  /** The store says that it is not ours. */
  | 'not_owner'

export interface FleetEvents {
  /** Ours from now on. */
  readonly acquired: {
    readonly sessionId: string
    readonly fence: number
    /** Another instance handed it over: `from`, if that is known. */
    readonly isGiven: boolean
    readonly from: string | null
  }
  readonly renewed: { readonly sessionId: string; readonly remainingMs: number }
  readonly renew_failed: { readonly sessionId: string; readonly error: LeaseError }
  readonly uncertain: { readonly sessionId: string; readonly remainingMs: number }
  readonly recovered: { readonly sessionId: string; readonly remainingMs: number }
  readonly released: { readonly sessionId: string }
  readonly lost: { readonly sessionId: string; readonly reason: LossReason }
  /** Acquired after another instance was seen to own it, which did not hand it over. */
  readonly taken_over: { readonly sessionId: string; readonly from: string }
  /** Given to the instance that should own it. */
  readonly rebalanced: { readonly sessionId: string; readonly from: string; readonly to: string }
}

/**
 * Owns sessions for one instance. `isOwned`, `ownedSessions`, `state`, `leaseOf` and `leaseInfo` answer at all times:
 * before `start` and from the call of `stop` on, nothing is owned or known. Every other method but `start` and `stop`
 * throws `INVALID_STATE` before `start` and `CLOSED` after `stop`.
 */
export interface LeaseManager extends AsyncDisposable {
  readonly instanceId: string
  /** Connects, takes a first look at all nodes, and from then on shows a heartbeat and renews. */
  start(): Promise<void>
  /**
   * Releases everything, takes the heartbeat back, and ends the loops. Resolves although the store is away, and does
   * nothing to a manager that was never started.
   */
  stop(): Promise<void>
  /** True if the session was acquired or is ours already. Throws what the store throws. */
  tryAcquire(sessionId: string): Promise<boolean>
  /** Idempotent. */
  release(sessionId: string): Promise<void>
  /** Whether a side effect may begin now: computed from the clock, without asking anybody. */
  isOwned(sessionId: string): boolean
  /**
   * All whose lease has not ended, those that are `owned` or `uncertain`. Ask `isOwned`
   * before a side effect.
   */
  ownedSessions(): readonly string[]
  /** Instances with a heartbeat, asked of the store. */
  getLiveNodes(): Promise<readonly string[]>
  /** By weighted rendezvous over the nodes that are ready. Throws `INVALID_STATE` if there are none. */
  preferredOwner(sessionId: string): Promise<string>
  state(sessionId: string): LeaseState
  leaseInfo(sessionId: string): LeaseInfo
  /** The lease of a session of this instance, as a guarded write takes it; null when it is not ours. */
  leaseOf(sessionId: string): FencedLease | null
  /** Gives a session to another instance without a moment unowned. False if it was not ours any more. */
  handOver(sessionId: string, instanceId: string): Promise<boolean>
  /** Whether this instance is there for others to see; one that is not ready is given nothing. */
  setReady(isReady: boolean): Promise<void>
  /** Returns a function that takes the listener off again. A listener that throws harms nothing. */
  on<Name extends keyof FleetEvents>(
    name: Name,
    listener: (event: FleetEvents[Name]) => void,
  ): () => void
}

/** The lease of the session as well, which every guarded write of the poll takes as it is. */
export interface PollContext extends FencedLease {
  /** To be passed on to whatever the poll writes to. */
  readonly fence: number
  /** Of this poll alone. Aborts when the session is lost or about to be given away: stop and return. */
  readonly signal: AbortSignal
}

export type PollFunction = (sessionId: string, context: PollContext) => Promise<void> | void

/** A list, or a source whose every item is the whole list from then on. */
export type SessionSource = readonly string[] | AsyncIterable<readonly string[]>

export interface FleetOptions {
  readonly poll: PollFunction
  /** From the start of a poll to the start of the next. Default 1000. */
  readonly intervalMs?: number
  /** A poll that takes longer is reported, aborted, and its session handed over. Default 30000. */
  readonly pollTimeoutMs?: number
  /** How long a poll may take to return once it was told to stop. Default 1000. */
  readonly stopTimeoutMs?: number
}

export interface RunnerEvents {
  /** A poll threw, or did not return in time. `failures`: how many in a row. */
  readonly poll_failed: {
    readonly sessionId: string
    readonly error: unknown
    readonly failures: number
  }
  /** The source of sessions threw or something unforeseen happened; the fleet goes on with what it has. */
  readonly failed: { readonly error: unknown }
}

export interface Fleet extends AsyncDisposable {
  /** Sessions with a poller at this moment. */
  readonly polling: readonly string[]
  /** In order: stops the work, hands over or releases, leaves, ends the loops and stops the manager. */
  stop(): Promise<void>
  on<Name extends keyof RunnerEvents>(
    name: Name,
    listener: (event: RunnerEvents[Name]) => void,
  ): () => void
}

export type { FleetNode }
