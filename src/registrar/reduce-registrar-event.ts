/**
 * The registrar's own events, as seed and payload helpers spell them. Each is checked against the state and becomes an
 * event of the core, which says what it leaves behind.
 */
import { invalid, LeaseError, show } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import type { Lease, ReleaseReason } from '../core/lease.ts'
import { SIGNATURE_BYTES_MAX } from '../core/limits.ts'
import type { Resource } from '../core/resource.ts'
import { US_PER_MS, type Tick } from '../core/time.ts'
import type { LeaseTable } from './lease-table.ts'
import { coreTick, isComparable, parseTick, type LogicalTick } from './logical-tick.ts'
import type {
  EventRecord,
  LeaseConflictPayload,
  LeaseExpiredPayload,
  LeaseIssuedPayload,
  LeaseReleasedPayload,
  LeaseRenewedPayload,
} from './payloads.ts'
import { RegisteredLease, type LeaseTerm } from './registered-lease.ts'
import { requireId, requireIds } from './registrar-id.ts'
import { parseReleaseReason } from './registrar-words.ts'
import {
  compareTimes,
  fromMs,
  parseSameTime,
  parseWallTime,
  toMs,
  type WallTime,
} from './wall-time.ts'

const NO_SIGNATURE = new Uint8Array(0)
const RENEWAL_COUNT_MAX = 2 ** 32 - 1
/** The domain of a lease that has wall times only; no clock ticks in it. */
const WALL_DOMAIN = 'wall'

export function reduceIssued(
  table: LeaseTable,
  { actorId: issuedBy }: EventRecord,
  payload: LeaseIssuedPayload,
): void {
  const leaseId = requireId('leaseId', payload.leaseId)
  const workId = requireId('workId', payload.workId)
  const actorId = requireId('actorId', payload.actorId)
  const registrarSignature = requireSignature(leaseId, payload.registrarSignature)
  const issuedAt = parseWallTime('issuedAt', payload.issuedAt)
  const expiresAt = parseSameTime('expiresAt', payload.expiresAt, issuedAt)
  const ticks = issuedTicks(leaseId, payload)
  if (compareTimes(expiresAt, issuedAt) <= 0) throw endsTooEarly(leaseId, expiresAt, issuedAt)
  if (table.knows(leaseId) || table.tickets.has(leaseId)) throw issuedBefore(leaseId)
  const resource = `work:${workId}` as Resource
  refuseHeld(table, resource, workId)
  const [issuedAtTick, expiresAtTick] = ticks
  const deadline = deadlineOf(expiresAt, expiresAtTick)
  const entry = issuedEntry({ leaseId, resource, actorId, issuedAt, expiresAt }, deadline)
  const origin = { workId, issuedBy, issuedAt, issuedAtTick }
  const term = {
    expiresAt,
    expiresAtTick,
    registrarSignature,
    lastRenewedAt: null,
    terminatedAt: null,
  }
  table.put(new RegisteredLease(entry, origin, term), undefined)
}

export function reduceRenewed(
  table: LeaseTable,
  { actorId, atMs }: EventRecord,
  payload: LeaseRenewedPayload,
): void {
  const lease = activeLease(table, payload.leaseId)
  const { leaseId, entry } = lease
  const registrarSignature = requireSignature(leaseId, payload.registrarSignature)
  if (actorId !== lease.actorId && actorId !== lease.issuedBy) throw notHolder(lease, actorId)
  const expiresAt = parseSameTime('newExpiresAt', payload.newExpiresAt, lease.expiresAt)
  const expiresAtTick = renewedTick(lease, payload.newExpiresAtTick)
  const now = fromMs(atMs, lease.expiresAt)
  refuseOutsideTerm(lease, now)
  if (compareTimes(expiresAt, lease.expiresAt) <= 0) throw doesNotExtend(lease, expiresAt)
  const renewals = Math.min(entry.renewals + 1, RENEWAL_COUNT_MAX)
  const deadline = deadlineOf(expiresAt, expiresAtTick)
  const renewal = { renewals, expiresAtMs: toMs(expiresAt), deadline }
  const evolved = evolvedLease(entry, renewedEvent(entry, atMs, renewal))
  const term = {
    expiresAt,
    expiresAtTick,
    registrarSignature,
    lastRenewedAt: now,
    terminatedAt: null,
  }
  table.put(new RegisteredLease(evolved, lease.origin, term), lease)
}

