/**
 * Events as a store's ledger has them. The core has decided them; here is asked only whether each follows from the
 * ones before it, so that a ledger with gaps or strangers in it is not folded into a state that never was.
 */
import { LeaseError, show } from '../core/errors.ts'
import { LEASE_EVENT_TYPES, type LeaseEvent } from '../core/event.ts'
import { areAncestorAndDescendant } from '../core/delegation.ts'
import { evolveEntry } from '../core/evolve.ts'
import type { Lease, Ticket } from '../core/lease.ts'
import { kindOf, nameOf, type Resource } from '../core/resource.ts'
import type { LeaseTable } from './lease-table.ts'
import {
  doesNotExtend,
  notFound,
  notHolder,
  otherLedger,
  refuseHeld,
  refuseKnown,
  terminal,
} from './reduce-registrar-event.ts'
import { RegisteredLease } from './registered-lease.ts'

export const LEDGER_EVENT_TYPES: ReadonlySet<string> = new Set(LEASE_EVENT_TYPES)

const NO_SIGNATURE = new Uint8Array(0)

export function reduceLedgerEvent(table: LeaseTable, event: LeaseEvent): void {
  const { leaseId } = event
  const lease = table.leases.get(leaseId)
  const ticket = table.tickets.get(leaseId)
  const mayBegin = lease === undefined && WAIT_TYPES.has(event.type)
  if (event.type === 'lease.issued') refuseIssue(table, event.lease)
  else if (mayBegin) refuseKnown(table, leaseId)
  else refuseChange(lease, event)
  if (ticket !== undefined && ticket.holder !== event.holder) throw strangersTicket(ticket, event)
  refuseElsewhere(lease?.entry ?? ticket, event)
  const entry = evolved(lease?.entry ?? ticket, event)
  if (entry.kind === 'ticket') {
    if (entry.state === 'pending') table.tickets.set(leaseId, entry)
    else table.tickets.delete(leaseId)
    return
  }
  table.tickets.delete(leaseId)
  table.put(registeredFrom(entry, lease), lease)
}

/** The types that begin, continue or end a wait; all others can only be about a lease. */
const WAIT_TYPES: ReadonlySet<LeaseEvent['type']> = new Set<LeaseEvent['type']>([
  'lease.queued',
  'lease.offered',
  'lease.waiting',
  'lease.failed',
  'lease.denied',
])

/** Only ancestors and descendants of a lease may be held beside it. */
function refuseIssue(table: LeaseTable, lease: Lease): void {
  refuseKnown(table, lease.id)
  const { resource } = lease
  const workId = workIdOf(resource)
  const alone = table.leases.get(table.activeByResource.get(resource) ?? '')
  if (alone !== undefined && !areAncestorAndDescendant(lease, alone.entry))
    refuseHeld(table, resource, workId)
  if (lease.mode === 'shared') return
  for (const leaseId of table.sharersByResource.get(resource) ?? []) {
    const sharer = table.leases.get(leaseId)
    if (sharer !== undefined && !areAncestorAndDescendant(lease, sharer.entry))
      refuseHeld(table, resource, workId)
  }
}

function refuseElsewhere(entry: Lease | Ticket | undefined, event: LeaseEvent): void {
  if (entry === undefined || entry.resource === event.resource) return
  const message = `${event.type} of ${show(event.leaseId)} must be about ${entry.resource}`
  throw new LeaseError('DECODE_ERROR', `${message}, got ${event.resource}`, {
    details: { leaseId: event.leaseId },
  })
}

function refuseChange(lease: RegisteredLease | undefined, event: LeaseEvent): void {
  const { leaseId, type } = event
  if (lease === undefined) throw notFound(leaseId)
  if (lease.isRegistrars) {
    throw otherLedger(lease, 'is of a registrar, and takes no event of a store')
  }
  if (lease.actorId !== event.holder) throw notHolder(lease, event.holder)
  if (lease.state !== 'ACTIVE' && !isAboutDelay(lease, event)) throw terminal(lease)
  if (type === 'lease.renewed' && event.deadline.us <= lease.entry.deadline.us) {
    throw doesNotExtend(lease, event.expiresAtMs)
  }
  const ends = type === 'lease.expired' || type === 'lease.revoked'
  if (ends && event.terminatedAtMs > event.atMs) {
    const message = `lease ${show(leaseId)} must have ended by ${event.atMs}, got ${event.terminatedAtMs}`
    throw new LeaseError('INVALID_EXPIRATION', message, { details: { leaseId } })
  }
}

/** After its end a lease may keep others out for a while; that begins again on another clock, and ends. */
function isAboutDelay({ entry }: RegisteredLease, event: LeaseEvent): boolean {
  if (entry.lockedUntil === null) return false
  return event.type === 'lease.unlocked' || event.type === `lease.${entry.state}`
}

function evolved(entry: Lease | Ticket | undefined, event: LeaseEvent): Lease | Ticket {
  try {
    return evolveEntry(entry, event)
  } catch (cause) {
    const message = `${event.type} of ${show(event.leaseId)} does not follow from what was before`
    throw new LeaseError('DECODE_ERROR', message, { details: { leaseId: event.leaseId }, cause })
  }
}

function strangersTicket(ticket: Ticket, event: LeaseEvent): LeaseError {
  const { id: leaseId, holder } = ticket
  const message = `ticket ${show(leaseId)} is of ${show(holder)}, not of ${show(event.holder)}`
  return new LeaseError('NOT_HOLDER', message, { details: { leaseId, holder } })
}

/** The name of a `work:` resource, and any other resource in full. */
export function workIdOf(resource: Resource): string {
  return kindOf(resource) === 'work' ? nameOf(resource) : resource
}

function registeredFrom(entry: Lease, before: RegisteredLease | undefined): RegisteredLease {
  const origin = before?.origin ?? {
    workId: workIdOf(entry.resource),
    issuedBy: entry.holder,
    issuedAt: entry.grantedAtMs,
    issuedAtTick: null,
  }
  return new RegisteredLease(entry, origin, {
    expiresAt: entry.expiresAtMs,
    expiresAtTick: null,
    registrarSignature: NO_SIGNATURE,
    lastRenewedAt: entry.renewedAtMs,
    terminatedAt: entry.terminatedAtMs,
  })
}
