/**
 * Follows the queues and reports every request that was served before one whose turn came first. A claim may pass a
 * ticket that it does not conflict with: one that it does not overlap, or that shares with it. An upgrade goes before
 * every ticket by design, and so does a transfer to a named holder; a derived lease is part of one that was served.
 */
import type { Claim, LeaseId } from '../../src/core/lease.ts'
import type { Mode } from '../../src/core/resource.ts'
import { hasPassed } from '../../src/core/time.ts'
import type { Evidence } from '../evidence.ts'
import type { TimedEvent } from '../store-host.ts'
import { orderKey } from './ledger-walk.ts'
import { clash } from './reach.ts'

type Place = Pick<Claim, 'resource' | 'extent' | 'mode' | 'slots'>

export interface Waiter extends Place {
  readonly leaseId: LeaseId
  readonly keyUs: number
  isOffered: boolean
}

/** A request was served before `passed`. */
export interface Passing {
  readonly served: TimedEvent
  readonly mode: Mode
  readonly passed: Waiter
}

export function passings(evidence: Evidence): readonly Passing[] {
  const waiters = new Map<LeaseId, Waiter>()
  const priorities = prioritiesOf(evidence)
  const found: Passing[] = []
  for (const timed of evidence.ledger) {
    const { event, tick } = timed
    const { leaseId } = event
    const known = waiters.get(leaseId)
    const isServed = event.type === 'lease.issued' && !evidence.parents.has(leaseId)
    if (isServed && event.lease.adopted && known?.isOffered !== true) {
      const keyUs = known?.keyUs ?? orderKey(tick, priorities.get(leaseId) ?? 0)
      found.push(...passedBy({ ...event.lease, leaseId, keyUs }, timed, { waiters, evidence }))
    }
    if (event.type === 'lease.offered' && known !== undefined) {
      found.push(...passedBy(known, timed, { waiters, evidence }))
      known.isOffered = true
    } else if (event.type === 'lease.queued') {
      const { resource, extent, mode, slots, priority } = event.ticket
      const keyUs = orderKey(tick, priority)
      waiters.set(leaseId, { leaseId, resource, extent, mode, slots, keyUs, isOffered: false })
    } else if (event.type !== 'lease.offered') waiters.delete(leaseId)
  }
  return found
}

/** With which priority each lease was asked for: the ledger has it for tickets only. */
function prioritiesOf({ log }: Evidence): ReadonlyMap<LeaseId, number> {
  const priorities = new Map<LeaseId, number>()
  for (const entry of log) {
    const isRequest = entry.kind === 'asked' && entry.method.startsWith('acquire')
    if (isRequest) priorities.set(entry.leaseId, entry.priority)
  }
  return priorities
}

interface Queues {
  readonly waiters: ReadonlyMap<LeaseId, Waiter>
  readonly evidence: Evidence
}

/** The first living waiter whose turn it was, if there is one. */
function passedBy(
  served: Omit<Waiter, 'isOffered'>,
  timed: TimedEvent,
  { waiters, evidence }: Queues,
): readonly Passing[] {
  // Of those that were filed in one commit the ledger tells the first first.
  let isFiledBefore = true
  for (const waiter of waiters.values()) {
    if (waiter.leaseId === served.leaseId) isFiledBefore = false
    if (waiter.leaseId === served.leaseId || waiter.isOffered) continue
    const isFirst = waiter.keyUs === served.keyUs ? isFiledBefore : waiter.keyUs < served.keyUs
    if (!isFirst || !standsBefore(waiter, served)) continue
    const contacts = evidence.heard.get(waiter.leaseId) ?? []
    const last = contacts.findLast((contact) => contact.atUs <= timed.atUs)
    if (last === undefined || hasPassed(last.deadline, timed.tick)) continue
    return [{ served: timed, mode: served.mode, passed: waiter }]
  }
  return []
}

/** Tickets for slots of the same counted resource are ordered as well. */
function standsBefore(waiter: Place, served: Place): boolean {
  const isSamePool = waiter.slots !== null && served.slots !== null
  return clash(waiter, served) || (isSamePool && waiter.resource === served.resource)
}
