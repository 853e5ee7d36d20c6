/**
 * The rows of a database of the file-leasing design, as the events of Tenure's ledger. That design counts in seconds, and
 * its check and its grant are two steps, so two of its leases may overlap. Of those the live one counts, or else the
 * earlier one: a ledger tells of no two holders at once. What is left out is told, a line for each.
 */
import { invalid, isLeaseError, show } from '../core/errors.ts'
import type { EventCommon, LeaseEvent } from '../core/event.ts'
import {
  parseHolder,
  parseLeaseId,
  parseMaxRenewals,
  parseNote,
  parseTtlMs,
} from '../core/input.ts'
import type { EntryState, Lease } from '../core/lease.ts'
import { nameOf, parseResource } from '../core/resource.ts'
import { US_PER_MS, type Now, type Tick } from '../core/time.ts'
import { sessionDigest } from '../service/session-digest.ts'
import { plural } from './output.ts'

/** A row of `leases`. */
export interface SeedLease {
  readonly id: unknown
  readonly file_path: unknown
  readonly agent_id: unknown
  readonly created_at: number
  readonly expires_at: number
  readonly ttl_seconds: number
  readonly status: unknown
  readonly renewal_count: number
  readonly max_renewals: number
  readonly updated_at: number
}

/** A row of `lease_history`. */
export interface SeedEvent {
  readonly lease_id: unknown
  readonly event_type: unknown
  readonly event_at: number
  readonly reason: unknown
}

export interface SeedRows {
  readonly leases: readonly SeedLease[]
  readonly history: readonly SeedEvent[]
}

export interface TakenOver {
  readonly events: readonly LeaseEvent[]
  readonly leases: number
  readonly live: number
  /** What was not taken over, and why. */
  readonly left: readonly string[]
  /** How many of those are leases that were live: their files are free in the new store. */
  readonly liveLeft: number
}

interface Renewal {
  readonly atMs: number
  readonly reason: string | null
}

/** How a lease went, in milliseconds. */
interface Course {
  readonly lease: Lease
  readonly renewed: readonly Renewal[]
  readonly renewals: number
  /** What ended it; null while it is live. */
  readonly ended: { readonly as: 'released' | 'expired'; readonly atMs: number } | null
  readonly untilMs: number
  /** Of its end. */
  readonly reason: string | null
  /** How many rows of the history are about it. */
  readonly rows: number
  /** A line for each thing about it that has no place in a ledger. */
  readonly left: readonly string[]
}

const MS = 1000
const STATUSES: readonly string[] = ['active', 'expired', 'released', 'pending', 'failed']
const EVENT_TYPES: readonly string[] = ['acquired', 'renewed', 'released', 'expired', 'failed']

export function takeOverLeases({ leases, history }: SeedRows, now: Now): TakenOver {
  const left = new LeftOut()
  const courses: Course[] = []
  const rows = new Map<unknown, SeedEvent[]>()
  for (const row of history) {
    const own = rows.get(row.lease_id)
    if (own === undefined) rows.set(row.lease_id, [row])
    else own.push(row)
  }
  for (const row of leases) {
    const own = rows.get(row.id) ?? []
    rows.delete(row.id)
    const course = readCourse(row, own, now)
    if (typeof course !== 'string') courses.push(course)
    else left.lease({ id: row.id, isLive: isLiveRow(row, now), rows: own.length }, course)
  }
  const kept = withoutOverlaps(courses, left)
  for (const course of kept) left.lines.push(...course.left)
  for (const row of [...rows.values()].flat()) {
    left.lines.push(`${nameOfEvent(row)}: leases has no such lease`)
  }
  return {
    events: eventsOf(kept, now),
    leases: kept.length,
    live: kept.filter(({ ended }) => ended === null).length,
    left: left.lines,
    liveLeft: left.live,
  }
}

interface LeftLease {
  readonly id: unknown
  readonly isLive: boolean
  /** Of its history, which is left out with it. */
  readonly rows: number
}

class LeftOut {
  readonly lines: string[] = []
  live = 0

