/**
 * The rows of a database of the file-leasing design, as the events of Tenure's ledger. That design counts in seconds, and
 * its check and its grant are two steps, so two of its leases may overlap. Of those the live one counts, or else the
 * earlier one: a ledger tells of no two holders at once. What is left out is told, a line for each.
 */
import { invalid, isLeaseError } from '../core/errors.ts'
import type { EventCommon, LeaseEvent } from '../core/event.ts'
import { parseHolder, parseLeaseId, parseMaxRenewals, parseTtlMs } from '../core/input.ts'
import type { EntryState, Lease } from '../core/lease.ts'
import { nameOf, parseResource } from '../core/resource.ts'
import { US_PER_MS, type Now, type Tick } from '../core/time.ts'
import { sessionDigest } from '../runtime/session-digest.ts'

/** A row of `leases`. */
export interface SeedLease {
  readonly id: unknown
  readonly file_path: unknown
  readonly agent_id: unknown
  readonly created_at: number
  readonly expires_at: number
  readonly ttl_seconds: number
  readonly status: string
  readonly renewal_count: number
  readonly max_renewals: number
  readonly updated_at: number
}

/** A row of `lease_history`, of those that tell of a renewal or an end. */
export interface SeedEvent {
  readonly lease_id: unknown
  readonly event_type: string
  readonly event_at: number
  readonly reason: string | null
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
}

/** How a lease went, in milliseconds. */
interface Course {
  readonly lease: Lease
  readonly renewedAtMs: readonly number[]
  readonly renewals: number
  /** What ended it; null while it is live. */
  readonly ended: { readonly as: 'released' | 'expired'; readonly atMs: number } | null
  readonly untilMs: number
  readonly reason: string | null
}

const MS = 1000

export function takeOverLeases({ leases, history }: SeedRows, now: Now): TakenOver {
  const left: string[] = []
  const courses: Course[] = []
  for (const row of leases) {
    const course = readCourse(row, history, now)
    if (typeof course === 'string') left.push(`lease ${String(row.id)}: ${course}`)
    else courses.push(course)
  }
  const kept = withoutOverlaps(courses, left)
  return {
    events: eventsOf(kept, now),
    leases: kept.length,
    live: kept.filter(({ ended }) => ended === null).length,
    left,
  }
}

/** A text says why the row cannot be taken over. */
function readCourse(row: SeedLease, history: readonly SeedEvent[], now: Now): Course | string {
  if (row.status === 'pending') return 'pending, which ends with the process that waited'
  if (row.status === 'failed') return 'failed, so that it never held its file'
  if (!['active', 'expired', 'released'].includes(row.status)) {
    return `status must be one of active, expired, released, pending, failed, got ${row.status}`
  }
  try {
    return courseOf(
      row,
      history.filter(({ lease_id }) => lease_id === row.id),
      now,
    )
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
}

function courseOf(row: SeedLease, own: readonly SeedEvent[], now: Now): Course {
  const lease = leaseOf(row, now)
  const at = (type: string): number | undefined => {
    return own.findLast(({ event_type }) => event_type === type)?.event_at
  }
  const { expiresAtMs } = lease
  const isLive = row.status === 'active' && expiresAtMs > now.wallMs
  const endMs = row.status === 'released' ? (at('released') ?? row.updated_at) * MS : expiresAtMs
  const atMs = Math.min(Math.max(endMs, lease.createdAtMs), now.wallMs)
  const ended = { as: row.status === 'released' ? 'released' : 'expired', atMs } as const
  const renewed = own.filter(({ event_type }) => event_type === 'renewed')
  const times = renewed.map(({ event_at }) => Math.min(event_at * MS, atMs))
  const last = own.at(-1)
  const renewedAtMs = times.length === 0 && row.renewal_count > 0 ? [row.updated_at * MS] : times
  // A renewal may have given more than the TTL in the row.
  const spanMs = expiresAtMs - (renewedAtMs.at(-1) ?? lease.createdAtMs)
  return {
    lease: spanMs > lease.ttlMs ? { ...lease, ttlMs: parseTtlMs(spanMs) } : lease,
    renewedAtMs,
    renewals: row.renewal_count,
    ended: isLive ? null : ended,
    untilMs: isLive ? Infinity : atMs,
    reason: isLive ? null : (last?.reason ?? null),
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
function withoutOverlaps(courses: readonly Course[], left: string[]): readonly Course[] {
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
      left.push(
        `lease ${lease.id}: ${lease.holder} had ${nameOf(lease.resource)} at the same time as ${whose}`,
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
function endsOf({ lease, renewedAtMs }: Course, now: Now): readonly End[] {
  const starts = [lease.createdAtMs, ...renewedAtMs]
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
  const { lease, renewedAtMs, renewals, ended, reason } = course
  const { ttlMs, createdAtMs } = lease
  const [first, ...further] = endsOf(course, now)
  const issued: Placed = {
    ...{ atMs: createdAtMs, place },
    make: (fence) => ({
      type: 'lease.issued',
      ...commonOf(lease, { atMs: createdAtMs, before: null, after: 'active', renewals: 0 }),
      lease: { ...lease, fence, ...first },
    }),
  }
  const renewed = renewedAtMs.map((atMs, index): Placed => {
    const isLast = index === renewedAtMs.length - 1
    const count = isLast ? renewals : Math.min(index + 1, renewals)
    const facts = { atMs, before: 'active', after: 'active', renewals: count } as const
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
  readonly reason?: string | null
}

function commonOf(lease: Lease, facts: Facts): EventCommon {
  const { id: leaseId, resource, holder, session } = lease
  return { leaseId, resource, holder, session, reason: null, requestId: null, ...facts }
}
