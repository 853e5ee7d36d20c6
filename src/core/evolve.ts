/**
 * Applies an event to a set of entries. This is the only place that says what an event means; stores commit its
 * result and the ledger folds with it, so the two cannot disagree.
 */
import { accountAfter } from './delegation.ts'
import type {
  LeaseDenied,
  LeaseEvent,
  LeaseExpired,
  LeaseFailed,
  LeaseOffered,
  LeaseQueued,
  LeaseReleased,
  LeaseRenewed,
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

/** A ledger tells of refused requests only, never of refused renewals. */
function requestOf({ ticket, leaseId }: LeaseQueued | LeaseDenied): Ticket {
  if (ticket !== null) return ticket
  throw new Error(`the refusal of lease ${leaseId} has no ticket`)
}

/** The entry that an event leaves behind. Every event concerns exactly one entry. */
export function evolveEntry(entry: Entry | undefined, event: LeaseEvent): Entry {
  switch (event.type) {
    case 'lease.issued':
      return event.lease
    case 'lease.queued':
    case 'lease.denied':
      return requestOf(event)
    case 'lease.renewed':
      return renewedLease(leaseOf(entry, event), event)
    case 'lease.released':
    case 'lease.transferred':
    case 'lease.expired':
    case 'lease.revoked':
      return endLease(leaseOf(entry, event), event)
    case 'lease.revoking':
      return {
        ...changedLease(entry, event),
        deadline: event.deadline,
        expiresAtMs: event.expiresAtMs,
        revoking: { by: event.by, reason: event.reason },
      }
    case 'lease.upgrading': {
      const { wished: upgrading, under } = event
      const lease = { ...withoutUnder(changedLease(entry, event)), upgrading }
      return under === undefined ? lease : { ...lease, under }
    }
    case 'lease.upgraded':
      return {
        ...withoutUnder(changedLease(entry, event)),
        mode: 'exclusive',
        fence: event.fence,
        upgrading: false,
      }
    case 'lease.downgraded':
      return { ...changedLease(entry, event), mode: 'shared' }
    case 'lease.updated':
      return { ...changedLease(entry, event), reason: event.reason, metadata: event.metadata }
    case 'lease.adopted':
      return {
        ...changedLease(entry, event),
        session: event.session,
        adopted: true,
        deadline: event.deadline,
        expiresAtMs: event.expiresAtMs,
      }
    case 'lease.accounted': {
      const lease = changedLease(entry, event)
      return { ...lease, delegation: accountAfter(lease, event.change) }
    }
    case 'lease.advanced':
      return { ...leaseOf(entry, event), epoch: event.to }
    case 'lease.unlocked':
      return { ...leaseOf(entry, event), lockedUntil: null }
    case 'lease.trespassed':
      return leaseOf(entry, event)
    case 'lease.offered':
    case 'lease.waiting':
    case 'lease.failed':
      return evolveTicket(ticketOf(entry, event), event)
  }
}

function renewedLease(lease: Lease, event: LeaseRenewed): Lease {
  const { state, terminatedAtMs, releaseReason, upgrading } = lease
  const { ttlMs, renewals, atMs: renewedAtMs, expiresAtMs, deadline } = event
  return leaseWith(lease, {
    state,
    ttlMs,
    renewals,
    renewedAtMs,
    expiresAtMs,
    terminatedAtMs,
    deadline,
    releaseReason,
    upgrading,
  })
}

/** Who revoked a lease is kept with it, asked for or at once: a lock delay may have to say it again. */
function endLease(
  lease: Lease,
  event: LeaseReleased | LeaseTransferred | LeaseExpired | LeaseRevoked,
): Lease {
  if (event.type === 'lease.released' || event.type === 'lease.transferred') {
    const releaseReason = event.type === 'lease.released' ? event.releaseReason : 'transferred'
    const { ttlMs, renewals, renewedAtMs, expiresAtMs, deadline } = lease
    return leaseWith(lease, {
      state: 'released',
      ttlMs,
      renewals,
      renewedAtMs,
      expiresAtMs,
      terminatedAtMs: event.atMs,
      deadline,
      releaseReason,
      upgrading: false,
    })
  }
  const { terminatedAtMs, lockedUntil } = event
  const { changedAtMs: _changedAtMs, ...last } = withoutUnder(lease)
  const ended = { ...last, terminatedAtMs, lockedUntil, upgrading: false }
  if (event.type === 'lease.expired') return { ...ended, state: 'expired' }
  const revoking = lease.revoking ?? { by: event.by, reason: event.reason }
  return { ...ended, state: 'revoked', revoking }
}

function evolveTicket(ticket: Ticket, event: LeaseOffered | LeaseWaiting | LeaseFailed): Ticket {
  switch (event.type) {
    case 'lease.offered':
      return {
        ...withoutUnder(ticket),
        offer: { fence: event.fence, deadline: event.deadline },
      }
    case 'lease.waiting':
      return waitingTicket(ticket, event)
    case 'lease.failed': {
      const { failure, cycle } = event
      const last = placedTicket(withoutUnder(ticket), undefined)
      return { ...last, state: 'failed', offer: null, failure, cycle }
    }
  }
}

function waitingTicket(before: Ticket, event: LeaseWaiting): Ticket {
  const { deadline, implied, behindOwn } = event
  const ticket = placedTicket(before, behindOwn)
  if (implied === undefined) return { ...ticket, deadline }
  const waiting = { ...withoutUnder(ticket), deadline }
  if (implied.length === 0) return waiting
  return { ...waiting, under: { leaseIds: implied, implied: true } }
}

function placedTicket(ticket: Ticket, behindOwn: true | undefined): Ticket {
  const { behindOwn: _behindOwn, ...first } = ticket
  return behindOwn === undefined ? first : { ...first, behindOwn }
}

/** What no longer waits is under nothing. */
function withoutUnder<Waiter extends Entry>(entry: Waiter): Waiter {
  if (entry.under === undefined) return entry
  const { under: _under, ...rest } = entry
  return rest as Waiter
}

/** What renewals and releases change. */
type Moving = Pick<
  Lease,
  | 'state'
  | 'ttlMs'
  | 'renewals'
  | 'renewedAtMs'
  | 'expiresAtMs'
  | 'terminatedAtMs'
  | 'deadline'
  | 'releaseReason'
  | 'upgrading'
>

/**
 * One literal: V8 takes ten times as long to copy an object of so many fields, and almost all events come by here.
 * Without `changedAtMs`: the time of a renewal or of the end is the later one.
 */
function leaseWith(lease: Lease, moving: Moving): Lease {
  const next: Lease = {
    id: lease.id,
    resource: lease.resource,
    mode: lease.mode,
    extent: lease.extent,
    holder: lease.holder,
    session: lease.session,
    ttlMs: moving.ttlMs,
    maxRenewals: lease.maxRenewals,
    maxHoldMs: lease.maxHoldMs,
    slots: lease.slots,
    lockDelayMs: lease.lockDelayMs,
    breakable: lease.breakable,
    reason: lease.reason,
    metadata: lease.metadata,
    createdAtMs: lease.createdAtMs,
    recorded: lease.recorded,
    kind: 'lease',
    state: moving.state,
    fence: lease.fence,
    grantedAtMs: lease.grantedAtMs,
    renewedAtMs: moving.renewedAtMs,
    expiresAtMs: moving.expiresAtMs,
    terminatedAtMs: moving.terminatedAtMs,
    deadline: moving.deadline,
    holdUntilUs: lease.holdUntilUs,
    renewals: moving.renewals,
    releaseReason: moving.releaseReason,
    lockedUntil: lease.lockedUntil,
    revoking: lease.revoking,
    upgrading: moving.upgrading,
    adopted: lease.adopted,
    epoch: lease.epoch,
  }
  const { delegation, under, tokenName } = lease
  if (delegation !== undefined) Object.assign(next, { delegation })
  if (tokenName !== undefined) Object.assign(next, { tokenName })
  if (under !== undefined && moving.upgrading) Object.assign(next, { under })
  return next
}

/** A lease that the event changes without renewing or ending it. */
function changedLease(entry: Entry | undefined, event: LeaseEvent): Lease {
  return { ...leaseOf(entry, event), changedAtMs: event.atMs }
}

function leaseOf(entry: Entry | undefined, event: LeaseEvent): Lease {
  if (entry?.kind === 'lease') return entry
  throw new Error(`${event.type} of ${event.leaseId} does not follow from a lease`)
}

function ticketOf(entry: Entry | undefined, event: LeaseEvent): Ticket {
  if (entry?.kind === 'ticket') return entry
  throw new Error(`${event.type} of ${event.leaseId} does not follow from a ticket`)
}
