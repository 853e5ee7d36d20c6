/**
 * Decides requests for several resources at once: all of them or none. The tickets of such a request stand in every
 * queue, filed in one commit with one order key, and are never offered singly: when one of them is free the waiter is
 * woken, and its claim takes them all if they are all free. No holder ever has a part while it waits for the rest, so
 * there is no order in which to acquire and none to get wrong.
 *
 * What was transferred to the requester counts as free for it: it is taken over together with the rest, and until then
 * it stays what it is.
 */
import {
  askToFinish,
  endedBefore,
  grant,
  queuedOutcome,
  retryAfterMsOf,
  ticketOf,
  waitMsOf,
} from './acquire.ts'
import { adopt, adoptable, adoptedBefore, otherTransfer } from './adopt.ts'
import type { Acquire, AcquireAll } from './command.ts'
import { arrivalUs, blockersOf, ownBlockersOf, sharedAlready, type Blocker } from './conflict.ts'
import { Draft, eventCommon } from './draft.ts'
import { isHeld, isWaiting, type Lease, type LeaseId, type Ticket } from './lease.ts'
import { TICKETS_PER_REALM_MAX } from './limits.ts'
import {
  endedOutcome,
  type AcquireAllOutcome,
  type GrantedAll,
  type Held,
  type QueuedAll,
  type Refusal,
} from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { noteDenied } from './refusal.ts'
import { covers, hasEpoch } from './resource.ts'
import { fail, makeOffers, settle } from './settle.ts'
import type { Now } from './time.ts'

/** `views` are those of the members, in the same order. */
export function decideAcquireAll(
  views: readonly RealmView[],
  command: AcquireAll,
  now: Now,
): Decision<AcquireAllOutcome> {
  const draft = new Draft(mergeViews(views), now, ...command.members)
  const repeated = answerRepeat(draft, views, command)
  if (repeated !== null) return repeated
  const ended = endedMember(views, command)
  if (ended !== null) return draft.answer(ended)
  const malformed = views.find((view) => view.settings.malformed !== null)?.settings.malformed
  if (malformed) return draft.answer({ kind: 'malformed_setting', problem: malformed })
  settle(draft)
  const tickets = ticketsOf(draft, views, command)
  const isStanding = tickets.every((ticket) => draft.entries.get(ticket.id) === ticket)
  const transferred = transferredTo(draft, tickets)
  const other = isStanding ? null : otherTransferAmong(draft, tickets, transferred)
  if (other !== null) return refuse(draft, tickets, other)
  const twice = isStanding ? [] : sharedTwice(draft, command, { tickets, transferred })
  if (twice.length > 0) return refuse(draft, tickets, { blockers: twice, notWaiting: 'own' })
  const blockers = allBlockers(draft, tickets, transferred)
  if (blockers.length === 0) return draft.answer(grantAll(draft, tickets, transferred, views))
  const blocked = { tickets, blockers, views, transferred }
  if (isStanding) return draft.answer(queuedAll(draft, tickets, waitOf(command, blocked)))
  return waitOrRefuse(draft, command, blocked)
}

/** Where no history is kept, the id of a member that has ended is all that is left of it. */
function endedMember(views: readonly RealmView[], { members }: AcquireAll): Refusal | null {
  for (const [index, member] of members.entries()) {
    const { entries, prior } = memberView(views, index)
    const ended = entries.has(member.leaseId) ? null : endedBefore(prior, member)
    if (ended !== null) return ended
  }
  return null
}

/** The views are read for the members, so that there is one for each. */
export function memberView(views: readonly RealmView[], index: number): RealmView {
  const view = views[index]
  if (view === undefined) throw new Error(`no view of member ${index} was read`)
  return view
}

/**
 * One view of everything that the members touch. History is kept if it is kept of any of them: what began unrecorded
 * stays out of it whatever this says, and no member's history is lost because another's is not kept.
 */
export function mergeViews(views: readonly RealmView[]): RealmView {
  const { settings } = memberView(views, 0)
  const entries = new Map(views.flatMap((view) => [...view.entries]))
  const keepHistory = views.some((view) => view.settings.keep_history)
  const absent = new Set(views.flatMap((view) => [...(view.absent ?? [])]))
  return {
    entries,
    absent,
    lastFence: Math.max(...views.map((view) => view.lastFence)),
    get ticketCount() {
      return Math.max(...views.map((view) => view.ticketCount))
    },
    /** Each member has an epoch of its own; `grantAll` takes it from the member's view. */
    epoch: 0,
    prior: null,
    settings: { ...settings, keep_history: keepHistory },
  }
}

