/**
 * Decides an acquire: granted, queued, or refused.
 *
 *  1. The id is known: answer with the present state of what it names. A failed attempt is decided anew.
 *  2. Settle the overlap, so that nothing that is over stands in the way.
 *  3. A lease of the resource was transferred to the requester: take it over if it covers the request, else refuse.
 *  4. The session does one thing after another and has a shared lease of the very same already: refuse, naming that lease.
 *  5. Nothing blocks: grant. The TTL runs from `now`; the requester counts from before it sent the request, so its own
 *     view ends no later than this.
 *  6. What blocks the request cannot end before it: a lease that it is under, or anything of a session that does one
 *     thing after another. Refuse, because waiting would never end.
 *  7. The request may wait: file a ticket. Otherwise refuse. Refusals are counted beside the ledger.
 */
import type { Acquire } from './command.ts'
import { adopt, adoptable, adoptedBefore, otherTransfer } from './adopt.ts'
import {
  arrivalUs,
  arrivedUs,
  blockersOf,
  compareTickets,
  conflicts,
  inOrder,
  ownBlockersOf,
  priorityUs,
  sharedAlready,
  type Blocker,
} from './conflict.ts'
import { rootWith } from './delegation.ts'
import { Draft, eventCommon, frequentEvent } from './draft.ts'
import {
  isHeld,
  isWaiting,
  type Entry,
  type Ticket,
  type Claim,
  type EntryState,
  type Lease,
  type Revoking,
} from './lease.ts'
import { keepAliveMsOf, stayInQueue } from './keep-alive.ts'
import { CLAIM_WINDOW_MS_DEFAULT, TICKETS_PER_REALM_MAX } from './limits.ts'
import {
  endedOutcome,
  type AcquireOutcome,
  type Held,
  type Queued,
  type Refusal,
} from './outcome.ts'
import type { Decision, PriorEffect, RealmView } from './realm.ts'
import { noteDenied } from './refusal.ts'
import { overlap, hasEpoch } from './resource.ts'
import { requestEnd } from './revoke.ts'
import { makeOffers, settle } from './settle.ts'
import { defaultTtlMs } from './settings.ts'
import { deadlineAfter, US_PER_MS, wallAt, type Now } from './time.ts'

export function decideAcquire(
  view: RealmView,
  command: Acquire,
  now: Now,
): Decision<AcquireOutcome> {
  const draft = new Draft(view, now, command)
  const adopted = adoptedBefore(view, command, now)
  if (adopted !== null) return draft.answer(adopted)
  const known = view.entries.get(command.leaseId)
  if (known !== undefined) {
    const repeated = answerRepeat(draft, known, command)
    if (repeated !== null) return repeated
  } else {
    const ended = endedBefore(view.prior, command)
    if (ended !== null) return draft.answer(ended)
  }
  if (view.settings.malformed !== null) {
    return draft.answer({ kind: 'malformed_setting', problem: view.settings.malformed })
  }
  settle(draft)
  const transferred = adoptable(draft, command)
  if (transferred !== null) {
    const lease = adopt(draft, transferred, {
      session: command.session,
      requestId: command.leaseId,
    })
    return draft.answer({ kind: 'granted', lease, repeated: false })
  }
  const claim = ticketOf(command, view, { now, arrivalUs: arrivalUs(draft.entries.values(), now) })
  const other = otherTransfer(draft, claim)
  if (other !== null) return refuse(draft, claim, other)
  const twice = command.sequential === true ? sharedAlready(claim, draft) : []
  if (twice.length > 0) return refuse(draft, claim, heldBy(claim, twice, 'own'))
  const blockers = blockersOf(claim, draft.entries.values(), now)
  if (blockers.length === 0) {
    const before = draft.entries.get(claim.id)?.state ?? null
    const lease = grant(draft, { claim, fence: draft.nextFence(), before })
    return draft.answer({ kind: 'granted', lease, repeated: false })
  }
  return waitOrRefuse(draft, { command, ticket: claim, blockers })
}

function answerRepeat(
  draft: Draft,
  known: Entry,
  command: Acquire,
): Decision<AcquireOutcome> | null {
  const isLive = isHeld(known, draft.now) || isWaiting(known, draft.now)
  const isAnothers = known.holder !== command.holder || known.resource !== command.resource
  // Two processes may share a name; what one of them holds or waits for is not the other's to repeat.
  if (isAnothers || (isLive && known.session !== command.session)) {
    return draft.answer({ kind: 'id_taken', leaseId: known.id, resource: known.resource })
  }
  if (isHeld(known, draft.now)) {
    return draft.answer({ kind: 'granted', lease: known, repeated: true })
  }
  if (known.kind === 'lease') return draft.answer(endedOutcome(known))
  if (!isWaiting(known, draft.now)) return null
  settle(draft)
  const waitMs = waitMsOf(command, draft.view)
  return draft.answer(queuedOutcome(draft, known, waitMs))
}

