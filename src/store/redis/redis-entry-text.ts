/**
 * Entries as text, which redis-rows.ts reads. What renewals and endings change is in the head, behind the numbers that
 * the scripts compare, and the rest in the body: most changes write a short text and leave the long one as it is. The
 * fence stands outside of the JSON, because the server may move it.
 */
import { liveDeadline, type Entry, type Lease, type Ticket } from '../../core/lease.ts'
import type { Tick } from '../../core/time.ts'
import type { Kept } from '../speculation/backend.ts'
import { stateCode } from './redis-codes.ts'
import { jsonText, quoted } from './redis-packed.ts'
import { CLOCK_DOMAIN, digits, maybeTickText, tickText, VERSION_WIDTH } from './redis-rows.ts'

/** The fence that an entry carries: a lease's own, or that of the offer to a ticket; 0 for none. */
function fenceOf(entry: Entry): number {
  return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
}

export function headText({ entry, version, claim }: Kept): string {
  return (
    digits(version, VERSION_WIDTH) +
    digits(claim, VERSION_WIDTH) +
    digits(fenceOf(entry), 16) +
    digits(liveDeadline(entry)?.us ?? 0, 16) +
    digits(entry.kind === 'lease' ? entry.renewals : 0, 10) +
    movingText(entry)
  )
}

/**
 * Words and numbers that need no quoting, so that JSON need not be made by going through all of them. Left out is what
 * stands before it: the count of renewals, and the deadline of an entry that is listed by it.
 */
function movingText(entry: Entry): string {
  const { state, ttlMs, deadline } = entry
  const isListed = deadline.domain === CLOCK_DOMAIN && liveDeadline(entry) === deadline
  const end = isListed ? ']' : `,${deadlineText(deadline)}]`
  const begin = `["${stateCode(state)}",${ttlMs}`
  if (entry.kind !== 'lease') return begin + end
  return `${begin},${timesText(entry)},${reasonText(entry)}${end}`
}

function timesText({ renewedAtMs, expiresAtMs, terminatedAtMs }: Lease): string {
  return `${renewedAtMs},${expiresAtMs},${terminatedAtMs}`
}

function reasonText({ releaseReason }: Lease): string {
  return releaseReason === null ? 'null' : `"${releaseReason}"`
}

export function deadlineText(deadline: Tick): string {
  return deadline.domain === CLOCK_DOMAIN ? String(deadline.us) : jsonText(tickText(deadline))
}

/** All that renewals and endings change, for an event that tells of an entry. A lease that has just begun is short. */
export function wholeText(entry: Entry): string {
  const { state, ttlMs } = entry
  const span = `${ttlMs},${deadlineText(entry.deadline)}`
  if (entry.kind !== 'lease') return `["${state}",${span}]`
  if (isJustBegun(entry)) return `[${span},${entry.expiresAtMs}]`
  return `["${state}",${span},${timesText(entry)},${entry.renewals},${reasonText(entry)}]`
}

function isJustBegun({ state, renewedAtMs, terminatedAtMs, renewals }: Lease): boolean {
  return state === 'active' && renewedAtMs === null && terminatedAtMs === null && renewals === 0
}

/** An ordinary lease, as almost all are, is told by what is its own; `bodyOf` knows the rest. */
export function bodyText(entry: Entry): string {
  if (entry.kind !== 'lease' || !isOrdinary(entry)) return jsonText(fieldsOf(entry))
  const { resource, holder, session, createdAtMs } = entry
  return `[${quoted(resource)},${quoted(holder)},${quoted(session)},${createdAtMs}]`
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
  return lease.epoch === 0 && lease.delegation === undefined && lease.under === undefined
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
  const { delegation, under } = entry
  if (under !== undefined) fields.push(delegation ?? null, under)
  else if (delegation !== undefined) fields.push(delegation)
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
}
