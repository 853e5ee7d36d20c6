/** Rows of `lease_history` as versions 1 to 8 wrote them, for the conversion alone. */
import type { AccountChange, Delegation } from '../../core/delegation.ts'
import { type EventCommon, type LeaseEvent, type LeaseEventType } from '../../core/event.ts'
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
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { idOf, resourceOf, type RowNames } from './sqlite-columns.ts'
import { typeOf } from './sqlite-columns.ts'
import { tickFrom, type TickValues } from './sqlite-old-rows.ts'

export const OLD_EVENT_COLUMNS: string = `id, lease_id, agent_id, file_path, event_type, status_before, status_after, renewal_count,
  event_at, reason, seq, namespace, session, data`

/** An event that no request asked for by id is named after its place in the ledger. */
const ANONYMOUS_PATTERN = /^e\d+$/

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
    case 'lease.trespassed':
      throw new Error(`older versions wrote no ${type}`)
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
