/**
 * I9: waiters are served in the order in which they came, newcomers do not pass them, and a dead waiter delays the
 * others by its claim window at most: what is free while a healthy waiter waits is offered within the time in which
 * that waiter looks again.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import { hasPassed, type Tick } from '../../src/core/time.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import type { TimedEvent } from '../store-host.ts'
import { waits } from './waits.ts'

export const fair: Checker = {
  promise: 'I9',
  name: 'fair',
  check: (evidence) => [...outOfTurn(evidence), ...waitedInVain(evidence)],
}

interface Waiter {
  readonly leaseId: LeaseId
  readonly resource: string
  /** Its place in the ledger: the order of arrival. */
  readonly arrival: number
  readonly claimWindowMs: number
  isOffered: boolean
}

function outOfTurn(evidence: Evidence): readonly Complaint[] {
  const waiters = new Map<LeaseId, Waiter>()
  const complaints: Complaint[] = []
  evidence.ledger.forEach((timed, arrival) => {
    const { event } = timed
    const { leaseId } = event
    const known = waiters.get(leaseId)
    if (event.type === 'lease.offered' || (event.type === 'lease.issued' && !known?.isOffered)) {
      const passed = firstPassed(waiters.values(), { timed, known, evidence })
      if (passed !== null) complaints.push(complaint(timed, passed))
    }
    if (event.type === 'lease.offered' && known !== undefined) {
      known.isOffered = true
      complaints.push(...tooLong(timed, event.deadline, known.claimWindowMs))
    } else if (event.type === 'lease.queued') {
      const { resource, claimWindowMs } = event.ticket
      waiters.set(leaseId, { leaseId, resource, arrival, claimWindowMs, isOffered: false })
    } else if (event.type !== 'lease.offered') waiters.delete(leaseId)
  })
  return complaints
}

interface Serving {
  readonly timed: TimedEvent
  /** The one who is served, if it waited. */
  readonly known: Waiter | undefined
  readonly evidence: Evidence
}

/** The first living waiter for the same resource who came before the one that is being served. */
function firstPassed(
  waiters: Iterable<Waiter>,
  { timed, known, evidence }: Serving,
): Waiter | null {
  const arrival = known?.arrival ?? Infinity
  for (const waiter of waiters) {
    if (waiter === known || waiter.resource !== timed.event.resource) continue
    if (waiter.isOffered || waiter.arrival > arrival) continue
    const contacts = evidence.heard.get(waiter.leaseId) ?? []
    const last = contacts.findLast((contact) => contact.atUs <= timed.atUs)
    if (last !== undefined && !hasPassed(last.deadline, timed.tick)) return waiter
  }
  return null
}

function complaint({ event, atUs }: TimedEvent, passed: Waiter): Complaint {
  return (
    `${event.type} of ${event.resource} to ${event.holder} (${short(event.leaseId)}) at ` +
    `${seconds(atUs)} passed ${short(passed.leaseId)}, who came before`
  )
}

function tooLong({ event, tick, atUs }: TimedEvent, deadline: Tick, windowMs: number): Complaint[] {
  if (deadline.domain === tick.domain && deadline.us <= tick.us + windowMs * 1000) return []
  return [`the offer to ${short(event.leaseId)} at ${seconds(atUs)} outlives its claim window`]
}

function waitedInVain(evidence: Evidence): readonly Complaint[] {
  return waits(evidence).map(
    ({ resource, leaseId, freeUs, untilUs }) =>
      `${resource} was free from ${seconds(freeUs)} to ${seconds(untilUs)} while ` +
      `${short(leaseId)} waited for it in good health`,
  )
}