/** No history is kept, and the lease of this id has ended: it does not come back. A failed attempt is decided anew. */
export function endedBefore(
  prior: PriorEffect | null,
  { leaseId }: Pick<Acquire, 'leaseId'>,
): Refusal | null {
  if (prior === null) return null
  if (prior.leaseId !== leaseId) return { kind: 'request_reused', leaseId }
  if (prior.type === 'lease.failed') return null
  const ends = ['released', 'expired', 'revoked'] as const
  const state = ends.find((end) => prior.type === `lease.${end}`)
  return state === undefined
    ? { kind: 'request_reused', leaseId }
    : { kind: 'terminal', leaseId, state }
}

export function waitMsOf(command: Acquire, view: RealmView): number {
  if (command.wait.kind === 'none') return 0
  if (command.wait.kind === 'up_to') return command.wait.waitMs
  return view.settings.acquisition_timeout_ms
}

interface Blocked {
  readonly command: Acquire
  readonly ticket: Ticket
  readonly blockers: readonly Blocker[]
}

function waitOrRefuse(draft: Draft, blocked: Blocked): Decision<AcquireOutcome> {
  const { command, ticket, blockers } = blocked
  const waitMs = waitMsOf(command, draft.view)
  const own = ownBlockersOf(ticket, draft, command.sequential === true)
  if (own.length > 0) return refuse(draft, ticket, heldBy(ticket, own, 'own'))
  if (waitMs === 0) return refuse(draft, ticket, heldBy(ticket, blockers, 'not_asked'))
  if (!draft.view.settings.blocking_mode_enabled) {
    return refuse(draft, ticket, heldBy(ticket, blockers, 'waiting_disabled'))
  }
  if (draft.view.ticketCount >= TICKETS_PER_REALM_MAX) {
    const limit = TICKETS_PER_REALM_MAX
    return draft.answer({ kind: 'queue_full', resource: command.resource, limit })
  }
  draft.record({
    type: 'lease.queued',
    ...eventCommon(ticket, draft.now, {
      before: draft.entries.get(ticket.id)?.state ?? null,
      after: 'pending',
      reason: ticket.reason,
    }),
    ticket,
  })
  // Not in the event: the ledger does not tell how a waiter keeps its place.
  const queued = command.behindOwn === true ? stayInQueue(draft, ticket, command) : ticket
  if (command.breakGraceMs === null) {
    return draft.answer(queuedOutcome(draft, queued, waitMs, blockers))
  }
  askToFinish(draft, queued, command.breakGraceMs)
  return draft.answer({ ...queuedOutcome(draft, queued, waitMs), blockers })
}

/** Only holders who allowed it are asked, and each once. */
export function askToFinish(draft: Draft, ticket: Ticket, graceMs: number): void {
  for (const entry of inOrder(draft.entries.values())) {
    if (!isHeld(entry, draft.now) || !entry.breakable || entry.revoking !== null) continue
    if (!conflicts(ticket, entry)) continue
    const reason = ticket.reason ?? `${ticket.holder} waits for it`
    requestEnd(draft, entry, { by: ticket.holder, reason, requestId: null, graceMs })
  }
  makeOffers(draft)
}

export interface Arrival {
  readonly now: Now
  readonly arrivalUs: number
}

/**
 * The place in the queue that a request would have; also what it is measured by before it has one. One literal, because
 * every acquire makes one and copying an object costs more than all the rest of the decision.
 */
export function ticketOf(command: Acquire, { settings }: RealmView, at: Arrival): Ticket {
  const { now } = at
  const ticket: Ticket = {
    id: command.leaseId,
    resource: command.resource,
    mode: command.mode,
    extent: command.extent,
    holder: command.holder,
    session: command.session,
    ttlMs: command.ttlMs ?? defaultTtlMs(settings, { isRenewed: command.isRenewed === true }),
    maxRenewals: command.maxRenewals ?? settings.max_renewals,
    maxHoldMs: command.maxHoldMs,
    slots: command.slots,
    lockDelayMs: command.lockDelayMs,
    breakable: command.breakable,
    reason: command.reason,
    metadata: command.metadata,
    createdAtMs: now.wallMs,
    recorded: settings.keep_history,
    kind: 'ticket',
    state: 'pending',
    group: null,
    priority: command.priority,
    orderUs: at.arrivalUs - priorityUs(command.priority),
    deadline: deadlineAfter(now, command.claimWindowMs),
    claimWindowMs: command.claimWindowMs,
    offer: null,
    failure: null,
    cycle: null,
  }
  const { authority, under, tokenName } = command
  // Not spreads: an object that is put together from several is read several times slower ever after.
  if (authority !== undefined) Object.assign(ticket, { delegation: rootWith(authority) })
  if (under !== undefined) Object.assign(ticket, { under: { leaseIds: under, implied: false } })
  if (tokenName !== undefined) Object.assign(ticket, { tokenName })
  return ticket
}

function heldBy(
  { resource }: Ticket,
  blockers: readonly Blocker[],
  notWaiting: Held['notWaiting'],
): Held {
  return { kind: 'held', resource, blockers, retryAfterMs: retryAfterMsOf(blockers), notWaiting }
}

