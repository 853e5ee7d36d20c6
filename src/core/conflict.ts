/**
 * What stands in the way of a claim: live leases, offers, lock delays, and tickets that come before it.
 */
import { areAncestorAndDescendant } from './delegation.ts'
import {
  isHeld,
  isWaiting,
  liveDeadline,
  type Claim,
  type Entry,
  type Lease,
  type LeaseId,
  type Ticket,
} from './lease.ts'
import { PRIORITY_POINT_MS } from './limits.ts'
import { overlap } from './resource.ts'
import { hasPassed, remainingMs, US_PER_MS, type Now } from './time.ts'

/** Who stands in the way, as the blocked one is told. */
export interface Blocker {
  readonly kind: 'lease' | 'offer' | 'ticket' | 'lock_delay'
  readonly leaseId: LeaseId
  readonly resource: string
  readonly holder: string
  /** A digest. */
  readonly session: string
  readonly mode: Claim['mode']
  readonly extent: Claim['extent']
  readonly slots: Claim['slots']
  readonly fence: number | null
  /** Since when, for a lease: the grant; for a ticket: its arrival. */
  readonly sinceMs: number
  readonly expiresAtMs: number | null
  readonly remainingMs: number
  readonly reason: string | null
  readonly metadata: Claim['metadata']
}

export function conflicts(a: Claim, b: Claim): boolean {
  return touches(a, b) && areRivals(a, b)
}

/** Whether an entry is another than the claim and overlaps it. */
function touches(claim: Claim, entry: Claim): boolean {
  return entry.id !== claim.id && overlap(claim, entry)
}

/** Whether two that touch cannot be live together. What was derived from a lease may be live beside it. */
function areRivals(a: Claim, b: Claim): boolean {
  return !areAncestorAndDescendant(a, b) && excludes(a, b)
}

type Sharer = Pick<Claim, 'mode' | 'slots'> & Partial<Pick<Lease, 'upgrading'>>

/** Whether two that overlap cannot be live together, however many places there are. */
export function excludes(a: Sharer, b: Sharer): boolean {
  return requestsExclusive(a) || requestsExclusive(b) || (a.slots === null) !== (b.slots === null)
}

/** A holder that waits to be upgraded lets no other holder in, or it would wait for ever. */
function requestsExclusive({ mode, upgrading }: Sharer): boolean {
  return mode === 'exclusive' || upgrading === true
}

/** By id: what is decided must not depend on the order in which a store keeps its entries. */
export function inOrder(entries: Iterable<Entry>): readonly Entry[] {
  return [...entries].sort(compareIds)
}

export function compareIds(a: Pick<Claim, 'id'>, b: Pick<Claim, 'id'>): number {
  return a.id < b.id ? -1 : 1
}

/** What says who is served first. */
export type Placed = Pick<Ticket, 'id' | 'orderUs'>

/** Tickets in the order in which they are served. */
export function compareTickets(a: Placed, b: Placed): number {
  if (a.orderUs !== b.orderUs) return a.orderUs - b.orderUs
  return compareIds(a, b)
}

/** Leases before tickets, and of each kind in an order that does not depend on how a store keeps its entries. */
export function compareEntries(a: Entry, b: Entry): number {
  if (a.kind === 'ticket' && b.kind === 'ticket') return compareTickets(a, b)
  if (a.kind !== b.kind) return a.kind === 'lease' ? -1 : 1
  return compareIds(a, b)
}

/**
 * What blocks `claim`, holders before waiters; a ticket blocks only those that come after it. The
 * order does not depend on the order in which a store keeps its entries. Only the first are told.
 */
export function blockersOf(
  claim: Claim | Ticket,
  entries: Iterable<Entry>,
  now: Now,
): readonly Blocker[] {
  const told = standingsOf(claim, entries, now).slice(0, BLOCKERS_TOLD_MAX)
  return told.map(({ entry, kind }) => describeBlocker(entry, kind, now))
}

/** Whether a lease cannot be released before this waiter's request ends. Only its own holder's leases count. */
export function isUnder(waiter: Pick<Claim, 'holder' | 'under'>, lease: Lease): boolean {
  if (waiter.holder !== lease.holder) return false
  // What was transferred to the holder is not released before the holder adopts it, and it waits instead.
  return !lease.adopted || waiter.under?.leaseIds.includes(lease.id) === true
}

/**
 * Those among the blockers, however far back, that would have to go before the claim but cannot: leases that it is under,
 * and for a session that does one thing after another all that the session has. A lock delay belongs to no session.
 */
export function ownBlockersOf(
  claim: Claim | Ticket,
  draft: { readonly entries: ReadonlyMap<LeaseId, Entry>; readonly now: Now },
  sequential: boolean,
): readonly Blocker[] {
  const { now } = draft
  const isOwn = (entry: Entry): boolean => {
    if (sequential && entry.session === claim.session) return true
    return entry.kind === 'lease' && isUnder(claim, entry)
  }
  let hasOwn = false
  for (const entry of draft.entries.values()) hasOwn ||= isOwn(entry)
  // Most have nothing else there, however many others wait.
  if (!hasOwn) return []
  return standingsOf(claim, draft.entries.values(), now)
    .filter(({ entry, kind }) => kind !== 'lock_delay' && isOwn(entry))
    .map(({ entry, kind }) => describeBlocker(entry, kind, now))
}

/**
 * What a session that does one thing after another has, or waits for, of the very same that it asks to share: a second
 * share would be the first one again, and the first would be forgotten. Places are counted, so a second one is another.
 */
