/**
 * Events as text, and back: numbers and ids that the scripts must know, in fixed places, then the type and JSON. The
 * event that an entry begins with leaves out what the entry's body says.
 */
import type { EventCommon, LeaseEvent, LeaseEventType } from '../../core/event.ts'
import type { Entry, EntryState, Lease, Ticket } from '../../core/lease.ts'
import type { Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import {
  bodyText,
  digits,
  entryOf,
  maybeTickOf,
  maybeTickText,
  movingText,
  tickOf,
  tickText,
  type Fields,
  type TickText,
} from './redis-rows.ts'

export const NO_REQUEST: string = '-'.repeat(36)
const JSON_AT = 113

/** `born` is the entry that this event creates, if it does. */
export function eventText(event: LeaseEvent, born: Entry | null): string {
  const { leaseId, type, atMs, requestId, renewals } = event
  const mark = born === null ? markOf(type) : 'c'
  const numbers = `${digits(eventFence(event), 16)}${mark}${digits(atMs, 13)}${digits(renewals, 10)}`
  const head = `${leaseId}${numbers}${requestId ?? NO_REQUEST}`
  const { before, after } = event
  if (born !== null && tellsOf(event, born)) {
    const was = before === null ? 'null' : `"${before}"`
    return `${head}b${type} [${was},"${after}",${movingText(born)}]`
  }
  const { resource, holder, session, reason } = event
  const common = JSON.stringify([resource, holder, session, before, after, reason])
  return `${head}-${type} ${common.slice(0, -1)}${restText(event)}]`
}

/** Renewals and advances are forgotten once later ones are kept. */
function markOf(type: LeaseEventType): string {
  if (type === 'lease.renewed') return 'r'
  return type === 'lease.advanced' ? 'a' : 'e'
}

/** Whether an event says of the entry that it creates what the entry says itself. */
function tellsOf(event: LeaseEvent, born: Entry): boolean {
  if (entryIn(event) !== born) return false
  const { resource, holder, session, reason } = event
  return (
    resource === born.resource &&
    holder === born.holder &&
    session === born.session &&
    reason === born.reason
  )
}

function entryIn(event: LeaseEvent): Entry | null {
  if (event.type === 'lease.issued') return event.lease
  return event.type === 'lease.queued' || event.type === 'lease.denied' ? event.ticket : null
}

function eventFence(event: LeaseEvent): number {
  if (event.type === 'lease.issued') return event.lease.fence
  return event.type === 'lease.offered' || event.type === 'lease.upgraded' ? event.fence : 0
}

/** What only this type of event has, as the rest of a JSON array. */
function restText(event: LeaseEvent): string {
  if (event.type === 'lease.issued') return `,${entryText(event.lease)}`
  if (event.type === 'lease.queued' || event.type === 'lease.denied') {
    return `,${entryText(event.ticket)}`
  }
  const rest = JSON.stringify(restOf(event))
  return rest === '[]' ? '' : `,${rest.slice(1, -1)}`
}

function entryText(entry: Entry): string {
  return `${bodyText(entry)},${movingText(entry)}`
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
      // The script that trims the ledger reads the last of all.
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

const EVENT_PATTERN = /^.{36}\d{16}[a-z]\d{23}.{36}[b-](\S+) /

/** `body` is that of the entry which the event creates, or empty. */
export function eventOf(text: string, body: string): LeaseEvent {
  const [head, type] = EVENT_PATTERN.exec(text) ?? []
  if (head === undefined) throw new Error('an entry of the ledger is not one of Tenure')
  const leaseId = text.slice(0, 36)
  const requestId = text.slice(76, 112)
  const numbers = {
    leaseId,
    atMs: Number(text.slice(53, 66)),
    renewals: Number(text.slice(66, 76)),
    requestId: requestId === NO_REQUEST ? null : requestId,
  }
  const fence = Number(text.slice(36, 52))
  const fields = JSON.parse(text.slice(head.length)) as Fields
  if (text[JSON_AT - 1] === 'b') {
    return bornEvent(numbers, type as BornType, { fence, fields, body: JSON.parse(body) as Fields })
  }
  const common: EventCommon = {
    ...numbers,
    resource: fields[0] as Resource,
    holder: fields[1] as string,
    session: fields[2] as string,
    before: fields[3] as EntryState | null,
    after: fields[4] as EntryState,
    reason: fields[5] as string | null,
  }
  return eventFrom(common, type as LeaseEventType, { fence, rest: fields.slice(6) })
}

type EventNumbers = Pick<EventCommon, 'leaseId' | 'atMs' | 'renewals' | 'requestId'>
type BornType = 'lease.issued' | 'lease.queued' | 'lease.denied'

interface BornFacts {
  readonly fence: number
  readonly fields: Fields
  readonly body: Fields
}

function bornEvent(
  numbers: EventNumbers,
  type: BornType,
  { fence, fields, body }: BornFacts,
): LeaseEvent {
  const entry = entryOf({ id: numbers.leaseId, fence, moving: fields[2] as Fields, body })
  const { resource, holder, session, reason } = entry
  const states = { before: fields[0] as EntryState | null, after: fields[1] as EntryState }
  const common: EventCommon = { ...numbers, resource, holder, session, ...states, reason }
  return withEntry(common, type, entry)
}

function withEntry(common: EventCommon, type: BornType, entry: Entry): LeaseEvent {
  if (type === 'lease.issued') return { ...common, type, lease: entry as Lease }
  return { ...common, type, ticket: entry as Ticket }
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
  if (type === 'lease.issued' || type === 'lease.queued' || type === 'lease.denied') {
    const [body, moving] = rest as readonly [Fields, Fields]
    return withEntry(common, type, entryOf({ id: common.leaseId, fence, moving, body }))
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
