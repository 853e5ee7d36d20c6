/**
 * Entries and events as every store keeps them: key fields, which a store looks for, compares or raises by itself, and a
 * body with all the rest, which a store writes as JSON. A body leaves out what is usual, so that an ordinary lease is short; the functions that
 * read bodies say what is usual.
 *
 * Promises: `decodeEntry(encodeEntry(entry))` is the entry again, and `decodeEvent(encodeEvent(event))` the event. A field
 * that a later version adds is absent from older bodies and reads as its usual value.
 *
 * Ticks of `domain`, the clock of the store, are written as bare microseconds; a tick of another clock names it. Fences
 * are key fields and in no body, because a server raises the new ones while it commits.
 *
 * `isTerse` is for servers, whose ticks are microseconds of wall time and whose bodies are not read with SQL: a terse body
 * also leaves out what its deadline, or the event around it, says already.
 */
import type { Delegation } from './delegation.ts'
import type { EventCommon, LeaseEvent, LeaseEventType } from './event.ts'
import {
  liveDeadline,
  type Claim,
  type CycleStep,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseId,
  type LeaseState,
  type Metadata,
  type ReleaseReason,
  type Revoking,
  type Ticket,
  type TicketFailure,
  type TicketState,
  type Under,
} from './lease.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from './limits.ts'
import type { Extent, Mode, Resource } from './resource.ts'
import { US_PER_MS, type Tick } from './time.ts'

/** What an entry is found by. */
interface EntryKeys {
  readonly id: LeaseId
  readonly resource: Resource
  readonly extent: Extent
  readonly holder: string
  readonly session: string
  readonly state: EntryState
  /** A lease's own, or that of the offer to a ticket; 0 for none. */
  readonly fence: number
  /** The tick at which a live entry stops standing in the way by itself; null for one that has ended. */
  readonly liveUntil: Tick | null
}

/** Plain data without functions, dates or undefined values: JSON gives it back as it was. */
export type RecordBody = Readonly<Record<string, unknown>>

export interface EntryRecord extends EntryKeys {
  readonly body: RecordBody
}

export interface EventRecord {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly session: string
  readonly type: LeaseEventType
  readonly atMs: number
  readonly requestId: string | null
  /** The fence that the event gives; of an event that ends a lease, the fence of that lease; 0 for none. */
  readonly fence: number
  readonly body: RecordBody
}

/** An event, and if it ended an entry what that entry was at its end. */
export interface RecordedEvent {
  readonly event: LeaseEvent
  readonly ended: Entry | null
}

/** Microseconds of the store's clock, or a tick of another one. */
type TickText = number | Tick

interface ClaimBody {
  mode?: Mode
  ttlMs: number
  maxRenewals?: number
  maxHoldMs?: number
  slots?: number
  lockDelayMs?: number
  breakable?: true
  reason?: string | null
  metadata?: Metadata
  createdAtMs: number
  unrecorded?: true
  deadline?: TickText
  delegation?: Delegation
  under?: Under
  tokenName?: string
}

interface LeaseBody extends ClaimBody {
  grantedAtMs?: number
  renewedAtMs?: number
  expiresAtMs?: number
  terminatedAtMs?: number
  holdUntilUs?: number
  renewals?: number
  releaseReason?: ReleaseReason
  lockedUntil?: TickText
  revoking?: Revoking
  upgrading?: true
  unadopted?: true
  epoch?: number
  changedAtMs?: number
}

interface TicketBody extends ClaimBody {
  group?: string
  priority?: number
  orderUs?: number
  claimWindowMs?: number
  behindOwn?: true
  /** The deadline of its offer. */
  offered?: TickText
  failure?: TicketFailure
  cycle?: readonly CycleStep[]
}

type EntryBody = LeaseBody | TicketBody

export function encodeEntry(entry: Entry, domain: string, isTerse = false): EntryRecord {
  const liveUntil = liveDeadline(entry)
  const body = entryBody(entry, { domain, isTerse })
  if (!isSameTick(entry.deadline, liveUntil)) body.deadline = tickText(entry.deadline, domain)
  return {
    id: entry.id,
    resource: entry.resource,
    extent: entry.extent,
    holder: entry.holder,
    session: entry.session,
    state: entry.state,
    fence: fenceOf(entry),
    liveUntil,
    body: body as unknown as RecordBody,
  }
}

