/** One attempt at one flat resource, as values for `tenure.attempt_place`. */
import { isTree } from '../../core/resource.ts'
import type { Attempt, Kept, Place, SeenClaim } from '../speculation/backend.ts'
import { channelOf, seenInOrder, tellsVersions, type Dialect } from './postgres-attempts.ts'
import { eventRow } from './postgres-events.ts'
import { ENTRY_COLUMNS, EVENT_COLUMNS } from './postgres-place-functions.ts'
import { arrayText } from './postgres-reader.ts'
import { recordsText, recordText, type RecordValue } from './postgres-records.ts'
import { rowOf } from './postgres-rows.ts'

/** In the order of `PLACE_COLUMNS`. Null for an attempt that is about more than one place, or not about a flat one. */
export function placeValues(attempt: Attempt, dialect: Dialect): readonly (string | null)[] | null {
  const place = placeOf(attempt)
  if (place === null) return null
  const { footprint, realm, own, claims, hasPrior } = place
  const { requestId, leaseId } = footprint
  const { fromUs, beforeUs, wallMs, fences } = attempt
  return [
    ...[realm, leaseId, String(own), ...claimValues(claims), requestId, String(hasPrior)],
    ...[fromUs, Math.min(beforeUs, Number.MAX_SAFE_INTEGER), wallMs].map(String),
    ...[fences?.first, fences?.last].map((fence) => (fence === undefined ? null : String(fence))),
    ...writeValues(attempt, dialect),
  ]
}

interface FlatPlace extends Place {
  readonly claims: readonly SeenClaim[]
}

/** The one place of an attempt that writes entries and events there, and does nothing else. */
function placeOf({ places, writes, requests, epochs }: Attempt): FlatPlace | null {
  const [place] = places
  if (place === undefined || places.length > 1 || writes.length === 0) return null
  if (requests.length + epochs.length > 0 || place.epoch !== 0) return null
  if (place.isSignOfLife === true || isTree(place.footprint.resource)) return null
  if (writes.some(({ after }) => after === null)) return null
  const { claims } = place
  return claims === null ? null : { ...place, claims }
}

function claimValues(claims: readonly SeenClaim[]): readonly (string | null)[] {
  if (claims.length === 0) return [null, null, null]
  const seen = seenInOrder(claims)
  const versions = tellsVersions(claims)
    ? `{${seen.map(({ kept }) => kept?.version).join()}}`
    : null
  const ids = `{${seen.map(({ id }) => id).join()}}`
  return [ids, `{${seen.map(({ claim }) => claim).join()}}`, versions]
}

function writeValues(
  { writes, events, wakes }: Attempt,
  { domain, namespace }: Dialect,
): readonly (string | null)[] {
  const inserted: string[] = []
  const changed: string[] = []
  const before: { readonly id: string; readonly version: number }[] = []
  for (const { id, before: was, after } of writes) {
    if (after === null) continue
    if (was === null) inserted.push(entryText(after, domain))
    else {
      changed.push(entryText(after, domain))
      before.push({ id, version: was.version })
    }
  }
  before.sort((a, b) => (a.id < b.id ? -1 : 1))
  const told = events.map((event) => {
    const row = eventRow(event, domain)
    return recordText(EVENT_COLUMNS.map((column) => fieldOf(row, column)))
  })
  const channels = wakes.map(({ session }) => channelOf(session, namespace))
  return [
    ...[inserted, changed].map((rows) => (rows.length === 0 ? null : recordsText(rows))),
    before.length === 0 ? null : `{${before.map(({ id }) => id).join()}}`,
    before.length === 0 ? null : `{${before.map(({ version }) => version).join()}}`,
    told.length === 0 ? null : recordsText(told),
    wakes.length === 0 ? null : arrayText(channels),
    wakes.length === 0 ? null : arrayText(wakes.map(({ leaseId }) => leaseId)),
  ]
}

function entryText(kept: Kept, domain: string): string {
  const row = rowOf(kept, domain)
  return recordText(ENTRY_COLUMNS.map((column) => fieldOf(row, column)))
}

/** The field that a column is named after; JSON as text. */
function fieldOf(row: object, column: string): RecordValue {
  const field = (row as Readonly<Record<string, unknown>>)[column.slice(0, column.indexOf(' '))]
  return typeof field === 'object' && field !== null
    ? JSON.stringify(field)
    : (field as RecordValue)
}
