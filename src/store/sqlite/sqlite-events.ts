/**
 * Events as rows of `lease_history`, and back. The columns are the seed's, with its words for what happened; what
 * only `evolve` needs is JSON in `data`, without what the columns say or what is the ordinary case.
 */
import type { AccountChange, Delegation } from '../../core/delegation.ts'
import {
  eventWord,
  LEASE_EVENT_TYPES,
  type EventCommon,
  type LeaseDenied,
  type LeaseEvent,
  type LeaseEventType,
  type LeaseIssued,
  type LeaseQueued,
} from '../../core/event.ts'
import type {
  Claim,
  CycleStep,
  EntryState,
  Lease,
  Metadata,
  ReleaseReason,
  Revoking,
  Ticket,
  TicketFailure,
  Under,
} from '../../core/lease.ts'
import type { Extent, Mode } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import type { SqliteRow, SqliteValue } from '../../drivers/sqlite-driver.ts'
import {
  idOf,
  keyOf,
  leaseNumberOf,
  pathOf,
  resourceOf,
  tickFrom,
  tickValues,
  type RowNames,
  type TickValues,
} from './sqlite-rows.ts'

export const EVENT_COLUMNS: string = `id, lease_id, agent_id, file_path, event_type, status_before, status_after, renewal_count,
  event_at, reason, seq, namespace, session, data`
const WRITTEN_COLUMNS = `${EVENT_COLUMNS}, lease_number`
export const EVENT_COLUMN_COUNT = 15

export function insertEvents(rows: number): string {
  const row = `(${new Array(EVENT_COLUMN_COUNT).fill('?').join(', ')})`
  return `INSERT INTO lease_history (${WRITTEN_COLUMNS}) VALUES ${new Array(rows).fill(row).join(', ')}`
}

/** An event that no request asked for by id is named after its place in the ledger. */
const ANONYMOUS_PATTERN = /^e\d+$/

/** The seed's words, where a refused request is a failed one to whoever reads. */
export function wordOf(type: LeaseEventType): string {
  return type === 'lease.denied' ? 'failed' : eventWord(type)
}

const TYPES: ReadonlyMap<string, LeaseEventType> = new Map(
  LEASE_EVENT_TYPES.filter((type) => type !== 'lease.denied').map((type) => [wordOf(type), type]),
)

/** What a word means where nothing else is said. */
export function typeOf(word: string): LeaseEventType {
  const type = TYPES.get(word)
  if (type === undefined) throw new Error(`event ${word} is not known`)
  return type
}

/** What is in `data`; every field only where it differs from the ordinary. */
interface EventData {
  /** Where the word does not tell it; events of older versions have it in any case. */
  type?: LeaseEventType
  fence?: number
  ttlMs?: number
  deadline?: TickValues
  createdAtMs?: number
  expiresAtMs?: number
  mode?: Mode
  extent?: Extent
  maxRenewals?: number
  maxHoldMs?: number
  slots?: number
  lockDelayMs?: number
  breakable?: true
  unadopted?: true
  epoch?: number
  advance?: readonly [from: number, to: number]
  revoking?: Revoking
  group?: string
  priority?: number
  wished?: boolean
  to?: string | null
  holdUntilUs?: number
  metadata?: Metadata
  /** The claim's own reason, where the event has another. */
  claimReason?: string | null
  releaseReason?: ReleaseReason
  terminatedAtMs?: number
  locked?: TickValues
  by?: string
  failure?: TicketFailure
  cycle?: readonly CycleStep[]
  orderUs?: number
  claimWindowMs?: number
  delegation?: Delegation
  under?: Under
  change?: AccountChange
}

export function eventValues(event: LeaseEvent, sequence: number, names: RowNames): SqliteValue[] {
  return [
    keyOf(event.requestId ?? `e${sequence}`, names),
    keyOf(event.leaseId, names),
    event.holder,
    pathOf(event.resource),
    wordOf(event.type),
    event.before,
    event.after,
    event.renewals,
    event.atMs,
    event.reason,
    sequence,
    names.namespace,
    event.session,
    JSON.stringify(dataOf(event, names)),
    leaseNumberOf(event.leaseId),
  ]
}

