/**
 * Attempts as `tenure.attempt_v13` takes them, and its answers. All attempts of a call are one list per kind of row; each
 * row says the number of its attempt. Rows have the names of the columns. Bodies are sent as the text that is kept: as
 * a part of the JSON around them the server would take them apart and put them together again.
 */
import { createHash } from 'node:crypto'
import { recordedEvents } from '../../core/commit.ts'
import { isLive } from '../../core/lease.ts'
import { ancestorsOf, isTree } from '../../core/resource.ts'
import type { Statement } from '../../drivers/postgres-driver.ts'
import type {
  Attempt,
  EntryWrite,
  Place,
  PlaceView,
  Reply,
  SeenClaim,
} from '../optimistic/backend.ts'
import { withUntold } from '../optimistic/attempt-plan.ts'
import { InFlight } from '../optimistic/request-queue.ts'
import {
  endedKept,
  eventRow,
  keptOf,
  liveRow,
  wordOf,
  type EventRow,
  type LiveRow,
} from './postgres-columns.ts'
import { CALL_ATTEMPT } from './postgres-functions.ts'

/** The channel on which a session hears; a name of any length and any letters becomes 39 plain ones. */
export function channelOf(session: string, namespace: string): string {
  const name = createHash('md5').update(`${namespace}/${session}`).digest('hex')
  return `tenure_${name}`
}

/** What all attempts of a call have in common. */
export interface CallContext {
  /** The number and the name of the namespace. */
  readonly number: number
  readonly namespace: string
  /** Of the settings. */
  readonly revision: number
  /** A clock that stands in for the server's; null: the server's. */
  readonly nowUs: number | null
}

/**
 * Attempts that may share a call, in their order: of two that depend on each other the later one goes into the next call.
 * A store sends none that do; a test that makes attempts by hand may.
 */
export function independentGroups(attempts: readonly Attempt[]): readonly (readonly Attempt[])[] {
  let last = new IndependentAttempts()
  const groups = [last.attempts]
  for (const attempt of attempts) {
    if (last.take(attempt)) continue
    last = new IndependentAttempts()
    last.take(attempt)
    groups.push(last.attempts)
  }
  return groups
}

class IndependentAttempts {
  readonly attempts: Attempt[] = []
  readonly #inFlight = new InFlight()
  /** Ids of entries that are written, and of requests. */
  readonly #ids = new Set<string>()
  /** The wall time of the last attempt at each realm. */
  readonly #wallsMs = new Map<string, number>()
  #isOfSeveralRealms = false

