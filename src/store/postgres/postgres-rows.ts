/**
 * Entries as rows of `tenure.leases`, and back. The columns are what a person looks for; `detail` holds, as JSON,
 * whatever else is not what the columns alone would make of it, and is mostly null.
 *
 * All ticks are of one clock, the server's, so a row holds microseconds and no domain.
 */
import {
  endedAtMs,
  liveDeadline,
  type Claim,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseState,
  type ReleaseReason,
  type Ticket,
} from '../../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../../core/limits.ts'
import type { Extent, Mode, Resource } from '../../core/resource.ts'
import { US_PER_MS } from '../../core/time.ts'
import type { Kept } from '../speculation/backend.ts'

export interface LeaseRow {
  readonly id: string
  readonly resource: string
  readonly holder: string
  readonly session: string
  readonly state: EntryState
  readonly mode: Mode
  readonly extent: Extent
  /** Of a lease, or of the offer that a ticket has. */
  readonly fence: number | null
  readonly ttl_ms: number
  readonly created_at: number
  readonly granted_at: number | null
  readonly renewed_at: number | null
  readonly expires_at: number | null
  readonly terminated_at: number | null
  readonly ended_at: number | null
  readonly renewals: number
  readonly max_renewals: number
  readonly release_reason: ReleaseReason | null
  readonly reason: string | null
  readonly deadline_us: number
  /** Until when it can stand in somebody's way; null once it cannot. */
  readonly live_until_us: number | null
  readonly version: number
  readonly claim: number
  readonly detail: Readonly<Record<string, unknown>> | null
}

export function rowOf({ entry, version, claim }: Kept, domain: string): LeaseRow {
  const lease = entry.kind === 'lease' ? entry : null
  const row: LeaseRow = {
    id: entry.id,
    resource: entry.resource,
    holder: entry.holder,
    session: entry.session,
    state: entry.state,
    mode: entry.mode,
    extent: entry.extent,
    fence: entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? null),
    ttl_ms: entry.ttlMs,
    created_at: entry.createdAtMs,
    granted_at: lease?.grantedAtMs ?? null,
    renewed_at: lease?.renewedAtMs ?? null,
    expires_at: lease?.expiresAtMs ?? null,
    terminated_at: lease?.terminatedAtMs ?? null,
    ended_at: endedAtMs(entry),
    renewals: lease?.renewals ?? 0,
    max_renewals: entry.maxRenewals,
    release_reason: lease?.releaseReason ?? null,
    reason: entry.reason,
    deadline_us: entry.deadline.us,
    live_until_us: liveDeadline(entry)?.us ?? null,
    version,
    claim,
    detail: null,
  }
  return { ...row, detail: differences(entry, ordinary(row, domain)) }
}

export function entryOf(row: LeaseRow, domain: string): Entry {
  const entry = ordinary(row, domain)
  return row.detail === null ? entry : ({ ...entry, ...row.detail } as Entry)
}

export function keptOf(row: LeaseRow, domain: string): Kept {
  return { entry: entryOf(row, domain), version: row.version, claim: row.claim }
}

/** The fields of a value that are not what was to be expected, or null if all are. */
export function differences(
  value: object,
  expected: object,
): Readonly<Record<string, unknown>> | null {
  let found: Record<string, unknown> | null = null
  const known = expected as Readonly<Record<string, unknown>>
  for (const [name, field] of Object.entries(value)) {
    if (field === known[name]) continue
    if (isObject(field) && JSON.stringify(field) === JSON.stringify(known[name])) continue
    found ??= {}
    found[name] = field
  }
  return found
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

/** What the columns alone say. */
function ordinary(row: LeaseRow, domain: string): Entry {
  const { state } = row
  return state === 'pending' || state === 'failed'
    ? ordinaryTicket(row, state, domain)
    : ordinaryLease(row, state, domain)
}

function ordinaryClaim(row: LeaseRow): Claim {
  return {
    id: row.id,
    resource: row.resource as Resource,
    mode: row.mode,
    extent: row.extent,
    holder: row.holder,
    session: row.session,
    ttlMs: row.ttl_ms,
    maxRenewals: row.max_renewals,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: row.reason,
    metadata: null,
    createdAtMs: row.created_at,
    recorded: true,
  }
}

function ordinaryLease(row: LeaseRow, state: LeaseState, domain: string): Lease {
  return {
    ...ordinaryClaim(row),
    kind: 'lease',
    state,
    fence: row.fence ?? 0,
    grantedAtMs: row.granted_at ?? 0,
    renewedAtMs: row.renewed_at,
    expiresAtMs: row.expires_at ?? 0,
    terminatedAtMs: row.terminated_at,
    deadline: { domain, us: row.deadline_us },
    holdUntilUs: null,
    renewals: row.renewals,
    releaseReason: row.release_reason,
    lockedUntil: null,
    revoking: null,
    upgrading: false,
    adopted: true,
    epoch: 0,
  }
}

function ordinaryTicket(row: LeaseRow, state: Ticket['state'], domain: string): Ticket {
  const { fence, live_until_us: us } = row
  return {
    ...ordinaryClaim(row),
    kind: 'ticket',
    state,
    group: null,
    priority: 0,
    orderUs: row.created_at * US_PER_MS,
    deadline: { domain, us: row.deadline_us },
    claimWindowMs: CLAIM_WINDOW_MS_DEFAULT,
    offer: fence === null || us === null ? null : { fence, deadline: { domain, us } },
    failure: state === 'failed' ? 'denied' : null,
    cycle: null,
  }
}
