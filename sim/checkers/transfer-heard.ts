/**
 * I5 for transfers: a waiter that claims after the resource was transferred to its holder, and before that lease is
 * adopted, is not told to keep waiting. A keep-alive reads only its own ticket and may say so.
 */
import type { Ticket } from '../../src/core/lease.ts'
import { seconds, short, type Checker, type Evidence } from '../evidence.ts'
import { lastTerm, type LeaseLife } from '../lease-life.ts'

/** Rounding of clocks and of the store's ticks. */
const SLACK_US = 50

export const transferHeard: Checker = {
  promise: 'I5',
  name: 'a transfer is heard of',
  check: (evidence) => {
    const tickets = ticketsOf(evidence)
    const given = evidence.lives.filter(({ lease }) => !lease.adopted)
    return evidence.log.flatMap((entry) => {
      const isToldToWait = entry.kind === 'answered' && entry.answer === 'queued'
      const ticket = isToldToWait ? tickets.get(entry.leaseId) : undefined
      if (!isToldToWait || entry.method !== 'claim' || ticket === undefined) return []
      const span = { fromUs: entry.sentUs, toUs: entry.atUs }
      const own = given.find((life) => isIts(life, ticket) && lies(life, span))
      if (own === undefined) return []
      return [
        `${short(ticket.id)} was told at ${seconds(entry.atUs)} to wait for ${ticket.resource}, ` +
          `which ${ticket.holder} had been given as ${short(own.lease.id)}`,
      ]
    })
  },
}

function ticketsOf({ ledger }: Evidence): ReadonlyMap<string, Ticket> {
  const tickets = new Map<string, Ticket>()
  for (const { event } of ledger) {
    if (event.type === 'lease.queued') tickets.set(event.leaseId, event.ticket)
  }
  return tickets
}

function isIts({ lease }: LeaseLife, { resource, holder }: Ticket): boolean {
  return lease.resource === resource && lease.holder === holder
}

/** Whether a lease lay there unadopted all the time that the question and its answer took. */
function lies(life: LeaseLife, span: { readonly fromUs: number; readonly toUs: number }): boolean {
  const { issued, adopted, end } = life
  const untilUs = Math.min(adopted?.atUs ?? Infinity, end?.atUs ?? Infinity, lastTerm(life).dueUs)
  return issued.atUs + SLACK_US < span.fromUs && span.toUs < untilUs - SLACK_US
}
