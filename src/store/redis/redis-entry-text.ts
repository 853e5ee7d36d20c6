/**
 * Entries as text, which redis-rows.ts reads. What renewals and endings change is in the head, behind the numbers that
 * the scripts compare, and the rest in the body: most changes write a short text and leave the long one as it is. The
 * fence stands outside of the JSON, because the server may move it.
 */
import { liveDeadline, type Entry, type Lease, type Ticket } from '../../core/lease.ts'
import type { Tick } from '../../core/time.ts'
import type { Kept } from '../speculation/backend.ts'
import { stateCode } from './redis-codes.ts'
import { quoted } from './redis-packed.ts'
import { CLOCK_DOMAIN, digits, maybeTickText, tickText, VERSION_WIDTH } from './redis-rows.ts'

/** The fence that an entry carries: a lease's own, or that of the offer to a ticket; 0 for none. */
function fenceOf(entry: Entry): number {
  return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
}

export function headText({ entry, version, claim }: Kept): string {
  const renewals = entry.kind === 'lease' ? entry.renewals : 0
  return (
    digits(version, VERSION_WIDTH) +
    digits(claim, VERSION_WIDTH) +
    digits(fenceOf(entry), 16) +
    digits(liveDeadline(entry)?.us ?? 0, 16) +
    digits(renewals, 10) +
    movingText(entry)
  )
}

/**
 * Words and numbers that need no quoting, so that JSON need not be made by going through all of them. Left out is what
 * stands before it: the count of renewals, and the deadline of an entry that is listed by it.
 */
function movingText(entry: Entry): string {
  const { state, ttlMs, deadline } = entry
  const isTold = deadline.domain === CLOCK_DOMAIN && liveDeadline(entry) === deadline
  const tick = isTold ? '' : `,${deadlineText(deadline)}`
  if (entry.kind === 'ticket') return `["${stateCode(state)}",${ttlMs}${tick}]`
  const { renewedAtMs, expiresAtMs, terminatedAtMs, releaseReason } = entry
  const reason = releaseReason === null ? 'null' : `"${releaseReason}"`
  const times = `${renewedAtMs},${expiresAtMs},${terminatedAtMs}`
  return `["${stateCode(state)}",${ttlMs},${times},${reason}${tick}]`
}

function deadlineText(deadline: Tick): string {
  return deadline.domain === CLOCK_DOMAIN ? `${deadline.us}` : JSON.stringify(tickText(deadline))
}

/** All that renewals and endings change, for an event that tells of an entry. A lease that has just begun is short. */
export function wholeText(entry: Entry): string {
  const { state, ttlMs } = entry
  const tick = deadlineText(entry.deadline)
  if (entry.kind === 'ticket') return `["${state}",${ttlMs},${tick}]`
  const { renewedAtMs, expiresAtMs, terminatedAtMs, renewals, releaseReason } = entry
  if (state === 'active' && renewedAtMs === null && terminatedAtMs === null && renewals === 0) {
    return `[${ttlMs},${tick},${expiresAtMs}]`
  }
  const reason = releaseReason === null ? 'null' : `"${releaseReason}"`
  const times = `${renewedAtMs},${expiresAtMs},${terminatedAtMs}`
  return `["${state}",${ttlMs},${tick},${times},${renewals},${reason}]`
}

/** An ordinary lease, as almost all are, is told by what is its own; `bodyOf` knows the rest. */
export function bodyText(entry: Entry): string {
  if (entry.kind === 'lease' && isOrdinary(entry)) {
    const names = `${quoted(entry.resource)},${quoted(entry.holder)},${quoted(entry.session)}`
    return `[${names},${entry.createdAtMs}]`
  }
  return JSON.stringify(fieldsOf(entry))
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
