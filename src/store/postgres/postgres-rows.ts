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
  const liveUntilUs = liveDeadline(entry)?.us ?? null
  return {
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
    live_until_us: liveUntilUs,
    version,
    claim,
    detail:
      entry.kind === 'lease'
        ? leaseDetail(entry, domain)
        : ticketDetail(entry, { liveUntilUs, domain }),
  }
}

/** Stands for what a column holds, whatever it is. */
export const IN_COLUMN: unique symbol = Symbol('in a column')

/** What the fields of an entry usually are. */
export type Usual = Readonly<Record<string, unknown>>

export const USUAL_CLAIM: Usual = {
  ...{ kind: IN_COLUMN, state: IN_COLUMN, id: IN_COLUMN, resource: IN_COLUMN, holder: IN_COLUMN },
  ...{ session: IN_COLUMN, ttlMs: IN_COLUMN, deadline: IN_COLUMN, fence: IN_COLUMN },
  ...{ maxHoldMs: null, slots: null, lockDelayMs: 0, breakable: false, metadata: null },
  recorded: true,
}

const USUAL_ENTRY: Usual = {
  ...USUAL_CLAIM,
  ...{ mode: IN_COLUMN, extent: IN_COLUMN, maxRenewals: IN_COLUMN, reason: IN_COLUMN },
  createdAtMs: IN_COLUMN,
}

export const USUAL_TERM: Usual = {
  ...{ holdUntilUs: null, lockedUntil: null, revoking: null, upgrading: false, adopted: true },
  epoch: 0,
}

const USUAL_LEASE: Usual = {
  ...{ ...USUAL_ENTRY, ...USUAL_TERM, grantedAtMs: IN_COLUMN, renewedAtMs: IN_COLUMN },
  ...{ expiresAtMs: IN_COLUMN, terminatedAtMs: IN_COLUMN, renewals: IN_COLUMN },
  releaseReason: IN_COLUMN,
}

const USUAL_TICKET: Usual = {
  ...{ ...USUAL_ENTRY, group: null, priority: 0, claimWindowMs: CLAIM_WINDOW_MS_DEFAULT },
  ...{ offer: null, failure: null, cycle: null },
}

export function leaseDetail(lease: Lease, domain: string): LeaseRow['detail'] {
  const detail = unusual(lease, USUAL_LEASE)
  return lease.deadline.domain === domain ? detail : { ...detail, deadline: lease.deadline }
}

/** Of a failed ticket the usual is that it was denied; an offer is in columns if it ends with the ticket. */
function ticketDetail(
  ticket: Ticket,
  { liveUntilUs, domain }: { readonly liveUntilUs: number | null; readonly domain: string },
): LeaseRow['detail'] {
  const { offer, deadline, failure, state, createdAtMs, orderUs } = ticket
  const isOfferUsual =
    offer === null || (offer.deadline.us === liveUntilUs && offer.deadline.domain === domain)
  const detail = unusual(ticket, {
    ...USUAL_TICKET,
    orderUs: createdAtMs * US_PER_MS === orderUs ? IN_COLUMN : null,
    failure: (state === 'failed' ? 'denied' : null) === failure ? IN_COLUMN : undefined,
    offer: isOfferUsual ? IN_COLUMN : undefined,
  })
  return deadline.domain === domain ? detail : { ...detail, deadline }
}

/** The fields of a value that are not what they usually are, or null if all are. */
export function unusual(value: object, usual: Usual): Readonly<Record<string, unknown>> | null {
  let found: Record<string, unknown> | null = null
  const fields = value as Readonly<Record<string, unknown>>
  for (const name in fields) {
    const expected = usual[name]
    const field = fields[name]
    if (expected === IN_COLUMN || expected === field) continue
    found ??= {}
    found[name] = field
  }
  return found
}

export function entryOf(row: LeaseRow, domain: string): Entry {
  const entry = ordinary(row, domain)
  return row.detail === null ? entry : ({ ...entry, ...row.detail } as Entry)
}

export function keptOf(row: LeaseRow, domain: string): Kept {
  return { entry: entryOf(row, domain), version: row.version, claim: row.claim }
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