export function reduceReleased(
  table: LeaseTable,
  { actorId, atMs }: EventRecord,
  payload: LeaseReleasedPayload,
): void {
  const word = parseReleaseReason(payload.releaseReason)
  const lease = activeLease(table, payload.leaseId)
  if (actorId !== lease.actorId) throw notHolder(lease, actorId)
  const { entry } = lease
  const now = fromMs(atMs, lease.issuedAt)
  refuseOutsideTerm(lease, now)
  const terminatedAt = withinTerm(lease, now)
  const event = releasedEvent(entry, toMs(terminatedAt), word.toLowerCase() as ReleaseReason)
  const term = endedTerm(lease, terminatedAt)
  table.put(new RegisteredLease(evolvedLease(entry, event), lease.origin, term), lease)
}

/** The lease ended when it was to end, whenever that was noticed: a late notice must not keep it from being pruned. */
export function reduceExpired(table: LeaseTable, payload: LeaseExpiredPayload): void {
  const lease = activeLease(table, payload.leaseId)
  const expiredAt = parseSameTime('expiredAt', payload.expiredAt, lease.expiresAt)
  requirePassed(lease, expiredAt, payload.expiredAtTick)
  const { entry, expiresAt, origin } = lease
  const event = expiredEvent(entry, toMs(expiredAt), toMs(expiresAt))
  const evolved = evolvedLease(entry, event)
  table.put(new RegisteredLease(evolved, origin, endedTerm(lease, expiresAt)), lease)
}

/** A registrar found that two leases were claimed and says which one stays: for the record, it changes no lease. */
export function reduceConflict(payload: LeaseConflictPayload): void {
  requireId('workId', payload.workId)
  requireIds('conflictingLeaseIds', payload.conflictingLeaseIds)
  if (typeof payload.resolution === 'string') return
  throw invalid('resolution', 'must be text', payload.resolution)
}

function requireSignature(leaseId: string, value: unknown = NO_SIGNATURE): Uint8Array {
  if (!(value instanceof Uint8Array)) {
    throw invalid('registrarSignature', 'must be a Uint8Array', value)
  }
  if (value.length > SIGNATURE_BYTES_MAX) {
    const expectation = `must be 1..${SIGNATURE_BYTES_MAX} bytes`
    throw invalid('registrarSignature', expectation, `${value.length} bytes`)
  }
  if (value.length > 0) return copyOf(value)
  const message = `lease ${show(leaseId)} must carry the registrar's signature, got none`
  throw new LeaseError('MISSING_SIGNATURE', message, { details: { leaseId } })
}

/**
 * The caller that gave the bytes may use their array again. Small buffers come out of a pool, which takes a quarter of the time
 * of an array of their own, and nearly every event has a signature.
 */
function copyOf(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.allocUnsafe(bytes.length)
  copy.set(bytes)
  return copy
}

/** Both ticks or none; of one clock, and the end after the beginning. */
function issuedTicks(
  leaseId: string,
  { issuedAtTick, expiresAtTick }: LeaseIssuedPayload,
): readonly [LogicalTick, LogicalTick] | readonly [null, null] {
  if (issuedAtTick === undefined && expiresAtTick === undefined) return [null, null]
  const issued = parseTick('issuedAtTick', issuedAtTick)
  const end = parseTick('expiresAtTick', expiresAtTick)
  if (!isComparable(issued, end)) throw foreignTick(leaseId, 'expiresAtTick', issued, end)
  if (end.value <= issued.value) throw endsTooEarly(leaseId, end.value, issued.value)
  return [issued, end]
}

function renewedTick(lease: RegisteredLease, value: unknown): LogicalTick | null {
  const end = tickOf(lease, 'newExpiresAtTick', value)
  const isLater = end === null || end.value > (lease.expiresAtTick?.value ?? 0)
  if (!isLater) throw doesNotExtend(lease, end.value)
  return end
}

/** Where a lease has ticks they alone decide: a wall clock that was set neither ends it nor keeps it from ending. */
function requirePassed(lease: RegisteredLease, expiredAt: WallTime, value: unknown): void {
  const at = tickOf(lease, 'expiredAtTick', value)
  if (at === null) {
    if (compareTimes(expiredAt, lease.expiresAt) < 0) throw endsEarlier(lease, expiredAt)
  } else if (at.value < (lease.expiresAtTick?.value ?? 0)) throw endsEarlier(lease, at.value)
}

