/**
 * Attempts as the functions of the server take them, and their replies. An attempt is one JSON object whose rows have
 * the names of the columns; what it does not say is left out, so that the ordinary one is short.
 */
import { createHash } from 'node:crypto'
import type { Wake } from '../../core/realm.ts'
import { ancestorsOf, isTree } from '../../core/resource.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { Attempt, Kept, Place, PlaceView, Reply, SeenClaim } from '../speculation/backend.ts'
import { eventRow, typeOf, wordOf } from './postgres-events.ts'
import { keptOf, rowOf, type LeaseRow } from './postgres-rows.ts'

/** Who is asked, in which words. */
export interface Dialect {
  readonly namespace: number
  readonly domain: string
}

/** The channel on which a session hears; a name of any length and any letters becomes 39 plain ones. */
export function channelOf(session: string, namespace: number): string {
  const name = createHash('md5').update(`${namespace}/${session}`).digest('hex')
  return `tenure_${name}`
}

/** What a call must lock; the server takes them in the one order that all calls use. */
export interface Locks {
  readonly realms: readonly string[]
  readonly ids: readonly string[]
}

export function locksOf(attempts: readonly Attempt[]): Locks {
  const realms = new Set<string>()
  const ids = new Set<string>()
  for (const { places, writes, epochs } of attempts) {
    // An epoch is kept with its realm, which must not be asked for when the entry is locked already.
    for (const { resource } of epochs) realms.add(resource)
    for (const { realm, claims, footprint, own, isSignOfLife } of places) {
      const isOfRealm = claims !== null && isSignOfLife !== true
      // A look that writes nothing waits for nobody.
      if (isOfRealm && (writes.length > 0 || places.length > 1)) realms.add(realm)
      if (epochs.length > 0) realms.add(realm)
      if (!isOfRealm && own > 0 && writes.length > 0) ids.add(footprint.leaseId)
    }
    for (const { id, before } of writes) if (before !== null) ids.add(id)
  }
  return { realms: [...realms], ids: [...ids] }
}

export function attemptJson(attempt: Attempt, dialect: Dialect): object {
  const { writes, events, requests, epochs, wakes, fences } = attempt
  const { domain, namespace } = dialect
  const json: Record<string, unknown> = {
    places: attempt.places.map(placeJson),
    from: attempt.fromUs,
    before: Math.min(attempt.beforeUs, Number.MAX_SAFE_INTEGER),
    wall: attempt.wallMs,
  }
  if (fences !== null) Object.assign(json, fences)
  const inserted: LeaseRow[] = []
  const updated: LeaseRow[] = []
  const removed: string[] = []
  const versions: Record<string, number> = {}
  for (const { id, before, after } of writes) {
    versions[id] = before?.version ?? 0
    if (after === null) {
      if (before !== null) removed.push(id)
    } else if (before === null) inserted.push(rowOf(after, domain))
    else updated.push(rowOf(after, domain))
  }
  if (needsVersions(attempt)) json['versions'] = versions
  if (inserted.length > 0) json['insert'] = inserted
  if (updated.length > 0) json['update'] = updated
  if (removed.length > 0) json['remove'] = removed
  if (events.length > 0) json['events'] = events.map((event) => eventRow(event, domain))
  if (requests.length > 0) {
    json['marks'] = requests.map(({ requestId, leaseId, type, keepUntilMs }) => {
      return { id: requestId, lease_id: leaseId, type: wordOf(type), keep_until: keepUntilMs }
    })
  }
  if (epochs.length > 0) {
    json['epochs'] = epochs.map(({ resource, epoch }) => ({ realm: resource, epoch }))
  }
  if (wakes.length > 0) json['wakes'] = wakes.map((wake) => wakeJson(wake, namespace))
  if (writes.length + events.length + requests.length + epochs.length === 0) json['idle'] = true
  return json
}

/** The version of a place's own entry is compared anyway. */
function needsVersions({ places, writes }: Attempt): boolean {
  return writes.some(({ id, before }) => {
    return !places.some(({ footprint, own }) => {
      return footprint.leaseId === id && own === (before?.version ?? 0)
    })
  })
}

