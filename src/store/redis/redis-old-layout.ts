/**
 * Reads what layout 4 kept, for its conversion (redis-conversion.ts); nothing writes it any more. Numbers had fixed widths and
 * were found by their place:
 *
 *     state   last position[16] highest clock seen[16] period of long marks[10] day of idle realms[10] of marks[10] revision
 *     head    version[11] claim[11] fence[16] liveUs[16] renewals[10], JSON, created[16]
 *     realm   wallMs[13] fence[16] epoch[16] tickets[5], then of a flat realm its claims: id[36] claim[11] each
 *     event   lease[36] mark[1] type[1] hasBody[1] atMs[13], fence[16] or -, request[36] or -, JSON from renewals on
 *     mark    lease[36] source[1] type[1], keepUntilMs
 */
import type { Delegation } from '../../core/delegation.ts'
import type { EventCommon, LeaseEvent, LeaseEventType } from '../../core/event.ts'
import type {
  Claim,
  Entry,
  EntryState,
  Lease,
  LeaseState,
  Metadata,
  Ticket,
  TicketState,
  Under,
} from '../../core/lease.ts'
import type { Resource } from '../../core/resource.ts'
import type { Tick } from '../../core/time.ts'
import { CLOCK_DOMAIN } from './redis-records.ts'

const HEAD_JSON_AT = 64
const CREATED_WIDTH = 16

/** What states and types are in one letter. */
const STATE_CODES: Readonly<Record<EntryState, string>> = {
  active: 'a',
  expired: 'e',
  failed: 'f',
  pending: 'p',
  released: 'r',
  revoked: 'v',
}

/** What could be written in this layout: trespasses are younger. */
type OldEventType = Exclude<LeaseEventType, 'lease.trespassed'>

const TYPE_CODES: Readonly<Record<OldEventType, string>> = {
  'lease.accounted': 'c',
  'lease.adopted': 'a',
  'lease.advanced': 'A',
  'lease.denied': 'd',
  'lease.downgraded': 'D',
  'lease.expired': 'e',
  'lease.failed': 'f',
  'lease.issued': 'i',
  'lease.offered': 'o',
  'lease.queued': 'q',
  'lease.released': 'r',
  'lease.renewed': 'n',
  'lease.revoked': 'v',
  'lease.revoking': 'V',
  'lease.transferred': 't',
  'lease.unlocked': 'u',
  'lease.updated': 'U',
  'lease.upgraded': 'g',
  'lease.upgrading': 'G',
  'lease.waiting': 'w',
}

const STATES = wordsOf(STATE_CODES)
const TYPES = wordsOf(TYPE_CODES)

function wordsOf<Word extends string>(codes: Readonly<Record<Word, string>>): Map<unknown, Word> {
  return new Map(Object.entries(codes).map(([word, code]) => [code, word as Word]))
}

function stateOf(code: unknown): EntryState {
  const state = STATES.get(code)
  if (state === undefined) throw new Error(`there is no state ${String(code)}`)
  return state
}

function typeOf(code: unknown): OldEventType {
  const type = TYPES.get(code)
  if (type === undefined) throw new Error(`there is no event ${String(code)}`)
  return type
}

/** Microseconds, or with its domain a tick of a clock that is not the server's. */
type TickText = number | readonly [domain: string, us: number]

function tickOf(text: TickText): Tick {
  if (typeof text === 'number') return { domain: CLOCK_DOMAIN, us: text }
  return { domain: text[0], us: text[1] }
}

function maybeTickOf(text: TickText | null): Tick | null {
  return text === null ? null : tickOf(text)
}

/** What `movingText` wrote, together with what it left out, in the order of `wholeText`. */
function movingOf(head: string): Fields {
  const fields = JSON.parse(head.slice(HEAD_JSON_AT, -CREATED_WIDTH)) as Fields
  const liveUs = Number(head.slice(38, 54))
  const state = stateOf(fields[0])
  if (fields.length <= TICKET_FIELDS_MAX) return [state, fields[1], fields[2] ?? liveUs]
  const [, ttlMs, renewedAtMs, expiresAtMs, terminatedAtMs, reason, tick = liveUs] = fields
  const renewals = Number(head.slice(54, 64))
  return [state, ttlMs, tick, renewedAtMs, expiresAtMs, terminatedAtMs, renewals, reason]
}

const TICKET_FIELDS_MAX = 3

function wholeOf(fields: Fields): Fields {
  const [first, tick, expiresAtMs] = fields
  if (typeof first !== 'number') return fields
  return ['active', first, tick, null, expiresAtMs, null, 0, null]
}

type Fields = readonly unknown[]

interface EntryParts {
  readonly id: string
  readonly fence: number
  /** What `wholeText` and `bodyText` say. */
  readonly moving: Fields
  readonly body: Fields
}

const ORDINARY_FIELDS = 4

/** All fields of a body, of which an ordinary lease is kept without those that are the same in all of them. */
function bodyOf(kept: Fields): Fields {
  if (kept.length !== ORDINARY_FIELDS) return kept
  const [resource, holder, session, createdAtMs] = kept
  const wish = ['l', resource, 'exclusive', 'exact', holder, session, -1, null, null, 0, false]
  const told = [null, null, createdAtMs, true, createdAtMs]
  return [...wish, ...told, null, null, null, false, true, 0]
}