  /** False for one that depends on another. */
  take(attempt: Attempt): boolean {
    const realms = attempt.places.map(({ realm }) => realm)
    const isOfSeveralRealms = this.#isOfSeveralRealms || new Set(realms).size > 1
    if (isOfSeveralRealms && realms.some((realm) => this.#wallsMs.has(realm))) return false
    if (realms.some((realm) => (this.#wallsMs.get(realm) ?? 0) > attempt.wallMs)) return false
    const [ids, reach] = [idsOf(attempt), reachOf(attempt)]
    if (ids.some((id) => this.#ids.has(id)) || this.#inFlight.concerns(reach)) return false
    this.attempts.push(attempt)
    this.#isOfSeveralRealms = isOfSeveralRealms
    for (const realm of realms) this.#wallsMs.set(realm, attempt.wallMs)
    for (const id of ids) this.#ids.add(id)
    this.#inFlight.begin(reach)
    return true
  }
}

function idsOf({ places, writes }: Attempt): readonly string[] {
  const requests = places.flatMap(({ readSet }) => readSet.requestId ?? [])
  return [...new Set([...requests, ...writes.map(({ id }) => id)])]
}

/** An attempt that does more than renew conflicts with every attempt that depends on claims there. */
function reachOf({ places, writes, epochs }: Attempt): readonly Place['readSet'][] {
  const isQuiet =
    epochs.length === 0 &&
    writes.every(({ before, after }) => {
      return (
        before !== null && after !== null && isLive(after.entry) && before.claim === after.claim
      )
    })
  const readSets = places.map(({ readSet }) => readSet)
  return isQuiet ? readSets : readSets.map((one) => ({ ...one, depth: 'claims' }))
}

/** One list of rows for each, in the order of the parameters of the function. */
const LISTS = [
  ...(['places', 'versions', 'inserted', 'updated', 'removed', 'forgotten'] as const),
  ...(['events', 'marks', 'epochs', 'wakes'] as const),
]
type ListName = (typeof LISTS)[number]

/** What is locked before anything is compared. */
interface Locks {
  readonly realms: Set<string>
  readonly ids: Set<string>
}

function noteLocks(attempt: Attempt, { realms, ids }: Locks): void {
  const { places, writes, epochs } = attempt
  // Lock the realm of an epoch first, because realms are locked before entries.
  for (const { resource } of epochs) realms.add(resource)
  for (const place of places) {
    const { realm, readSet, own } = place
    const isOfRealm = dependsOnRealm(place)
    // An attempt at one place that writes nothing takes no realm lock.
    if (isOfRealm && (writes.length > 0 || places.length > 1)) realms.add(realm)
    if (leavesTrace(attempt)) realms.add(realm)
    if (!isOfRealm && own > 0 && writes.length > 0) ids.add(readSet.leaseId)
  }
  // Entries to be removed are not locked: the server deletes them only at the version that was compared.
  for (const { id, before, after } of writes) {
    if (before !== null && after !== null && isLive(after.entry)) ids.add(id)
  }
}

type Note = (name: ListName, row: object) => void

function noteWrite({ id, before, after }: EntryWrite, attempt: Attempt, note: Note): void {
  const wasLive = before !== null && isLive(before.entry)
  const version = before?.version ?? 0
  const isOwn = attempt.places.some(({ readSet, own }) => {
    return readSet.leaseId === id && own === version
  })
  if (!isOwn) note('versions', { id, version })
  if (after !== null && isLive(after.entry)) {
    const row = liveRow(after)
    const is_new_fence = isNewFence(row.fence, attempt)
    const earliest_due_us = row.live_until_us - after.entry.ttlMs * EARLY_US_PER_TTL_MS
    const body = JSON.stringify(row.body)
    note(wasLive ? 'updated' : 'inserted', { ...row, is_new_fence, earliest_due_us, body })
  } else if (wasLive) note('removed', { id, version })
  if (after === null && before !== null) note('forgotten', { id })
}

/** What an event has ended leaves the live set, and stays with the event. */
function noteEvents(attempt: Attempt, note: Note): void {
  const { events, writes } = attempt
  if (events.length === 0) return
  const changes = writes.map(({ id, after }) => ({ id, after: after?.entry ?? null }))
  for (const recorded of recordedEvents({ events, changes })) {
    const write = writes.find(({ id }) => id === recorded.event.leaseId)
    const row = eventRow(recorded, write?.after?.version ?? null)
    const is_new_fence = isNewFence(row.fence, attempt)
    note('events', { ...row, is_new_fence, data: JSON.stringify(row.data) })
  }
}

/** A sweep may look at a live entry half a TTL too early: then a renewal need not change the index of what is due. */
const EARLY_US_PER_TTL_MS = 500

/** Every fence from the first one on is new with the attempt, and moves up with the others. */
function isNewFence(fence: number, { fences }: Attempt): boolean {
  return fences !== null && fence >= fences.first
}

/** Whether the realm is locked: a keep-alive and what depends on its own entry alone lock that entry instead. */
function dependsOnRealm({ claims, isKeepAlive }: Place): boolean {
  return claims !== null && isKeepAlive !== true
}

/**
 * Whether its wall time is noted in the realm, whatever it depends on. That of a renewal is known from its entry, and others
 * about their own entry alone may stand out of order; an offer that is taken up may not.
 */
function leavesTrace({ epochs, events }: Attempt): boolean {
  return epochs.length > 0 || events.some(({ type }) => type === 'lease.issued')
}

/** What the server compares for a place. `lowest`: the first fence that any attempt of the call gives in a realm. */
function placeRow(place: Place, attempt: Attempt, lowest: ReadonlyMap<string, number>): object {
  const { realm, own, hasPrior, epoch, claims } = place
  const { resource, leaseId, requestId, extent } = place.readSet
  const { fences, writes, events, epochs } = attempt
  const comparesWallTime = dependsOnRealm(place) || events.length + epochs.length > 0
  const row: Record<string, unknown> = {
    realm,
    resource,
    id: leaseId,
    own,
    ...dependency(place),
    has_prior: hasPrior,
    epoch,
    from_us: attempt.fromUs,
    before_us: Math.min(attempt.beforeUs, Number.MAX_SAFE_INTEGER),
    // An attempt without events on its own entry alone is ordered by that entry's version, so its wall time is not compared.
    wall_ms: comparesWallTime ? attempt.wallMs : Number.MAX_SAFE_INTEGER,
    updates_realm: leavesTrace(attempt) || (writes.length > 0 && dependsOnRealm(place)),
  }
  if (requestId !== null) row['request'] = requestId
  if (fences !== null)
    Object.assign(row, { lowest_fence: lowest.get(realm), last_fence: fences.last })
  if (isTree(resource) && claims !== null) {
    row['above'] = ancestorsOf(resource)
    if (extent === 'subtree') row['stem'] = resource.replace(/\/$/, '')
  }
  return row
}

/** Which claims the server compares, and in which way; see `CLAIMS_DIFFER`. */
function dependency(place: Place): object {
  const { claims, behind, isKeepAlive, readSet } = place
  if (claims === null) return { depends_on: 'entry' }
  if (behind !== undefined) {
    return { depends_on: 'behind', claims: claimText([behind]), behind: behind.id }
  }
  // In the order in which the server compares.
  const seen = claims.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  if (isKeepAlive === true) {
    const holder = seen.find(({ id }) => id === readSet.leaseId)?.record?.entry.holder
    const own = seen.filter(({ record }) => record?.entry.holder === holder)
    return { depends_on: 'keep_alive', holder, claims: claimText(own) }
  }
  const depends_on = isTree(readSet.resource) ? 'tree' : 'flat'
  const told = { depends_on, claims: claimText(seen) }
  if (!tellsVersions(claims)) return told
  const versions = seen.map(({ record }) => record?.version)
  return { ...told, seen: seen.map(({ id }) => id), versions }
}

function claimText(claims: readonly SeenClaim[]): string {
  return claims.map(({ id, claim }) => `${id}:${claim}`).join()
}

/** Of fewer entries it is cheaper to be sent all again. */
const VERSIONS_MIN = 8

function tellsVersions(claims: readonly SeenClaim[]): boolean {
  return claims.length >= VERSIONS_MIN && claims.every(({ record }) => record !== undefined)
}

/** The attempts must be independent of each other. */
export function attemptStatement(
  attempts: readonly Attempt[],
  { number, namespace, revision, nowUs }: CallContext,
): Statement {
  const locks: Locks = { realms: new Set(), ids: new Set() }
  const lists = new Map<ListName, object[]>()
  const lowest = lowestFences(attempts)
  for (const [index, attempt] of attempts.entries()) {
    const note: Note = (name, row) => {
      const list = lists.get(name) ?? []
      // An attempt is known by its number, from 1 on.
      list.push({ attempt: index + 1, ...row })
      lists.set(name, list)
    }
    noteLocks(attempt, locks)
    for (const place of attempt.places) note('places', placeRow(place, attempt, lowest))
    for (const write of attempt.writes) noteWrite(write, attempt, note)
    noteEvents(attempt, note)
    for (const { requestId: id, leaseId, type, keepUntilMs } of attempt.requests) {
      note('marks', { id, lease_id: leaseId, type: wordOf(type), keep_until: keepUntilMs })
    }
    for (const { resource, epoch } of attempt.epochs) note('epochs', { realm: resource, epoch })
    for (const { session, leaseId } of attempt.wakes) {
      note('wakes', { channel: channelOf(session, namespace), payload: leaseId })
    }
  }
  const values = [
    ...[number, revision, nowUs],
    ...[locks.realms, locks.ids].map((names) => (names.size === 0 ? null : arrayText([...names]))),
    ...LISTS.map((name) => (lists.has(name) ? JSON.stringify(lists.get(name)) : null)),
  ]
  const writes = attempts.some((attempt) => attempt.writes.length > 0)
  return { text: CALL_ATTEMPT, values, name: 'tenure_attempt_v13', writes }
}

/** The first new fence of all attempts at a realm. */
function lowestFences(attempts: readonly Attempt[]): ReadonlyMap<string, number> {
  const lowest = new Map<string, number>()
  for (const { places, fences } of attempts) {
    if (fences === null) continue
    for (const { realm } of places) {
      lowest.set(realm, Math.min(lowest.get(realm) ?? Infinity, fences.first))
    }
  }
  return lowest
}

/** An array as PostgreSQL reads it, every element quoted. */
export function arrayText(values: readonly string[]): string {
  const quoted = values.map((value) => {
    return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  })
  return `{${quoted.join(',')}}`
}

interface ViewJson extends Omit<PlaceView, 'entries'> {
  readonly live: readonly LiveRow[]
  readonly ended: readonly EventRow[]
  /** Of the entries whose versions the place has sent. */
  readonly gone: readonly string[] | null
}

/** `answers` and `told` are columns of the server's answer. */
export function repliesOf(
  attempts: readonly Attempt[],
  { answers, told }: { readonly answers: string | null; readonly told: string | null },
): readonly Reply[] {
  const numbers = (answers ?? '{}').slice(1, -1).split(',').map(Number)
  const missed = told === null ? [] : (JSON.parse(told) as (number | readonly ViewJson[])[])
  return attempts.map((attempt, index): Reply => {
    const answer = numbers[index]
    if (answer === undefined) throw new Error('the server left an attempt without an answer')
    if (answer >= 0) return { kind: 'committed', fencesMovedBy: answer }
    const told = missed.shift() ?? []
    if (typeof told === 'number') return { kind: 'clock_behind', behindMs: told }
    const views = told.map((view, at) => viewFrom(view, attempt.places[at]))
    return { kind: 'missed', views }
  })
}

/** Entries before the claim that a ticket goes `behind` were not read; the attempt's own copy of them is used. */
function viewFrom({ live, ended, gone, ...view }: ViewJson, place: Place | undefined): PlaceView {
  const told = [...live.map(keptOf), ...ended.map(endedKept)]
  return { ...view, entries: withUntold(told, view.isPartial === true ? [] : gone, place) }
}