  lease({ id, isLive, rows }: LeftLease, why: string): void {
    if (isLive) this.live += 1
    const history = rows === 0 ? '' : ` (and ${plural(rows, 'event')} of it)`
    this.lines.push(`${isLive ? 'live ' : ''}lease ${String(id)}${history}: ${why}`)
  }
}

function nameOfEvent({ lease_id, event_type, event_at, reason }: SeedEvent): string {
  const why = reason === null || reason === '' ? '' : `, reason ${show(reason)}`
  return `event ${String(event_type)} of lease ${String(lease_id)} at ${event_at}${why}`
}

/** The enum of the design is spelt with a capital in its program, and without in its tables. */
function wordOf(value: unknown): string {
  return String(value).toLowerCase()
}

function isLiveRow({ status, expires_at }: SeedLease, now: Now): boolean {
  return wordOf(status) === 'active' && expires_at * MS > now.wallMs
}

/** A text says why the row cannot be taken over. */
function readCourse(row: SeedLease, own: readonly SeedEvent[], now: Now): Course | string {
  const status = wordOf(row.status)
  if (status === 'pending') return 'pending, which ends with the process that waited'
  if (status === 'failed') return 'failed, so that it never held its file'
  if (!STATUSES.includes(status)) {
    return `status must be one of ${STATUSES.join(', ')}, got ${String(row.status)}`
  }
  try {
    return courseOf(row, own, now)
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
}

function courseOf(row: SeedLease, own: readonly SeedEvent[], now: Now): Course {
  const plain = leaseOf(row, now)
  const { expiresAtMs, createdAtMs } = plain
  const isReleased = wordOf(row.status) === 'released'
  const isLive = isLiveRow(row, now)
  const as = isReleased ? 'released' : 'expired'
  const { acquired, renewed, end, left } = sortRows(own, isLive ? null : as)
  const endMs = isReleased ? (end?.event_at ?? row.updated_at) * MS : expiresAtMs
  const atMs = Math.min(Math.max(endMs, createdAtMs), now.wallMs)
  const reasonOf = (event: SeedEvent | undefined): string | null => readReason(event, left)
  const renewals = renewed.map((event) => {
    return { atMs: Math.min(event.event_at * MS, atMs), reason: reasonOf(event) }
  })
  if (renewals.length === 0 && row.renewal_count > 0) {
    renewals.push({ atMs: row.updated_at * MS, reason: null })
  }
  // A renewal may have given more than the TTL in the row.
  const spanMs = expiresAtMs - (renewals.at(-1)?.atMs ?? createdAtMs)
  const ttlMs = spanMs > plain.ttlMs ? parseTtlMs(spanMs) : plain.ttlMs
  return {
    lease: { ...plain, ttlMs, reason: reasonOf(acquired) },
    renewed: renewals,
    renewals: row.renewal_count,
    ended: isLive ? null : { as, atMs },
    untilMs: isLive ? Infinity : atMs,
    reason: reasonOf(end),
    rows: own.length,
    left,
  }
}

interface SortedRows {
  readonly acquired: SeedEvent | undefined
  readonly renewed: readonly SeedEvent[]
  readonly end: SeedEvent | undefined
  readonly left: string[]
}

/** The rows of one lease by what they tell: it is acquired once, and ends once, as its own row says. */
function sortRows(own: readonly SeedEvent[], end: 'released' | 'expired' | null): SortedRows {
  const isTimed = ({ event_at }: SeedEvent): boolean => {
    return Number.isSafeInteger(event_at) && event_at >= 0
  }
  const of = (type: string | null): SeedEvent[] => {
    return own.filter((row) => isTimed(row) && wordOf(row.event_type) === type)
  }
  const sorted = { acquired: of('acquired')[0], renewed: of('renewed'), end: of(end).at(-1) }
  const used = new Set([sorted.acquired, ...sorted.renewed, sorted.end])
  const whyNot = (row: SeedEvent): string => {
    const type = wordOf(row.event_type)
    if (!EVENT_TYPES.includes(type)) return `event_type must be one of ${EVENT_TYPES.join(', ')}`
    if (!isTimed(row)) return 'event_at must be seconds since 1970'
    if (type === 'failed') return 'failed, so that it changed nothing'
    return `does not fit its lease, which began once and ${end === null ? 'is live' : `ended as ${end}`}`
  }
  const unused = own.filter((row) => !used.has(row))
  return { ...sorted, left: unused.map((row) => `${nameOfEvent(row)}: ${whyNot(row)}`) }
}

/** The event is taken over without a reason that Tenure cannot keep. */
function readReason(event: SeedEvent | undefined, left: string[]): string | null {
  if (event === undefined || event.reason === '') return null
  try {
    return parseNote(event.reason, null).reason
  } catch (error) {
    if (!isLeaseError(error)) throw error
    left.push(`the reason of ${nameOfEvent(event)}: ${error.message}`)
    return null
  }
}

/** As it stands at last; its fence follows when it is known which leases come before it. */
function leaseOf(row: SeedLease, now: Now): Lease {
  const holder = parseHolder(row.agent_id, 'agent_id')
  const resource = parseResource(`file:${String(row.file_path)}`)
  const times = { created_at: row.created_at, expires_at: row.expires_at }
  for (const [field, value] of Object.entries(times)) {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw invalid(field, 'must be seconds since 1970', value)
    }
  }
  const createdAtMs = Math.min(row.created_at * MS, now.wallMs)
  const ttlMs = parseTtlMs(row.ttl_seconds * MS)
  // A deadline further away than its TTL is of a clock that was set back since.
  const expiresAtMs = Math.min(row.expires_at * MS, now.wallMs + ttlMs)
  const us = now.tick.us + (expiresAtMs - now.wallMs) * US_PER_MS
  return {
    ...{ id: parseLeaseId(row.id, 'id'), resource, holder, session: sessionDigest(holder), ttlMs },
    ...{ mode: 'exclusive', extent: 'exact', slots: null, lockDelayMs: 0, breakable: false },
    ...{ maxRenewals: parseMaxRenewals(row.max_renewals), maxHoldMs: null, reason: null },
    ...{ metadata: null, createdAtMs, recorded: true, kind: 'lease', state: 'active', fence: 0 },
    ...{ grantedAtMs: createdAtMs, renewedAtMs: null, expiresAtMs, terminatedAtMs: null },
    ...{ deadline: { domain: now.tick.domain, us: Math.max(1, Math.round(us)) } },
    ...{ holdUntilUs: null, renewals: 0, releaseReason: null, lockedUntil: null, revoking: null },
    ...{ upgrading: false, adopted: true, epoch: 0 },
  }
}