function dataOf(event: LeaseEvent, names: RowNames): EventData {
  switch (event.type) {
    case 'lease.issued':
      return issuedData(event, names)
    case 'lease.queued':
    case 'lease.denied':
      return ticketData(event, names)
    case 'lease.renewed': {
      const { ttlMs, expiresAtMs } = event
      return { ttlMs, expiresAtMs, deadline: tickValues(event.deadline, names) }
    }
    case 'lease.released':
      return { releaseReason: event.releaseReason }
    case 'lease.expired': {
      const { terminatedAtMs, lockedUntil } = event
      if (lockedUntil === null) return { terminatedAtMs }
      return { terminatedAtMs, locked: tickValues(lockedUntil, names) }
    }
    case 'lease.revoked': {
      const { by, terminatedAtMs, lockedUntil } = event
      if (lockedUntil === null) return { by, terminatedAtMs }
      return { by, terminatedAtMs, locked: tickValues(lockedUntil, names) }
    }
    case 'lease.revoking': {
      const { by, expiresAtMs } = event
      return { by, expiresAtMs, deadline: tickValues(event.deadline, names) }
    }
    case 'lease.adopted':
      return {
        expiresAtMs: event.expiresAtMs,
        deadline: tickValues(event.deadline, names),
      }
    case 'lease.advanced':
      return { advance: [event.from, event.to] }
    case 'lease.upgrading':
      return event.under === undefined
        ? { wished: event.wished }
        : { wished: event.wished, under: event.under }
    case 'lease.upgraded':
      return { fence: event.fence }
    case 'lease.transferred':
      return { to: event.to }
    case 'lease.offered':
      return { fence: event.fence, deadline: tickValues(event.deadline, names) }
    case 'lease.waiting':
      return { deadline: tickValues(event.deadline, names) }
    case 'lease.failed': {
      const { failure, cycle } = event
      return cycle === null ? { failure } : { failure, cycle }
    }
    case 'lease.accounted':
      return { change: event.change }
    case 'lease.updated':
      return event.metadata === null ? {} : { metadata: event.metadata }
    case 'lease.downgraded':
    case 'lease.unlocked':
      return {}
  }
}

function issuedData(event: LeaseIssued, names: RowNames): EventData {
  const { lease, atMs } = event
  const data = claimData(lease, event)
  data.fence = lease.fence
  data.deadline = tickValues(lease.deadline, names)
  if (lease.expiresAtMs !== atMs + lease.ttlMs) data.expiresAtMs = lease.expiresAtMs
  if (lease.holdUntilUs !== null) data.holdUntilUs = lease.holdUntilUs
  if (!lease.adopted) data.unadopted = true
  if (lease.epoch !== 0) data.epoch = lease.epoch
  if (lease.revoking !== null) data.revoking = lease.revoking
  return data
}

function ticketData(event: LeaseQueued | LeaseDenied, names: RowNames): EventData {
  const { ticket, type } = event
  const data = claimData(ticket, event)
  if (type === 'lease.denied') data.type = type
  data.deadline = tickValues(ticket.deadline, names)
  data.orderUs = ticket.orderUs
  data.claimWindowMs = ticket.claimWindowMs
  if (ticket.group !== null) data.group = ticket.group
  if (ticket.priority !== 0) data.priority = ticket.priority
  if (ticket.failure !== null) data.failure = ticket.failure
  return data
}

function claimData(claim: Claim, event: EventCommon): EventData {
  const { ttlMs, createdAtMs, mode, extent, maxRenewals, maxHoldMs, metadata, reason } = claim
  const data: EventData = { ttlMs }
  if (createdAtMs !== event.atMs) data.createdAtMs = createdAtMs
  if (mode !== 'exclusive') data.mode = mode
  if (extent !== 'exact') data.extent = extent
  if (maxRenewals !== -1) data.maxRenewals = maxRenewals
  if (maxHoldMs !== null) data.maxHoldMs = maxHoldMs
  if (claim.slots !== null) data.slots = claim.slots
  if (claim.lockDelayMs !== 0) data.lockDelayMs = claim.lockDelayMs
  if (claim.breakable) data.breakable = true
  if (metadata !== null) data.metadata = metadata
  if (reason !== event.reason) data.claimReason = reason
  if (claim.delegation !== undefined) data.delegation = claim.delegation
  if (claim.under !== undefined) data.under = claim.under
  return data
}

export function eventOf(row: SqliteRow, names: RowNames): LeaseEvent {
  const id = idOf(row[0] as string)
  const common: EventCommon = {
    leaseId: idOf(row[1] as string),
    resource: resourceOf(row[3] as string),
    holder: row[2] as string,
    session: row[12] as string,
    atMs: row[8] as number,
    before: row[5] as EntryState | null,
    after: row[6] as EntryState,
    renewals: row[7] as number,
    reason: row[9] as string | null,
    requestId: ANONYMOUS_PATTERN.test(id) ? null : id,
  }
  const data = JSON.parse(row[13] as string) as EventData
  return eventFrom(common, { ...data, type: data.type ?? typeOf(row[4] as string) }, names)
}

