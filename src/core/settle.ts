/**
 * Brings a read set up to `now` before a command is answered: ends what is over, drops waiters that were not heard
 * of, and offers what is free to the next waiter. After it, no entry of the draft is past its deadline.
 *
 * No sweeper is needed for any of this; a background sweep only settles sooner what a later command would settle.
 */
import {
  blockersOf,
  compareEntries,
  compareIds,
  compareTickets,
  isBlocked,
  type Blocker,
} from './conflict.ts'
import { eventCommon, type Draft } from './draft.ts'
import { keptAloneUntil } from './keep-alive.ts'
import {
  expiryWallMs,
  liveDeadline,
  type Claim,
  type CycleStep,
  type Entry,
  type Lease,
  type Revoking,
  type Ticket,
  type TicketFailure,
} from './lease.ts'
import { isTree, type Resource } from './resource.ts'
import {
  deadlineAfter,
  hasPassed,
  isEarlierBootOfSameHost,
  tickAfter,
  US_PER_MS,
  type Now,
  type Tick,
} from './time.ts'

export function settle(draft: Draft): void {
  const silent: Ticket[] = []
  for (const entry of dueEntries(draft)) {
    if (entry.kind === 'ticket') {
      drop(draft, entry)
      silent.push(entry)
    } else {
      // Read anew: the end of a lease has ended what was derived from it, and nothing ends twice.
      settleLease(draft, draft.lease(entry.id))
    }
  }
  if (silent.length > 0) settleBehind(draft, silent)
  makeOffers(draft)
}

/** What is over, in an order of its own: the ledger must not depend on how a store happens to keep its entries. */
function dueEntries(draft: Draft): readonly Entry[] {
  let due: Entry[] | null = null
  for (const entry of draft.entries.values()) {
    const deadline = liveDeadline(entry)
    if (deadline !== null && hasPassed(deadline, draft.now.tick)) (due ??= []).push(entry)
  }
  return due?.sort(compareEntries) ?? NONE
}

/** What most looks find, so that nothing has to be made for it. */
const NONE: readonly never[] = []

/** It is due: either it has run out, or its lock delay has. What ended with its parent just now is neither. */
function settleLease(draft: Draft, lease: Lease): void {
  if (lease.state === 'active') return expire(draft, lease)
  if (lease.lockedUntil !== null) settleDelay(draft, lease, lease.lockedUntil)
}

function expire(draft: Draft, lease: Lease): void {
  const { now } = draft
  if (lease.revoking !== null) return endRevoked(draft, lease, lease.revoking)
  const facts = { before: 'active', after: 'expired', reason: 'ttl passed' } as const
  draft.record({
    type: 'lease.expired',
    ...eventCommon(lease, now, { ...facts, renewals: lease.renewals }),
    terminatedAtMs: expiryWallMs(lease, now),
    lockedUntil: delayAfterForeignClock(lease, now) ?? lockDelay(lease, lease.deadline, now),
  })
}

/** The grace of a revocation is over: the lease ended at its deadline, in the name of the one that asked for it. */
function endRevoked(draft: Draft, lease: Lease, { by, reason }: Revoking): void {
  const { now } = draft
  const { renewals } = lease
  draft.record({
    type: 'lease.revoked',
    ...eventCommon(lease, now, { before: 'active', after: 'revoked', renewals, reason }),
    by,
    terminatedAtMs: expiryWallMs(lease, now),
    lockedUntil: delayAfterForeignClock(lease, now) ?? lockDelay(lease, lease.deadline, now),
  })
}

/** No request gets the resource for a while after an end that the holder may not have noticed. */
export function lockDelay(lease: Lease, since: Tick, now: Now): Tick | null {
  if (lease.lockDelayMs === 0) return null
  const from = since.domain === now.tick.domain ? since : now.tick
  const until = tickAfter(from, lease.lockDelayMs)
  return hasPassed(until, now.tick) ? null : until
}

