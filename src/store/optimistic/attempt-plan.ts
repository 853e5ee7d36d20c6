/**
 * Decides on cached views, and says what a server must find and write for the decision to stand: the preconditions of an
 * attempt. A view is what the process remembers of a read set (`ViewCache`); one that is wrong costs a round trip and
 * nothing else. Three decisions depend on less than all that they have seen:
 *
 *  - A keep-alive prolongs its own ticket and changes nothing else.
 *  - A claim that finds no live entry of its own says so, and changes nothing.
 *  - A new ticket in a long queue, or one that has missed again and again, goes behind the youngest that waits (the core
 *    says when). A process that hands a lease on within itself changes the queue so often that no other process would get
 *    in, and thousands that compare all who wait before them cost the square of that.
 */
import type { Commit } from '../../core/commit.ts'
import { BLOCKERS_TOLD_MAX, compareTickets } from '../../core/conflict.ts'
import { isLive, type Entry, type LeaseId, type Ticket } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import type { PriorEffect, ReadSet, RealmView } from '../../core/realm.ts'
import { isTree, overlap, realmOf, type Resource } from '../../core/resource.ts'
import { resolveSettings, type SettingRow } from '../../core/settings.ts'
import { ticketAhead } from '../../core/ticket-ahead.ts'
import type { Now } from '../../core/time.ts'
import { TransientMap } from '../../runtime/transient-map.ts'
import type { Decide, Ruling } from '../../store-port/store.ts'
import { LiveIndex } from '../live-index.ts'
import type { Attempt, EntryWrite, Place, PlaceView, SeenClaim, VersionedEntry } from './backend.ts'

export interface AttemptPlan<Outcome> {
  readonly outcome: Outcome
  readonly attempt: Attempt
}

export interface PlanBasis {
  readonly views: readonly CachedView[]
  readonly now: Now
  readonly settings: readonly SettingRow[]
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
    return realmViewOf(view, lastFence, settings)
  })
  const decided = decide(seen, now)
  const { outcome, commit } = decided
  const only = views.length === 1 ? views[0] : undefined
  const ahead = only === undefined ? null : claimAhead(commit, only, mayGoBehind)
  const behind = ahead?.id === missedBehind ? null : ahead
  const keepsAlive = only !== undefined && isKeepAlive(commit, only, now)
  const isGone = only !== undefined && isAboutNothing(commit, only)
  const places = views.map((view) => {
    if (isGone) return ownPlaceOf(view)
    const place = placeOf(view)
    if (behind !== null) return { ...place, behind }
    return keepsAlive ? { ...place, isKeepAlive: true } : place
  })
  return { outcome, attempt: attemptOf(decided, { places, views, now }) }
}

