/**
 * I6: active, then released (or given to another), expired or revoked, and nothing after that. A lease is issued once; what is past its
 * deadline can only become expired, so a renewal or a release that was accepted after the deadline is a way back too.
 * What comes back to it from derived leases that end with it, in that very commit, is not.
 * A ticket that has failed is not kept alive. A holder that once saw its lease lost or released never sees it held again.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import { hasPassed, type Tick } from '../../src/core/time.ts'
import { isHolding } from '../holder-views.ts'
import { seconds, short, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import { isEnd } from '../lease-life.ts'
import { eventsById } from './ledger-walk.ts'
import type { TimedEvent } from '../store-host.ts'

export const noWayBack: Checker = {
  promise: 'I6',
  name: 'no way back',
  check: (evidence) => [...inLedger(evidence), ...inQueues(evidence), ...inHandles(evidence)],
}

interface Life {
  deadline: Tick
  /** It is being revoked with a grace: then it ends as revoked, whenever that is recorded. */
  isAsked: boolean
  ended: string | null
}

function inLedger({ ledger }: Evidence): readonly Complaint[] {
  const lives = new Map<LeaseId, Life>()
  const complaints: Complaint[] = []
  // The first end counts: a lock delay that starts again is told as another one.
  const backwards = ledger.toReversed()
  const ends = new Map(backwards.flatMap((one) => (isEnd(one.event) ? [endOf(one)] : [])))
  for (const { event, tick, atUs, commit } of ledger) {
    const { leaseId, type } = event
    const life = lives.get(leaseId)
    const complain = (why: string): void => {
      complaints.push(`${type} of ${short(leaseId)} at ${seconds(atUs)}: ${why}`)
    }
    if (type === 'lease.issued') {
      if (life !== undefined) complain('it was issued before')
      const { deadline, revoking } = event.lease
      lives.set(leaseId, { deadline, isAsked: revoking !== null, ended: null })
    } else if (life !== undefined) {
      const isRefund = type === 'lease.accounted' && event.change.kind === 'refunded'
      const isLast = isRefund && ends.get(leaseId) === commit
      const problem = isLast ? null : problemOf(life, type, tick)
      if (problem !== null) complain(problem)
      if (type === 'lease.revoking') life.isAsked = true
      if (DATED.has(type) && 'deadline' in event) life.deadline = event.deadline
      if (isEnd(event)) life.ended ??= type
    }
  }
  return complaints
}

function endOf({ event, commit }: TimedEvent): readonly [LeaseId, number] {
  return [event.leaseId, commit]
}

const DATED: ReadonlySet<string> = new Set(['lease.renewed', 'lease.adopted', 'lease.revoking'])
const MAY_BE_DELAYED: ReadonlySet<string> = new Set(['lease.expired', 'lease.revoked'])

function problemOf(life: Life, type: string, tick: Tick): string | null {
  if (life.ended !== null) {
    const isAboutDelay = type === 'lease.unlocked' || type === life.ended
    const isFine = MAY_BE_DELAYED.has(life.ended) && isAboutDelay
    return isFine ? null : `it had ended (${life.ended})`
  }
  const isOnlyNoticed = type === 'lease.expired' || (type === 'lease.revoked' && life.isAsked)
  return !isOnlyNoticed && hasPassed(life.deadline, tick) ? 'its deadline had passed' : null
}

/** A keep-alive does not revive a ticket that has ended; only a new request files it again. */
function inQueues({ ledger, heard }: Evidence): readonly Complaint[] {
  const events = eventsById(ledger)
  return [...heard].flatMap(([leaseId, contacts]) =>
    contacts.flatMap(({ atUs }) => {
      const last = events.get(leaseId)?.findLast((timed) => timed.atUs <= atUs)
      if (last === undefined || last.event.after === 'pending' || last.atUs === atUs) return []
      return [`${short(leaseId)} was kept in line at ${seconds(atUs)}, after ${last.event.type}`]
    }),
  )
}

function inHandles({ handles }: Evidence): readonly Complaint[] {
  return handles.flatMap(({ looks }) => {
    const over = looks.findIndex((look) => !isHolding(look))
    const again = over < 0 ? undefined : looks.slice(over).find(isHolding)
    if (again === undefined) return []
    return [`${again.session} saw ${short(again.leaseId)} ${again.state} again after its end`]
  })
}
