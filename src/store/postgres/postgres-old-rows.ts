/**
 * Rows of the layout before version 9, in which live and ended leases shared the table `leases` and an event had a column for
 * most of what it said. Only read: the conversion makes rows of the present layout of them.
 */
import type { EventCommon, LeaseEvent } from '../../core/event.ts'
import type {
  Claim,
  Entry,
  EntryState,
  Lease,
  LeaseState,
  ReleaseReason,
  Ticket,
} from '../../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../../core/limits.ts'
import type { Extent, Mode, Resource } from '../../core/resource.ts'
import { US_PER_MS } from '../../core/time.ts'
import { CLOCK_DOMAIN, typeOf } from './postgres-columns.ts'

export interface OldLeaseRow {
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

export function oldEntryOf(row: OldLeaseRow): Entry {
  const entry = ordinary(row)
  return row.detail === null ? entry : ({ ...entry, ...row.detail } as Entry)
}

/** What the columns alone say. */
function ordinary(row: OldLeaseRow): Entry {
  const { state } = row
  return state === 'pending' || state === 'failed'
    ? ordinaryTicket(row, state)
    : ordinaryLease(row, state)
}

function ordinaryClaim(row: OldLeaseRow): Claim {
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

function ordinaryLease(row: OldLeaseRow, state: LeaseState): Lease {
  return {
    ...ordinaryClaim(row),
    kind: 'lease',
    state,
    fence: row.fence ?? 0,
    grantedAtMs: row.granted_at ?? 0,
    renewedAtMs: row.renewed_at,
    expiresAtMs: row.expires_at ?? 0,
    terminatedAtMs: row.terminated_at,
    deadline: { domain: CLOCK_DOMAIN, us: row.deadline_us },
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

function ordinaryTicket(row: OldLeaseRow, state: Ticket['state']): Ticket {
  const { fence, live_until_us: us } = row
  return {
    ...ordinaryClaim(row),
    kind: 'ticket',
    state,
    group: null,
    priority: 0,
    orderUs: row.created_at * US_PER_MS,
    deadline: { domain: CLOCK_DOMAIN, us: row.deadline_us },
    claimWindowMs: CLAIM_WINDOW_MS_DEFAULT,
    offer: fence === null || us === null ? null : { fence, deadline: { domain: CLOCK_DOMAIN, us } },
    failure: state === 'failed' ? 'denied' : null,
    cycle: null,
  }
}

export interface OldEventRow {
  readonly lease_id: string
  readonly resource: string
  readonly holder: string
  readonly session: string
  /** The type of the event without its prefix. */
  readonly type: string
  readonly at_ms: number
  readonly before: EntryState | null
  readonly after: EntryState
  readonly renewals: number
  readonly reason: string | null
  readonly request_id: string | null
  /** The fence that the event gives, if it gives one. */
  readonly fence: number | null
  /** Of events that begin or prolong something. */
  readonly ttl_ms: number | null
  readonly deadline_us: number | null
  readonly expires_at: number | null
  readonly release_reason: string | null
  readonly data: Readonly<Record<string, unknown>> | null
}

export function oldEventOf(row: OldEventRow): LeaseEvent {
  const common: EventCommon = {
    leaseId: row.lease_id,
    resource: row.resource as Resource,
    holder: row.holder,
    session: row.session,
    atMs: row.at_ms,
    before: row.before,
    after: row.after,
    renewals: row.renewals,
    reason: row.reason,
    requestId: row.request_id,
  }
  const type = typeOf(row.type)
  const { ttl_ms: ttlMs, deadline_us: us, expires_at: expiresAtMs, data } = row
  const term = { ttlMs: ttlMs ?? 0, us: us ?? 0 }
  if (type === 'lease.issued') {
    const usual = issuedLease(common, { ...term, fence: row.fence ?? 0 })
    // Rows of earlier versions have it in `data`, if it is not what the TTL says.
    const expires = expiresAtMs === null ? {} : { expiresAtMs }
    return { ...common, type, lease: { ...usual, ...expires, ...data } }
  }
  if (type === 'lease.queued' || type === 'lease.denied') {
    return { ...common, type, ticket: { ...filedTicket({ ...common, type }, term), ...data } }
  }
  const fields = {
    ...(row.fence === null ? {} : { fence: row.fence }),
    ...(ttlMs === null ? {} : { ttlMs }),
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
    ...(us === null ? {} : { deadline: { domain: CLOCK_DOMAIN, us } }),
    ...(row.release_reason === null ? {} : { releaseReason: row.release_reason }),
  }
  return { ...common, type, ...fields, ...data } as LeaseEvent
}

interface Term {
  readonly ttlMs: number
  readonly us: number
}

function issuedClaim(common: EventCommon, ttlMs: number): Claim {
  return {
    id: common.leaseId,
    resource: common.resource,
    mode: 'exclusive',
    extent: 'exact',
    holder: common.holder,
    session: common.session,
    ttlMs,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: common.reason,
    metadata: null,
    createdAtMs: common.atMs,
    recorded: true,
  }
}

function issuedLease(common: EventCommon, term: Term & { readonly fence: number }): Lease {
  const { ttlMs, us, fence } = term
  return {
    ...issuedClaim(common, ttlMs),
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: common.atMs,
    renewedAtMs: null,
    expiresAtMs: common.atMs + ttlMs,
    terminatedAtMs: null,
    deadline: { domain: CLOCK_DOMAIN, us },
    holdUntilUs: null,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: null,
    upgrading: false,
    adopted: true,
    epoch: 0,
  }
}

function filedTicket(common: EventCommon & { readonly type: string }, term: Term): Ticket {
  const { ttlMs, us } = term
  const denied = common.type === 'lease.denied'
  return {
    ...issuedClaim(common, ttlMs),
    kind: 'ticket',
    state: denied ? 'failed' : 'pending',
    group: null,
    priority: 0,
    orderUs: common.atMs * US_PER_MS,
    deadline: { domain: CLOCK_DOMAIN, us },
    claimWindowMs: CLAIM_WINDOW_MS_DEFAULT,
    offer: null,
    failure: denied ? 'denied' : null,
    cycle: null,
  }
}
