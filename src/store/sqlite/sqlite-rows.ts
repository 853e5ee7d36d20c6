/**
 * Entries as rows of `leases`, and back. Rows are arrays in the order of the column list here; what has no column of
 * its own is JSON in `detail`, written only where it differs from the ordinary. And how ids, resources and ticks are
 * written in all tables: a resource as a person would write it, a `file:` by its bare path, anything else as `kind:name`.
 */
import type { Delegation } from '../../core/delegation.ts'
import {
  endedAtMs,
  liveDeadline,
  type Claim,
  type CycleStep,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseState,
  type Metadata,
  type ReleaseReason,
  type Revoking,
  type Ticket,
  type TicketFailure,
  type Under,
} from '../../core/lease.ts'
import type { Extent, Mode, Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import type { SqliteRow, SqliteValue } from '../../drivers/sqlite-driver.ts'

/** How what a row holds is named outside of it. */
export interface RowNames {
  readonly namespace: string
  /** Clock domains by number: a row holds the number, an entry the name. */
  domainOf(generation: number): string
  generationOf(domain: string): number
}

const DEFAULT_NAMESPACE = 'default'

/** Ids as they are kept: bare in the default namespace, so that a person can use them, marked in any other. */
export function keyOf(id: string, { namespace }: RowNames): string {
  return namespace === DEFAULT_NAMESPACE ? id : `${namespace}/${id}`
}

/**
 * The condition for events of one namespace, as the index that holds them words it: the default namespace has one of
 * its own, without the name in each row. Anything else but lower-case letters, digits and `._-` is no namespace.
 */
export function inNamespace({ namespace }: RowNames, row = 'lease_history'): string {
  const isDefault = `${row}.namespace = '${DEFAULT_NAMESPACE}'`
  if (namespace === DEFAULT_NAMESPACE) return isDefault
  return `${row}.namespace = '${namespace}' AND ${row}.namespace <> '${DEFAULT_NAMESPACE}'`
}

export function idOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/**
 * A number by which the events of a lease are found, made of the front of its id, which grows with time in those that
 * Tenure makes. Two leases may share one: whoever looks compares the id as well.
 */
export function leaseNumberOf(id: string): number {
  const digits = id.slice(0, 8) + id.slice(9, 13) + id.slice(15, 16)
  const number = Number.parseInt(digits, 16)
  return Number.isNaN(number) ? 0 : number
}

/** A tick as it is kept: the number of its clock, and microseconds. */
export type TickValues = readonly [generation: number, us: number]

const FILE_PREFIX = 'file:'

export function pathOf(resource: Resource): string {
  return resource.startsWith(FILE_PREFIX) ? resource.slice(FILE_PREFIX.length) : resource
}

export function resourceOf(path: string): Resource {
  return (path.startsWith('/') ? `${FILE_PREFIX}${path}` : path) as Resource
}

export function tickValues(tick: Tick, names: RowNames): TickValues {
  return [names.generationOf(tick.domain), tick.us]
}

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
const ALL_COLUMNS = [...READ_COLUMNS, 'due_us']

/** What changes while an entry goes on as what it is. No index has any of it, so a renewal costs its row alone. */
const RENEWAL_COLUMNS = [
  'ttl_ms',
  'ttl_seconds',
  'renewal_count',
  'expires_at',
  'updated_at',
  'renewed_at',
  'clock',
  'deadline_us',
  'live_until_us',
  'detail',
]

export const ENTRY_COLUMNS: string = READ_COLUMNS.join(', ')
export const INSERT_ENTRY: string = `INSERT INTO leases (${ALL_COLUMNS.join(', ')})
  VALUES (${ALL_COLUMNS.map(() => '?').join(', ')})`
/** For a ticket that becomes a lease, or an attempt that is made again: anything but the name may differ. */
export const UPDATE_GRANT: string = updateOf([...GRANT_COLUMNS, ...STATE_COLUMNS, 'due_us'])
/** For everything that ends an entry, or makes it anything else than it was. */
export const UPDATE_STATE: string = updateOf([...STATE_COLUMNS, 'due_us'])
/** Does nothing when the row is due at another time than can stay. */
export const UPDATE_RENEWAL: string = `${updateOf(RENEWAL_COLUMNS)} AND due_us BETWEEN ? AND ?`
/** Then this does it: one index has to be written, and not all those that have the state. */
export const UPDATE_DUE: string = updateOf([...RENEWAL_COLUMNS, 'due_us'])

function updateOf(columns: readonly string[]): string {
  return `UPDATE leases SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE id = ?`
}

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

export function nameValues(entry: Entry, names: RowNames): SqliteValue[] {
  return [keyOf(entry.id, names), pathOf(entry.resource), entry.holder, names.namespace]
}

export function grantValues(entry: Entry): SqliteValue[] {
  return [
    entry.session,
    entry.mode,
    entry.extent,
    entry.maxRenewals,
    entry.createdAtMs,
    entry.kind === 'lease' ? entry.fence : null,
    entry.kind === 'lease' ? entry.grantedAtMs : null,
    entry.reason,
    entry.metadata === null ? null : JSON.stringify(entry.metadata),
  ]
}

/** Whether two versions of an entry differ in their state alone. An id that failed may come back as something new. */
export function isSameGrant(before: Entry, after: Entry): boolean {
  return (
    fenceOf(before) === fenceOf(after) &&
    before.kind === after.kind &&
    before.session === after.session &&
    before.mode === after.mode &&
    before.extent === after.extent &&
    before.maxRenewals === after.maxRenewals &&
    before.createdAtMs === after.createdAtMs &&
    before.reason === after.reason &&
    isSameMetadata(before.metadata, after.metadata)
  )
}

function fenceOf(entry: Entry): number | null {
  return entry.kind === 'lease' ? entry.fence : null
}

function isSameMetadata(before: Metadata | null, after: Metadata | null): boolean {
  return before === after || JSON.stringify(before) === JSON.stringify(after)
}

/** Whether an entry goes on as what it was: live, in the same state, by the same clock. */
export function isSameStanding(before: Entry, after: Entry): boolean {
  if (before.state !== after.state) return false
  const domain = liveDeadline(after)?.domain
  if (domain === undefined || liveDeadline(before)?.domain !== domain) return false
  if (before.kind !== 'lease' || after.kind !== 'lease') return before.kind === after.kind
  return (
    before.terminatedAtMs === after.terminatedAtMs && before.releaseReason === after.releaseReason
  )
}

/**
 * A sweep may look at a live entry this much of its TTL too early: then it need not be told of each renewal. Whoever
 * renews at each third of the TTL tells it of every third one.
 */
const EARLY_SHARE = 0.75

/** What a renewal writes, the key of the row, and between what ticks it may be due already. */
export function renewalValues(entry: Entry, wallMs: number, names: RowNames): SqliteValue[] {
  const lease = entry.kind === 'lease' ? entry : null
  const liveUs = liveDeadline(entry)?.us ?? 0
  return [
    entry.ttlMs,
    Math.ceil(entry.ttlMs / 1000),
    lease?.renewals ?? 0,
    lease?.expiresAtMs ?? entry.createdAtMs,
    wallMs,
    lease?.renewedAtMs ?? null,
    names.generationOf(entry.deadline.domain),
    entry.deadline.us,
    liveUs,
    entry.kind === 'lease' ? leaseDetail(entry, names) : ticketDetail(entry, names),
    keyOf(entry.id, names),
    liveUs - entry.ttlMs * 1000 * EARLY_SHARE,
    liveUs,
  ]
}

/** The same for a row that is due at another time than can stay. */
export function dueValues(renewal: readonly SqliteValue[]): SqliteValue[] {
  const [key = null, , liveUs = null] = renewal.slice(RENEWAL_COLUMNS.length)
  return [...renewal.slice(0, RENEWAL_COLUMNS.length), liveUs, key]
}

/** The last of them is when a sweep has to look at it. */
export function stateValues(entry: Entry, wallMs: number, names: RowNames): SqliteValue[] {
  const live = liveDeadline(entry)
  const lease = entry.kind === 'lease' ? entry : null
  return [
    entry.state,
    entry.ttlMs,
    Math.ceil(entry.ttlMs / 1000),
    lease?.renewals ?? 0,
    lease?.expiresAtMs ?? entry.createdAtMs,
    wallMs,
    lease?.renewedAtMs ?? null,
    lease?.terminatedAtMs ?? null,
    endedAtMs(entry),
    lease?.releaseReason ?? null,
    names.generationOf(entry.deadline.domain),
    entry.deadline.us,
    live === null ? null : names.generationOf(live.domain),
    live?.us ?? null,
    entry.kind === 'lease' ? leaseDetail(entry, names) : ticketDetail(entry, names),
    live?.us ?? 0,
  ]
}

function leaseDetail(lease: Lease, names: RowNames): string | null {
  const detail: LeaseDetail = claimDetail(lease)
  if (lease.holdUntilUs !== null) detail.holdUntilUs = lease.holdUntilUs
  if (lease.lockedUntil !== null) detail.locked = tickValues(lease.lockedUntil, names)
  if (lease.revoking !== null) detail.revoking = lease.revoking
  if (lease.upgrading) detail.upgrading = true
  if (!lease.adopted) detail.unadopted = true
  if (lease.epoch !== 0) detail.epoch = lease.epoch
  return isEmpty(detail) ? null : JSON.stringify(detail)
}

function isEmpty(detail: LeaseDetail): boolean {
  for (const _ in detail) return false
  return true
}

function ticketDetail(ticket: Ticket, names: RowNames): string {
  const { orderUs, claimWindowMs, priority, offer, failure } = ticket
  const detail: TicketDetail = { ...claimDetail(ticket), orderUs, claimWindowMs }
  if (ticket.group !== null) detail.group = ticket.group
  if (priority !== 0) detail.priority = priority
  if (offer !== null) detail.offer = [offer.fence, ...tickValues(offer.deadline, names)]
  if (failure !== null) detail.failure = failure
  if (ticket.cycle !== null) detail.cycle = ticket.cycle
  return JSON.stringify(detail)
}

function claimDetail(claim: Claim): ClaimDetail {
  const detail: ClaimDetail = {}
  if (!claim.recorded) detail.unrecorded = true
  if (claim.maxHoldMs !== null) detail.maxHoldMs = claim.maxHoldMs
  if (claim.slots !== null) detail.slots = claim.slots
  if (claim.lockDelayMs !== 0) detail.lockDelayMs = claim.lockDelayMs
  if (claim.breakable) detail.breakable = true
  if (claim.delegation !== undefined) detail.delegation = claim.delegation
  if (claim.under !== undefined) detail.under = claim.under
  return detail
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
