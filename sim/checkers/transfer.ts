/**
 * What is given away is never unowned: the commit that ends the old lease gives the very same to the named receiver, or
 * offers it to a waiter. And it never has two owners: a lease is transferred only by a holder that gives it up in
 * that commit.
 */
import type { LeaseEvent, LeaseIssued, LeaseTransferred } from '../../src/core/event.ts'
import { seconds, short, type Checker, type Complaint } from '../evidence.ts'
import type { LeaseLife } from '../lease-life.ts'
import { atEachStep, type Step } from './ledger-walk.ts'
import { touch } from './reach.ts'

export const neverUnowned: Checker = {
  promise: 'I1',
  name: 'a transfer is never unowned',
  check: (evidence) => {
    const lives = new Map(evidence.lives.map((life) => [life.lease.id, life]))
    return atEachStep(evidence.ledger, (step) => problemsAt(step, lives))
  },
}

type Lives = ReadonlyMap<string, LeaseLife>

function problemsAt(step: Step, lives: Lives): readonly Complaint[] {
  const events = step.events.map(({ event }) => event)
  const givings = events.filter((event) => event.type === 'lease.transferred')
  const gifts = events.filter((event) => event.type === 'lease.issued' && !event.lease.adopted)
  const complaints = givings.flatMap((giving) => {
    const old = lives.get(giving.leaseId)
    if (old === undefined || isTaken(giving, old, events)) return []
    return [`${short(giving.leaseId)} was given away at ${seconds(step.atUs)} and has no holder`]
  })
  const named = givings.filter((giving) => giving.to !== null)
  if (gifts.length <= named.length) return complaints
  const unexpected = gifts.map(({ leaseId }) => short(leaseId)).join()
  return [
    ...complaints,
    `${unexpected} was given at ${seconds(step.atUs)} and no holder gave it up`,
  ]
}

function isTaken(giving: LeaseTransferred, old: LeaseLife, events: readonly LeaseEvent[]): boolean {
  return events.some((event) => {
    if (giving.to === null) {
      const reach = { resource: event.resource, extent: old.lease.extent }
      return event.type === 'lease.offered' && touch(reach, old.lease)
    }
    return event.type === 'lease.issued' && isSame(event, giving.to, old)
  })
}

/** The same in everything but id, holder and fence, which is higher. */
function isSame({ lease }: LeaseIssued, to: string, old: LeaseLife): boolean {
  const { mode, fence } = old.phases.at(-1) ?? old.phases[0]
  const { resource, extent } = old.lease
  const isThere = lease.resource === resource && lease.extent === extent && lease.mode === mode
  return isThere && lease.holder === to && lease.fence > fence
}
