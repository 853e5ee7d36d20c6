/**
 * Whether a waiter's claim could succeed, told from what any look at the store shows. It decides nothing: a claim does. A
 * waiter that is sure of a no leaves the store alone, so what is not known here must read as a yes.
 */
import { isTransferredTo } from '../core/adopt.ts'
import { excludes, placesOf, type Blocker } from '../core/conflict.ts'
import type { LeaseId, LeaseInfo } from '../core/lease.ts'

/** What there is of a place at one moment; the queue is in the order in which it is served. */
export interface Surroundings {
  readonly leases: readonly LeaseInfo[]
  readonly queue: readonly LeaseInfo[]
  readonly blockers: readonly Blocker[]
}

/** Whether a ticket has its offer, or is gone. */
export function isServed(ticket: LeaseInfo | null): boolean {
  return ticket === null || ticket.state !== 'pending' || ticket.fence !== null
}

/** Whether nothing stands before the ticket any more, or the ticket is gone. */
export function isTurnOf(ticketId: LeaseId, { leases, queue, blockers }: Surroundings): boolean {
  const place = queue.findIndex(({ id }) => id === ticketId)
  const own = queue[place]
  if (own === undefined || own.fence !== null) return true
  if (blockers.some(({ kind }) => kind === 'lock_delay')) return false
  const ahead = queue.filter((ticket, index) => index < place || ticket.fence !== null)
  const others = [...leases.filter((lease) => !isTransferredTo(own, lease)), ...ahead]
  if (others.some((other) => excludes(own, other))) return false
  return others.length < Math.min(...[own, ...others].map(placesOf))
}

/** Whether the holder of a shared lease that waits to be upgraded is the last one, or waits no more. */
export function isUpgradeTurn(leaseId: LeaseId, leases: readonly LeaseInfo[]): boolean {
  if (leases.every(({ id }) => id === leaseId)) return true
  return !leases.some(({ id, upgrading }) => id === leaseId && upgrading)
}
