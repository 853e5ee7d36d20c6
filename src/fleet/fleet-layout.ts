/**
 * How a fleet lives in a store: who owns a session, who is there, and how a session is handed over. Two layouts keep
 * this contract: `poll` (Redis, the keys and scripts that foreign instances know) and `lease` (any store, through
 * the ordinary lease API). A layout remembers nothing about what is owned; the book of the manager does.
 *
 * Every call ends within the call timeout. A call that failed says so for each session it was about (`failed`);
 * `nodes`, `beat`, `leave` and `drain` throw a `LeaseError`.
 */
import type { LeaseError } from '../core/errors.ts'
import type { Candidate } from './assignment.ts'

/** What a layout needs to know of a grant to renew it or to end it. */
export interface Grant {
  readonly sessionId: string
  readonly fence: number
  /** The id of the lease, by which guards tell two apart that were given one fence. */
  readonly id: string
  /** The layout's own mark of this grant. */
  readonly token: string
}

export interface Failed {
  readonly kind: 'failed'
  readonly error: LeaseError
}

export type AcquireReply =
  /** `wasOurs`: the store had it in our name already, because another handed it to us. */
  | ({ readonly kind: 'acquired'; readonly wasOurs: boolean } & Grant)
  /** `freeInMs`: when it is over unless it is renewed; null: never. */
  | { readonly kind: 'held'; readonly owner: string; readonly freeInMs: number | null }
  /** The store has lost data, and an instance that has not heard of it may still work. Nobody gets it before that. */
  | { readonly kind: 'resting'; readonly freeInMs: number }
  | Failed

/** `gone`: it is certainly not ours any more. */
export type GrantReply = { readonly kind: 'done' } | { readonly kind: 'gone' } | Failed

/** An instance with a heartbeat. */
export interface FleetNode extends Candidate {
  /** A name for people. */
  readonly name: string | null
  /** It knows the seed's keys and scripts and nothing else: it cannot be handed anything, only be left something. */
  readonly isForeign: boolean
  /** It is being emptied, and gets nothing new. */
  readonly isDraining: boolean
  /** When its heartbeat is over unless it is renewed. */
  readonly expiresInMs: number
  /** What it acquires leases for; null where nobody says so. */
  readonly leaseTtlMs: number | null
}

export interface NodeView {
  readonly nodes: readonly FleetNode[]
  /** Somebody wants this instance to be empty; it may have no heartbeat. */
  readonly isSelfDraining: boolean
}

/** What a layout tells without being asked. */
export interface LayoutListener {
  /** Another instance, if it is known which, has handed this session to this one. */
  given(sessionId: string, from: string | null): void
  /** Somebody joined, left or began to leave. */
  nodesChanged(): void
  /** The connection is gone; what was confirmed may be void. */
  disconnected(): void
  /** The store may have forgotten what it granted. */
  dataLost(): void
}

/** Who owns a session, for people. */
export interface OwnedRow {
  readonly sessionId: string
  readonly owner: string
  /** Null for a lease without an end, which is somebody's mistake. */
  readonly remainingMs: number | null
  /** Null where the store does not keep it. */
  readonly ttlMs: number | null
}

export interface Survey {
  readonly owned: readonly OwnedRow[]
  /** Instances that somebody wants to be empty, whether or not they are there. */
  readonly draining: readonly string[]
  /** Instances that are there and show no heartbeat, because they are not ready or are being emptied. */
  readonly hidden: readonly FleetNode[]
}

export interface FleetLayout {
  readonly name: 'poll' | 'lease'
  parseSessionId(value: unknown): string
  /** Null for an onlooker, which acquires nothing. Throws when the store cannot be reached. */
  open(listener: LayoutListener | null): Promise<void>
  /** `reclaimed`: those that were this instance's when the store forgot them, and whose term is not over. */
  acquire(
    sessionIds: readonly string[],
    reclaimed?: ReadonlySet<string>,
  ): Promise<readonly AcquireReply[]>
  /** All in one round trip. */
  renew(grants: readonly Grant[]): Promise<readonly GrantReply[]>
  release(grants: readonly Grant[]): Promise<readonly GrantReply[]>
  /** The session is the receiver's at once; it is never free in between, except on the way to a foreign instance. */
  transfer(grant: Grant, to: FleetNode): Promise<GrantReply>
  nodes(): Promise<NodeView>
  /** Says that this instance is here; that it is ready, too, if it is shown to others. */
  beat(isShown: boolean): Promise<void>
  /** Takes the heartbeat back, without leaving. */
  hush(): Promise<void>
  /**
   * From here on the listener is told nothing. Every handover that the receiver can still hear of has been told when this
   * resolves; what is handed over after is free at once where the store can do that, and ended by `leave` elsewhere.
   */
  unlisten(): Promise<void>
  /** Removes every sign of this instance. */
  leave(): Promise<void>
  drain(instanceId: string, isWanted: boolean): Promise<void>
  /** Every session that somebody owns, for people: it reads the whole store. */
  survey(): Promise<Survey>
  close(): Promise<void>
}
