/**
 * Applies an event to a set of entries. This is the only place that says what an event means; stores commit its
 * result and the ledger folds with it, so the two cannot disagree.
 */
import { accountAfter } from './delegation.ts'
import type {
  LeaseEvent,
  LeaseExpired,
  LeaseFailed,
  LeaseOffered,
  LeaseReleased,
  LeaseRevoked,
  LeaseTransferred,
  LeaseWaiting,
} from './event.ts'
import type { Entry, Lease, LeaseId, Ticket } from './lease.ts'

export type Entries = ReadonlyMap<LeaseId, Entry>

export function evolve(entries: Entries, event: LeaseEvent): Entries {
  const next = new Map(entries)
  next.set(event.leaseId, evolveEntry(entries.get(event.leaseId), event))
  return next
}

/** The entry that an event leaves behind. Every event concerns exactly one entry. */
export function evolveEntry(entry: Entry | undefined, event: LeaseEvent): Entry {
  switch (event.type) {
    case 'lease.issued':
      return event.lease
    case 'lease.queued':
    case 'lease.denied':
      return event.ticket
    case 'lease.renewed':
      return {
        ...leaseOf(entry, event),
        ttlMs: event.ttlMs,
        renewals: event.renewals,
        renewedAtMs: event.atMs,
        expiresAtMs: event.expiresAtMs,
        deadline: event.deadline,
      }
    case 'lease.released':
    case 'lease.transferred':
    case 'lease.expired':
    case 'lease.revoked':
      return endLease(leaseOf(entry, event), event)
    case 'lease.revoking':
      return {
        ...leaseOf(entry, event),
        deadline: event.deadline,
        expiresAtMs: event.expiresAtMs,
        revoking: { by: event.by, reason: event.reason },
      }
    case 'lease.upgrading':
      return { ...leaseOf(entry, event), upgrading: event.wished }
    case 'lease.upgraded':
      return {
        ...leaseOf(entry, event),
        mode: 'exclusive',
        slots: null,
        fence: event.fence,
        upgrading: false,
      }
    case 'lease.downgraded':
      return { ...leaseOf(entry, event), mode: 'shared' }
    case 'lease.adopted':
      return {
        ...leaseOf(entry, event),
        session: event.session,
        adopted: true,
        deadline: event.deadline,
        expiresAtMs: event.expiresAtMs,
      }
    case 'lease.accounted': {
      const lease = leaseOf(entry, event)
      return { ...lease, delegation: accountAfter(lease, event.change) }
    }
    case 'lease.advanced':
      return { ...leaseOf(entry, event), epoch: event.to }
    case 'lease.unlocked':
      return { ...leaseOf(entry, event), lockedUntil: null }
    case 'lease.offered':
    case 'lease.waiting':
    case 'lease.failed':
      return evolveTicket(ticketOf(entry, event), event)
  }
}

/** Who revoked a lease is kept with it, asked for or at once: a lock delay may have to say it again. */
function endLease(
  lease: Lease,
  event: LeaseReleased | LeaseTransferred | LeaseExpired | LeaseRevoked,
): Lease {
  if (event.type === 'lease.released' || event.type === 'lease.transferred') {
    return {
      ...lease,
      state: 'released',
      terminatedAtMs: event.atMs,
      releaseReason: event.type === 'lease.released' ? event.releaseReason : 'transferred',
      upgrading: false,
    }
  }
  const { terminatedAtMs, lockedUntil } = event
  const ended = { ...lease, terminatedAtMs, lockedUntil, upgrading: false }
  if (event.type === 'lease.expired') return { ...ended, state: 'expired' }
  const revoking = lease.revoking ?? { by: event.by, reason: event.reason }
  return { ...ended, state: 'revoked', revoking }
}

function evolveTicket(ticket: Ticket, event: LeaseOffered | LeaseWaiting | LeaseFailed): Ticket {
  switch (event.type) {
    case 'lease.offered':
      return { ...ticket, offer: { fence: event.fence, deadline: event.deadline } }
    case 'lease.waiting':
      return { ...ticket, deadline: event.deadline }
    case 'lease.failed': {
      const { failure, cycle } = event
      return { ...ticket, state: 'failed', offer: null, failure, cycle }
    }
  }
}

function leaseOf(entry: Entry | undefined, event: LeaseEvent): Lease {
  if (entry?.kind === 'lease') return entry
  throw new Error(`${event.type} of ${event.leaseId} does not follow from a lease`)
}

function ticketOf(entry: Entry | undefined, event: LeaseEvent): Ticket {
  if (entry?.kind === 'ticket') return entry
  throw new Error(`${event.type} of ${event.leaseId} does not follow from a ticket`)
}
