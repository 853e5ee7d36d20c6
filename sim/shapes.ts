/**
 * How often the shapes occurred that the promises are hard to keep in. Counted from the ledger and the log, not by the code that
 * meant to bring them about: a workload that no longer comes to one of them shows.
 */
import type { Entry, Lease, Ticket } from '../src/core/lease.ts'
import type { LeaseEvent } from '../src/core/event.ts'
import { walk, type Step } from './checkers/ledger-walk.ts'
import { clash } from './checkers/reach.ts'
import type { Evidence } from './evidence.ts'

/** So many waiters of one resource are many. */
const MANY = 8
const AGAIN_WITHIN_US = 1_000_000

export const SHAPES = [
  'many waiters of one resource, each with a lease of another',
  'a wait for what another task of the client holds',
  'a transfer to a holder that waits',
  'a lease with slots is upgraded',
  'a lease with slots is downgraded',
  'a lost lease is asked for again',
  'a wait times out while the store is away',
  'a cycle of what was said',
  'a cycle of what was implied',
  'a lost answer, then the same request again',
] as const

type Shape = (typeof SHAPES)[number]

export function shapesOf(evidence: Evidence): readonly Shape[] {
  return [
    ...inLedger(evidence),
    ...lostAndAskedFor(evidence),
    ...timedOutInOutage(evidence),
    ...lostAndRepeated(evidence),
  ]
}

function inLedger({ ledger }: Evidence): readonly Shape[] {
  const shapes: Shape[] = []
  const slots = new Map<string, number | null>()
  for (const step of walk(ledger)) {
    for (const { event } of step.events) {
      if (event.type === 'lease.issued') slots.set(event.leaseId, event.lease.slots)
      const isCounted = (slots.get(event.leaseId) ?? null) !== null
      if (isCounted && event.type === 'lease.upgraded') shapes.push(SHAPES[3])
      if (isCounted && event.type === 'lease.downgraded') shapes.push(SHAPES[4])
      if (event.type === 'lease.queued') shapes.push(...shapesOfWait(event.ticket, step))
      if (isTransfer(event) && hasWaiter(event.lease, step)) shapes.push(SHAPES[2])
      if (event.type !== 'lease.failed' || event.failure !== 'deadlock') continue
      const isImplied = event.cycle?.some(({ implied }) => implied === true) === true
      shapes.push(isImplied ? SHAPES[8] : SHAPES[7])
    }
  }
  return shapes
}

function shapesOfWait(ticket: Ticket, { live }: Step): readonly Shape[] {
  const shapes: Shape[] = []
  const entries = [...live.values()]
  const isOthers = (lease: Entry): boolean => isLease(lease) && lease.resource !== ticket.resource
  const laden = new Set(entries.filter(isOthers).map(({ session }) => session))
  const waiters = entries.filter((entry) => {
    return entry.kind === 'ticket' && entry.resource === ticket.resource && laden.has(entry.session)
  })
  if (waiters.length >= MANY) shapes.push(SHAPES[0])
  const isOwn = (entry: Entry): boolean => entry.session === ticket.session && clash(entry, ticket)
  if (entries.some((entry) => isLease(entry) && isOwn(entry))) shapes.push(SHAPES[1])
  return shapes
}

function isTransfer(event: LeaseEvent): event is Extract<LeaseEvent, { type: 'lease.issued' }> {
  return event.type === 'lease.issued' && !event.lease.adopted
}

function hasWaiter({ holder, resource }: Lease, { live }: Step): boolean {
  return [...live.values()].some((entry) => {
    return entry.kind === 'ticket' && entry.holder === holder && entry.resource !== resource
  })
}

function isLease(entry: Entry): boolean {
  return entry.kind === 'lease' && entry.state === 'active'
}

function lostAndAskedFor({ log, lives }: Evidence): readonly Shape[] {
  const resources = new Map<string, string>(lives.map(({ lease }) => [lease.id, lease.resource]))
  const lostUs = new Map<string, number>()
  return log.flatMap((entry) => {
    if (entry.kind === 'signal' && entry.code === 'LEASE_LOST') {
      lostUs.set(`${entry.session} ${resources.get(entry.leaseId)}`, entry.atUs)
    }
    if (entry.kind !== 'call' || entry.operation !== 'acquire') return []
    const sinceUs = entry.atUs - (lostUs.get(`${entry.session} ${entry.resource}`) ?? -Infinity)
    return sinceUs <= AGAIN_WITHIN_US ? [SHAPES[5]] : []
  })
}

function timedOutInOutage({ log }: Evidence): readonly Shape[] {
  let isAway = false
  return log.flatMap((entry) => {
    if (entry.kind === 'fault' && entry.fault === 'store_away') isAway = true
    if (entry.kind === 'fault' && entry.fault === 'store_back') isAway = false
    return entry.kind === 'ended' && entry.outcome === 'WAIT_TIMEOUT' && isAway ? [SHAPES[6]] : []
  })
}

/** The store may have heard a request or not, and its sender repeated it under the same id until it knew. */
function lostAndRepeated({ log }: Evidence): readonly Shape[] {
  const unknown = new Set<string>()
  return log.flatMap((entry) => {
    if (entry.kind !== 'answered') return []
    const { session, method, leaseId, requestId } = entry
    const name = `${session} ${method} ${leaseId} ${requestId}`
    if (entry.answer === 'STORE_OUTCOME_UNKNOWN') unknown.add(name)
    else if (!entry.answer.startsWith('STORE_') && unknown.delete(name)) return [SHAPES[9]]
    return []
  })
}
