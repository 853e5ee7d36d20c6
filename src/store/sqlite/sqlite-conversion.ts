/**
 * Brings the rows of versions 1 to 8, in which live and ended leases shared a table, into the live set and the ledger.
 * It runs inside the migration's transaction, on `old_leases` and `old_history`, and leaves both for the migration to drop.
 * Positions stay what they were; what the last event of an ended lease has left behind goes with that event.
 */
import { LeaseError } from '../../core/errors.ts'
import type { LeaseEvent, EventCommon, LeaseEventType } from '../../core/event.ts'
import {
  isLive,
  type Claim,
  type CycleStep,
  type EntryState,
  type Lease,
  type Metadata,
  type ReleaseReason,
  type Revoking,
  type Ticket,
  type TicketFailure,
  type Under,
  type Entry,
  type LeaseState,
} from '../../core/lease.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import { domainName, isSameClock } from '../embedded-clock.ts'
import type { SqliteDatabase, SqliteRow, SqliteStatement } from '../../drivers/sqlite-driver.ts'
import { eventValues, HistoryIndex, INSERT_EVENT, typeOf } from './sqlite-history.ts'
import { entryValues, INSERT_ENTRY } from './sqlite-live.ts'
import { idOf, resourceOf, type RowNames, sequenceOf, StatementCache } from './sqlite-state.ts'
import type { AccountChange, Delegation } from '../../core/delegation.ts'
import type { Extent, Mode } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'

/** More would be no help to a person who has to end them. */
const HELD_NAMED_MAX = 5

/** Whose file is converted, by which clock, and whether also beside processes that may still use it. */
interface Conversion {
  readonly url: string
  readonly ticks: TickSource
  readonly isForced: boolean
}

/** A table of leases, and its column that names the clock by which they go. */
export interface RunningLeases {
  readonly table: string
  readonly clock: string
}

/**
 * Refuses while a lease runs: the process that holds it is likely to be of the older version, and could not renew it any
 * more. Leases of an earlier boot are over.
 */
export function refuseWhileHeld(
  database: SqliteDatabase,
  { table, clock }: RunningLeases,
  { url, ticks, isForced }: Conversion,
): void {
  if (isForced) return
  const { domain } = ticks
  const running = database
    .prepare(
      `SELECT file_path, agent_id, live_until_us, base FROM ${table}
       JOIN store_state USING (namespace)
       JOIN clock_domains USING (namespace)
       WHERE status = 'active' AND generation = store_state.clock AND ${clock} = generation
         AND live_until_us > ? ORDER BY live_until_us, ${table}.rowid`,
    )
    .raw()
    .all(ticks.tickUs()) as (readonly [string, string, number, base: string])[]
  const rows = running.filter(([, , , base]) => domain === null || isSameClock(base, domain))
  if (rows.length === 0) return
  const named = rows.slice(0, HELD_NAMED_MAX).map(([path, holder, untilUs]) => {
    const seconds = Math.ceil((untilUs - ticks.tickUs()) / 1_000_000)
    return `${path} of ${holder} (${seconds} s)`
  })
  const more = rows.length > named.length ? ` and ${rows.length - named.length} more` : ''
  throw new LeaseError(
    'STORE_SCHEMA',
    `${url} has the tables of an older version, whose processes may still hold ${named.join(', ')}${more}; it is converted when they have ended, or with tenure doctor --convert`,
    { details: { store: url, held: rows.length } },
  )
}

export function convertRows(database: SqliteDatabase): void {
  const namespaces = database
    .prepare('SELECT namespace, number, last_seq FROM store_state ORDER BY number')
    .raw()
    .all() as SqliteRow[]
  for (const [namespace, number, lastPosition] of namespaces) {
    const names = namesOf(database, namespace as string, number as number)
    convertLive(database, names)
    convertEvents(database, names)
    new HistoryIndex(new StatementCache(database), names).build(0, lastPosition as number)
  }
}

interface OldNames extends RowNames {
  readonly firstDomain: string
}

