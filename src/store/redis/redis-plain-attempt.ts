/**
 * Plain attempts as arguments of the script (redis-plain-script.ts, which says how): one lease of a flat realm is
 * granted, renewed or ended, and nothing else.
 */
import type { LeaseEvent } from '../../core/event.ts'
import { isLive, type Entry } from '../../core/lease.ts'
import { REQUEST_MEMORY_MS_MIN } from '../../core/limits.ts'
import { isTree } from '../../core/resource.ts'
import type { Attempt, EntryWrite, Kept, Place } from '../speculation/backend.ts'
import { typeCode } from './redis-codes.ts'
import { bodyText, headText } from './redis-entry-text.ts'
import { eventText } from './redis-events.ts'
import { two, TWO_MAX, type GroupLists } from './redis-names.ts'
import type { PackedTexts } from './redis-packed.ts'
import { digits, hasSameBody, VERSION_WIDTH } from './redis-rows.ts'
import { DAY_MS } from './redis-script-preamble.ts'
import { claimsText, modeOf, scoreText } from './redis-writes.ts'

/** The parts of an attempt that may be a plain one. */
interface Single {
  readonly place: Place
  readonly event: LeaseEvent
  readonly write: EntryWrite
  readonly fences: Attempt['fences']
}

/** Each attempt adds two fields at most, two names and one request. */
const NUMBER_MAX = TWO_MAX - 2

/** Adds an attempt that has the times of its group. False, and nothing added, if it is not a plain one. */
export function addPlain(attempt: Attempt, lists: GroupLists): boolean {
  const { fields, names, requests } = lists
  if (Math.max(fields.all.length, names.all.length, requests.all.length) > NUMBER_MAX) return false
  const single = singleOf(attempt)
  if (single === null) return false
  const { before, after } = single.write
  if (after === null) return false
  if (before === null) return addGrant(single, after, lists)
  return addChange(single, { before, after }, lists)
}

function singleOf({
  places,
  writes,
  events,
  requests,
  epochs,
  wakes,
  fences,
}: Attempt): Single | null {
  if (places.length !== 1 || writes.length !== 1 || events.length !== 1) return null
  if (requests.length > 0 || epochs.length > 0 || wakes.length > 0) return null
  const place = places[0]
  const write = writes[0]
  const event = events[0]
  if (place === undefined || write === undefined || event === undefined) return null
  const { footprint, own, hasPrior, epoch } = place
  if (hasPrior || epoch !== 0 || isTree(footprint.resource)) return null
  const isOwn = write.id === footprint.leaseId && own === (write.before?.version ?? 0)
  return isOwn && event.leaseId === write.id ? { place, event, write, fences } : null
}

function addGrant({ place, event, fences }: Single, after: Kept, lists: GroupLists): boolean {
  const { entry } = after
  if (!isRecordedLease(after) || !isLive(entry) || fences === null) return false
  if (fences.first !== fences.last || event.requestId !== null || event.before !== null)
    return false
  if (entry.resource !== place.footprint.resource) return false
  const { rest } = lists
  rest.add(placeText('n-', place, entry, lists) + digits(fences.first, 16))
  addClaims(place, rest)
  rest.add(headText(after))
  rest.add(bodyText(entry))
  rest.add(scoreText(after))
  rest.add(eventText(event, entry))
  return true
}

interface Change {
  readonly before: Kept
  readonly after: Kept
}

function addChange(
  { place, event, write, fences }: Single,
  { before, after }: Change,
  lists: GroupLists,
): boolean {
  if (!isRecordedLease(before) || !isRecordedLease(after) || fences !== null) return false
  if (!isLive(before.entry) || !hasSameBody(before.entry, after.entry)) return false
  // The mark is filed under the request of the event, which is that of the place.
  if (event.requestId !== null && event.requestId !== place.footprint.requestId) return false
  const mode = modeOf(write)
  const isEnd = mode === 'u' && !isLive(after.entry)
  if (mode !== 'k' && !isEnd) return false
  const { rest } = lists
  const flags = (isEnd ? 'u' : 'k') + markOf(event, after.entry.ttlMs)
  const numbers = digits(before.version, VERSION_WIDTH) + typeCode(event.type)
  rest.add(placeText(flags, place, after.entry, lists) + numbers)
  addClaims(place, rest)
  rest.add(headText(after))
  if (isEnd) rest.add(scoreText(after))
  rest.add(eventText(event, null))
  return true
}

function isRecordedLease({ entry }: Kept): boolean {
  return entry.kind === 'lease' && entry.recorded
}

function markOf({ requestId }: LeaseEvent, ttlMs: number): '-' | '0' | '1' {
  if (requestId === null) return '-'
  return Math.max(REQUEST_MEMORY_MS_MIN, ttlMs) > DAY_MS ? '1' : '0'
}

function placeText(flags: string, place: Place, entry: Entry, lists: GroupLists): string {
  const { leaseId, requestId } = place.footprint
  const { fields, names, requests } = lists
  return (
    `p${flags}${depthOf(place)}` +
    two(fields.numberOfId(leaseId)) +
    two(fields.numberOf(place.realm)) +
    two(requestId === null ? 0 : requests.numberOfId(requestId)) +
    two(names.numberOf(entry.holder)) +
    two(names.numberOf(entry.session))
  )
}

/** `o` where a list would name nothing but the entry itself. */
function depthOf({ claims, footprint }: Place): '*' | '0' | 'o' | 'l' {
  if (claims === null) return '*'
  const first = claims[0]
  if (first === undefined) return '0'
  return claims.length === 1 && first.id === footprint.leaseId ? 'o' : 'l'
}

function addClaims(place: Place, rest: PackedTexts): void {
  if (place.claims === null || depthOf(place) !== 'l') return
  rest.add(claimsText(place.claims))
}