function answerRepeat(
  draft: Draft,
  views: readonly RealmView[],
  { members }: AcquireAll,
): Decision<AcquireAllOutcome> | null {
  const leases: Lease[] = []
  for (const [index, { leaseId, holder, resource, session }] of members.entries()) {
    const adopted = adoptedBefore(memberView(views, index), { holder, session }, draft.now)
    if (adopted !== null && adopted.kind !== 'granted') return draft.answer(adopted)
    if (adopted !== null) leases.push(adopted.lease)
    const known = draft.entries.get(leaseId)
    if (known === undefined) continue
    if (known.holder !== holder || known.resource !== resource) {
      return draft.answer({ kind: 'id_taken', leaseId, resource: known.resource })
    }
    if (known.kind === 'ticket') continue
    if (!isHeld(known, draft.now)) return draft.answer(endedOutcome(known))
    leases.push(known)
  }
  const [other] = leases
  if (other === undefined) return null
  if (leases.length === members.length) {
    return draft.answer({ kind: 'granted_all', leases, repeated: true })
  }
  // One of them is held by itself: what is asked for under its id now is something else.
  return draft.answer({ kind: 'id_taken', leaseId: other.id, resource: other.resource })
}

/** A member that was filed before, when the request was heard the first time, keeps the place that it has. */
function ticketsOf(
  draft: Draft,
  views: readonly RealmView[],
  { members, group }: AcquireAll,
): readonly Ticket[] {
  const { entries, now } = draft
  const at = { now, arrivalUs: arrivalUs(entries.values(), now) }
  return members.map((member, index) => {
    const standing = standingTicket(draft, member, group)
    return standing ?? { ...ticketOf(member, memberView(views, index), at), group }
  })
}

/** One that names less of a tree is another request, and has not looked at all that may be in the way of the first. */
function standingTicket({ entries, now }: Draft, member: Acquire, group: LeaseId): Ticket | null {
  const entry = entries.get(member.leaseId)
  if (entry === undefined || !isWaiting(entry, now)) return null
  return entry.group === group && covers(member, entry) ? entry : null
}

/** By the id of the member: the lease of the same resource that was transferred to the requester. */
export type TransferredLeases = ReadonlyMap<LeaseId, Lease>

export function transferredTo(draft: Draft, tickets: readonly Ticket[]): TransferredLeases {
  const transferred = new Map<LeaseId, Lease>()
  for (const ticket of tickets) {
    const lease = adoptable(draft, ticket)
    if (lease !== null) transferred.set(ticket.id, lease)
  }
  return transferred
}

/** The refusal for a lease that was transferred to the requester and does not cover its request, if there is one. */
export function otherTransferAmong(
  draft: Draft,
  tickets: readonly Ticket[],
  transferred: TransferredLeases,
): Held | null {
  for (const ticket of tickets) {
    const other = transferred.has(ticket.id) ? null : otherTransfer(draft, ticket)
    if (other !== null) return other
  }
  return null
}

function sharedTwice(
  draft: Draft,
  { members }: AcquireAll,
  { tickets, transferred }: Pick<BlockedAll, 'tickets' | 'transferred'>,
): readonly Blocker[] {
  if (members[0]?.sequential !== true) return []
  return tickets.flatMap((ticket) =>
    transferred.has(ticket.id) ? [] : sharedAlready(ticket, draft),
  )
}

export function allBlockers(
  draft: Draft,
  tickets: readonly Ticket[],
  transferred: TransferredLeases,
): readonly Blocker[] {
  return tickets.flatMap((ticket) => {
    const transferredId = transferred.get(ticket.id)?.id
    const found = blockersOf(ticket, draft.entries.values(), draft.now)
    return found.filter(({ leaseId }) => leaseId !== transferredId)
  })
}

/** `views` are those of the tickets, in the same order. */
export function grantAll(
  draft: Draft,
  tickets: readonly Ticket[],
  transferred: TransferredLeases,
  views: readonly RealmView[],
): GrantedAll {
  const leases = tickets.map((ticket, index) => {
    const lease = transferred.get(ticket.id)
    if (lease !== undefined) return takeOver(draft, ticket, lease)
    const before = draft.entries.get(ticket.id)?.state ?? null
    const epoch = hasEpoch(ticket.resource) ? memberView(views, index).epoch : 0
    return grant(draft, { claim: ticket, fence: draft.nextFence(), before, epoch })
  })
  if (transferred.size > 0) makeOffers(draft)
  return { kind: 'granted_all', leases, repeated: false }
}