export function decodeEntry(record: EntryRecord, domain: string, isTerse = false): Entry {
  return entryOf(record, record.body as unknown as EntryBody, { domain, isTerse })
}

interface BodyForm {
  readonly domain: string
  readonly isTerse: boolean
}

function fenceOf(entry: Entry): number {
  return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
}

function isSameTick(tick: Tick, other: Tick | null): boolean {
  return other !== null && tick.us === other.us && tick.domain === other.domain
}

function tickText(tick: Tick, domain: string): TickText {
  return tick.domain === domain ? tick.us : tick
}

function tickOf(text: TickText, domain: string): Tick {
  return typeof text === 'number' ? { domain, us: text } : text
}

/** All but the deadline, which is mostly a key. */
function entryBody(entry: Entry, form: BodyForm): EntryBody {
  return entry.kind === 'lease' ? leaseBody(entry, form) : ticketBody(entry, form.domain)
}

function claimBody(claim: Claim): ClaimBody {
  const body: ClaimBody = { ttlMs: claim.ttlMs, createdAtMs: claim.createdAtMs }
  if (claim.mode !== 'exclusive') body.mode = claim.mode
  if (claim.maxRenewals !== -1) body.maxRenewals = claim.maxRenewals
  if (claim.maxHoldMs !== null) body.maxHoldMs = claim.maxHoldMs
  if (claim.slots !== null) body.slots = claim.slots
  if (claim.lockDelayMs !== 0) body.lockDelayMs = claim.lockDelayMs
  if (claim.breakable) body.breakable = true
  if (claim.reason !== null) body.reason = claim.reason
  if (claim.metadata !== null) body.metadata = claim.metadata
  if (!claim.recorded) body.unrecorded = true
  if (claim.delegation !== undefined) body.delegation = claim.delegation
  if (claim.under !== undefined) body.under = claim.under
  if (claim.tokenName !== undefined) body.tokenName = claim.tokenName
  return body
}

function leaseBody(lease: Lease, form: BodyForm): LeaseBody {
  const { domain } = form
  const body: LeaseBody = claimBody(lease)
  const { grantedAtMs, expiresAtMs } = lease
  if (grantedAtMs !== lease.createdAtMs) body.grantedAtMs = grantedAtMs
  if (expiresAtMs !== usualExpiryMs(lease, form)) body.expiresAtMs = expiresAtMs
  if (lease.renewedAtMs !== null) body.renewedAtMs = lease.renewedAtMs
  if (lease.terminatedAtMs !== null) body.terminatedAtMs = lease.terminatedAtMs
  if (lease.holdUntilUs !== null) body.holdUntilUs = lease.holdUntilUs
  if (lease.renewals !== 0) body.renewals = lease.renewals
  if (lease.releaseReason !== null) body.releaseReason = lease.releaseReason
  if (lease.lockedUntil !== null) body.lockedUntil = tickText(lease.lockedUntil, domain)
  if (lease.revoking !== null) body.revoking = lease.revoking
  if (lease.upgrading) body.upgrading = true
  if (!lease.adopted) body.unadopted = true
  if (lease.epoch !== 0) body.epoch = lease.epoch
  if (lease.changedAtMs !== undefined) body.changedAtMs = lease.changedAtMs
  return body
}

function usualExpiryMs(
  { grantedAtMs, ttlMs, deadline }: Pick<Lease, 'grantedAtMs' | 'ttlMs' | 'deadline'>,
  { domain, isTerse }: BodyForm,
): number {
  const isWallTime = isTerse && deadline.domain === domain
  return isWallTime ? Math.floor(deadline.us / US_PER_MS) : grantedAtMs + ttlMs
}

function ticketBody(ticket: Ticket, domain: string): TicketBody {
  const body: TicketBody = claimBody(ticket)
  if (ticket.group !== null) body.group = ticket.group
  if (ticket.priority !== 0) body.priority = ticket.priority
  if (ticket.orderUs !== ticket.createdAtMs * US_PER_MS) body.orderUs = ticket.orderUs
  if (ticket.claimWindowMs !== CLAIM_WINDOW_MS_DEFAULT) body.claimWindowMs = ticket.claimWindowMs
  if (ticket.behindOwn !== undefined) body.behindOwn = true
  if (ticket.offer !== null) body.offered = tickText(ticket.offer.deadline, domain)
  if (ticket.failure !== null) body.failure = ticket.failure
  if (ticket.cycle !== null) body.cycle = ticket.cycle
  return body
}