/** A tick of the lease's own clock; null for a lease without ticks, which takes none. */
function tickOf(
  { leaseId, expiresAtTick }: RegisteredLease,
  field: string,
  value: unknown,
): LogicalTick | null {
  if (expiresAtTick === null) {
    if (value === undefined) return null
    throw invalid(field, 'must be absent for a lease without ticks', value)
  }
  const tick = parseTick(field, value)
  if (isComparable(expiresAtTick, tick)) return tick
  throw foreignTick(leaseId, field, expiresAtTick, tick)
}

/** An act must fall between beginning and end, if the wall decides; where there are ticks it proves nothing. */
function refuseOutsideTerm(lease: RegisteredLease, now: WallTime): void {
  const { issuedAt, expiresAt, expiresAtTick } = lease
  if (expiresAtTick !== null) return
  if (compareTimes(now, expiresAt) >= 0) throw expired(lease)
  if (compareTimes(now, issuedAt) >= 0) return
  throw invalid('atMs', `must not be before the lease was issued at ${show(issuedAt)}`, now)
}

/** The end that a release is kept with: none that would keep the lease from being pruned in its turn. */
function withinTerm({ issuedAt, expiresAt }: RegisteredLease, now: WallTime): WallTime {
  if (compareTimes(now, issuedAt) < 0) return issuedAt
  return compareTimes(now, expiresAt) > 0 ? expiresAt : now
}

export function refuseKnown(table: LeaseTable, leaseId: string): void {
  if (table.knows(leaseId)) throw issuedBefore(leaseId)
}

function issuedBefore(leaseId: string): LeaseError {
  const message = `lease ${show(leaseId)} was issued before`
  return new LeaseError('LEASE_EXISTS', message, { details: { leaseId } })
}

export function refuseHeld(table: LeaseTable, resource: Resource, workId: string): void {
  const sharer = table.sharersByResource.get(resource)?.values().next().value
  const existingLeaseId = table.activeByResource.get(resource) ?? sharer
  if (existingLeaseId === undefined) return
  const message = `work ${show(workId)} is held by lease ${show(existingLeaseId)}`
  throw new LeaseError('RESOURCE_HELD', message, { details: { workId, existingLeaseId } })
}

function activeLease(table: LeaseTable, leaseId: unknown): RegisteredLease {
  const lease = table.leases.get(requireId('leaseId', leaseId))
  if (lease === undefined) throw notFound(leaseId)
  if (!lease.isRegistrars) {
    throw otherLedger(lease, 'is of a store, and takes no event of a registrar')
  }
  if (lease.state !== 'ACTIVE') throw terminal(lease)
  return lease
}

export function notFound(leaseId: unknown): LeaseError {
  return new LeaseError('LEASE_NOT_FOUND', `no lease has the id ${show(leaseId)}`, {
    details: { leaseId },
  })
}

/** A lease goes on as it was issued: each of the two ledgers has rules that the other one does not ask. */
export function otherLedger({ leaseId }: RegisteredLease, problem: string): LeaseError {
  return new LeaseError('DECODE_ERROR', `lease ${show(leaseId)} ${problem}`, {
    details: { leaseId },
  })
}

interface IssuedFacts {
  readonly leaseId: string
  readonly resource: Resource
  readonly actorId: string
  readonly issuedAt: WallTime
  readonly expiresAt: WallTime
}

function issuedEntry(facts: IssuedFacts, deadline: Tick): Lease {
  const grantedAtMs = toMs(facts.issuedAt)
  const expiresAtMs = toMs(facts.expiresAt)
  return {
    id: facts.leaseId,
    resource: facts.resource,
    mode: 'exclusive',
    extent: 'exact',
    holder: facts.actorId,
    session: facts.actorId,
    ttlMs: expiresAtMs - grantedAtMs,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: null,
    metadata: null,
    createdAtMs: grantedAtMs,
    recorded: true,
    kind: 'lease',
    state: 'active',
    fence: 0,
    grantedAtMs,
    renewedAtMs: null,
    expiresAtMs,
    terminatedAtMs: null,
    deadline,
    holdUntilUs: null,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: null,
    upgrading: false,
    adopted: true,
    epoch: 0,
  }
}

function evolvedLease(entry: Lease, event: LeaseEvent): Lease {
  const evolved = evolveEntry(entry, event)
  if (evolved.kind === 'lease') return evolved
  throw new Error(`${event.type} made a ticket of lease ${entry.id}`)
}