/** A waiter whose ticket lives for long may be served, or go, long before that. */
export function retryAfterMsOf(blockers: readonly Blocker[]): number {
  const inMs = blockers.map(({ kind, remainingMs }) => {
    return kind === 'ticket' ? Math.min(remainingMs, CLAIM_WINDOW_MS_DEFAULT) : remainingMs
  })
  return Math.max(1, ...inMs)
}

function refuse(draft: Draft, request: Ticket, held: Held): Decision<AcquireOutcome> {
  noteDenied(draft, request, held.blockers)
  return draft.answer(held)
}

/** Each place further back leaves the ones before it this long to act first when a blocker runs out. */
const STAGGER_MS = 50
/** Further back than this no waiter need look soon, or a long queue would cost the square of its length. */
const STAGGERED_MAX = 16
/** So many places further back it looks one keep-alive later: 10,000 that are alive look 29 times a second. */
const PLACES_A_KEEP_ALIVE = 4

/** `known`: what blocks the ticket, where the caller has looked already. */
export function queuedOutcome(
  draft: Draft,
  ticket: Ticket,
  waitMs: number,
  known?: readonly Blocker[],
): Queued {
  const { now } = draft
  const blockers = known ?? blockersOf(ticket, draft.entries.values(), now)
  let position = draft.view.leftOut ?? 0
  for (const entry of draft.entries.values()) {
    if (entry.id === ticket.id || !isWaiting(entry, now) || !overlap(entry, ticket)) continue
    if (compareTickets(entry, ticket) < 0) position += 1
  }
  const keepAliveMs = keepAliveMsOf(ticket)
  const keepAlives = Math.ceil(Math.max(0, position - STAGGERED_MAX) / PLACES_A_KEEP_ALIVE)
  const laterMs = keepAlives * keepAliveMs
  const staggerMs = Math.min(position, STAGGERED_MAX) * STAGGER_MS + laterMs
  const soonest = blockers
    .filter((blocker) => blocker.kind !== 'ticket')
    .map((blocker) => blocker.remainingMs + staggerMs)
  const checkAfterMs = Math.max(1, Math.min(keepAliveMs + laterMs, ...soonest))
  const { id: leaseId, orderUs } = ticket
  const waitedMs = waitedMsOf(ticket, now)
  return {
    kind: 'queued',
    leaseId,
    position,
    orderUs,
    blockers,
    waitMs,
    waitedMs,
    keepAliveMs,
    checkAfterMs,
  }
}

export function waitedMsOf(ticket: Ticket, { tick }: Now): number {
  return Math.max(0, (tick.us - arrivedUs(ticket)) / US_PER_MS)
}

/** What a lease is made of. */
export interface GrantedClaim {
  readonly claim: Claim
  readonly fence: number
  readonly before: EntryState | null
  /** A transfer hands on the ceiling of the lease that it ends. */
  readonly holdUntilUs?: number | null
  /** So is the request to end it. */
  readonly revoking?: Revoking | null
  readonly adopted?: boolean
  /** Of the claim's resource, where the draft's view is about several. */
  readonly epoch?: number
}

/** Turns a claim into a lease. */
export function grant(draft: Draft, granted: GrantedClaim): Lease {
  const { now } = draft
  const { claim, fence, before } = granted
  const holdUntilUs = granted.holdUntilUs ?? ceilingOf(claim, now)
  const requested = deadlineAfter(now, claim.ttlMs)
  const us = Math.min(requested.us, holdUntilUs ?? Infinity)
  const lease: Lease = {
    id: claim.id,
    resource: claim.resource,
    mode: claim.mode,
    extent: claim.extent,
    holder: claim.holder,
    session: claim.session,
    ttlMs: claim.ttlMs,
    maxRenewals: claim.maxRenewals,
    maxHoldMs: claim.maxHoldMs,
    slots: claim.slots,
    lockDelayMs: claim.lockDelayMs,
    breakable: claim.breakable,
    reason: claim.reason,
    metadata: claim.metadata,
    createdAtMs: claim.createdAtMs,
    recorded: claim.recorded,
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: now.wallMs,
    renewedAtMs: null,
    expiresAtMs: wallAt(us, now),
    terminatedAtMs: null,
    deadline: { domain: requested.domain, us },
    holdUntilUs,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: granted.revoking ?? null,
    upgrading: false,
    adopted: granted.adopted ?? true,
    epoch: hasEpoch(claim.resource) ? (granted.epoch ?? draft.view.epoch) : 0,
  }
  return issued(draft, withRareFacts(lease, claim), before)
}

function withRareFacts(lease: Lease, { delegation, tokenName }: Claim): Lease {
  const named = tokenName === undefined ? lease : { ...lease, tokenName }
  return delegation === undefined ? named : { ...named, delegation }
}

function issued(draft: Draft, lease: Lease, before: EntryState | null): Lease {
  const common = eventCommon(lease, draft.now, { before, after: 'active', reason: lease.reason })
  draft.record(frequentEvent(common, { type: 'lease.issued', lease }))
  return lease
}

function ceilingOf(claim: Claim, now: Now): number | null {
  return claim.maxHoldMs === null ? null : deadlineAfter(now, claim.maxHoldMs).us
}
