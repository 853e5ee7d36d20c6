/**
 * Entries as text, which redis-rows.ts reads. What renewals and endings change is in the head, behind the numbers that
 * the scripts compare, and the rest in the body: most changes write a short text and leave the long one as it is. The
 * fence stands outside of the JSON, because the server may move it.
 */
import { liveDeadline, type Entry, type Lease, type Ticket } from '../../core/lease.ts'
import type { Tick } from '../../core/time.ts'
import type { Kept } from '../speculation/backend.ts'
import { stateCode } from './redis-codes.ts'
import { jsonText, quoted, type PackedTexts } from './redis-packed.ts'
import { CLOCK_DOMAIN, maybeTickText, tickText, VERSION_WIDTH } from './redis-rows.ts'

/** The fence that an entry carries: a lease's own, or that of the offer to a ticket; 0 for none. */
function fenceOf(entry: Entry): number {
  return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
}

export function writeHead(into: PackedTexts, { entry, version, claim }: Kept): void {
  into.digits(version, VERSION_WIDTH)
  into.digits(claim, VERSION_WIDTH)
  into.digits(fenceOf(entry), 16)
  into.digits(liveDeadline(entry)?.us ?? 0, 16)
  into.digits(entry.kind === 'lease' ? entry.renewals : 0, 10)
  writeMoving(into, entry)
}

/**
 * Words and numbers that need no quoting, so that JSON need not be made by going through all of them. Left out is what
 * stands before it: the count of renewals, and the deadline of an entry that is listed by it.
 */
function writeMoving(into: PackedTexts, entry: Entry): void {
  const { state, ttlMs, deadline } = entry
  into.text('["')
  into.text(stateCode(state))
  into.text('",')
  into.number(ttlMs)
  if (entry.kind === 'lease') {
    into.text(',')
    writeTimes(into, entry)
    into.text(',')
    writeReason(into, entry)
  }
  if (deadline.domain !== CLOCK_DOMAIN || liveDeadline(entry) !== deadline) {
    into.text(',')
    writeDeadline(into, deadline)
  }
  into.text(']')
}

function writeTimes(into: PackedTexts, lease: Lease): void {
  writeMaybe(into, lease.renewedAtMs)
  into.text(',')
  into.number(lease.expiresAtMs)
  into.text(',')
  writeMaybe(into, lease.terminatedAtMs)
}

function writeMaybe(into: PackedTexts, value: number | null): void {
  if (value === null) into.text('null')
  else into.number(value)
}

function writeReason(into: PackedTexts, { releaseReason }: Lease): void {
  into.text(releaseReason === null ? 'null' : `"${releaseReason}"`)
}

export function writeDeadline(into: PackedTexts, deadline: Tick): void {
  if (deadline.domain === CLOCK_DOMAIN) into.number(deadline.us)
  else into.text(jsonText(tickText(deadline)))
}

/** All that renewals and endings change, for an event that tells of an entry. A lease that has just begun is short. */
export function writeWhole(into: PackedTexts, entry: Entry): void {
  const { state, ttlMs } = entry
  const isNew = entry.kind === 'lease' && isJustBegun(entry)
  into.text(isNew ? '[' : `["${state}",`)
  into.number(ttlMs)
  into.text(',')
  writeDeadline(into, entry.deadline)
  if (entry.kind === 'lease') {
    into.text(',')
    if (isNew) into.number(entry.expiresAtMs)
    else writeLife(into, entry)
  }
  into.text(']')
}

function isJustBegun({ state, renewedAtMs, terminatedAtMs, renewals }: Lease): boolean {
  return state === 'active' && renewedAtMs === null && terminatedAtMs === null && renewals === 0
}

function writeLife(into: PackedTexts, lease: Lease): void {
  writeTimes(into, lease)
  into.text(',')
  into.number(lease.renewals)
  into.text(',')
  writeReason(into, lease)
}

/** An ordinary lease, as almost all are, is told by what is its own; `bodyOf` knows the rest. */
export function writeBody(into: PackedTexts, entry: Entry): void {
  if (entry.kind !== 'lease' || !isOrdinary(entry)) {
    into.text(jsonText(fieldsOf(entry)))
    return
  }
  into.text('[')
  for (const name of [entry.resource, entry.holder, entry.session]) {
    into.text(quoted(name))
    into.text(',')
  }
  into.number(entry.createdAtMs)
  into.text(']')
}

function isOrdinary(lease: Lease): boolean {
  return hasOrdinaryWish(lease) && hasOrdinaryLife(lease)
}

function hasOrdinaryWish(lease: Lease): boolean {
  const { mode, extent, maxRenewals, maxHoldMs, slots, lockDelayMs, breakable } = lease
  const isAlone = mode === 'exclusive' && extent === 'exact' && slots === null
  const isUnlimited = maxRenewals === -1 && maxHoldMs === null && lockDelayMs === 0 && !breakable
  return isAlone && isUnlimited && lease.reason === null && lease.metadata === null
}

function hasOrdinaryLife(lease: Lease): boolean {
  const { recorded, createdAtMs, grantedAtMs, holdUntilUs, lockedUntil, revoking } = lease
  if (!recorded || createdAtMs !== grantedAtMs || holdUntilUs !== null) return false
  if (lockedUntil !== null || revoking !== null || lease.upgrading || !lease.adopted) return false
  return lease.epoch === 0 && lease.delegation === undefined
}

function fieldsOf(entry: Entry): readonly unknown[] {
  const fields: unknown[] = [
    entry.kind === 'lease' ? 'l' : 't',
    entry.resource,
    entry.mode,
    entry.extent,
    entry.holder,
    entry.session,
    entry.maxRenewals,
    entry.maxHoldMs,
    entry.slots,
    entry.lockDelayMs,
    entry.breakable,
    entry.reason,
    entry.metadata,
    entry.createdAtMs,
    entry.recorded,
  ]
  if (entry.kind === 'lease') pushLease(fields, entry)
  else pushTicket(fields, entry)
  return fields
}

function pushLease(fields: unknown[], lease: Lease): void {
  fields.push(
    lease.grantedAtMs,
    lease.holdUntilUs,
    maybeTickText(lease.lockedUntil),
    lease.revoking,
    lease.upgrading,
    lease.adopted,
    // The 22nd of all; the script that trims the ledger reads it there.
    lease.epoch,
  )
  if (lease.delegation !== undefined) fields.push(lease.delegation)
}

function pushTicket(fields: unknown[], ticket: Ticket): void {
  fields.push(
    ticket.group,
    ticket.priority,
    ticket.orderUs,
    ticket.claimWindowMs,
    maybeTickText(ticket.offer?.deadline ?? null),
    ticket.failure,
    ticket.cycle,
  )
  if (ticket.delegation !== undefined) fields.push(ticket.delegation)
}