function endedTerm({ term }: RegisteredLease, terminatedAt: WallTime): LeaseTerm {
  return {
    expiresAt: term.expiresAt,
    expiresAtTick: term.expiresAtTick,
    registrarSignature: term.registrarSignature,
    lastRenewedAt: term.lastRenewedAt,
    terminatedAt,
  }
}

interface Renewal {
  readonly renewals: number
  readonly expiresAtMs: number
  readonly deadline: Tick
}

// The events are single literals: a reducer makes one for each event, and copying costs more than all its rules.
function renewedEvent(entry: Lease, atMs: number, renewal: Renewal): LeaseEvent {
  return {
    type: 'lease.renewed',
    leaseId: entry.id,
    resource: entry.resource,
    holder: entry.holder,
    session: entry.session,
    atMs,
    before: 'active',
    after: 'active',
    renewals: renewal.renewals,
    reason: null,
    requestId: null,
    ttlMs: entry.ttlMs,
    expiresAtMs: renewal.expiresAtMs,
    deadline: renewal.deadline,
  }
}

function releasedEvent(entry: Lease, atMs: number, releaseReason: ReleaseReason): LeaseEvent {
  return {
    type: 'lease.released',
    leaseId: entry.id,
    resource: entry.resource,
    holder: entry.holder,
    session: entry.session,
    atMs,
    before: 'active',
    after: 'released',
    renewals: entry.renewals,
    reason: null,
    requestId: null,
    releaseReason,
  }
}

function expiredEvent(entry: Lease, atMs: number, terminatedAtMs: number): LeaseEvent {
  return {
    type: 'lease.expired',
    leaseId: entry.id,
    resource: entry.resource,
    holder: entry.holder,
    session: entry.session,
    atMs,
    before: 'active',
    after: 'expired',
    renewals: entry.renewals,
    reason: null,
    requestId: null,
    terminatedAtMs,
    lockedUntil: null,
  }
}

function deadlineOf(expiresAt: WallTime, tick: LogicalTick | null): Tick {
  if (tick !== null) return coreTick(tick)
  return { domain: WALL_DOMAIN, us: toMs(expiresAt) * US_PER_MS }
}

export function terminal({ leaseId, state }: RegisteredLease): LeaseError {
  return new LeaseError('LEASE_TERMINAL', `lease ${show(leaseId)} is already ${state}`, {
    details: { leaseId, currentState: state },
  })
}

export function notHolder(
  { leaseId, actorId: holder }: RegisteredLease,
  actor: string,
): LeaseError {
  const message = `lease ${show(leaseId)} is held by ${show(holder)}, not by ${show(actor)}`
  return new LeaseError('NOT_HOLDER', message, { details: { leaseId, actorId: actor, holder } })
}

export function doesNotExtend(lease: RegisteredLease, to: WallTime): LeaseError {
  const { leaseId, expiresAt } = lease
  const message = `renewal of lease ${show(leaseId)} must move its end forward, got ${show(to)}`
  return new LeaseError('RENEWAL_DOES_NOT_EXTEND', message, {
    details: { leaseId, currentExpiresAt: expiresAt, newExpiresAt: to },
  })
}

function expired({ leaseId, expiresAt }: RegisteredLease): LeaseError {
  const message = `lease ${show(leaseId)} has expired at ${show(expiresAt)}`
  return new LeaseError('LEASE_EXPIRED', message, { details: { leaseId, expiredAt: expiresAt } })
}

function endsTooEarly(leaseId: string, provided: WallTime, issued: WallTime): LeaseError {
  const message = `lease ${show(leaseId)} must end after ${show(issued)}, got ${show(provided)}`
  return new LeaseError('INVALID_EXPIRATION', message, { details: { leaseId, provided } })
}

function endsEarlier({ leaseId, expiresAt }: RegisteredLease, provided: WallTime): LeaseError {
  const message = `lease ${show(leaseId)} must not expire before its end, got ${show(provided)}`
  return new LeaseError('INVALID_EXPIRATION', message, {
    details: { leaseId, provided, leaseExpiresAt: expiresAt },
  })
}

function foreignTick(
  leaseId: string,
  field: string,
  own: LogicalTick,
  got: LogicalTick,
): LeaseError {
  const expected = `${show(own.domain)} at ${own.rateHz} Hz`
  const message = `${field} must be of ${expected}, got ${show(got.domain)} at ${got.rateHz} Hz`
  return new LeaseError('INVALID_EXPIRATION', message, { details: { leaseId, field } })
}
