/**
 * Rows of `leases` as versions 1 to 8 wrote them, for the conversion alone: columns, and JSON in `detail` for what had none.
 */
import type { Delegation } from '../../core/delegation.ts'
import type {
  Claim,
  CycleStep,
  Entry,
  EntryState,
  Lease,
  LeaseState,
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

/** A tick as it is kept: the number of its clock, and microseconds. */
export type TickValues = readonly [generation: number, us: number]

export function tickFrom([generation, us]: TickValues, names: RowNames): Tick {
  return { domain: names.domainOf(generation), us }
}

const NAME_COLUMNS = ['id', 'file_path', 'agent_id', 'namespace']
const GRANT_COLUMNS = [
  'session',
  'mode',
  'extent',
  'max_renewals',
  'created_at',
  'fence',
  'granted_at',
  'reason',
  'metadata',
]
const STATE_COLUMNS = [
  'status',
  'ttl_ms',
  'ttl_seconds',
  'renewal_count',
  'expires_at',
  'updated_at',
  'renewed_at',
  'terminated_at',
  'ended_at',
  'release_reason',
  'clock',
  'deadline_us',
  'live_clock',
  'live_until_us',
  'detail',
]
const READ_COLUMNS = [...NAME_COLUMNS, ...GRANT_COLUMNS, ...STATE_COLUMNS]

export const OLD_ENTRY_COLUMNS: string = READ_COLUMNS.join(', ')

/** What has no column of its own; each field only where it differs from the ordinary. */
interface ClaimDetail {
  unrecorded?: true
  maxHoldMs?: number
  slots?: number
  lockDelayMs?: number
  breakable?: true
  delegation?: Delegation
  under?: Under
}

interface LeaseDetail extends ClaimDetail {
  holdUntilUs?: number
  locked?: TickValues
  revoking?: Revoking
  upgrading?: true
  unadopted?: true
  epoch?: number
}

interface TicketDetail extends ClaimDetail {
  orderUs: number
  claimWindowMs: number
  group?: string
  priority?: number
  offer?: readonly [fence: number, clock: number, us: number]
  failure?: TicketFailure
  cycle?: readonly CycleStep[]
}

export function entryOf(row: SqliteRow, names: RowNames): Entry {
  const state = row[13] as EntryState
  return state === 'pending' || state === 'failed'
    ? ticketOf(row, state, names)
    : leaseOf(row, state, names)
}

function leaseOf(row: SqliteRow, state: LeaseState, names: RowNames): Lease {
  const detail: LeaseDetail = row[27] === null ? {} : (JSON.parse(row[27] as string) as LeaseDetail)
  return Object.assign(claimOf(row, detail), {
    kind: 'lease' as const,
    state,
    fence: row[9] as number,
    grantedAtMs: row[10] as number,
    renewedAtMs: row[19] as number | null,
    expiresAtMs: row[17] as number,
    terminatedAtMs: row[20] as number | null,
    deadline: tickFrom([row[23] as number, row[24] as number], names),
    holdUntilUs: detail.holdUntilUs ?? null,
    renewals: row[16] as number,
    releaseReason: row[22] as ReleaseReason | null,
    lockedUntil: detail.locked === undefined ? null : tickFrom(detail.locked, names),
    revoking: detail.revoking ?? null,
    upgrading: detail.upgrading === true,
    adopted: detail.unadopted !== true,
    epoch: detail.epoch ?? 0,
    ...rareOf(detail),
  })
}

function ticketOf(row: SqliteRow, state: Ticket['state'], names: RowNames): Ticket {
  const detail = JSON.parse(row[27] as string) as TicketDetail
  const { orderUs, claimWindowMs, offer, failure } = detail
  return Object.assign(claimOf(row, detail), {
    kind: 'ticket' as const,
    state,
    group: detail.group ?? null,
    priority: detail.priority ?? 0,
    orderUs,
    deadline: tickFrom([row[23] as number, row[24] as number], names),
    claimWindowMs,
    offer:
      offer === undefined
        ? null
        : { fence: offer[0], deadline: tickFrom([offer[1], offer[2]], names) },
    failure: failure ?? null,
    cycle: detail.cycle ?? null,
    ...rareOf(detail),
  })
}

/** What is absent from most. */
function rareOf({ delegation, under }: ClaimDetail): Pick<Claim, 'delegation' | 'under'> {
  return {
    ...(delegation === undefined ? {} : { delegation }),
    ...(under === undefined ? {} : { under }),
  }
}

/** What a lease and a ticket have in common; a new object, to which they add the rest (a spread would take V8 long). */
function claimOf(row: SqliteRow, detail: ClaimDetail): Claim {
  return {
    id: idOf(row[0] as string),
    resource: resourceOf(row[1] as string),
    mode: row[5] as Mode,
    extent: row[6] as Extent,
    holder: row[2] as string,
    session: row[4] as string,
    ttlMs: row[14] as number,
    maxRenewals: row[7] as number,
    maxHoldMs: detail.maxHoldMs ?? null,
    slots: detail.slots ?? null,
    lockDelayMs: detail.lockDelayMs ?? 0,
    breakable: detail.breakable === true,
    reason: row[11] as string | null,
    metadata: metadataOf(row),
    createdAtMs: row[8] as number,
    recorded: detail.unrecorded !== true,
  }
}

function metadataOf(row: SqliteRow): Metadata | null {
  return row[12] === null ? null : (JSON.parse(row[12] as string) as Metadata)
}
