/**
 * Payloads of the registrar's events. Each says by `kind` what it is, so that an event whose type and payload disagree
 * is noticed. They are read and checked when they are applied, not when they are made.
 */
import type { LeaseEvent } from '../core/event.ts'
import type { LogicalTick } from './logical-tick.ts'
import type { WallTime } from './wall-time.ts'

export interface LeaseIssuedFacts {
  readonly leaseId: string
  readonly workId: string
  readonly actorId: string
  readonly issuedAt: WallTime
  readonly expiresAt: WallTime
  /** 1..512 bytes. The reducer asks for it and does not verify it: whoever appends to the ledger does. */
  readonly registrarSignature: Uint8Array
  /** Given together with `expiresAtTick` or not at all. */
  readonly issuedAtTick?: LogicalTick
  readonly expiresAtTick?: LogicalTick
}

export interface LeaseRenewedFacts {
  readonly leaseId: string
  readonly newExpiresAt: WallTime
  readonly registrarSignature: Uint8Array
  /** Needed when the lease has ticks. */
  readonly newExpiresAtTick?: LogicalTick
}

export interface LeaseReleasedFacts {
  readonly leaseId: string
  readonly releaseReason: string
}

export interface LeaseExpiredFacts {
  readonly leaseId: string
  readonly expiredAt: WallTime
  /** Needed when the lease has ticks: it alone proves the expiry then. */
  readonly expiredAtTick?: LogicalTick
}

export interface LeaseConflictFacts {
  readonly workId: string
  readonly conflictingLeaseIds: readonly string[]
  readonly resolution: string
}

export type LeaseIssuedPayload = LeaseIssuedFacts & { readonly kind: 'lease_issued' }
export type LeaseRenewedPayload = LeaseRenewedFacts & { readonly kind: 'lease_renewed' }
export type LeaseReleasedPayload = LeaseReleasedFacts & { readonly kind: 'lease_released' }
export type LeaseExpiredPayload = LeaseExpiredFacts & { readonly kind: 'lease_expired' }
export type LeaseConflictPayload = LeaseConflictFacts & { readonly kind: 'lease_conflict' }

/** An event of a Tenure store, as its ledger has it. */
export interface LedgerEventPayload {
  readonly kind: 'ledger_event'
  readonly event: LeaseEvent
}

export type RegistrarPayload =
  | LeaseIssuedPayload
  | LeaseRenewedPayload
  | LeaseReleasedPayload
  | LeaseExpiredPayload
  | LeaseConflictPayload
  | LedgerEventPayload

export function leaseIssuedPayload(facts: LeaseIssuedFacts): LeaseIssuedPayload {
  return { kind: 'lease_issued', ...facts }
}

export function leaseRenewedPayload(facts: LeaseRenewedFacts): LeaseRenewedPayload {
  return { kind: 'lease_renewed', ...facts }
}

export function leaseReleasedPayload(facts: LeaseReleasedFacts): LeaseReleasedPayload {
  return { kind: 'lease_released', ...facts }
}

export function leaseExpiredPayload(facts: LeaseExpiredFacts): LeaseExpiredPayload {
  return { kind: 'lease_expired', ...facts }
}

export function leaseConflictPayload(facts: LeaseConflictFacts): LeaseConflictPayload {
  return { kind: 'lease_conflict', ...facts }
}

/** What the reducer applies. */
export interface EventRecord {
  readonly eventType: string
  /** Who caused it: the registrar that issues, the holder that releases. */
  readonly actorId: string
  /** Wall time of the ledger. */
  readonly atMs: number
  /** Of events that are not about leases, anything. */
  readonly payload: unknown
}

/** A store's event in the form that the reducer applies. */
export function ledgerRecord(event: LeaseEvent): EventRecord {
  const payload: LedgerEventPayload = { kind: 'ledger_event', event }
  return { eventType: event.type, actorId: event.holder, atMs: event.atMs, payload }
}