function entryOf(keys: EntryKeys, body: EntryBody, form: BodyForm): Entry {
  const { state } = keys
  const entry = isTicketState(state)
    ? ticketOf(keys, state, body as TicketBody, form.domain)
    : leaseOf(keys, state, body as LeaseBody, form)
  const { delegation, under, tokenName } = body
  if (delegation !== undefined) Object.assign(entry, { delegation })
  if (tokenName !== undefined) Object.assign(entry, { tokenName })
  if (under !== undefined) Object.assign(entry, { under })
  return entry
}

function isTicketState(state: EntryState): state is TicketState {
  return state === 'pending' || state === 'failed'
}

function deadlineOf({ id, liveUntil }: EntryKeys, { deadline }: ClaimBody, domain: string): Tick {
  if (deadline !== undefined) return tickOf(deadline, domain)
  if (liveUntil === null) throw new Error(`the record of ${id} has no deadline`)
  return liveUntil
}

/** One literal, as in all that makes leases: V8 takes ten times as long for an object that is put together. */
function leaseOf(keys: EntryKeys, state: LeaseState, body: LeaseBody, form: BodyForm): Lease {
  const { domain } = form
  const { ttlMs, grantedAtMs = body.createdAtMs } = body
  const deadline = deadlineOf(keys, body, domain)
  const lease: Lease = {
    id: keys.id,
    resource: keys.resource,
    mode: body.mode ?? 'exclusive',
    extent: keys.extent,
    holder: keys.holder,
    session: keys.session,
    ttlMs: body.ttlMs,
    maxRenewals: body.maxRenewals ?? -1,
    maxHoldMs: body.maxHoldMs ?? null,
    slots: body.slots ?? null,
    lockDelayMs: body.lockDelayMs ?? 0,
    breakable: body.breakable ?? false,
    reason: body.reason ?? null,
    metadata: body.metadata ?? null,
    createdAtMs: body.createdAtMs,
    recorded: body.unrecorded !== true,
    kind: 'lease',
    state,
    fence: keys.fence,
    grantedAtMs,
    renewedAtMs: body.renewedAtMs ?? null,
    expiresAtMs: body.expiresAtMs ?? usualExpiryMs({ grantedAtMs, ttlMs, deadline }, form),
    terminatedAtMs: body.terminatedAtMs ?? null,
    deadline,
    holdUntilUs: body.holdUntilUs ?? null,
    renewals: body.renewals ?? 0,
    releaseReason: body.releaseReason ?? null,
    lockedUntil: body.lockedUntil === undefined ? null : tickOf(body.lockedUntil, domain),
    revoking: body.revoking ?? null,
    upgrading: body.upgrading ?? false,
    adopted: body.unadopted !== true,
    epoch: body.epoch ?? 0,
  }
  const { changedAtMs } = body
  return changedAtMs === undefined ? lease : Object.assign(lease, { changedAtMs })
}

function ticketOf(keys: EntryKeys, state: TicketState, body: TicketBody, domain: string): Ticket {
  const { offered, behindOwn } = body
  const ticket: Ticket = {
    id: keys.id,
    resource: keys.resource,
    mode: body.mode ?? 'exclusive',
    extent: keys.extent,
    holder: keys.holder,
    session: keys.session,
    ttlMs: body.ttlMs,
    maxRenewals: body.maxRenewals ?? -1,
    maxHoldMs: body.maxHoldMs ?? null,
    slots: body.slots ?? null,
    lockDelayMs: body.lockDelayMs ?? 0,
    breakable: body.breakable ?? false,
    reason: body.reason ?? null,
    metadata: body.metadata ?? null,
    createdAtMs: body.createdAtMs,
    recorded: body.unrecorded !== true,
    kind: 'ticket',
    state,
    group: body.group ?? null,
    priority: body.priority ?? 0,
    orderUs: body.orderUs ?? body.createdAtMs * US_PER_MS,
    deadline: deadlineOf(keys, body, domain),
    claimWindowMs: body.claimWindowMs ?? CLAIM_WINDOW_MS_DEFAULT,
    offer: offered === undefined ? null : { fence: keys.fence, deadline: tickOf(offered, domain) },
    failure: body.failure ?? null,
    cycle: body.cycle ?? null,
  }
  return behindOwn === undefined ? ticket : Object.assign(ticket, { behindOwn })
}