/** Live ones first, then the earlier: what overlaps one that was kept is left out. */
function withoutOverlaps(courses: readonly Course[], left: LeftOut): readonly Course[] {
  const order = courses.toSorted((a, b) => {
    if (a.untilMs !== b.untilMs && Math.max(a.untilMs, b.untilMs) === Infinity) {
      return b.untilMs - a.untilMs
    }
    return a.lease.createdAtMs - b.lease.createdAtMs
  })
  const kept = new Map<string, Course[]>()
  for (const course of order) {
    const { lease, untilMs } = course
    const others = kept.get(lease.resource) ?? []
    const other = others.find((one) => {
      return lease.createdAtMs < one.untilMs && one.lease.createdAtMs < untilMs
    })
    if (other === undefined) kept.set(lease.resource, [...others, course])
    else {
      const whose = `${other.lease.id} of ${other.lease.holder}`
      left.lease(
        { id: lease.id, isLive: course.ended === null, rows: course.rows },
        `${lease.holder} had ${nameOf(lease.resource)} at the same time as ${whose}`,
      )
    }
  }
  return [...kept.values()].flat()
}

interface Placed {
  readonly atMs: number
  /** Of the lease among all, by its beginning and end. */
  readonly place: number
  readonly make: (fence: number) => LeaseEvent
}

