/**
 * A lease as the registrar speaks of it. What the core knows about a lease is taken from the core's entry, which
 * `evolve` makes; what is kept beside it is what the core has no place for: times in the type that they were given in,
 * ticks with their rate, the signature, and who issued the lease.
 */
import type { Lease } from '../core/lease.ts'
import { jsonOf } from './json-form.ts'
import { ticksUntil, isComparable, isTick, type LogicalTick } from './logical-tick.ts'
import {
  REASON_WORDS,
  STATE_WORDS,
  type RegistrarReason,
  type RegistrarState,
} from './registrar-words.ts'
import { compareTimes, parseWallTime, timeUntil, type WallTime } from './wall-time.ts'

/** What stays as it was issued. */
export interface LeaseOrigin {
  readonly workId: string
  readonly issuedBy: string
  readonly issuedAt: WallTime
  readonly issuedAtTick: LogicalTick | null
}

/** What a renewal or an end changes beside the core's entry. */
export interface LeaseTerm {
  readonly expiresAt: WallTime
  readonly expiresAtTick: LogicalTick | null
  readonly registrarSignature: Uint8Array
  readonly lastRenewedAt: WallTime | null
  readonly terminatedAt: WallTime | null
}

/** Every event makes one, so it holds little of its own and reads the rest from what it shares with the one before. */
export class RegisteredLease {
  /** The lease as the core folds it. */
  readonly entry: Lease
  readonly origin: LeaseOrigin
  readonly term: LeaseTerm

  constructor(entry: Lease, origin: LeaseOrigin, term: LeaseTerm) {
    this.entry = entry
    this.origin = origin
    this.term = term
  }

  get leaseId(): string {
    return this.entry.id
  }

  get workId(): string {
    return this.origin.workId
  }

  get actorId(): string {
    return this.entry.holder
  }

  /** The actor of the event that issued it; it may renew, as the holder may. */
  get issuedBy(): string {
    return this.origin.issuedBy
  }

  get state(): RegistrarState {
    return STATE_WORDS[this.entry.state]
  }

  get issuedAt(): WallTime {
    return this.origin.issuedAt
  }

  get expiresAt(): WallTime {
    return this.term.expiresAt
  }

  /** With `expiresAtTick` what decides; null for a lease that has wall times only. */
  get issuedAtTick(): LogicalTick | null {
    return this.origin.issuedAtTick
  }

  get expiresAtTick(): LogicalTick | null {
    return this.term.expiresAtTick
  }

  /** A copy of the bytes. Empty for a lease of a store, whose ledger is proven by its chain. */
  get registrarSignature(): Uint8Array {
    return new Uint8Array(this.term.registrarSignature)
  }

  /** Whether a registrar issued it: each of its leases is signed, and none of a store's. */
  get isRegistrars(): boolean {
    return this.term.registrarSignature.length > 0
  }

  get renewalCount(): number {
    return this.entry.renewals
  }

  get lastRenewedAt(): WallTime | null {
    return this.term.lastRenewedAt
  }

  get releaseReason(): RegistrarReason | null {
    const { releaseReason } = this.entry
    return releaseReason === null ? null : REASON_WORDS[releaseReason]
  }

  get terminatedAt(): WallTime | null {
    return this.term.terminatedAt
  }

  summary(): LeaseSummary {
    return summary(this)
  }

  isExpiredAtTick(now: LogicalTick): boolean {
    return isExpiredAtTick(this, now)
  }

  ticksRemaining(now: LogicalTick): number | bigint {
    return ticksRemaining(this, now)
  }

  /** The summary as JSON can hold it: nanoseconds and other large numbers are decimal text. */
  toJSON(): object {
    return jsonOf(summary(this))
  }
}

export interface LeaseSummary {
  readonly leaseId: string
  readonly workId: string
  readonly actorId: string
  readonly issuedBy: string
  readonly state: RegistrarState
  readonly issuedAt: WallTime
  readonly expiresAt: WallTime
  readonly issuedAtTick: LogicalTick | null
  readonly expiresAtTick: LogicalTick | null
  readonly renewalCount: number
  readonly lastRenewedAt: WallTime | null
  readonly releaseReason: RegistrarReason | null
  readonly terminatedAt: WallTime | null
}

/** A light view: everything but the bytes of the signature and the entry behind it. */
export function summary(lease: RegisteredLease): LeaseSummary {
  const { leaseId, workId, actorId, issuedBy, state, issuedAt, expiresAt } = lease
  const { issuedAtTick, expiresAtTick, renewalCount, lastRenewedAt } = lease
  const { releaseReason, terminatedAt } = lease
  return {
    ...{ leaseId, workId, actorId, issuedBy, state, issuedAt, expiresAt },
    ...{ issuedAtTick, expiresAtTick, renewalCount, lastRenewedAt, releaseReason, terminatedAt },
  }
}

/**
 * Whether an active lease is over at a tick: the boundary belongs to the end. A lease without ticks, or a tick of
 * another rate or domain or what is no tick, proves nothing, and nothing proven means over.
 */
export function isExpiredAtTick(lease: RegisteredLease, now: LogicalTick): boolean {
  const { expiresAtTick } = lease
  if (expiresAtTick === null || !isTick(now) || !isComparable(expiresAtTick, now)) return true
  return lease.state === 'ACTIVE' && now.value >= expiresAtTick.value
}

/** 0 once it is over, and 0 where it cannot be told. */
export function ticksRemaining(lease: RegisteredLease, now: LogicalTick): number | bigint {
  const { expiresAtTick } = lease
  return expiresAtTick === null || !isTick(now) ? 0 : ticksUntil(expiresAtTick, now)
}

/** @deprecated Wall clocks can be set; ask `isExpiredAtTick`. Throws `INVALID_INPUT` for what is no time. */
export function isExpiredAt(lease: RegisteredLease, now: WallTime): boolean {
  return lease.state === 'ACTIVE' && compareTimes(parseWallTime('now', now), lease.expiresAt) >= 0
}

/** @deprecated Wall clocks can be set; ask `ticksRemaining`. */
export function timeRemaining(lease: RegisteredLease, now: WallTime): WallTime {
  return timeUntil(lease.expiresAt, parseWallTime('now', now))
}