/** A ticket ends when its waiter takes over the lease that was transferred to it. */
function takeOver(draft: Draft, ticket: Ticket, lease: Lease): Lease {
  if (isFiled(draft, ticket)) {
    fail(draft, ticket, 'aborted', { reason: `has lease ${lease.id} by transfer` })
  }
  return adopt(draft, lease, { session: ticket.session, requestId: ticket.id })
}

interface BlockedAll {
  readonly tickets: readonly Ticket[]
  readonly blockers: readonly Blocker[]
  readonly views: readonly RealmView[]
  readonly transferred: TransferredLeases
}

function waitOf(
  { members }: AcquireAll,
  { blockers, views }: BlockedAll,
): Pick<QueuedAll, 'blockers' | 'waitMs'> & { readonly first: Acquire } {
  const [first] = members
  if (first === undefined) throw new Error('nothing was asked for')
  return { first, blockers, waitMs: waitMsOf(first, memberView(views, 0)) }
}

function waitOrRefuse(
  draft: Draft,
  command: AcquireAll,
  blocked: BlockedAll,
): Decision<AcquireAllOutcome> {
  const { tickets, blockers, views } = blocked
  const { first, waitMs } = waitOf(command, blocked)
  const own = ownBlockers(draft, blocked, first.sequential === true)
  if (own.length > 0) return refuse(draft, tickets, { blockers: own, notWaiting: 'own' })
  if (waitMs === 0) return refuse(draft, tickets, { blockers, notWaiting: 'not_asked' })
  if (views.some(({ settings }) => !settings.blocking_mode_enabled)) {
    return refuse(draft, tickets, { blockers, notWaiting: 'waiting_disabled' })
  }
  if (draft.view.ticketCount + tickets.length > TICKETS_PER_REALM_MAX) {
    const limit = TICKETS_PER_REALM_MAX
    return draft.answer({ kind: 'queue_full', resource: first.resource, limit })
  }
  for (const ticket of tickets) {
    if (!isFiled(draft, ticket)) file(draft, ticket)
    if (first.breakGraceMs !== null) askToFinish(draft, ticket, first.breakGraceMs)
  }
  return draft.answer(queuedAll(draft, tickets, { blockers, waitMs }))
}

/** A transferred lease that reaches over another of the requested resources is the requester's own as well. */
function ownBlockers(
  draft: Draft,
  { tickets, transferred }: BlockedAll,
  sequential: boolean,
): readonly Blocker[] {
  return tickets.flatMap((ticket) => {
    const found = ownBlockersOf(ticket, draft, sequential)
    return found.filter(({ leaseId }) => leaseId !== transferred.get(ticket.id)?.id)
  })
}

function isFiled(draft: Draft, { id }: Ticket): boolean {
  const entry = draft.entries.get(id)
  return entry !== undefined && isWaiting(entry, draft.now)
}

function file(draft: Draft, ticket: Ticket): void {
  const before = draft.entries.get(ticket.id)?.state ?? null
  draft.record({
    type: 'lease.queued',
    ...eventCommon(ticket, draft.now, { before, after: 'pending', reason: ticket.reason }),
    ticket,
  })
}

function refuse(
  draft: Draft,
  tickets: readonly Ticket[],
  why: Pick<Held, 'blockers' | 'notWaiting' | 'difference'>,
): Decision<AcquireAllOutcome> {
  const { blockers } = why
  const resource = tickets.map((ticket) => ticket.resource).join(', ')
  for (const ticket of tickets) noteDenied(draft, ticket, blockers)
  return draft.answer({ ...why, kind: 'held', resource, retryAfterMs: retryAfterMsOf(blockers) })
}

export function queuedAll(
  draft: Draft,
  tickets: readonly Ticket[],
  { blockers, waitMs }: Pick<QueuedAll, 'blockers' | 'waitMs'>,
): QueuedAll {
  // Nothing is offered to one of several, and only a claim keeps all of them: none of them may be late.
  const single = tickets.map((ticket) => queuedOutcome(draft, ticket, waitMs))
  const keepAliveMs = Math.min(...single.map((one) => one.keepAliveMs))
  return {
    kind: 'queued_all',
    leaseIds: tickets.map((ticket) => ticket.id),
    blockers,
    waitMs,
    waitedMs: Math.max(...single.map((one) => one.waitedMs)),
    keepAliveMs,
    checkAfterMs: Math.min(keepAliveMs, ...single.map((one) => one.checkAfterMs)),
  }
}