function entryOf({ id, fence, moving, body: kept }: EntryParts): Entry {
  const body = bodyOf(kept)
  const claim: Claim = {
    id,
    resource: body[1] as Resource,
    mode: body[2] as Claim['mode'],
    extent: body[3] as Claim['extent'],
    holder: body[4] as string,
    session: body[5] as string,
    ttlMs: moving[1] as number,
    maxRenewals: body[6] as number,
    maxHoldMs: body[7] as number | null,
    slots: body[8] as number | null,
    lockDelayMs: body[9] as number,
    breakable: body[10] as boolean,
    reason: body[11] as string | null,
    metadata: body[12] as Metadata | null,
    createdAtMs: body[13] as number,
    recorded: body[14] as boolean,
  }
  // Not several spreads in one literal: those cost about 2 us, and every entry that is read comes by here.
  const entry: Entry =
    body[0] === 't'
      ? Object.assign(claim, ticketFields(moving, body, fence))
      : Object.assign(claim, leaseFields(moving, body, fence))
  const delegation = body[22] as Delegation | null | undefined
  if (delegation !== undefined && delegation !== null) Object.assign(entry, { delegation })
  const under = body[23] as Under | undefined
  return under === undefined ? entry : Object.assign(entry, { under })
}

function leaseFields(moving: Fields, body: Fields, fence: number): Omit<Lease, keyof Claim> {
  return {
    kind: 'lease',
    state: moving[0] as LeaseState,
    fence,
    grantedAtMs: body[15] as number,
    renewedAtMs: moving[3] as number | null,
    expiresAtMs: moving[4] as number,
    terminatedAtMs: moving[5] as number | null,
    deadline: tickOf(moving[2] as TickText),
    holdUntilUs: body[16] as number | null,
    renewals: moving[6] as number,
    releaseReason: moving[7] as Lease['releaseReason'],
    lockedUntil: maybeTickOf(body[17] as TickText | null),
    revoking: body[18] as Lease['revoking'],
    upgrading: body[19] as boolean,
    adopted: body[20] as boolean,
    epoch: body[21] as number,
  }
}

function ticketFields(moving: Fields, body: Fields, fence: number): Omit<Ticket, keyof Claim> {
  const offered = maybeTickOf(body[19] as TickText | null)
  return {
    kind: 'ticket',
    state: moving[0] as TicketState,
    group: body[15] as string | null,
    priority: body[16] as number,
    orderUs: body[17] as number,
    deadline: tickOf(moving[2] as TickText),
    claimWindowMs: body[18] as number,
    offer: offered === null ? null : { fence, deadline: offered },
    failure: body[20] as Ticket['failure'],
    cycle: body[21] as Ticket['cycle'],
  }
}

/** An entry of layout 4. */
export interface OldRecord {
  readonly entry: Entry
  readonly version: string
  readonly claim: string
  readonly created: number
}

export function oldRecordOf(id: string, head: string, body: string): OldRecord {
  const fence = Number(head.slice(22, 38))
  return {
    entry: entryOf({ id, fence, moving: movingOf(head), body: JSON.parse(body) as Fields }),
    version: String(Number(head.slice(0, 11))),
    claim: String(Number(head.slice(11, 22))),
    created: createdOf(head),
  }
}

export function createdOf(head: string): number {
  return Number(head.slice(-CREATED_WIDTH))
}

/** 0 for one that has ended. */
export function liveUsOf(head: string): number {
  return Number(head.slice(38, 54))
}

export interface OldRealm {
  readonly wallMs: number
  readonly fence: number
  readonly epoch: number
  readonly tickets: number
  readonly claims: string
}

export function oldRealmOf(text: string): OldRealm {
  return {
    wallMs: Number(text.slice(0, 13)),
    fence: Number(text.slice(13, 29)),
    epoch: Number(text.slice(29, 45)),
    tickets: Number(text.slice(45, 50)),
    claims: text.slice(50),
  }
}

export function oldClaimsOf(claims: string): readonly (readonly [id: string, claim: string])[] {
  const all: (readonly [string, string])[] = []
  for (let at = 0; at + 47 <= claims.length; at += 47) {
    all.push([claims.slice(at, at + 36), String(Number(claims.slice(at + 36, at + 47)))])
  }
  return all
}

/** What a request has done of which no event tells; null for one of which an event does. */
export function oldMarkOf(text: string): {
  readonly leaseId: string
  readonly type: OldEventType
  readonly keepUntilMs: number
} | null {
  if (text[36] !== 'm') return null
  return {
    leaseId: text.slice(0, 36),
    type: typeOf(text[37]),
    keepUntilMs: Number(text.slice(38)),
  }
}

const EVENT_PATTERN = /^(.{36})[a-z](\w)([b-])(\d{13})(\d{16}|-)([^[]{36}|-)\[/

/** `body` is that of the entry which the event creates, or empty. */
export function oldEventOf(text: string, body: string): LeaseEvent {
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
  type: OldEventType,
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

type PlainType = Exclude<OldEventType, BornType | 'lease.upgraded' | 'lease.offered'>

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