/** In order of time; of what happened in one second, the lease that began first comes first. */
function eventsOf(courses: readonly Course[], now: Now): readonly LeaseEvent[] {
  const ordered = courses.toSorted((a, b) => {
    return a.lease.createdAtMs - b.lease.createdAtMs || a.untilMs - b.untilMs
  })
  const placed = ordered.flatMap((course, place) => placedEvents(course, place, now))
  const sorted = placed.toSorted((a, b) => a.atMs - b.atMs || a.place - b.place)
  const fences = new Map<number, number>()
  let last = 0
  return sorted.map(({ atMs, place, make }) => {
    const known = fences.get(place)
    if (known === undefined) last = Math.max(last + 1, atMs * US_PER_MS)
    fences.set(place, known ?? last)
    return make(known ?? last)
  })
}

interface End {
  readonly expiresAtMs: number
  readonly deadline: Tick
}

/**
 * Of the grant and of each renewal: a TTL after it, the last as the row says, and each before the next, since every renewal
 * moves the end. What ended before this boot is before every tick of it, in the same order.
 */
function endsOf({ lease, renewed }: Course, now: Now): readonly End[] {
  const starts = [lease.createdAtMs, ...renewed.map(({ atMs }) => atMs)]
  const ends: End[] = []
  let nextMs = lease.expiresAtMs + 1
  let nextUs = Math.max(starts.length, lease.deadline.us) + 1
  for (const [index, startMs] of [...starts.entries()].toReversed()) {
    const isLast = index === starts.length - 1
    const expiresAtMs = isLast ? lease.expiresAtMs : Math.min(startMs + lease.ttlMs, nextMs - 1)
    const us = Math.round(now.tick.us + (expiresAtMs - now.wallMs) * US_PER_MS)
    nextMs = expiresAtMs
    nextUs = Math.max(index + 1, Math.min(us, nextUs - 1))
    ends.unshift({ expiresAtMs, deadline: { domain: now.tick.domain, us: nextUs } })
  }
  return ends
}

function placedEvents(course: Course, place: number, now: Now): readonly Placed[] {
  const { lease, renewals, ended, reason } = course
  const { ttlMs, createdAtMs } = lease
  const [first, ...further] = endsOf(course, now)
  const granted = { atMs: createdAtMs, before: null, after: 'active', renewals: 0 } as const
  const issued: Placed = {
    ...{ atMs: createdAtMs, place },
    make: (fence) => ({
      type: 'lease.issued',
      ...commonOf(lease, { ...granted, reason: lease.reason }),
      lease: { ...lease, fence, ...first },
    }),
  }
  const renewed = course.renewed.map((renewal, index): Placed => {
    const { atMs } = renewal
    const isLast = index === course.renewed.length - 1
    const count = isLast ? renewals : Math.min(index + 1, renewals)
    const facts = { ...renewal, before: 'active', after: 'active', renewals: count } as const
    const event = { type: 'lease.renewed', ...commonOf(lease, facts), ttlMs, ...further[index] }
    return { atMs, place, make: () => event as LeaseEvent }
  })
  if (ended === null) return [issued, ...renewed]
  const { as, atMs } = ended
  const facts = { atMs, before: 'active', after: as, renewals, reason } as const
  const rest =
    as === 'released'
      ? { releaseReason: 'voluntary' }
      : { terminatedAtMs: Math.min(lease.expiresAtMs, now.wallMs), lockedUntil: null }
  const event = { type: `lease.${as}`, ...commonOf(lease, facts), ...rest } as LeaseEvent
  return [issued, ...renewed, { atMs, place, make: () => event }]
}

interface Facts {
  readonly atMs: number
  readonly before: EntryState | null
  readonly after: EntryState
  readonly renewals: number
  readonly reason: string | null
}

function commonOf(lease: Lease, facts: Facts): EventCommon {
  const { id: leaseId, resource, holder, session } = lease
  return { leaseId, resource, holder, session, requestId: null, ...facts }
}
