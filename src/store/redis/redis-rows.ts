/**
 * Entries and events as text, and back. An entry is JSON behind the numbers that the scripts compare and count; an event
 * is JSON behind what the scripts must know of it. The fence stands outside of the JSON, because the server may move it.
 */
import type { Delegation } from '../../core/delegation.ts'
import type { EventCommon, LeaseEvent, LeaseEventType } from '../../core/event.ts'
import {
  liveDeadline,
  type Claim,
  type Entry,
  type EntryState,
  type Lease,
  type Metadata,
  type Ticket,
} from '../../core/lease.ts'
import type { Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import type { Kept } from '../speculation/backend.ts'

/** The server's clock, whichever server it is: a failover must not end every lease. */
export const CLOCK_DOMAIN = 'redis/time/0#1'

/** Microseconds, or with its domain a tick of a clock that is not the server's. */
type TickText = number | readonly [domain: string, us: number]

function tickText({ domain, us }: Tick): TickText {
  return domain === CLOCK_DOMAIN ? us : [domain, us]
}

function tickOf(text: TickText): Tick {
  if (typeof text === 'number') return { domain: CLOCK_DOMAIN, us: text }
  return { domain: text[0], us: text[1] }
}

function maybeTickText(tick: Tick | null): TickText | null {
  return tick === null ? null : tickText(tick)
}

function maybeTickOf(text: TickText | null): Tick | null {
  return text === null ? null : tickOf(text)
}

/** The fence that an entry carries: a lease's own, or that of the offer to a ticket; 0 for none. */
function fenceOf(entry: Entry): number {
  return entry.kind === 'lease' ? entry.fence : (entry.offer?.fence ?? 0)
}

export function entryText(entry: Entry): string {
  const claim = [
    entry.resource,
    entry.state,
    entry.mode,
    entry.extent,
    entry.holder,
    entry.session,
    entry.ttlMs,
    entry.maxRenewals,
    entry.maxHoldMs,
    entry.slots,
    entry.lockDelayMs,
    entry.breakable,
    entry.reason,
    entry.metadata,
    entry.createdAtMs,
    entry.recorded,
    tickText(entry.deadline),
  ]
  if (entry.kind === 'lease') pushLease(claim, entry)
  else pushTicket(claim, entry)
  return JSON.stringify(claim)
}

function pushLease(fields: unknown[], lease: Lease): void {
  fields.push(
    lease.grantedAtMs,
    lease.renewedAtMs,
    lease.expiresAtMs,
    lease.terminatedAtMs,
    lease.holdUntilUs,
    lease.renewals,
    lease.releaseReason,
    maybeTickText(lease.lockedUntil),
    lease.revoking,
    lease.upgrading,
    lease.adopted,
    // The 29th of all; the script that trims the ledger reads it there.
    lease.epoch,
  )
  if (lease.delegation !== undefined) fields.push(lease.delegation)
}

function pushTicket(fields: unknown[], ticket: Ticket): void {
  fields.push(
    ticket.group,
    ticket.priority,
    ticket.orderUs,
    ticket.claimWindowMs,
    maybeTickText(ticket.offer?.deadline ?? null),
    ticket.failure,
    ticket.cycle,
  )
  if (ticket.delegation !== undefined) fields.push(ticket.delegation)
}

type Fields = readonly unknown[]

interface EntryNames {
  readonly id: string
  readonly fence: number
}

function entryOf(fields: Fields, { id, fence }: EntryNames): Entry {
  const claim: Claim = {
    id,
    resource: fields[0] as Resource,
    mode: fields[2] as Claim['mode'],
    extent: fields[3] as Claim['extent'],
    holder: fields[4] as string,
    session: fields[5] as string,
    ttlMs: fields[6] as number,
    maxRenewals: fields[7] as number,
    maxHoldMs: fields[8] as number | null,
    slots: fields[9] as number | null,
    lockDelayMs: fields[10] as number,
    breakable: fields[11] as boolean,
    reason: fields[12] as string | null,
    metadata: fields[13] as Metadata | null,
    createdAtMs: fields[14] as number,
    recorded: fields[15] as boolean,
  }
  const state = fields[1] as EntryState
  return state === 'pending' || state === 'failed'
    ? { ...claim, state, ...ticketFields(fields, fence), ...delegationAt(fields, 24) }
    : { ...claim, state, ...leaseFields(fields, fence), ...delegationAt(fields, 29) }
}

/** The last field, of those entries that have one. */
function delegationAt(fields: Fields, index: number): Pick<Claim, 'delegation'> {
  const delegation = fields[index] as Delegation | undefined
  return delegation === undefined ? {} : { delegation }
}

function leaseFields(fields: Fields, fence: number): Omit<Lease, keyof Claim | 'state'> {
  return {
    kind: 'lease',
    fence,
    deadline: tickOf(fields[16] as TickText),
    grantedAtMs: fields[17] as number,
    renewedAtMs: fields[18] as number | null,
    expiresAtMs: fields[19] as number,
    terminatedAtMs: fields[20] as number | null,
    holdUntilUs: fields[21] as number | null,
    renewals: fields[22] as number,
    releaseReason: fields[23] as Lease['releaseReason'],
    lockedUntil: maybeTickOf(fields[24] as TickText | null),
    revoking: fields[25] as Lease['revoking'],
    upgrading: fields[26] as boolean,
    adopted: fields[27] as boolean,
    epoch: fields[28] as number,
  }
}

function ticketFields(fields: Fields, fence: number): Omit<Ticket, keyof Claim | 'state'> {
  const offered = maybeTickOf(fields[21] as TickText | null)
  return {
    kind: 'ticket',
    deadline: tickOf(fields[16] as TickText),
    group: fields[17] as string | null,
    priority: fields[18] as number,
    orderUs: fields[19] as number,
    claimWindowMs: fields[20] as number,
    offer: offered === null ? null : { fence, deadline: offered },
    failure: fields[22] as Ticket['failure'],
    cycle: fields[23] as Ticket['cycle'],
  }
}

/** A record as the server keeps it. */
export interface KeptRecord extends Kept {
  /** When it was created, on the scale of positions of the ledger. */
  readonly created: number
}

export function recordText({ entry, version, claim }: Kept, text: string, request: string): string {
  const renewals = entry.kind === 'lease' ? entry.renewals : 0
  const live = liveDeadline(entry)?.us ?? 0
  const numbers = `${version} ${claim} ${fenceOf(entry)} ${live} ${entry.ttlMs} ${renewals}`
  return `${numbers} ${request} ${text}`
}

const RECORD_PATTERN = /^(\d+) (\d+) (\d+) \d+ \d+ \d+ \S+ /

export function recordOf(id: string, text: string, created: number): KeptRecord {
  const [head, version, claim, fence] = RECORD_PATTERN.exec(text) ?? []
  if (head === undefined) throw new Error(`the record of entry ${id} is not one of Tenure's`)
  const fields = JSON.parse(text.slice(head.length)) as Fields
  const entry = entryOf(fields, { id, fence: Number(fence) })
  return { entry, version: Number(version), claim: Number(claim), created }
}

/** `textOf` gives the text of the entry that the event leaves behind, which may be known already. */
export function eventText(event: LeaseEvent, textOf: (entry: Entry) => string): string {
  const { leaseId, type, atMs, requestId, renewals } = event
  const head = `${leaseId} ${eventNumber(event)} ${markOf(type)} ${atMs} ${requestId ?? '-'} ${renewals}`
  const { resource, holder, session, before, after, reason } = event
  const common = JSON.stringify([resource, holder, session, before, after, reason])
  return `${head} ${type} ${common.slice(0, -1)}${restText(event, textOf)}]`
}

/** Renewals and advances are forgotten once later ones are kept. */
function markOf(type: LeaseEvent['type']): string {
  if (type === 'lease.renewed') return 'r'
  return type === 'lease.advanced' ? 'a' : 'e'
}

/** The fence that was given, or the epoch that was advanced to: what scripts look at without reading the rest. */
function eventNumber(event: LeaseEvent): number {
  if (event.type === 'lease.issued') return event.lease.fence
  if (event.type === 'lease.advanced') return event.to
  return event.type === 'lease.offered' || event.type === 'lease.upgraded' ? event.fence : 0
}

/** What only this type of event has, as the rest of a JSON array. */
function restText(event: LeaseEvent, textOf: (entry: Entry) => string): string {
  if (event.type === 'lease.issued') return `,${textOf(event.lease)}`
  if (event.type === 'lease.queued' || event.type === 'lease.denied') {
    return `,${textOf(event.ticket)}`
  }
  const rest = JSON.stringify(restOf(event))
  return rest === '[]' ? '' : `,${rest.slice(1, -1)}`
}

type PlainEvent = Exclude<LeaseEvent, { type: 'lease.issued' | 'lease.queued' | 'lease.denied' }>

function restOf(event: PlainEvent): readonly unknown[] {
  switch (event.type) {
    case 'lease.renewed':
      return [event.ttlMs, event.expiresAtMs, tickText(event.deadline)]
    case 'lease.released':
      return [event.releaseReason]
    case 'lease.expired':
      return [event.terminatedAtMs, maybeTickText(event.lockedUntil)]
    case 'lease.revoked':
      return [event.by, event.terminatedAtMs, maybeTickText(event.lockedUntil)]
    case 'lease.revoking':
      return [event.by, tickText(event.deadline), event.expiresAtMs]
    case 'lease.advanced':
      return [event.from, event.to]
    case 'lease.upgrading':
      return [event.wished]
    case 'lease.transferred':
      return [event.to]
    case 'lease.adopted':
      return [tickText(event.deadline), event.expiresAtMs]
    case 'lease.offered':
    case 'lease.waiting':
      return [tickText(event.deadline)]
    case 'lease.failed':
      return [event.failure, event.cycle]
    case 'lease.accounted':
      return [event.change]
    case 'lease.upgraded':
    case 'lease.downgraded':
    case 'lease.unlocked':
      return []
  }
}

const EVENT_PATTERN = /^(\S+) (\d+) [a-z] (\d+) (\S+) (\d+) (\S+) /

export function eventOf(text: string): LeaseEvent {
  const [head, leaseId, fence, atMs, requestId, renewals, type] = EVENT_PATTERN.exec(text) ?? []
  if (head === undefined || leaseId === undefined) {
    throw new Error('an entry of the ledger is not one of Tenure')
  }
  const fields = JSON.parse(text.slice(head.length)) as Fields
  const common: EventCommon = {
    leaseId,
    resource: fields[0] as Resource,
    holder: fields[1] as string,
    session: fields[2] as string,
    atMs: Number(atMs),
    before: fields[3] as EntryState | null,
    after: fields[4] as EntryState,
    renewals: Number(renewals),
    reason: fields[5] as string | null,
    requestId: requestId === '-' ? null : (requestId ?? null),
  }
  return eventFrom(common, type as LeaseEventType, { fence: Number(fence), rest: fields.slice(6) })
}

interface EventRest {
  readonly fence: number
  readonly rest: Fields
}

function eventFrom(
  common: EventCommon,
  type: LeaseEventType,
  { fence, rest }: EventRest,
): LeaseEvent {
  const entry = (): Entry => entryOf(rest[0] as Fields, { id: common.leaseId, fence })
  if (type === 'lease.issued') return { ...common, type, lease: entry() as Lease }
  if (type === 'lease.queued' || type === 'lease.denied') {
    return { ...common, type, ticket: entry() as Ticket }
  }
  if (type === 'lease.upgraded') return { ...common, type, fence }
  if (type === 'lease.offered') {
    return { ...common, type, fence, deadline: tickOf(rest[0] as TickText) }
  }
  return plainEvent(common, type, rest)
}

type PlainType = Exclude<PlainEvent['type'], 'lease.upgraded' | 'lease.offered'>

function plainEvent(common: EventCommon, type: PlainType, rest: Fields): LeaseEvent {
  const tickAt = (at: number): Tick => tickOf(rest[at] as TickText)
  const lockedAt = (at: number): Tick | null => maybeTickOf(rest[at] as TickText | null)
  const [first, second] = rest as readonly [never, never]
  switch (type) {
    case 'lease.renewed':
      return { ...common, type, ttlMs: first, expiresAtMs: second, deadline: tickAt(2) }
    case 'lease.released':
      return { ...common, type, releaseReason: first }
    case 'lease.expired':
      return { ...common, type, terminatedAtMs: first, lockedUntil: lockedAt(1) }
    case 'lease.revoked':
      return { ...common, type, by: first, terminatedAtMs: second, lockedUntil: lockedAt(2) }
    case 'lease.revoking':
      return { ...common, type, by: first, deadline: tickAt(1), expiresAtMs: rest[2] as number }
    case 'lease.advanced':
      return { ...common, type, from: first, to: second }
    case 'lease.upgrading':
      return { ...common, type, wished: first }
    case 'lease.transferred':
      return { ...common, type, to: first }
    case 'lease.adopted':
      return { ...common, type, deadline: tickAt(0), expiresAtMs: second }
    case 'lease.waiting':
      return { ...common, type, deadline: tickAt(0) }
    case 'lease.failed':
      return { ...common, type, failure: first, cycle: second }
    case 'lease.accounted':
      return { ...common, type, change: first }
    case 'lease.downgraded':
    case 'lease.unlocked':
      return { ...common, type }
  }
}