/** Clocks as they were written down; a conversion meets no new one. */
function namesOf(database: SqliteDatabase, namespace: string, namespaceNumber: number): OldNames {
  const rows = database
    .prepare('SELECT generation, base FROM clock_domains WHERE namespace = ?')
    .raw()
    .all(namespace) as SqliteRow[]
  const domains = new Map<number, string>()
  const generations = new Map<string, number>()
  for (const [generation, base] of rows as (readonly [number, string])[]) {
    const domain = generation < 0 ? base : domainName(base, generation)
    domains.set(generation, domain)
    generations.set(domain, generation)
  }
  const [firstDomain = ''] = domains.values()
  return {
    namespace,
    namespaceNumber,
    firstDomain,
    domainOf: (generation) => known(domains.get(generation), `clock ${generation}`),
    generationOf: (domain) => known(generations.get(domain), `clock ${domain}`),
  }
}

function known<Value>(value: Value | undefined, what: string): Value {
  if (value === undefined) throw new Error(`${what} was never written down`)
  return value
}

function convertLive(database: SqliteDatabase, names: RowNames): void {
  const insert = database.prepare(INSERT_ENTRY)
  const live = database
    .prepare(
      `SELECT ${OLD_ENTRY_COLUMNS} FROM old_leases
       WHERE live_clock IS NOT NULL AND namespace = ? ORDER BY rowid`,
    )
    .raw()
  for (const row of live.all(names.namespace)) {
    insert.run(...entryValues(oldEntryOf(row as SqliteRow, names), names))
  }
}

/** Events read at once; a ledger may be larger than memory. */
const BATCH = 5_000

function convertEvents(database: SqliteDatabase, names: OldNames): void {
  const insert = database.prepare(INSERT_EVENT)
  const read = database
    .prepare(
      `SELECT ${OLD_EVENT_COLUMNS}, seq = (SELECT max(seq) FROM old_history AS later
         WHERE later.lease_number = old_history.lease_number
           AND later.lease_id = old_history.lease_id)
       FROM old_history WHERE namespace = ? AND seq > ? ORDER BY seq LIMIT ${BATCH}`,
    )
    .raw()
  const readEntry = database
    .prepare(`SELECT ${OLD_ENTRY_COLUMNS} FROM old_leases WHERE id = ?`)
    .raw()
  for (let after = 0; ;) {
    const rows = read.all(names.namespace, after) as SqliteRow[]
    for (const row of rows) convertEvent(row, { insert, readEntry, names })
    const last = rows.at(-1)
    if (last === undefined) return
    after = last[10] as number
  }
}

interface EventConversion {
  readonly insert: SqliteStatement
  readonly readEntry: SqliteStatement
  readonly names: OldNames
}

function convertEvent(row: SqliteRow, { insert, readEntry, names }: EventConversion): void {
  const event = oldEventOf(row, names)
  const key = row[1] as string
  const found = row.at(-1) === 1 ? (readEntry.get(key) as SqliteRow | undefined) : undefined
  const entry = found === undefined ? null : oldEntryOf(found, names)
  const ended = entry !== null && !isLive(entry) && entry.id === idOf(key) ? entry : null
  const sequence = sequenceOf(row[10] as number, names)
  const domain = ended?.deadline.domain ?? domainIn(event) ?? names.firstDomain
  insert.run(...eventValues({ event, ended }, { sequence, domain }, names))
}

/** The clock of the ticks that an event tells of. */
function domainIn(event: LeaseEvent): string | null {
  if (event.type === 'lease.issued') return event.lease.deadline.domain
  if (event.type === 'lease.queued' || event.type === 'lease.denied') {
    return event.ticket?.deadline.domain ?? null
  }
  return 'deadline' in event ? event.deadline.domain : null
}

const OLD_EVENT_COLUMNS: string = `id, lease_id, agent_id, file_path, event_type, status_before, status_after, renewal_count,
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

function oldEventOf(row: SqliteRow, names: RowNames): LeaseEvent {
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

/** A tick as it is kept: the number of its clock, and microseconds. */
type TickValues = readonly [generation: number, us: number]

function tickFrom([generation, us]: TickValues, names: RowNames): Tick {
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

const OLD_ENTRY_COLUMNS: string = READ_COLUMNS.join(', ')

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

function oldEntryOf(row: SqliteRow, names: RowNames): Entry {
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