function placeJson(place: Place): object {
  const { footprint, realm, own, claims, hasPrior, epoch } = place
  const { resource, leaseId, requestId, extent } = footprint
  const json: Record<string, unknown> = { realm, resource, id: leaseId, own }
  if (claims !== null) {
    const seen = seenInOrder(claims)
    json['claims'] = seen.map(({ id, claim }) => `${id}:${claim}`).join()
    if (tellsVersions(claims)) json['versions'] = seen.map((one) => one.kept?.version).join()
    if (place.isSignOfLife === true) Object.assign(json, aliveJson(place, seen))
    if (place.behind !== undefined) json['behind'] = `${place.behind.id}:${place.behind.claim}`
  }
  if (isTree(resource)) {
    json['above'] = ancestorsOf(resource)
    if (extent === 'subtree')
      json['stem'] = resource.endsWith('/') ? resource.slice(0, -1) : resource
  }
  if (requestId !== null) json['request'] = requestId
  if (hasPrior) json['prior'] = true
  if (epoch !== 0) json['epoch'] = epoch
  return json
}

/** Whose sign of life it is, and what else of the same holder was seen. */
function aliveJson({ footprint }: Place, seen: readonly SeenClaim[]): object {
  const holder = seen.find(({ id }) => id === footprint.leaseId)?.kept?.entry.holder
  const mine = seen.filter(({ kept }) => kept?.entry.holder === holder)
  return { alive: holder, mine: mine.map(({ id, claim }) => `${id}:${claim}`).join() }
}

/** In the order in which the server compares; mostly they are, because ids grow. */
export function seenInOrder(claims: readonly SeenClaim[]): readonly SeenClaim[] {
  let last = ''
  for (const { id } of claims) {
    if (id < last) return claims.toSorted((a, b) => (a.id < b.id ? -1 : 1))
    last = id
  }
  return claims
}

/** Of few entries it is cheaper to hear all again. */
const VERSIONS_MIN = 8

export function tellsVersions(claims: readonly SeenClaim[]): boolean {
  return claims.length >= VERSIONS_MIN && claims.every(({ kept }) => kept !== undefined)
}

function wakeJson({ session, leaseId }: Wake, namespace: number): readonly string[] {
  return [channelOf(session, namespace), leaseId]
}

interface ViewJson {
  readonly entries: readonly LeaseRow[]
  /** Of what the place has told the versions of. */
  readonly gone: readonly string[] | null
  readonly fence: number | null
  readonly wall: number
  readonly tickets: number
  readonly prior_id: string | null
  readonly prior_type: string | null
  readonly epoch: number
}

/** What the server said about several attempts, to be taken one after the other. */
export class Answers {
  readonly #moved: readonly number[]
  readonly #told: readonly unknown[]
  #at = 0
  #missed = 0

  constructor(moved: string | null | undefined, told: string | null | undefined) {
    this.#moved = moved == null ? [] : moved.slice(1, -1).split(',').map(Number)
    this.#told = told == null ? [] : (JSON.parse(told) as unknown[])
  }

  next(attempt: Attempt, domain: string): Reply {
    const answer = this.#moved[this.#at++]
    if (answer === undefined) throw new Error('the server left an attempt without an answer')
    if (answer >= 0) return { kind: 'committed', fencesMovedBy: answer }
    const told = this.#told[this.#missed++]
    if (answer === -2) return { kind: 'clock_behind', behindMs: told as number }
    const views = told as readonly ViewJson[]
    return {
      kind: 'missed',
      views: views.map((view, index) => viewFrom(view, attempt.places[index], domain)),
    }
  }
}

function viewFrom(view: ViewJson, place: Place | undefined, domain: string): PlaceView {
  const { prior_id: leaseId, prior_type: word } = view
  return {
    entries: entriesFrom(view, place?.claims ?? [], domain),
    lastFence: view.fence ?? 0,
    lastWallMs: view.wall,
    ticketCount: view.tickets,
    prior: leaseId === null || word === null ? null : { leaseId, type: typeOf(word) },
    epoch: view.epoch,
  }
}

/** What the server told, and what it left out because it has not changed. */
function entriesFrom(
  { entries, gone }: ViewJson,
  claims: readonly SeenClaim[],
  domain: string,
): readonly Kept[] {
  const told = entries.map((row) => keptOf(row, domain))
  if (!tellsVersions(claims)) return told
  const other = new Set([...told.map(({ entry }) => entry.id), ...(gone ?? [])])
  const same = claims.flatMap(({ id, kept }) => (kept === undefined || other.has(id) ? [] : [kept]))
  return [...same, ...told]
}

interface SettingJson {
  readonly key: SettingRow['key']
  readonly value: string
  readonly scope: SettingRow['scope']
  readonly resource_id: string
}

export function settingOf({ key, value, scope, resource_id }: SettingJson): SettingRow {
  return { key, value, scope, resourceId: resource_id === '' ? null : resource_id }
}
