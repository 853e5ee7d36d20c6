/**
 * Events as rows of `lease_history`, and back. The columns are the seed's, with its words for what happened; what
 * only `evolve` needs is JSON in `data`, without what the columns say or what is the ordinary case.
 */
import type {
  EventCommon,
  LeaseDenied,
  LeaseEvent,
  LeaseEventType,
  LeaseIssued,
  LeaseQueued,
} from '../../core/event.ts'
import type {
  Claim,
  EntryState,
  Lease,
  Metadata,
  ReleaseReason,
  Ticket,
  TicketFailure,
} from '../../core/lease.ts'
import type { Extent, Mode } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import type { SqliteRow, SqliteValue } from './sqlite-client.ts'
import {
  pathOf,
  resourceOf,
  tickFrom,
  tickValues,
  type ClockNames,
  type TickValues,
} from './sqlite-rows.ts'

export const EVENT_COLUMNS: string = `id, lease_id, agent_id, file_path, event_type, status_before, status_after, renewal_count,
  event_at, reason, seq, namespace, session, data`
export const INSERT_EVENT: string = `INSERT INTO lease_history (${EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** The seed's words; the rest are named after the event. A refused request is a failed one to whoever reads. */
const WORDS: Readonly<Record<LeaseEventType, string>> = {
  'lease.issued': 'acquired',
  'lease.renewed': 'renewed',
  'lease.released': 'released',
  'lease.expired': 'expired',
  'lease.revoked': 'revoked',
  'lease.unlocked': 'unlocked',
  'lease.queued': 'queued',
  'lease.offered': 'offered',
  'lease.waiting': 'waiting',
  'lease.failed': 'failed',
  'lease.denied': 'failed',
}

export function wordOf(type: LeaseEventType): string {
  return WORDS[type]
}

/** What is in `data`; every field but the type only where it differs from the ordinary. */
interface EventData {
  readonly type: LeaseEventType
  readonly fence?: number
  readonly ttlMs?: number
  readonly deadline?: TickValues
  readonly createdAtMs?: number
  readonly expiresAtMs?: number
  readonly mode?: Mode
  readonly extent?: Extent
  readonly maxRenewals?: number
  readonly maxHoldMs?: number
  readonly holdUntilUs?: number
  readonly metadata?: Metadata
  /** The claim's own reason, where the event has another. */
  readonly claimReason?: string | null
  readonly releaseReason?: ReleaseReason
  readonly terminatedAtMs?: number
  readonly locked?: TickValues
  readonly by?: string
  readonly failure?: TicketFailure
  readonly orderUs?: number
  readonly claimWindowMs?: number
}

export interface EventPlace {
  readonly sequence: number
  readonly namespace: string
}

export function eventValues(
  event: LeaseEvent,
  { sequence, namespace }: EventPlace,
  clocks: ClockNames,
): SqliteValue[] {
  return [
    event.requestId ?? `e${sequence}.${namespace}`,
    event.leaseId,
    event.holder,
    pathOf(event.resource),
    WORDS[event.type],
    event.before,
    event.after,
    event.renewals,
    event.atMs,
    event.reason,
    sequence,
    namespace,
    event.session,
    JSON.stringify(dataOf(event, clocks)),
  ]
}

function dataOf(event: LeaseEvent, clocks: ClockNames): EventData {
  const { type } = event
  switch (type) {
    case 'lease.issued':
      return issuedData(event, clocks)
    case 'lease.queued':
    case 'lease.denied':
      return ticketData(event, clocks)
    case 'lease.renewed': {
      const { ttlMs, expiresAtMs } = event
      return { type, ttlMs, expiresAtMs, deadline: tickValues(event.deadline, clocks) }
    }
    case 'lease.released':
      return { type, releaseReason: event.releaseReason }
    case 'lease.expired': {
      const { terminatedAtMs, lockedUntil } = event
      if (lockedUntil === null) return { type, terminatedAtMs }
      return { type, terminatedAtMs, locked: tickValues(lockedUntil, clocks) }
    }
    case 'lease.revoked':
      return { type, by: event.by }
    case 'lease.offered':
      return { type, fence: event.fence, deadline: tickValues(event.deadline, clocks) }
    case 'lease.waiting':
      return { type, deadline: tickValues(event.deadline, clocks) }
    case 'lease.failed':
      return { type, failure: event.failure }
    case 'lease.unlocked':
      return { type }
  }
}

function issuedData(event: LeaseIssued, clocks: ClockNames): EventData {
  const { lease, type, atMs } = event
  const { holdUntilUs } = lease
  return {
    type,
    fence: lease.fence,
    ...claimData(lease, event),
    deadline: tickValues(lease.deadline, clocks),
    ...(lease.expiresAtMs === atMs + lease.ttlMs ? {} : { expiresAtMs: lease.expiresAtMs }),
    ...(holdUntilUs === null ? {} : { holdUntilUs }),
  }
}

function ticketData(event: LeaseQueued | LeaseDenied, clocks: ClockNames): EventData {
  const { orderUs, claimWindowMs, failure, deadline } = event.ticket
  return {
    type: event.type,
    ...claimData(event.ticket, event),
    deadline: tickValues(deadline, clocks),
    orderUs,
    claimWindowMs,
    ...(failure === null ? {} : { failure }),
  }
}

function claimData(claim: Claim, event: EventCommon): Partial<EventData> {
  const { ttlMs, createdAtMs, mode, extent, maxRenewals, maxHoldMs, metadata } = claim
  return {
    ttlMs,
    ...(createdAtMs === event.atMs ? {} : { createdAtMs }),
    ...(mode === 'exclusive' ? {} : { mode }),
    ...(extent === 'exact' ? {} : { extent }),
    ...(maxRenewals === -1 ? {} : { maxRenewals }),
    ...(maxHoldMs === null ? {} : { maxHoldMs }),
    ...(metadata === null ? {} : { metadata }),
    ...(claim.reason === event.reason ? {} : { claimReason: claim.reason }),
  }
}

export function eventOf(row: SqliteRow, clocks: ClockNames): LeaseEvent {
  const id = row[0] as string
  const common: EventCommon = {
    leaseId: row[1] as string,
    resource: resourceOf(row[3] as string),
    holder: row[2] as string,
    session: row[12] as string,
    atMs: row[8] as number,
    before: row[5] as EntryState | null,
    after: row[6] as EntryState,
    renewals: row[7] as number,
    reason: row[9] as string | null,
    requestId: id.includes('.') ? null : id,
  }
  return eventFrom(common, JSON.parse(row[13] as string) as EventData, clocks)
}

function eventFrom(common: EventCommon, data: EventData, clocks: ClockNames): LeaseEvent {
  const { type } = data
  switch (type) {
    case 'lease.issued':
      return { ...common, type, lease: issuedLease(common, data, clocks) }
    case 'lease.queued':
    case 'lease.denied':
      return { ...common, type, ticket: ticketFrom(common, data, clocks) }
    case 'lease.renewed': {
      const { ttlMs = 0, expiresAtMs = 0 } = data
      return { ...common, type, ttlMs, expiresAtMs, deadline: deadlineOf(data, clocks) }
    }
    case 'lease.released':
      return { ...common, type, releaseReason: data.releaseReason ?? 'voluntary' }
    case 'lease.expired': {
      const lockedUntil = data.locked === undefined ? null : tickFrom(data.locked, clocks)
      return { ...common, type, terminatedAtMs: data.terminatedAtMs ?? 0, lockedUntil }
    }
    case 'lease.revoked':
      return { ...common, type, by: data.by ?? '' }
    case 'lease.offered':
      return { ...common, type, fence: data.fence ?? 0, deadline: deadlineOf(data, clocks) }
    case 'lease.waiting':
      return { ...common, type, deadline: deadlineOf(data, clocks) }
    case 'lease.failed':
      return { ...common, type, failure: data.failure ?? 'abandoned' }
    case 'lease.unlocked':
      return { ...common, type }
  }
}

function deadlineOf(data: EventData, clocks: ClockNames): Tick {
  if (data.deadline === undefined) throw new Error(`an event ${data.type} without deadline`)
  return tickFrom(data.deadline, clocks)
}

function issuedLease(common: EventCommon, data: EventData, clocks: ClockNames): Lease {
  const { ttlMs = 0, fence = 0 } = data
  return {
    ...claimFrom(common, data),
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: common.atMs,
    renewedAtMs: null,
    expiresAtMs: data.expiresAtMs ?? common.atMs + ttlMs,
    terminatedAtMs: null,
    deadline: deadlineOf(data, clocks),
    holdUntilUs: data.holdUntilUs ?? null,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
  }
}

function ticketFrom(common: EventCommon, data: EventData, clocks: ClockNames): Ticket {
  const { orderUs = 0, claimWindowMs = 0, failure = null } = data
  return {
    ...claimFrom(common, data),
    kind: 'ticket',
    state: data.type === 'lease.denied' ? 'failed' : 'pending',
    orderUs,
    deadline: deadlineOf(data, clocks),
    claimWindowMs,
    offer: null,
    failure,
  }
}

function claimFrom(common: EventCommon, data: EventData): Claim {
  return {
    id: common.leaseId,
    resource: common.resource,
    mode: data.mode ?? 'exclusive',
    extent: data.extent ?? 'exact',
    holder: common.holder,
    session: common.session,
    ttlMs: data.ttlMs ?? 0,
    maxRenewals: data.maxRenewals ?? -1,
    maxHoldMs: data.maxHoldMs ?? null,
    reason: data.claimReason === undefined ? common.reason : data.claimReason,
    metadata: data.metadata ?? null,
    createdAtMs: data.createdAtMs ?? common.atMs,
  }
}
