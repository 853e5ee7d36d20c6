/**
 * Decides on cached views, and says what a server must find and write for the decision to stand: the preconditions of an
 * attempt. Two decisions depend on less than all that they have seen:
 *
 *  - A keep-alive prolongs its own ticket and changes nothing else.
 *  - A new ticket in a long queue, or one that has missed again and again, goes behind the youngest that waits (the core
 *    says when). A process that hands a lease on within itself changes the queue so often that no other process would get
 *    in, and thousands that compare all who wait before them cost the square of that.
 */
import type { Commit, EntryChange } from '../../core/commit.ts'
import { ticketAhead } from '../../core/ticket-ahead.ts'
import type { LeaseId } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import { isTree } from '../../core/resource.ts'
import type { ReadSet } from '../../core/realm.ts'
import type { Now } from '../../core/time.ts'
import type { Decide, Ruling } from '../../store-port/store.ts'
import type { ResolvedSettings } from '../resolved-settings.ts'
import type { Attempt, EntryWrite, Place, SeenClaim, VersionedEntry } from './backend.ts'
import { placeOf, realmViewOf, type CachedView } from './view-cache.ts'

export interface AttemptPlan<Outcome> {
  readonly outcome: Outcome
  readonly attempt: Attempt
}

export interface PlanBasis {
  readonly views: readonly CachedView[]
  readonly now: Now
  readonly settings: ResolvedSettings
  /** The highest fence that is known to be taken in all the realms, besides what the views say. */
  readonly fenceTaken: number
  /** Whether a new ticket may depend on the one before it alone. */
  readonly mayGoBehind: boolean
  /** The ticket behind which it must not go, because that was in vain. */
  readonly missedBehind: LeaseId | null
}

/** From so many entries on it is cheaper to depend on one of them than to compare all. */
export const CROWD_MIN = 64
/** What was seen of others must not become older than this, or no keep-alive would ever see what concerns it. */
const FRESH_US = 3_000_000

export function planAttempt<Outcome>(
  decide: Decide<Outcome>,
  { views, now, settings, fenceTaken, mayGoBehind, missedBehind }: PlanBasis,
): AttemptPlan<Outcome> {
  const seen = views.map((view) => {
    const lastFence = Math.max(view.lastFence, fenceTaken)
    return realmViewOf(view, lastFence, settings.for(view.readSet.resource))
  })
  const decided = decide(seen, now)
  const { outcome, commit } = decided
  const only = views.length === 1 ? views[0] : undefined
  const ahead = only === undefined ? null : claimAhead(commit, only, mayGoBehind)
  const behind = ahead?.id === missedBehind ? null : ahead
  const keepsAlive = only !== undefined && isKeepAlive(commit, only, now)
  const places = views.map((view) => {
    const place = placeOf(view)
    if (behind !== null) return { ...place, behind }
    return keepsAlive ? { ...place, isKeepAlive: true } : place
  })
  return { outcome, attempt: attemptOf(decided, { places, views, now }) }
}

interface Attempted {
  readonly places: readonly Place[]
  readonly views: readonly CachedView[]
  readonly now: Now
}

function attemptOf(
  { commit, validUntilUs }: Ruling<unknown>,
  { places, views, now }: Attempted,
): Attempt {
  const latestUs = now.tick.us + now.toleranceUs + 1
  return {
    places,
    fromUs: now.tick.us,
    beforeUs: Math.min(latestUs, validUntilUs ?? latestUs),
    wallMs: now.wallMs,
    writes: writesOf(commit, views, firstNumber(now)),
    events: commit.events,
    requests: commit.requests,
    epochs: commit.epochs,
    wakes: commit.wakes,
    fences: commit.firstFence === 0 ? null : { first: commit.firstFence, last: commit.lastFence },
  }
}

/**
 * Plans tickets that are filed one behind the other in one attempt: each is decided on what those before it leave there.
 * All of them depend on what the first one depends on, and each besides on its own id alone.
 */
export class TicketRow {
  readonly #basis: RowBasis
  readonly #records: Map<LeaseId, VersionedEntry>
  #last: VersionedEntry
  #now: Now
  #ticketCount: number

  /** Null if an attempt does more than to file a ticket, or less. */
  static behind(first: Attempt, { views, now, settings }: RowStart): TicketRow | null {
    const [view] = views
    const ticket = filedTicket(first)
    if (view === undefined || view.isDoubtful || ticket === null) return null
    return new TicketRow(ticket, { view, now, settings })
  }

  private constructor(first: VersionedEntry, basis: RowBasis) {
    this.#basis = basis
    this.#records = new Map(basis.view.records).set(first.entry.id, first)
    this.#last = first
    this.#now = basis.now
    this.#ticketCount = basis.view.ticketCount + 1
  }

