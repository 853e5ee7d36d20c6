/**
 * What applications hold: the `LeaseManager`, which owns sessions for one instance, and the `Fleet` that runs pollers on
 * top of it. The contract stands here once.
 *
 * What is not promised: a poll that is in progress when the process is suspended goes on when it is resumed, and no other
 * process can prevent that. Pass `fence` to every resource that the poll writes to, so that the resource can refuse.
 */
import { invalid, type LeaseError } from '../core/errors.ts'
import type { FencedLease } from '../core/fenced-lease.ts'

/**
 * What this instance knows of a session at the moment of reading.
 *
 *  - `owned`: this instance owns it, confirmed, and not past the local deadline.
 *  - `uncertain`: a renewal failed, hangs or is overdue. Until the local deadline no other instance owns it, but no new
 *    side effect should begin.
 *  - `other`: another instance owned it at the last answer of the store.
 *  - `unknown`: none of these.
 */
export type LeaseState = 'unknown' | 'owned' | 'other' | 'uncertain'

export interface LeaseInfo {
  readonly sessionId: string
  /** Null when no owner is known. */
  readonly ownerId: string | null
  readonly state: LeaseState
  /** The fence of this instance's lease. */
  readonly fence: number | null
  /** Wall time, for people. */
  readonly acquiredAtMs: number | null
  readonly lastRenewedAtMs: number | null
  /** Until the local deadline; 0 when this instance does not own it. */
  readonly remainingMs: number
}

/** Why a session was lost. */
export type LossReason =
  /** No renewal was confirmed in time. */
  | 'deadline_passed'
  /** The store says that this instance does not own it. */
  | 'not_owner'

export interface FleetEvents {
  /** This instance owns the session from now on. */
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
  /** Handed over to the instance that should own it. */
  readonly rebalanced: { readonly sessionId: string; readonly from: string; readonly to: string }
}

/**
 * Owns sessions for one instance. `isOwned`, `ownedSessions`, `state`, `leaseOf` and `leaseInfo` answer at all times:
 * before `start` and from the call of `stop` on, nothing is owned or known. Every other method but `start` and `stop`
 * throws `INVALID_STATE` before `start` and `CLOSED` after `stop`.
 */
export interface LeaseManager extends AsyncDisposable {
  readonly instanceId: string
  /** Connects, reads the nodes, and from then on publishes a heartbeat and renews. */
  start(): Promise<void>
  /**
   * Releases everything, removes the heartbeat, and ends the loops. Resolves also while the store is unavailable, and does
   * nothing to a manager that was never started.
   */
  stop(): Promise<void>
  /** True if the session was acquired or is owned already. Throws what the store throws. */
  tryAcquire(sessionId: string): Promise<boolean>
  /** Idempotent. */
  release(sessionId: string): Promise<void>
  /** Whether a side effect may begin now: computed from the clock, without a call to the store. */
  isOwned(sessionId: string): boolean
  /**
   * The sessions that are `owned` or `uncertain`: their lease has not ended. Ask `isOwned` before a side effect.
   */
  ownedSessions(): readonly string[]
  /** Instances with a heartbeat, read from the store. */
  getLiveNodes(): Promise<readonly string[]>
  /** By weighted rendezvous over the nodes that are ready. Throws `INVALID_STATE` if there are none. */
  preferredOwner(sessionId: string): Promise<string>
  state(sessionId: string): LeaseState
  leaseInfo(sessionId: string): LeaseInfo
  /** The lease of a session, as a guarded write takes it; null when this instance does not own it. */
  leaseOf(sessionId: string): FencedLease | null
  /** Hands a session to another instance; it is owned all the time. False if this instance did not own it any more. */
  handOver(sessionId: string, instanceId: string): Promise<boolean>
  /** Whether this instance publishes its heartbeat; an instance that is not ready receives no sessions. */
  setReady(isReady: boolean): Promise<void>
  /** Returns a function that removes the listener. An error that a listener throws is reported. */
  on<Name extends keyof FleetEvents>(
    name: Name,
    listener: (event: FleetEvents[Name]) => void,
  ): () => void
}

/** It is the lease of the session as well: pass it to every guarded write of the poll. */
export interface PollContext extends FencedLease {
  /** Pass it to every resource that the poll writes to. */
  readonly fence: number
  /** For this poll alone. Aborts when the session is lost or about to be handed over: stop and return. */
  readonly signal: AbortSignal
}

export type PollFunction = (sessionId: string, context: PollContext) => Promise<void> | void

/** A list, or a source whose every item is the whole list from then on. */
export type SessionSource = readonly string[] | AsyncIterable<readonly string[]>

export interface FleetOptions {
  /** Called for each session that this instance owns, one call at a time for each. */
  readonly poll: PollFunction
  /** How many milliseconds from the start of a poll to the start of the next. Default 1000. */
  readonly intervalMs?: number
  /** A poll that takes more milliseconds is reported, aborted, and its session handed over. Default 30000. */
  readonly pollTimeoutMs?: number
  /** How many milliseconds a poll may take to return after its signal has aborted. Default 1000. */
  readonly stopTimeoutMs?: number
}

export interface RunnerEvents {
  /** A poll threw, or did not return in time. `failures`: how many in a row. */
  readonly poll_failed: {
    readonly sessionId: string
    readonly error: unknown
    readonly failures: number
  }
  /** The source of sessions threw, or a pass failed; the fleet goes on with the sessions it knows. */
  readonly failed: { readonly error: unknown }
}

export interface Fleet extends AsyncDisposable {
  /** The sessions that this instance polls now. */
  readonly polling: readonly string[]
  /** In order: stops the work, hands over or releases, leaves, ends the loops and stops the manager. */
  stop(): Promise<void>
  on<Name extends keyof RunnerEvents>(
    name: Name,
    listener: (event: RunnerEvents[Name]) => void,
  ): () => void
}

export const FLEET_EVENTS: readonly (keyof FleetEvents)[] = [
  'acquired',
  'renewed',
  'renew_failed',
  'uncertain',
  'recovered',
  'released',
  'lost',
  'taken_over',
  'rebalanced',
]

export const RUNNER_EVENTS: readonly (keyof RunnerEvents)[] = ['poll_failed', 'failed']

/** Refuses a misspelt event, which would never be emitted, and a listener that is no function. */
export function requireEventListener(
  names: readonly string[],
  name: unknown,
  listener: unknown,
): void {
  if (typeof name !== 'string' || !names.includes(name)) {
    throw invalid('event', `must be one of ${names.join(', ')}`, name)
  }
  if (typeof listener !== 'function') throw invalid('listener', 'must be a function', listener)
}
