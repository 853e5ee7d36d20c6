/**
 * Events as rows of `tenure.ledger`, and back. What every event has is in columns; the rest is JSON in `data`, without
 * what the columns say or what is the ordinary case.
 */
import type { EventCommon, LeaseEvent, LeaseEventType } from '../../core/event.ts'
import type { Claim, EntryState, Lease, Ticket } from '../../core/lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../../core/limits.ts'
import type { Resource } from '../../core/resource.ts'
import { US_PER_MS, type Tick } from '../../core/time.ts'
import { IN_COLUMN, unusual, USUAL_CLAIM, USUAL_TERM, type Usual } from './postgres-rows.ts'

export interface EventRow {
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

const PREFIX = 'lease.'

export function wordOf(type: LeaseEventType): string {
  return type.slice(PREFIX.length)
}

export function typeOf(word: string): LeaseEventType {
  return `${PREFIX}${word}` as LeaseEventType
}

export function eventRow(event: LeaseEvent, domain: string): EventRow {
  const row = {
    lease_id: event.leaseId,
    resource: event.resource,
    holder: event.holder,
    session: event.session,
    type: wordOf(event.type),
    at_ms: event.atMs,
    before: event.before,
    after: event.after,
    renewals: event.renewals,
    reason: event.reason,
    request_id: event.requestId,
    fence: fenceOf(event),
    ttl_ms: null,
    deadline_us: null,
    expires_at: null,
    release_reason: null,
    data: null,
  }
  if (event.type === 'lease.issued') {
    const { ttlMs, deadline, expiresAtMs } = event.lease
    const term = { ttl_ms: ttlMs, deadline_us: deadline.us, expires_at: expiresAtMs }
    return { ...row, ...term, data: issuedData(event, domain) }
  }
  if (event.type === 'lease.queued' || event.type === 'lease.denied') {
    const { ttlMs, deadline } = event.ticket
    return { ...row, ttl_ms: ttlMs, deadline_us: deadline.us, data: filedData(event, domain) }
  }
  return { ...row, ...particulars(event, domain) }
}

function fenceOf(event: LeaseEvent): number | null {
  if (event.type === 'lease.issued') return event.lease.fence
  return event.type === 'lease.offered' || event.type === 'lease.upgraded' ? event.fence : null
}

/** What the event itself says is in its columns. */
const USUAL_ISSUED: Usual = {
  ...{ ...USUAL_CLAIM, ...USUAL_TERM, mode: 'exclusive', extent: 'exact', maxRenewals: -1 },
  ...{ renewedAtMs: null, terminatedAtMs: null, renewals: 0, releaseReason: null },
  ...{ reason: IN_COLUMN, createdAtMs: IN_COLUMN, grantedAtMs: IN_COLUMN, expiresAtMs: IN_COLUMN },
}

export function issuedData(
  { lease, atMs, reason }: Extract<LeaseEvent, { type: 'lease.issued' }>,
  domain: string,
): EventRow['data'] {
  const { deadline, createdAtMs, grantedAtMs } = lease
  const special = unusual(lease, USUAL_ISSUED)
  const data: Record<string, unknown> = special === null ? {} : { ...special }
  if (lease.reason !== reason) data['reason'] = lease.reason
  if (createdAtMs !== atMs) data['createdAtMs'] = createdAtMs
  if (grantedAtMs !== atMs) data['grantedAtMs'] = grantedAtMs
  if (deadline.domain !== domain) data['deadline'] = deadline
  for (const _ in data) return data
  return null
}

const USUAL_FILED: Usual = {
  ...{ ...USUAL_CLAIM, mode: 'exclusive', extent: 'exact', maxRenewals: -1, group: null },
  ...{ priority: 0, claimWindowMs: CLAIM_WINDOW_MS_DEFAULT, offer: null, cycle: null },
}

function filedData(
  { type, ticket, atMs, reason }: Extract<LeaseEvent, { type: 'lease.queued' | 'lease.denied' }>,
  domain: string,
): EventRow['data'] {
  const failure = type === 'lease.denied' ? 'denied' : null
  const known = { reason, createdAtMs: atMs, orderUs: atMs * US_PER_MS, failure }
  const special = unusual(ticket, { ...USUAL_FILED, ...known })
  const { deadline } = ticket
  return deadline.domain === domain ? special : { ...special, deadline }
}

const USUAL_EVENT: Usual = {
  ...{ leaseId: IN_COLUMN, resource: IN_COLUMN, holder: IN_COLUMN, session: IN_COLUMN },
  ...{ type: IN_COLUMN, atMs: IN_COLUMN, before: IN_COLUMN, after: IN_COLUMN },
  ...{ renewals: IN_COLUMN, reason: IN_COLUMN, requestId: IN_COLUMN, fence: IN_COLUMN },
}

type Particulars = Pick<
  EventRow,
  'ttl_ms' | 'deadline_us' | 'expires_at' | 'release_reason' | 'data'
>

function particulars(event: LeaseEvent, domain: string): Partial<Particulars> {
  const special = unusual(event, USUAL_EVENT)
  if (special === null) return {}
  const { ttlMs, expiresAtMs, releaseReason, deadline, ...rest } = special
  const data = deadline === undefined || isTickOf(domain, deadline) ? rest : { ...rest, deadline }
  return {
    ttl_ms: (ttlMs as number | undefined) ?? null,
    expires_at: (expiresAtMs as number | undefined) ?? null,
    release_reason: (releaseReason as string | undefined) ?? null,
    deadline_us: isTickOf(domain, deadline) ? deadline.us : null,
    data: Object.keys(data).length === 0 ? null : data,
  }
}

function isTickOf(domain: string, field: unknown): field is Tick {
  return (field as Tick | undefined)?.domain === domain
}

export function eventOf(row: EventRow, domain: string): LeaseEvent {
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
  const term = { ttlMs: ttlMs ?? 0, us: us ?? 0, domain }
  if (type === 'lease.issued') {
    const usual = ordinaryLease(common, { ...term, fence: row.fence ?? 0 })
    // Rows of earlier versions have it in `data`, if it is not what the TTL says.
    const expires = expiresAtMs === null ? {} : { expiresAtMs }
    return { ...common, type, lease: { ...usual, ...expires, ...data } }
  }
  if (type === 'lease.queued' || type === 'lease.denied') {
    return { ...common, type, ticket: { ...ordinaryTicket({ ...common, type }, term), ...data } }
  }
  const fields = {
    ...(row.fence === null ? {} : { fence: row.fence }),
    ...(ttlMs === null ? {} : { ttlMs }),
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
    ...(us === null ? {} : { deadline: { domain, us } }),
    ...(row.release_reason === null ? {} : { releaseReason: row.release_reason }),
  }
  return { ...common, type, ...fields, ...data } as LeaseEvent
}

interface Term {
  readonly ttlMs: number
  readonly us: number
  readonly domain: string
}

function ordinaryClaim(common: EventCommon, ttlMs: number): Claim {
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

function ordinaryLease(common: EventCommon, term: Term & { readonly fence: number }): Lease {
  const { ttlMs, us, fence, domain } = term
  return {
    ...ordinaryClaim(common, ttlMs),
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: common.atMs,
    renewedAtMs: null,
    expiresAtMs: common.atMs + ttlMs,
    terminatedAtMs: null,
    deadline: { domain, us },
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

function ordinaryTicket(common: EventCommon & { readonly type: string }, term: Term): Ticket {
  const { ttlMs, us, domain } = term
  const denied = common.type === 'lease.denied'
  return {
    ...ordinaryClaim(common, ttlMs),
    kind: 'ticket',
    state: denied ? 'failed' : 'pending',
    group: null,
    priority: 0,
    orderUs: common.atMs * US_PER_MS,
    deadline: { domain, us },
    claimWindowMs: CLAIM_WINDOW_MS_DEFAULT,
    offer: null,
    failure: denied ? 'denied' : null,
    cycle: null,
  }
}