/** The entry that an event tells of, as far as it differs from what the event says itself. */
interface InnerBody {
  state?: EntryState
  extent?: Extent
  holder?: string
  session?: string
  body: Partial<EntryBody>
}

/** Beside these, whatever fields the event's own type has, by their names. */
interface EventBody {
  before?: EntryState | null
  after?: EntryState
  renewals?: number
  reason?: string
  entry?: InnerBody
  ended?: InnerBody
  [field: string]: unknown
}

/** The states before and after most events of a type. */
export const USUAL_STATES: Readonly<
  Record<LeaseEventType, readonly [before: EntryState | null, after: EntryState]>
> = {
  'lease.issued': [null, 'active'],
  'lease.renewed': ['active', 'active'],
  'lease.released': ['active', 'released'],
  'lease.expired': ['active', 'expired'],
  'lease.revoked': ['active', 'revoked'],
  'lease.revoking': ['active', 'active'],
  'lease.upgrading': ['active', 'active'],
  'lease.upgraded': ['active', 'active'],
  'lease.downgraded': ['active', 'active'],
  'lease.transferred': ['active', 'released'],
  'lease.adopted': ['active', 'active'],
  'lease.advanced': ['active', 'active'],
  'lease.unlocked': ['expired', 'expired'],
  'lease.queued': [null, 'pending'],
  'lease.offered': ['pending', 'pending'],
  'lease.waiting': ['pending', 'pending'],
  'lease.failed': ['pending', 'failed'],
  'lease.denied': [null, 'failed'],
  'lease.accounted': ['active', 'active'],
  'lease.updated': ['active', 'active'],
  'lease.trespassed': ['active', 'active'],
}

/** Fields of events that are no part of what is their type's own. */
const COMMON_FIELDS: ReadonlySet<string> = new Set<
  keyof EventCommon | 'type' | 'fence' | EntryField
>([
  'leaseId',
  'resource',
  'holder',
  'session',
  'atMs',
  'before',
  'after',
  'renewals',
  'reason',
  'requestId',
  'type',
  'fence',
  'lease',
  'ticket',
])

type EntryField = 'lease' | 'ticket'

/** Fields that hold a tick, or null. */
const TICK_FIELDS: ReadonlySet<string> = new Set(['deadline', 'lockedUntil'])

export function encodeEvent(
  { event, ended }: RecordedEvent,
  domain: string,
  isTerse = false,
): EventRecord {
  const form = { domain, isTerse }
  const [before, after] = USUAL_STATES[event.type]
  const body: EventBody = {}
  if (event.before !== before) body.before = event.before
  if (event.after !== after) body.after = event.after
  if (event.renewals !== 0) body.renewals = event.renewals
  if (event.reason !== null) body.reason = event.reason
  const fields = event as unknown as Readonly<Record<string, unknown>>
  for (const name in fields) {
    if (COMMON_FIELDS.has(name)) continue
    const field = fields[name]
    body[name] = TICK_FIELDS.has(name) && field !== null ? tickText(field as Tick, domain) : field
  }
  const entry = entryIn(event)
  if (entry !== null) body.entry = innerBody(entry, event, form)
  if (ended !== null) body.ended = innerBody(ended, event, form)
  if (isTerse) leaveOutRepeats(body, event, ended)
  return {
    leaseId: event.leaseId,
    resource: event.resource,
    holder: event.holder,
    session: event.session,
    type: event.type,
    atMs: event.atMs,
    requestId: event.requestId,
    fence: fenceIn(event) ?? (ended === null ? 0 : fenceOf(ended)),
    body,
  }
}

export function decodeEvent(record: EventRecord, domain: string, isTerse = false): RecordedEvent {
  const body = isTerse ? withRepeats(record) : (record.body as EventBody)
  const { before, after, renewals = 0, reason = null, entry, ended, ...own } = body
  const { type, fence } = record
  const [usualBefore, usualAfter] = USUAL_STATES[type]
  const common: EventCommon = {
    leaseId: record.leaseId,
    resource: record.resource,
    holder: record.holder,
    session: record.session,
    atMs: record.atMs,
    before: before === undefined ? usualBefore : before,
    after: after ?? usualAfter,
    renewals,
    reason,
    requestId: record.requestId,
  }
  const inner = (found: InnerBody): Entry =>
    innerOf(found, { ...common, fence }, { domain, isTerse })
  return {
    event: eventOf(common, { type, fence, own, entry: entry && inner(entry) }, domain),
    ended: ended === undefined ? null : inner(ended),
  }
}