  /** Null: it does anything else than to go behind the last one of the row. */
  plan<Outcome>(
    decide: Decide<Outcome>,
    readSets: readonly ReadSet[],
  ): AttemptPlan<Outcome> | null {
    const now = microsecondLater(this.#now)
    const { settings } = this.#basis
    const records = this.#records
    const ticketCount = Math.max(this.#ticketCount, records.size)
    const [readSet] = readSets
    if (readSet === undefined || ticketCount >= TICKETS_PER_REALM_MAX) return null
    const view: CachedView = { ...this.#basis.view, readSet, records, prior: null, ticketCount }
    const seen = realmViewOf(view, view.lastFence, settings.for(readSet.resource))
    const decided = decide([seen], now)
    const ahead = ticketAhead(decided.commit, seen.entries.values())
    const places = [placeOf({ ...view, readSet: { ...readSet, depth: 'entry' } })]
    const attempt = attemptOf(decided, { places, views: [view], now })
    const ticket = filedTicket(attempt)
    if (ahead?.id !== this.#last.entry.id || ticket === null) return null
    records.set(ticket.entry.id, ticket)
    this.#last = ticket
    this.#now = now
    this.#ticketCount += 1
    return { outcome: decided.outcome, attempt }
  }
}

/** No two decisions about one place are made at the same time; all of a row are committed by the same. */
function microsecondLater({ tick, toleranceUs, ...rest }: Now): Now {
  return { ...rest, tick: { ...tick, us: tick.us + 1 }, toleranceUs: toleranceUs - 1 }
}

/** What the first of a row was decided on. */
interface RowStart {
  readonly views: readonly CachedView[]
  readonly now: Now
  readonly settings: ResolvedSettings
}

interface RowBasis extends Omit<RowStart, 'views'> {
  readonly view: CachedView
}

/** The new ticket that is all that an attempt writes. */
function filedTicket({ writes }: Attempt): VersionedEntry | null {
  const [write, ...others] = writes
  if (write === undefined || write.before !== null || others.length > 0) return null
  return write.after?.entry.kind === 'ticket' ? write.after : null
}

/** Several attempts as one, of which all or none is carried out. */
export function joinedAttempt(first: Attempt, others: readonly Attempt[]): Attempt {
  if (others.length === 0) return first
  const all = [first, ...others]
  return {
    ...first,
    places: all.flatMap(({ places }) => places),
    fromUs: Math.max(...all.map(({ fromUs }) => fromUs)),
    beforeUs: Math.min(...all.map(({ beforeUs }) => beforeUs)),
    writes: all.flatMap(({ writes }) => writes),
    events: all.flatMap(({ events }) => events),
  }
}

/**
 * Whether a decision only prolongs its own entry, on what was confirmed a short while ago. A ticket of several resources is
 * woken and not offered what is free, so that its own entry does not tell when its turn has come: it must look.
 */
function isKeepAlive({ changes, events }: Commit, view: CachedView, now: Now): boolean {
  const { readSet, confirmedUs } = view
  if (readSet.depth !== 'claims' || isTree(readSet.resource)) return false
  const [change, ...others] = changes
  if (change === undefined || others.length + events.length > 0 || !change.renewal) return false
  if (change.after?.kind === 'ticket' && change.after.group !== null) return false
  return change.id === readSet.leaseId && now.tick.us - confirmedUs < FRESH_US
}

/** The claim behind which a ticket goes; null if the decision is another one, or no ticket is known to wait there. */
function claimAhead(commit: Commit, view: CachedView, mayGoBehind: boolean): SeenClaim | null {
  const { readSet, ticketCount, records } = view
  if (!mayGoBehind && records.size < CROWD_MIN) return null
  if (readSet.depth !== 'claims' || isTree(readSet.resource)) return null
  // While no ticket was filed after the youngest, there are no more tickets than were seen there.
  if (view.isDoubtful || Math.max(ticketCount, records.size) >= TICKETS_PER_REALM_MAX) return null
  const ahead = ticketAhead(
    commit,
    [...records.values()].map(({ entry }) => entry),
  )
  const seen = ahead === null ? undefined : records.get(ahead.id)
  return seen === undefined ? null : { id: seen.entry.id, claim: seen.claim }
}

/**
 * Where the numbers of a new entry begin: elsewhere than those of an entry that had the same id before and of which
 * nothing is left, so that a process that still remembers that one misses.
 */
function firstNumber({ tick }: Now): number {
  return 1 + (Math.floor(tick.us / 1_000) % 2 ** 30)
}

function writesOf(
  { changes }: Commit,
  views: readonly CachedView[],
  first: number,
): readonly EntryWrite[] {
  return changes.map((change) => {
    const before = change.before === undefined ? null : recordOf(change.id, views)
    return { id: change.id, before, after: afterOf(change, before, first) }
  })
}

function recordOf(id: LeaseId, views: readonly CachedView[]): VersionedEntry {
  for (const { records } of views) {
    const known = records.get(id)
    if (known !== undefined) return known
  }
  throw new Error(`a decision changed entry ${id}, which it had not seen`)
}

function afterOf(
  { after, renewal }: EntryChange,
  before: VersionedEntry | null,
  first: number,
): VersionedEntry | null {
  if (after === null) return null
  if (before === null) return { entry: after, version: first, claim: first }
  const { version, claim } = before
  return { entry: after, version: version + 1, claim: renewal ? claim : claim + 1 }
}
