/**
 * I9: waiters are served by order key, newcomers do not pass them, and a dead waiter delays the others by its claim
 * window at most: what is free while a healthy waiter waits is offered, or taken, within the time in which that waiter
 * looks again.
 */
import type { Tick } from '../../src/core/time.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import type { TimedEvent } from '../store-host.ts'
import { passings, type Passing } from './turns.ts'
import { waits } from './waits.ts'

export const fair: Checker = {
  promise: 'I9',
  name: 'fair',
  check: (evidence) => [
    ...passings(evidence).map(outOfTurn),
    ...longOffers(evidence),
    ...waitedInVain(evidence),
  ],
}

export function outOfTurn({ served: { event, atUs }, passed }: Passing): Complaint {
  return (
    `${event.type} of ${event.resource} to ${event.holder} (${short(event.leaseId)}) at ` +
    `${seconds(atUs)} passed ${short(passed.leaseId)}, who came before`
  )
}

function longOffers({ ledger }: Evidence): readonly Complaint[] {
  const windowsMs = new Map<string, number>()
  return ledger.flatMap((timed) => {
    const { event } = timed
    if (event.type === 'lease.queued') windowsMs.set(event.leaseId, event.ticket.claimWindowMs)
    if (event.type !== 'lease.offered') return []
    return tooLong(timed, event.deadline, windowsMs.get(event.leaseId) ?? 0)
  })
}

function tooLong(timed: TimedEvent, deadline: Tick, windowMs: number): Complaint[] {
  const { event, tick, atUs, slackUs } = timed
  const latestUs = tick.us + slackUs + windowMs * 1000
  if (deadline.domain === tick.domain && deadline.us <= latestUs) return []
  return [`the offer to ${short(event.leaseId)} at ${seconds(atUs)} outlives its claim window`]
}

function waitedInVain(evidence: Evidence): readonly Complaint[] {
  return waits(evidence).map(
    ({ resource, leaseId, freeUs, untilUs }) =>
      `${resource} was free from ${seconds(freeUs)} to ${seconds(untilUs)} while ` +
      `${short(leaseId)} waited for it in good health`,
  )
}