/**
 * An event that ends a lease, and the lease at its end, mostly say the same. Null stands where the other says something and
 * this one does not. The reason of a release is its `releaseReason`, and not the one for which the lease was wanted.
 */
function leaveOutRepeats(body: EventBody, event: LeaseEvent, ended: Entry | null): void {
  const { releaseReason, terminatedAtMs = event.atMs } = body
  leaveOut(body, 'reason', releaseReason)
  if (ended?.kind !== 'lease' || body.ended === undefined) return
  const inner = body.ended.body
  leaveOut(inner, 'releaseReason', releaseReason)
  leaveOut(inner, 'terminatedAtMs', terminatedAtMs)
  if (releaseReason === undefined) return
  if (ended.reason === null) delete inner.reason
  else inner.reason = ended.reason
}

function leaveOut(body: object, field: string, repeated: unknown): void {
  const said: unknown = Reflect.get(body, field)
  if (said === repeated) Reflect.deleteProperty(body, field)
  else Reflect.set(body, field, said ?? null)
}

function withRepeats({ body: terse, type, atMs }: EventRecord): EventBody {
  const body: EventBody = { ...terse }
  const { releaseReason, terminatedAtMs = atMs, ended, after = USUAL_STATES[type][1] } = body
  const isRelease = releaseReason !== undefined
  if (isRelease && body.reason === undefined) body.reason = releaseReason as string
  if (ended === undefined || isTicketState(ended.state ?? after)) return body
  const usual = { releaseReason, terminatedAtMs, ...(isRelease ? { reason: null } : {}) }
  body.ended = { ...ended, body: { ...usual, ...ended.body } as EntryBody }
  return body
}

function entryIn(event: LeaseEvent): Entry | null {
  if (event.type === 'lease.issued') return event.lease
  return event.type === 'lease.queued' || event.type === 'lease.denied' ? event.ticket : null
}

/** The fence that an event gives, if it gives one. */
function fenceIn(event: LeaseEvent): number | undefined {
  const { fence }: EventCommon & { readonly fence?: number } = event
  return event.type === 'lease.issued' ? event.lease.fence : fence
}

function innerBody(entry: Entry, event: LeaseEvent, form: BodyForm): InnerBody {
  const body: Partial<EntryBody> = entryBody(entry, form)
  body.deadline = tickText(entry.deadline, form.domain)
  if (form.isTerse && body.createdAtMs === event.atMs) delete body.createdAtMs
  if (entry.reason === event.reason) delete body.reason
  else body.reason = entry.reason
  const inner: InnerBody = { body }
  if (entry.state !== event.after) inner.state = entry.state
  if (entry.extent !== 'exact') inner.extent = entry.extent
  if (entry.holder !== event.holder) inner.holder = entry.holder
  if (entry.session !== event.session) inner.session = entry.session
  return inner
}

function innerOf(
  { state, extent = 'exact', holder, session, body }: InnerBody,
  event: EventCommon & { readonly fence: number },
  form: BodyForm,
): Entry {
  const keys: EntryKeys = {
    id: event.leaseId,
    resource: event.resource,
    extent,
    holder: holder ?? event.holder,
    session: session ?? event.session,
    state: state ?? event.after,
    fence: event.fence,
    liveUntil: null,
  }
  const reason = body.reason === undefined ? event.reason : body.reason
  return entryOf(keys, { createdAtMs: event.atMs, ...body, reason } as EntryBody, form)
}

interface EventParts {
  readonly type: LeaseEventType
  readonly fence: number
  readonly own: Readonly<Record<string, unknown>>
  readonly entry: Entry | undefined
}

function eventOf(common: EventCommon, parts: EventParts, domain: string): LeaseEvent {
  const { type, fence, own, entry } = parts
  if (type === 'lease.issued') return { ...common, type, lease: entry as Lease }
  if (type === 'lease.queued') return { ...common, type, ticket: entry as Ticket }
  if (type === 'lease.denied') return { ...common, type, ticket: (entry ?? null) as Ticket | null }
  const fields: Record<string, unknown> = { ...common, type }
  for (const name in own) {
    const field = own[name]
    const isOwnTick = TICK_FIELDS.has(name) && typeof field === 'number'
    fields[name] = isOwnTick ? { domain, us: field } : field
  }
  if (type === 'lease.offered' || type === 'lease.upgraded') fields['fence'] = fence
  return fields as unknown as LeaseEvent
}
