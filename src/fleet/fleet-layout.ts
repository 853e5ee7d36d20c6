/**
 * How a fleet is kept in a store: the owner of each session, the nodes, and how a session is handed over. Two layouts
 * implement this contract: `poll` (Redis, with the keys and scripts that foreign instances know) and `lease` (any store,
 * through the ordinary lease API). A layout does not know what is owned; the session registry does.
 *
 * Every call ends within the call timeout. A call that failed says so for each session it was about (`failed`);
 * `nodes`, `heartbeat`, `leave` and `drain` throw a `LeaseError`.
 */
import { isLeaseError, type LeaseError } from '../core/errors.ts'
import type { Candidate } from './assignment.ts'

/** What a layout needs to know of a grant to renew it or to end it. */
export interface Grant {
  readonly sessionId: string
  readonly fence: number
  /** The id of the lease, by which guards distinguish two leases with the same fence. */
  readonly id: string
  /** The layout's own identifier of this grant. */
  readonly token: string
}

export interface Failed {
  readonly kind: 'failed'
  readonly error: LeaseError
}

export type AcquireReply =
  /** `wasOurs`: the store named this instance as the owner already, because another instance handed it over. */
  | ({ readonly kind: 'acquired'; readonly wasOurs: boolean } & Grant)
  /** `freeInMs`: when it expires unless it is renewed; null: never. */
  | { readonly kind: 'held'; readonly owner: string; readonly freeInMs: number | null }
  /** The grace period after a data loss: an instance that has not heard of the loss may still work on the session. */
  | { readonly kind: 'grace_period'; readonly freeInMs: number }
  | Failed

/** `gone`: this instance certainly does not own it any more. */
export type GrantReply = { readonly kind: 'done' } | { readonly kind: 'gone' } | Failed

/** An instance with a heartbeat. */
export interface FleetNode extends Candidate {
  /** A name for people. */
  readonly name: string | null
  /** It knows only the seed's keys and scripts: a session for it is released, because a transfer would not reach it. */
  readonly isForeign: boolean
  /** It hands over its sessions and receives none. */
  readonly isDraining: boolean
  /** When its heartbeat expires unless it is renewed. */
  readonly expiresInMs: number
  /** The TTL of its leases; null where the store does not have it. */
  readonly leaseTtlMs: number | null
}

export interface NodeView {
  readonly nodes: readonly FleetNode[]
  /** An operator drains this instance; it may have no heartbeat. */
  readonly isSelfDraining: boolean
}

/** Notifications of a layout. */
export interface LayoutListener {
  /** Another instance has handed this session to this one: `from`, if known. */
  transferred(sessionId: string, from: string | null): void
  /** An instance has joined, left or begun to drain. */
  nodesChanged(): void
  /** The connection is lost; leases that were confirmed may be void. */
  disconnected(): void
  /** The store may have lost what it granted. */
  dataLost(): void
}

/** A session and its owner, for people. */
export interface OwnedRow {
  readonly sessionId: string
  readonly owner: string
  /** Null for a lease without an expiry, which a foreign instance has written by mistake. */
  readonly remainingMs: number | null
  /** Null where the store does not keep it. */
  readonly ttlMs: number | null
}

export interface Survey {
  readonly owned: readonly OwnedRow[]
  /** Instances that are being drained, whether or not they have a heartbeat. */
  readonly draining: readonly string[]
  /** Running instances without a published heartbeat, because they are not ready or are being drained. */
  readonly hidden: readonly FleetNode[]
}

export interface FleetLayout {
  readonly name: 'poll' | 'lease'
  parseSessionId(value: unknown): string
  /** Null for an observer, which acquires nothing. Throws when the store cannot be reached. */
  open(listener: LayoutListener | null): Promise<void>
  /** `reclaimed`: sessions that this instance owned when the store lost them, and whose term is not over. */
  acquire(
    sessionIds: readonly string[],
    reclaimed?: ReadonlySet<string>,
  ): Promise<readonly AcquireReply[]>
  /** All in one round trip. */
  renew(grants: readonly Grant[]): Promise<readonly GrantReply[]>
  release(grants: readonly Grant[]): Promise<readonly GrantReply[]>
  /** The receiver owns the session at once; it is never free in between, except when the receiver is foreign. */
  transfer(grant: Grant, to: FleetNode): Promise<GrantReply>
  nodes(): Promise<NodeView>
  /** Renews the heartbeat. Other instances see it only while it is published: then this instance is ready. */
  heartbeat(isPublished: boolean): Promise<void>
  /** Removes the published heartbeat, without leaving. */
  unpublish(): Promise<void>
  /**
   * Ends the notifications. Every handover that can still be notified has been when this resolves; a session that is
   * handed over afterwards is free at once where the store can do that, and `leave` releases it elsewhere.
   */
  unsubscribe(): Promise<void>
  /** Removes everything that the store has of this instance. */
  leave(): Promise<void>
  drain(instanceId: string, isWanted: boolean): Promise<void>
  /** Every session that has an owner, for people: it reads the whole store. */
  survey(): Promise<Survey>
  close(): Promise<void>
}

/** The error of a store. Any other error is a bug, and is thrown as it is. */
export function asLeaseError(error: unknown): LeaseError {
  if (isLeaseError(error)) return error
  throw error
}