export function sharedAlready(
  claim: Claim | Ticket,
  draft: { readonly entries: ReadonlyMap<LeaseId, Entry>; readonly now: Now },
): readonly Blocker[] {
  const { entries, now } = draft
  const same: Blocker[] = []
  for (const entry of entries.values()) {
    if (entry.id === claim.id || entry.session !== claim.session) continue
    if (entry.resource !== claim.resource || entry.extent !== claim.extent) continue
    if (entry.mode !== 'shared' || claim.mode !== 'shared') continue
    if (entry.slots !== null || claim.slots !== null) continue
    if (isHeld(entry, now)) same.push(describeBlocker(entry, 'lease', now))
    else if (isWaiting(entry, now)) same.push(describeBlocker(entry, 'ticket', now))
  }
  return same
}

/** By how much a priority brings a ticket forward. */
export function priorityUs(priority: number): number {
  return priority * PRIORITY_POINT_MS * US_PER_MS
}

/**
 * When a request arrives: now, but after all who wait already. A store that decides before it asks goes by a clock
 * that may be a little behind that of the process that filed the last ticket.
 */
export function arrivalUs(entries: Iterable<Entry>, now: Now): number {
  let latestUs = now.tick.us
  for (const entry of entries) {
    if (!isWaiting(entry, now)) continue
    latestUs = Math.max(latestUs, arrivedUs(entry) + 1)
  }
  return latestUs
}

/** When a ticket came, whatever its priority. */
export function arrivedUs({ orderUs, priority }: Ticket): number {
  return orderUs + priorityUs(priority)
}

/** All that blocks a claim, and as what, however many there are. */
export function standingsOf(
  claim: Claim | Ticket,
  entries: Iterable<Entry>,
  now: Now,
): readonly Standing[] {
  const standings: Standing[] = []
  const sharers: Standing[] = []
  let places = placesOf(claim)
  for (const entry of entries) {
    if (!touches(claim, entry)) continue
    const kind = standing(claim, entry, now)
    if (kind === null) continue
    if (areRivals(claim, entry)) standings.push({ entry, kind })
    else {
      sharers.push({ entry, kind })
      places = Math.min(places, placesOf(entry))
    }
  }
  if (sharers.length >= places) standings.push(...sharers)
  return standings.sort(compareStandings)
}

/** A queue may be thousands long; a blocked requester wants to know who goes first. */
export const BLOCKERS_TOLD_MAX = 16

export interface Standing {
  readonly entry: Entry
  readonly kind: Blocker['kind']
}

const RANK: Readonly<Record<Blocker['kind'], number>> = {
  lease: 0,
  lock_delay: 1,
  offer: 2,
  ticket: 3,
}

function compareStandings(a: Standing, b: Standing): number {
  if (a.kind !== b.kind) return RANK[a.kind] - RANK[b.kind]
  return compareEntries(a.entry, b.entry)
}

/** Whether anything blocks `claim`, without the cost of describing it. */
export function isBlocked(claim: Claim | Ticket, entries: Iterable<Entry>, now: Now): boolean {
  return isBlockedBy(claim, entries, (entry) => standing(claim, entry, now) !== null)
}

/** The same, for a caller that knows otherwise than by the clock which entries stand. */
export function isBlockedBy(
  claim: Claim,
  entries: Iterable<Entry>,
  stands: (entry: Entry) => boolean,
): boolean {
  let sharers = 0
  let places = placesOf(claim)
  for (const entry of entries) {
    if (!touches(claim, entry) || !stands(entry)) continue
    if (areRivals(claim, entry)) return true
    sharers += 1
    places = Math.min(places, placesOf(entry))
  }
  return sharers >= places
}

/**
 * Up to how many, itself among them, a claim shares with. All who share must agree, so that the smallest number counts:
 * one that shares with three finds no place beside two of which one shares with two.
 */
export function placesOf({ slots }: Pick<Claim, 'slots'>): number {
  return slots ?? Infinity
}

/** As what a conflicting entry stands in the way of `claim`, or null if it does not. */
function standing(claim: Claim | Ticket, entry: Entry, now: Now): Blocker['kind'] | null {
  if (isHeld(entry, now)) return 'lease'
  if (entry.kind === 'lease') {
    const locked = entry.lockedUntil !== null && !hasPassed(entry.lockedUntil, now.tick)
    return locked ? 'lock_delay' : null
  }
  if (!isWaiting(entry, now)) return null
  if (entry.offer !== null) return 'offer'
  return comesBefore(entry, claim) ? 'ticket' : null
}

/** What is no ticket goes before all who wait: the upgrade of a lease, and a lease that is derived from another. */
function comesBefore(ticket: Ticket, claim: Claim | Ticket): boolean {
  return 'orderUs' in claim && compareTickets(ticket, claim) < 0
}

export function describeBlocker(entry: Entry, kind: Blocker['kind'], now: Now): Blocker {
  const isLease = entry.kind === 'lease'
  const until = liveDeadline(entry) ?? entry.deadline
  return {
    kind,
    leaseId: entry.id,
    resource: entry.resource,
    holder: entry.holder,
    session: entry.session,
    mode: entry.mode,
    extent: entry.extent,
    slots: entry.slots,
    fence: isLease ? entry.fence : (entry.offer?.fence ?? null),
    sinceMs: isLease ? entry.grantedAtMs : entry.createdAtMs,
    expiresAtMs: isLease ? entry.expiresAtMs : null,
    remainingMs: remainingMs(until, now.tick),
    reason: entry.reason,
    metadata: entry.metadata,
  }
}
