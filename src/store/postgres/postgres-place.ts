/** One attempt at one flat resource, as values for `tenure.attempt_place`. */
import { isTree } from '../../core/resource.ts'
import type { Attempt, Place, SeenClaim } from '../speculation/backend.ts'
import { channelOf, seenInOrder, tellsVersions, type Dialect } from './postgres-attempts.ts'
import { eventRow } from './postgres-events.ts'
import { ENTRY_FIELDS, EVENT_FIELDS } from './postgres-place-functions.ts'
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
  if (place.isSignOfLife === true || place.behind !== undefined) return null
  if (isTree(place.footprint.resource)) return null
  if (writes.some(({ after }) => after === null)) return null
  const { claims } = place
  return claims === null ? null : { ...place, claims }
}

/** In one pass: there may be a hundred, and they are sent with every step. */
function claimValues(claims: readonly SeenClaim[]): readonly (string | null)[] {
  if (claims.length === 0) return [null, null, null]
  const isTold = tellsVersions(claims)
  let [ids, numbers, versions] = ['', '', '']
  for (const { id, claim, kept } of seenInOrder(claims)) {
    ids += ids === '' ? id : `,${id}`
    numbers += numbers === '' ? String(claim) : `,${claim}`
    if (isTold) versions += versions === '' ? String(kept?.version) : `,${kept?.version}`
  }
  return [`{${ids}}`, `{${numbers}}`, isTold ? `{${versions}}` : null]
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
    if (was === null) inserted.push(rowText(rowOf(after, domain), ENTRY_FIELDS))
    else {
      changed.push(rowText(rowOf(after, domain), ENTRY_FIELDS))
      before.push({ id, version: was.version })
    }
  }
  before.sort((a, b) => (a.id < b.id ? -1 : 1))
  const told = events.map((event) => rowText(eventRow(event, domain), EVENT_FIELDS))
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

/** The fields of a row in order; JSON as text. */
function rowText(row: object, fields: readonly string[]): string {
  const values: RecordValue[] = []
  for (const name of fields) {
    const field = (row as Readonly<Record<string, unknown>>)[name]
    const isJson = typeof field === 'object' && field !== null
    values.push(isJson ? JSON.stringify(field) : (field as RecordValue))
  }
  return recordText(values)
}