/**
 * A lock delay that ran out ends. One that was counted on a clock which is gone cannot have run out: two hosts, or
 * two time namespaces, that take turns on one store would otherwise end each other's delays at once.
 */
function settleDelay(draft: Draft, lease: Lease, delay: Tick): void {
  const { now } = draft
  const { state, renewals } = lease
  const isMeasured = delay.domain === now.tick.domain
  const lockedUntil = isMeasured ? null : delayAfterForeignClock(lease, now)
  if (lockedUntil === null) {
    const common = eventCommon(lease, now, { before: state, after: state, renewals })
    return draft.record({ type: 'lease.unlocked', ...common })
  }
  const reason = 'clock changed, lock delay starts again'
  const common = eventCommon(lease, now, { before: state, after: state, renewals, reason })
  const terminatedAtMs = lease.terminatedAtMs ?? expiryWallMs(lease, now)
  if (state !== 'revoked') {
    return draft.record({ type: 'lease.expired', ...common, terminatedAtMs, lockedUntil })
  }
  // A store that was written before this was kept does not say by whom.
  const by = lease.revoking?.by ?? 'an operator'
  draft.record({ type: 'lease.revoked', ...common, by, terminatedAtMs, lockedUntil })
}

/**
 * A lease of another clock domain cannot be measured, so it is over. Its holder, unless it died with an earlier boot
 * of this host, may still count on its full TTL, so no other gets the resource until that has passed here.
 */
function delayAfterForeignClock(lease: Lease, now: Now): Tick | null {
  const { domain } = lease.deadline
  if (domain === now.tick.domain || isEarlierBootOfSameHost(domain, now.tick.domain)) return null
  const spanMs = lease.ttlMs + lease.lockDelayMs
  const until = { domain: now.tick.domain, us: now.domainSinceUs + spanMs * US_PER_MS }
  return hasPassed(until, now.tick) ? null : until
}

/**
 * A lapse says that one waiter did not come. Other tickets of its session belong to other tasks of the process and are
 * dropped when these are not heard of, so that one task's fault costs no other its place. A process that is dead keeps
 * none of them alive: its tickets delay a queue by two windows at most.
 */
function drop(draft: Draft, ticket: Ticket): void {
  fail(draft, ticket, ticket.offer === null ? 'abandoned' : 'lapsed')
}

/**
 * Tickets behind others of their client were kept alive by these. Once none of these stands, and nothing of all was heard
 * of for a whole window, the process is dead and they are dropped; until then the first of them has to be heard of.
 */
function settleBehind(draft: Draft, silent: readonly Ticket[]): void {
  for (const own of judgedQueues(draft, silent)) {
    const [first] = own
    if (first === undefined || own.some(({ behindOwn }) => behindOwn !== true)) continue
    const deadline = own.map(keptAloneUntil).reduce((a, b) => (a.us < b.us ? b : a))
    if (hasPassed(deadline, draft.now.tick)) {
      for (const ticket of own) fail(draft, ticket, 'abandoned')
    } else {
      const facts = { before: 'pending', after: 'pending' } as const
      draft.record({ type: 'lease.waiting', ...eventCommon(first, draft.now, facts), deadline })
    }
  }
}

/**
 * What is left of each session in a queue that a silent ticket stood in. Where an offer lapsed, the queue has stood still for
 * a window, in which the first of every session that is alive has said so; those of a host that died would otherwise be
 * found dead one session after the other.
 */
function judgedQueues(draft: Draft, silent: readonly Ticket[]): Iterable<readonly Ticket[]> {
  const sessions = new Set(silent.map(({ session, resource }) => `${session} ${resource}`))
  const stoodMs = new Map<Resource, number>()
  for (const { resource, offer, claimWindowMs } of silent) {
    if (offer !== null) {
      stoodMs.set(resource, Math.max(claimWindowMs, stoodMs.get(resource) ?? 0))
    }
  }
  const queues = new Map<string, Ticket[]>()
  for (const ticket of pendingTickets(draft)) {
    const key = `${ticket.session} ${ticket.resource}`
    const hadTime = ticket.claimWindowMs <= (stoodMs.get(ticket.resource) ?? 0)
    if (!hadTime && !sessions.has(key)) continue
    const own = queues.get(key)
    if (own === undefined) queues.set(key, [ticket])
    else own.push(ticket)
  }
  return queues.values()
}

