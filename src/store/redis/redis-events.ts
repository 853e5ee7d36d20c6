/**
 * Events as text, and back: numbers and ids that the scripts must know, in fixed places, then the type and JSON. The
 * event that an entry begins with leaves out what the entry's body says.
 */
import type { EventCommon, LeaseEvent, LeaseEventType, LeaseRenewed } from '../../core/event.ts'
import type { Entry, EntryState, Lease, Ticket } from '../../core/lease.ts'
import type { Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import { stateCode, stateOf, typeCode, typeOf } from './redis-codes.ts'
import { bodyText, deadlineText, wholeText } from './redis-entry-text.ts'
import { jsonText, quoted } from './redis-packed.ts'
import {
  digits,
  entryOf,
  maybeTickOf,
  maybeTickText,
  tickOf,
  tickText,
  wholeOf,
  type Fields,
  type TickText,
} from './redis-rows.ts'

/** `born` is the entry that this event creates, if it does. */
export function eventText(event: LeaseEvent, born: Entry | null): string {
  const { leaseId, type, atMs, requestId, renewals } = event
  const isTold = born !== null && tellsOf(event, born)
  const fence = eventFence(event)
  const marks = (born === null ? markOf(type) : 'c') + typeCode(type) + (isTold ? 'b' : '-')
  const numbers = digits(atMs, 13) + (fence === 0 ? '-' : digits(fence, 16))
  const states = `[${renewals},${stateText(event.before)},${stateText(event.after)},`
  const rest = isTold ? wholeText(born) : restText(event)
  return `${leaseId}${marks}${numbers}${requestId ?? '-'}${states}${rest}]`
}

function stateText(state: EntryState | null): string {
  return state === null ? 'null' : `"${stateCode(state)}"`
}

/** Names, and what only this type of event has, as the rest of a JSON array. */
function restText(event: LeaseEvent): string {
  const { resource, holder, session, reason } = event
  const why = reason === null ? 'null' : quoted(reason)
  return `${quoted(resource)},${quoted(holder)},${quoted(session)},${why}${ownText(event)}`
}

function ownText(event: LeaseEvent): string {
  const entry = entryIn(event)
  if (entry !== null) return `,${bodyText(entry)},${wholeText(entry)}`
  if (event.type === 'lease.renewed') return renewalText(event)
  if (event.type === 'lease.released') return `,"${event.releaseReason}"`
  const rest = jsonText(restOf(event as PlainEvent))
  return rest === '[]' ? '' : `,${rest.slice(1, -1)}`
}

function renewalText({ ttlMs, expiresAtMs, deadline }: LeaseRenewed): string {
  return `,${ttlMs},${expiresAtMs},${deadlineText(deadline)}`
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

/** Those that tell of no entry. */
type PlainEvent = Exclude<LeaseEvent, { type: BornType | 'lease.renewed' }>

function restOf(event: PlainEvent): readonly unknown[] {
  switch (event.type) {
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
      return event.under === undefined ? [event.wished] : [event.wished, event.under]
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
    case 'lease.updated':
      return [event.metadata]
    case 'lease.upgraded':
    case 'lease.downgraded':
    case 'lease.unlocked':
      return []
  }
}

const EVENT_PATTERN = /^(.{36})[a-z](\w)([b-])(\d{13})(\d{16}|-)([^[]{36}|-)\[/

/** `body` is that of the entry which the event creates, or empty. */
export function eventOf(text: string, body: string): LeaseEvent {
  const parts = EVENT_PATTERN.exec(text)
  if (parts === null) throw new Error('an entry of the ledger is not one of Tenure')
  const [head, leaseId = '', code, isBorn, atMs, fenceText, requestId = '-'] = parts
  const fields = JSON.parse(text.slice(head.length - 1)) as Fields
  const numbers = {
    leaseId,
    atMs: Number(atMs),
    renewals: fields[0] as number,
    requestId: requestId === '-' ? null : requestId,
    before: fields[1] === null ? null : stateOf(fields[1]),
    after: stateOf(fields[2]),
  }
  const fence = fenceText === '-' ? 0 : Number(fenceText)
  const type = typeOf(code)
  if (isBorn === 'b') {
    const facts = { fence, fields, body: JSON.parse(body) as Fields }
    return bornEvent(numbers, type as BornType, facts)
  }
  const common: EventCommon = {
    ...numbers,
    resource: fields[3] as Resource,
    holder: fields[4] as string,
    session: fields[5] as string,
    reason: fields[6] as string | null,
  }
  return eventFrom(common, type, { fence, rest: fields.slice(7) })
}

type EventNumbers = Omit<EventCommon, 'resource' | 'holder' | 'session' | 'reason'>
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
  const moving = wholeOf(fields[3] as Fields)
  const entry = entryOf({ id: numbers.leaseId, fence, moving, body })
  const { resource, holder, session, reason } = entry
  const common: EventCommon = { ...numbers, resource, holder, session, reason }
  return withEntry(common, type, entry)
}

function withEntry(common: EventCommon, type: BornType, entry: Entry): LeaseEvent {
  if (type === 'lease.issued') return { type, ...common, lease: entry as Lease }
  return { type, ...common, ticket: entry as Ticket }
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
    const entry = entryOf({ id: common.leaseId, fence, moving: wholeOf(moving), body })
    return withEntry(common, type, entry)
  }
  if (type === 'lease.upgraded') return { type, ...common, fence }
  if (type === 'lease.offered') {
    return { type, ...common, fence, deadline: tickOf(rest[0] as TickText) }
  }
  return plainEvent(common, type, rest)
}

type PlainType = Exclude<LeaseEventType, BornType | 'lease.upgraded' | 'lease.offered'>

function plainEvent(common: EventCommon, type: PlainType, rest: Fields): LeaseEvent {
  const tickAt = (at: number): Tick => tickOf(rest[at] as TickText)
  const lockedAt = (at: number): Tick | null => maybeTickOf(rest[at] as TickText | null)
  const [first, second] = rest as readonly [never, never]
  switch (type) {
    case 'lease.renewed':
      return { type, ...common, ttlMs: first, expiresAtMs: second, deadline: tickAt(2) }
    case 'lease.released':
      return { type, ...common, releaseReason: first }
    case 'lease.expired':
      return { type, ...common, terminatedAtMs: first, lockedUntil: lockedAt(1) }
    case 'lease.revoked':
      return { type, ...common, by: first, terminatedAtMs: second, lockedUntil: lockedAt(2) }
    case 'lease.revoking':
      return { type, ...common, by: first, deadline: tickAt(1), expiresAtMs: rest[2] as number }
    case 'lease.advanced':
      return { type, ...common, from: first, to: second }
    case 'lease.upgrading':
      return second === undefined
        ? { type, ...common, wished: first }
        : { type, ...common, wished: first, under: second }
    case 'lease.transferred':
      return { type, ...common, to: first }
    case 'lease.adopted':
      return { type, ...common, deadline: tickAt(0), expiresAtMs: second }
    case 'lease.waiting':
      return { type, ...common, deadline: tickAt(0) }
    case 'lease.failed':
      return { type, ...common, failure: first, cycle: second }
    case 'lease.accounted':
      return { type, ...common, change: first }
    case 'lease.updated':
      return { type, ...common, metadata: first }
    case 'lease.downgraded':
    case 'lease.unlocked':
      return { type, ...common }
  }
}