function attemptOf(
  { commit, validUntilUs }: Ruling<unknown>,
  { places, views, now }: Pick<PlanBasis, 'views' | 'now'> & Pick<Attempt, 'places'>,
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

/** Null: it does anything else than to go behind the last one of the row. */
type PlanNext = (
  decide: Decide<unknown>,
  readSets: readonly ReadSet[],
) => AttemptPlan<unknown> | null

/**
 * Plans tickets that are filed one behind the other in one attempt: each is decided on what those before it leave there.
 * All of them depend on what the first one depends on, and each besides on its own id alone. Null if the first attempt
 * does more than to file a ticket, or less.
 *
 * The first was decided on all that is there. It changed nothing else, so that nothing there has run out or is to be
 * offered, and for the others all but the first tickets is left out of the view. Behind 5,000 a ticket takes 0.1 ms then
 * and not 1; `test/store/ticket-row.test.ts` compares the two.
 */
export function ticketRow(
  first: Attempt,
  { views, now: firstNow, settings }: Pick<PlanBasis, 'views' | 'now' | 'settings'>,
  cache: ViewCache,
): PlanNext | null {
  const [firstView] = views
  let last = filedTicket(first)
  if (firstView === undefined || firstView.isDoubtful || last === null) return null
  const records = new Map(firstView.records).set(last.entry.id, last)
  const { entries, leftOut } = withoutMiddle(firstView.records.values())
  entries.set(last.entry.id, last.entry)
  let now = firstNow
  let filed = firstView.ticketCount + 1
  return (decide, readSets) => {
    const next = microsecondLater(now)
    const ticketCount = Math.max(filed, records.size)
    const [readSet] = readSets
    if (readSet === undefined || ticketCount >= TICKETS_PER_REALM_MAX) return null
    if (readSet.isWhole === true || records.has(readSet.leaseId)) return null
    const failed = cache.failedTicket(readSet.leaseId)
    if (failed !== undefined) {
      records.set(failed.entry.id, failed)
      entries.set(failed.entry.id, failed.entry)
    }
    const view: CachedView = { ...firstView, readSet, records, prior: null, ticketCount }
    const { lastFence, epoch } = firstView
    const facts = { lastFence, epoch, ticketCount, prior: null, leftOut }
    const seen = { entries, ...facts, settings: resolveSettings(settings, readSet.resource) }
    const decided = decide([seen], next)
    const ahead = ticketAhead(decided.commit, seen.entries.values())
    const places = [ownPlaceOf(view)]
    const attempt = attemptOf(decided, { places, views: [view], now: next })
    const ticket = filedTicket(attempt)
    if (ahead?.id !== last?.entry.id || ticket?.entry.kind !== 'ticket') return null
    // One with a priority may come before some of those that were left out.
    if (ticket.entry.priority > 0) return null
    records.set(ticket.entry.id, ticket)
    entries.set(ticket.entry.id, ticket.entry)
    last = ticket
    now = next
    filed += 1
    return { outcome: decided.outcome, attempt }
  }
}

/**
 * All but those tickets, in the order in which they are served, of which no request that is filed now is told: each of them
 * merely waits, and comes before it.
 */
export function withoutMiddle(records: Iterable<VersionedEntry>): {
  readonly entries: Map<LeaseId, Entry>
  readonly leftOut: number
} {
  const entries = new Map<LeaseId, Entry>()
  const tickets: Ticket[] = []
  for (const { entry } of records) {
    const merelyWaits = entry.kind === 'ticket' && entry.state === 'pending' && entry.offer === null
    if (merelyWaits && entry.group === null && entry.priority >= 0) tickets.push(entry)
    else entries.set(entry.id, entry)
  }
  tickets.sort(compareTickets)
  for (const ticket of tickets.slice(0, BLOCKERS_TOLD_MAX)) entries.set(ticket.id, ticket)
  return { entries, leftOut: Math.max(0, tickets.length - BLOCKERS_TOLD_MAX) }
}

/** No two decisions about one place are made at the same time; all of a row are committed by the same. */
function microsecondLater({ tick, toleranceUs, ...rest }: Now): Now {
  return { ...rest, tick: { ...tick, us: tick.us + 1 }, toleranceUs: toleranceUs - 1 }
}

/** The new ticket that is all that an attempt writes. */
function filedTicket({ writes }: Attempt): VersionedEntry | null {
  const [write, ...others] = writes
  if (write === undefined || others.length > 0) return null
  if (write.before !== null && isLive(write.before.entry)) return null
  return write.after?.entry.kind === 'ticket' ? write.after : null
}

/** One that misses, so that the server says what is there. */
export function lookingAttempt(attempt: Attempt): Attempt {
  return { ...attempt, places: attempt.places.map((place) => ({ ...place, own: NO_VERSION })) }
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

/** Whether a claim or renewal found nothing of its own that is live: then it does not matter what else is there. */
function isAboutNothing({ changes, events }: Commit, view: CachedView): boolean {
  const { readSet, records, prior } = view
  if (readSet.urgency === undefined || prior !== null) return false
  const own = records.get(readSet.leaseId)
  return changes.length + events.length === 0 && (own === undefined || !isLive(own.entry))
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
  return changes.map(({ id, before: seen, after: entry, renewal }) => {
    const before = seen === undefined ? null : recordOf(id, views)
    const version = before === null ? first : before.version + 1
    const claim = before === null ? first : before.claim + Number(!renewal)
    return { id, before, after: entry && { entry, version, claim } }
  })
}

function recordOf(id: LeaseId, views: readonly CachedView[]): VersionedEntry {
  for (const { records } of views) {
    const known = records.get(id)
    if (known !== undefined) return known
  }
  throw new Error(`a decision changed entry ${id}, which it had not seen`)
}

/** Changed in place: they change with every commit. */
interface RealmFacts {
  lastFence: number
  lastWallMs: number
  ticketCount: number
  epoch: number
  /** When the server last confirmed all that is there, by its clock. */
  confirmedUs: number
}

export interface CachedView extends Readonly<RealmFacts> {
  readonly readSet: ReadSet
  readonly records: ReadonlyMap<LeaseId, VersionedEntry>
  readonly prior: PriorEffect | null
  /** It would lead to a refusal that nothing else in it lets the server confirm: the server is to say what is there. */
  readonly isDoubtful: boolean
}

const NO_FACTS: Readonly<RealmFacts> = {
  ...{ lastFence: 0, lastWallMs: 0, ticketCount: 0, epoch: 0, confirmedUs: 0 },
}
/** Most acquires see nothing, and a map is not cheap to make. */
const NO_RECORDS: ReadonlyMap<LeaseId, VersionedEntry> = new Map()
/** What no entry ever has. */
const NO_VERSION = -1
const ENTRIES_MAX = 200_000
const REALMS_MAX = 200_000
/**
 * On its way to the oldest key of a map, V8 passes over all that were deleted before it. So many of them are dropped at
 * once: one at a time took 15 to 100 µs each.
 */
const DROPPED_TOGETHER = 1_000

/**
 * What a process remembers of realms between its calls: the live entries that it wrote or read, the facts of their realms, and
 * tickets of its own that were dropped. Bounded; what was forgotten is taken for absent.
 */
export class ViewCache {
  readonly #records = new TransientMap<LeaseId, VersionedEntry>()
  readonly #live = new LiveIndex()
  readonly #realms = new Map<string, RealmFacts>()

  viewOf(readSet: ReadSet): CachedView {
    const facts = this.#realms.get(realmOf(readSet.resource)) ?? NO_FACTS
    // Others may have left the queue since; that it is full is for the server to say, to a request that would be filed.
    const mayBeFiled = readSet.urgency === undefined
    const isDoubtful = mayBeFiled && facts.ticketCount >= TICKETS_PER_REALM_MAX
    const { lastFence, lastWallMs, ticketCount, epoch, confirmedUs } = facts
    const records = this.#recordsAt(readSet)
    // Not a spread, here and below: it costs as much as all else that is done for a request.
    return {
      readSet,
      records,
      prior: null,
      isDoubtful,
      lastFence,
      lastWallMs,
      ticketCount,
      epoch,
      confirmedUs,
    }
  }

  #recordsAt(readSet: ReadSet): ReadonlyMap<LeaseId, VersionedEntry> {
    const near = readSet.depth === 'claims' ? this.#near(readSet) : []
    const own = this.#records.get(readSet.leaseId)
    if (near.length === 0 && own === undefined) return NO_RECORDS
    const records = new Map<LeaseId, VersionedEntry>()
    for (const record of near) records.set(record.entry.id, record)
    if (own !== undefined) records.set(own.entry.id, own)
    return records
  }

  /** What the server says is at a read set; whatever was remembered there and is not among it is gone. */
  learn({ readSet, records, ...view }: CachedView): void {
    this.#forget(readSet, records)
    for (const [id, record] of records) {
      if (this.#records.get(id) === record) continue
      this.#replace(id, record)
      if (id === readSet.leaseId && isFailedTicket(record)) this.#put(id, record)
    }
    const { lastFence, lastWallMs, ticketCount, epoch, confirmedUs } = view
    const facts = { lastFence, lastWallMs, epoch, confirmedUs }
    Object.assign(this.#factsOf(readSet.resource), facts)
    if (readSet.depth === 'claims') this.#factsOf(readSet.resource).ticketCount = ticketCount
  }

  /** What has been committed. `confirmedUs`: when the server confirmed all that is there; 0 if it was not asked. */
  note({ places, writes, fences, epochs, wallMs }: Attempt, confirmedUs: number): void {
    for (const { id, after } of writes) this.#replace(id, after)
    for (const { readSet } of places) {
      const facts = this.#factsOf(readSet.resource)
      facts.lastFence = Math.max(facts.lastFence, fences?.last ?? 0)
      facts.lastWallMs = Math.max(facts.lastWallMs, wallMs)
      facts.confirmedUs = Math.max(facts.confirmedUs, confirmedUs)
    }
    for (const write of writes) this.#countTicket(write)
    for (const { resource, epoch } of epochs) this.#factsOf(resource).epoch = epoch
  }

  #countTicket({ before, after }: EntryWrite): void {
    const more = Number(isPending(after)) - Number(isPending(before))
    const entry = after?.entry ?? before?.entry
    if (more === 0 || entry === undefined) return
    const facts = this.#factsOf(entry.resource)
    facts.ticketCount = Math.max(0, facts.ticketCount + more)
  }

  forget(readSet: ReadSet): void {
    this.#forget(readSet, NO_RECORDS)
  }

  /** A ticket that was looked for and has failed: its waiter may file it again. */
  failedTicket(id: LeaseId): VersionedEntry | undefined {
    const known = this.#records.get(id)
    return known !== undefined && isFailedTicket(known) ? known : undefined
  }

  #forget(readSet: ReadSet, except: ReadonlyMap<LeaseId, VersionedEntry>): void {
    if (readSet.depth === 'claims') {
      for (const { entry } of this.#near(readSet)) if (!except.has(entry.id)) this.#remove(entry.id)
    }
    if (!except.has(readSet.leaseId)) this.#remove(readSet.leaseId)
  }

  #near(readSet: ReadSet): readonly VersionedEntry[] {
    const near: VersionedEntry[] = []
    for (const id of this.#live.near(readSet)) {
      const record = this.#records.get(id)
      if (record !== undefined && overlap(record.entry, readSet)) near.push(record)
    }
    return near
  }

  #remove(id: LeaseId): void {
    const known = this.#records.get(id)
    if (known === undefined) return
    this.#records.delete(id)
    this.#live.remove(known.entry.resource, id)
  }

  /** Where an entry is does not change while it is live, and it keeps its place among those that may be forgotten. */
  #replace(id: LeaseId, after: VersionedEntry | null): void {
    if (after === null || !isLive(after.entry)) return this.#remove(id)
    const before = this.#records.get(id)
    this.#put(id, after)
    if (before === undefined || !isLive(before.entry)) this.#live.add(after.entry.resource, id)
  }

  #put(id: LeaseId, record: VersionedEntry): void {
    if (this.#records.size >= ENTRIES_MAX && !this.#records.has(id)) {
      for (const oldest of oldestOf(this.#records.keys())) this.#remove(oldest)
    }
    this.#records.set(id, record)
  }

  /** To be changed. Those that have been there longest go first, whether or not they are in use. */
  #factsOf(resource: Resource): RealmFacts {
    const realm = realmOf(resource)
    const known = this.#realms.get(realm)
    if (known !== undefined) return known
    if (this.#realms.size >= REALMS_MAX) {
      for (const oldest of oldestOf(this.#realms.keys())) this.#realms.delete(oldest)
    }
    const facts = { ...NO_FACTS }
    this.#realms.set(realm, facts)
    return facts
  }
}

/** Of the keys of a map, which are in the order in which they came. */
function oldestOf(keys: Iterable<string>): readonly string[] {
  const oldest: string[] = []
  for (const key of keys) {
    if (oldest.length === DROPPED_TOGETHER) break
    oldest.push(key)
  }
  return oldest
}

function isFailedTicket({ entry }: VersionedEntry): boolean {
  return entry.kind === 'ticket' && entry.state === 'failed'
}

export function isPending(record: VersionedEntry | null): boolean {
  return record?.entry.state === 'pending'
}

/**
 * All that is at a place: what a server told of it, and what it left out because the attempt has it as it is. `gone`: what is not
 * there any more of that which the attempt has; null if nothing was left out.
 */
export function withUntold(
  told: readonly VersionedEntry[],
  gone: readonly LeaseId[] | null,
  place: Place | undefined,
): readonly VersionedEntry[] {
  if (gone === null || !place?.claims) return told
  const others = new Set([...gone, ...told.map(({ entry }) => entry.id)])
  const untold = place.claims.flatMap(({ id, record }) => {
    return record === undefined || others.has(id) ? [] : [record]
  })
  return [...untold, ...told]
}

/** What the server has shown of a read set. */
export function shownView(readSet: ReadSet, view: PlaceView, confirmedUs: number): CachedView {
  const { entries, isPartial: _isPartial, ...facts } = view
  const records = new Map(entries.map((record) => [record.entry.id, record]))
  return { readSet, records, ...facts, isDoubtful: false, confirmedUs }
}

/** What was believed of a place, with what the server has shown of the entry of its own id alone. */
export function withOwn(believed: CachedView, own: CachedView): CachedView {
  const records = new Map(believed.records)
  records.delete(believed.readSet.leaseId)
  for (const [id, record] of own.records) records.set(id, record)
  return { ...own, readSet: believed.readSet, records, ticketCount: believed.ticketCount }
}

/** The view as `decide` sees it. `lastFence` is given apart, because a server may have moved it on. */
function realmViewOf(
  { readSet, records, ticketCount, prior, epoch }: CachedView,
  lastFence: number,
  rows: readonly SettingRow[],
): RealmView {
  const entries = new Map<LeaseId, Entry>()
  for (const [id, { entry }] of records) entries.set(id, entry)
  const settings = resolveSettings(rows, readSet.resource)
  return { entries, lastFence, ticketCount, epoch, prior, settings }
}

/** The view as the server is to compare it. */
function placeOf({ readSet, records, prior, epoch, isDoubtful }: CachedView): Place {
  return {
    readSet,
    realm: realmOf(readSet.resource),
    own: isDoubtful ? NO_VERSION : (records.get(readSet.leaseId)?.version ?? 0),
    claims: readSet.depth === 'claims' ? claimsOf(readSet, records.values()) : null,
    hasPrior: prior !== null,
    epoch,
  }
}

/** The same, of which the entry of its own id is all that is to be compared. */
function ownPlaceOf(view: CachedView): Place {
  return placeOf({ ...view, readSet: { ...view.readSet, depth: 'entry' } })
}

/** The entry of a read set's own id may have ended, or be on another resource: then it is no claim there. */
function claimsOf(readSet: ReadSet, records: Iterable<VersionedEntry>): readonly SeenClaim[] {
  const claims: SeenClaim[] = []
  for (const record of records) {
    const { entry, claim } = record
    if (isLive(entry) && overlap(entry, readSet)) claims.push({ id: entry.id, claim, record })
  }
  return claims
}