export function fail(
  draft: Draft,
  ticket: Ticket,
  failure: TicketFailure,
  cause: FailureCause = {},
): void {
  const { reason = failure, requestId = null, cycle = null } = cause
  const facts = { before: 'pending', after: 'failed', reason, requestId } as const
  draft.record({ type: 'lease.failed', ...eventCommon(ticket, draft.now, facts), failure, cycle })
}

interface FailureCause {
  readonly reason?: string
  readonly requestId?: string | null
  readonly cycle?: readonly CycleStep[]
}

/**
 * Offers go in queue order; a ticket that nothing blocks any more is offered the lease, with its fence. All tickets
 * of a flat resource overlap, so whatever blocks one of them blocks those behind it too. A ticket that reaches further
 * than the view, or is one of several that are served together, is woken instead, if there is news for it: what blocks
 * it may lie where this command has not looked, and its own claim looks everywhere.
 */
export function makeOffers(draft: Draft): void {
  const { now } = draft
  completeUpgrades(draft)
  const tickets = pendingTickets(draft)
  const closed = new Set<Resource>()
  for (const ticket of tickets) {
    if (ticket.offer !== null || closed.has(ticket.resource)) continue
    if (isBlocked(ticket, draft.entries.values(), now)) {
      if (!isTree(ticket.resource)) closed.add(ticket.resource)
      continue
    }
    if (ticket.group !== null || !draft.sees(ticket)) {
      if (draft.hasMadeRoomFor(ticket)) draft.wake(ticket)
      continue
    }
    draft.record({
      type: 'lease.offered',
      ...eventCommon(ticket, now, { before: 'pending', after: 'pending' }),
      fence: draft.nextFence(),
      deadline: deadlineAfter(now, ticket.claimWindowMs),
    })
  }
}

/**
 * An upgrade goes before every ticket: it is done as soon as no other lease, offer or delay is in its way. One that
 * reaches further than the view is woken, and asks again itself.
 */
function completeUpgrades(draft: Draft): void {
  for (const lease of upgradeRequests(draft)) {
    if (obstaclesOf(lease, draft).length > 0) continue
    if (draft.sees(lease)) upgrade(draft, lease)
    else if (draft.hasMadeRoomFor(lease)) draft.wake(lease)
  }
}

/** A lease that has ended requests nothing any more. */
function upgradeRequests(draft: Draft): readonly Lease[] {
  let upgrading: Lease[] | null = null
  for (const entry of draft.entries.values()) {
    if (entry.kind === 'lease' && entry.upgrading) (upgrading ??= []).push(entry)
  }
  return upgrading?.sort(compareIds) ?? NONE
}

/** What keeps a lease from being the only one; tickets do not. */
export function obstaclesOf(lease: Lease, draft: Draft): readonly Blocker[] {
  const alone: Claim = { ...lease, mode: 'exclusive', slots: null }
  return blockersOf(alone, draft.entries.values(), draft.now)
}

export function upgrade(draft: Draft, lease: Lease): void {
  const { renewals } = lease
  draft.record({
    type: 'lease.upgraded',
    ...eventCommon(lease, draft.now, { before: 'active', after: 'active', renewals }),
    fence: draft.nextFence(),
  })
}

function pendingTickets(draft: Draft): readonly Ticket[] {
  let tickets: Ticket[] | null = null
  for (const entry of draft.entries.values()) {
    if (entry.kind === 'ticket' && entry.state === 'pending') (tickets ??= []).push(entry)
  }
  return tickets?.sort(compareTickets) ?? NONE
}
