/**
 * I5: expired means free at the moment of the check. A request that was refused or had to wait was blocked by a lease that
 * was alive at that very tick: a lease before its deadline, an offer before its own, a lock delay, or a waiter that
 * had been heard of in time. And a call that asked whether a resource is held got an answer that was true during the call.
 */
import {
  ledgerWithRefusals,
  seconds,
  short,
  type Checker,
  type Complaint,
  type Evidence,
} from '../evidence.ts'
import { lastTerm, type LeaseLife } from '../lease-life.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { Ticket } from '../../src/core/lease.ts'
import { hasPassed } from '../../src/core/time.ts'
import { orderKey, walk, type Step } from './ledger-walk.ts'
import { Obstacles } from './obstacles.ts'
import { touch, type Reach } from './reach.ts'

const SLACK_US = 50

export const nowMeansNow: Checker = {
  promise: 'I5',
  name: 'now means now',
  check: (evidence) => [...refusedByGhosts(evidence), ...wrongAnswers(evidence)],
}

function refusedByGhosts(evidence: Evidence): readonly Complaint[] {
  const complaints: Complaint[] = []
  for (const step of walk(ledgerWithRefusals(evidence))) {
    for (const { event } of step.events) {
      const asked = requestIn(event)
      if (asked === null) continue
      const together = ticketsWith(asked, step)
      if (together.some((ticket) => isBlocked(ticket, step, evidence))) continue
      complaints.push(
        `${event.holder} (${short(event.leaseId)}) got ${event.type} for ${event.resource} at ` +
          `${seconds(step.atUs)} although nothing live stood in its way`,
      )
    }
  }
  return complaints
}

/** What was refused or had to wait; of a renewal nothing stands in the way. */
function requestIn(event: LeaseEvent): Ticket | null {
  return event.type === 'lease.denied' || event.type === 'lease.queued' ? event.ticket : null
}

/** A ticket, and those that are served together with it. */
function ticketsWith(ticket: Ticket, { events, live }: Step): readonly Ticket[] {
  if (ticket.group === null) return [ticket]
  const denied = events.flatMap(({ event }) => {
    return event.type === 'lease.denied' && event.ticket !== null ? [event.ticket] : []
  })
  const standing = [...live.values()].filter((entry) => entry.kind === 'ticket')
  return [...denied, ...standing].filter(({ group }) => group === ticket.group)
}

/** A lease that was transferred to the requester and is not adopted yet blocks its request. */
function isGiven({ resource, holder }: Ticket, { live, tick }: Step): boolean {
  return [...live.values()].some((entry) => {
    if (entry.kind !== 'lease' || entry.state !== 'active' || entry.adopted) return false
    const isIts = entry.resource === resource && entry.holder === holder
    return isIts && !hasPassed(entry.deadline, tick)
  })
}

/** By something that is still there, or that was ended for its sake in this very commit. */
function isBlocked(ticket: Ticket, step: Step, evidence: Evidence): boolean {
  const arrivalUs = orderKey(step.tick, ticket.priority)
  const keyUs = ticket.state === 'pending' ? (step.keys.get(ticket.id) ?? arrivalUs) : arrivalUs
  const claimed = { claim: ticket, keyUs }
  const isEnded = step.events.some(({ event }) => event.type === 'lease.revoked')
  if (isEnded || isGiven(ticket, step)) return true
  return new Obstacles(step, evidence, step.atUs).of(claimed).length > 0
}

interface Span {
  readonly fromUs: number
  readonly toUs: number
}

function wrongAnswers(evidence: Evidence): readonly Complaint[] {
  const spans = evidence.lives.map((life) => ({ ...heldSpan(life, evidence), reach: life.lease }))
  const complaints: Complaint[] = []
  for (const entry of evidence.log) {
    if (entry.kind !== 'looked') continue
    const asked = { fromUs: entry.sentUs, toUs: entry.atUs }
    const reach: Reach = { resource: entry.resource, extent: 'exact' }
    const touching = spans.filter((span) => touches(span, asked) && touch(span.reach, reach))
    const isPossible = entry.held ? touching.length > 0 : !touching.some((s) => covers(s, asked))
    if (isPossible) continue
    complaints.push(
      `${entry.session} was told that ${entry.resource} is ${entry.held ? '' : 'not '}held ` +
        `between ${seconds(asked.fromUs)} and ${seconds(asked.toUs)}, which was never true`,
    )
  }
  return complaints
}

/** From the grant to the earliest of its end, its deadline, and a change of the deciding clock. */
function heldSpan(life: LeaseLife, evidence: Evidence): Span {
  const { issued, end } = life
  const change = evidence.clockChanges.find(({ atUs }) => atUs > issued.atUs)
  const toUs = Math.min(
    end?.atUs ?? Infinity,
    evidence.trueUs(lastTerm(life).deadline),
    change?.atUs ?? Infinity,
  )
  return { fromUs: issued.atUs, toUs }
}

function touches(a: Span, b: Span): boolean {
  return a.fromUs <= b.toUs + SLACK_US && b.fromUs <= a.toUs + SLACK_US
}

function covers(outer: Span, inner: Span): boolean {
  return outer.fromUs + SLACK_US < inner.fromUs && inner.toUs < outer.toUs - SLACK_US
}