type TypedData = EventData & { readonly type: LeaseEventType }

function eventFrom(common: EventCommon, data: TypedData, names: RowNames): LeaseEvent {
  const { type } = data
  switch (type) {
    case 'lease.issued':
      return { ...common, type, lease: issuedLease(common, data, names) }
    case 'lease.queued':
    case 'lease.denied':
      return { ...common, type, ticket: ticketFrom(common, data, names) }
    case 'lease.renewed': {
      const { ttlMs = 0, expiresAtMs = 0 } = data
      return { ...common, type, ttlMs, expiresAtMs, deadline: deadlineOf(data, names) }
    }
    case 'lease.released':
      return { ...common, type, releaseReason: data.releaseReason ?? 'voluntary' }
    case 'lease.expired': {
      const { terminatedAtMs = common.atMs } = data
      return { ...common, type, terminatedAtMs, lockedUntil: lockedOf(data, names) }
    }
    case 'lease.revoked': {
      const { by = '', terminatedAtMs = common.atMs } = data
      return { ...common, type, by, terminatedAtMs, lockedUntil: lockedOf(data, names) }
    }
    case 'lease.revoking': {
      const { by = '', expiresAtMs = 0 } = data
      return { ...common, type, by, expiresAtMs, deadline: deadlineOf(data, names) }
    }
    case 'lease.adopted': {
      const { expiresAtMs = 0 } = data
      return { ...common, type, expiresAtMs, deadline: deadlineOf(data, names) }
    }
    case 'lease.advanced': {
      const [from, to] = data.advance ?? [0, 0]
      return { ...common, type, from, to }
    }
    case 'lease.upgrading':
      return {
        ...common,
        type,
        wished: data.wished ?? true,
        ...(data.under === undefined ? {} : { under: data.under }),
      }
    case 'lease.upgraded':
      return { ...common, type, fence: data.fence ?? 0 }
    case 'lease.transferred':
      return { ...common, type, to: data.to ?? null }
    case 'lease.offered':
      return { ...common, type, fence: data.fence ?? 0, deadline: deadlineOf(data, names) }
    case 'lease.waiting':
      return { ...common, type, deadline: deadlineOf(data, names) }
    case 'lease.failed':
      return { ...common, type, failure: data.failure ?? 'abandoned', cycle: data.cycle ?? null }
    case 'lease.accounted':
      return { ...common, type, change: data.change ?? { kind: 'spent', amounts: {} } }
    case 'lease.updated':
      return { ...common, type, metadata: data.metadata ?? null }
    case 'lease.downgraded':
    case 'lease.unlocked':
      return { ...common, type }
  }
}

function lockedOf(data: EventData, names: RowNames): Tick | null {
  return data.locked === undefined ? null : tickFrom(data.locked, names)
}

function deadlineOf(data: EventData, names: RowNames): Tick {
  if (data.deadline === undefined) throw new Error(`an event ${data.type} without deadline`)
  return tickFrom(data.deadline, names)
}

function issuedLease(common: EventCommon, data: EventData, names: RowNames): Lease {
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
    deadline: deadlineOf(data, names),
    holdUntilUs: data.holdUntilUs ?? null,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: data.revoking ?? null,
    upgrading: false,
    adopted: data.unadopted !== true,
    epoch: data.epoch ?? 0,
  }
}

function ticketFrom(common: EventCommon, data: EventData, names: RowNames): Ticket {
  const { orderUs = 0, claimWindowMs = 0, failure = null } = data
  return {
    ...claimFrom(common, data),
    kind: 'ticket',
    state: data.type === 'lease.denied' ? 'failed' : 'pending',
    group: data.group ?? null,
    priority: data.priority ?? 0,
    orderUs,
    deadline: deadlineOf(data, names),
    claimWindowMs,
    offer: null,
    failure,
    cycle: null,
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
    slots: data.slots ?? null,
    lockDelayMs: data.lockDelayMs ?? 0,
    breakable: data.breakable === true,
    reason: data.claimReason === undefined ? common.reason : data.claimReason,
    metadata: data.metadata ?? null,
    createdAtMs: data.createdAtMs ?? common.atMs,
    recorded: true,
    ...(data.delegation === undefined ? {} : { delegation: data.delegation }),
    ...(data.under === undefined ? {} : { under: data.under }),
  }
}
