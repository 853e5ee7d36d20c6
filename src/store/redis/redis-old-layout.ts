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
import type { EventCommon, LeaseEvent, LeaseEventType } from '../../core/event.ts'
import type { Entry, EntryState } from '../../core/lease.ts'
import type { Tick } from '../../core/time.ts'
import { CLOCK_DOMAIN } from './redis-records.ts'

const HEAD_JSON_AT = 64
const CREATED_WIDTH = 16

/** What states and types are in one letter. */
const STATES: Readonly<Record<string, EntryState>> = {
  a: 'active',
  e: 'expired',
  f: 'failed',
  p: 'pending',
  r: 'released',
  v: 'revoked',
}

/** What could be written in this layout: trespasses are younger. */
type OldEventType = Exclude<LeaseEventType, 'lease.trespassed'>

/** By letter, with the fields that each has beside those that all have; of the first three the entry that they create. */
const TYPES: Readonly<Record<string, readonly [OldEventType, ...string[]]>> = {
  i: ['lease.issued'],
  q: ['lease.queued'],
  d: ['lease.denied'],
  a: ['lease.adopted', 'deadline', 'expiresAtMs'],
  A: ['lease.advanced', 'from', 'to'],
  c: ['lease.accounted', 'change'],
  D: ['lease.downgraded'],
  e: ['lease.expired', 'terminatedAtMs', 'lockedUntil'],
  f: ['lease.failed', 'failure', 'cycle'],
  g: ['lease.upgraded'],
  G: ['lease.upgrading', 'wished', 'under'],
  n: ['lease.renewed', 'ttlMs', 'expiresAtMs', 'deadline'],
  o: ['lease.offered', 'deadline'],
  r: ['lease.released', 'releaseReason'],
  t: ['lease.transferred', 'to'],
  u: ['lease.unlocked'],
  U: ['lease.updated', 'metadata'],
  v: ['lease.revoked', 'by', 'terminatedAtMs', 'lockedUntil'],
  V: ['lease.revoking', 'by', 'deadline', 'expiresAtMs'],
  w: ['lease.waiting', 'deadline'],
}

const CLAIM_FIELDS = [
  ...['kind', 'resource', 'mode', 'extent', 'holder', 'session', 'maxRenewals', 'maxHoldMs'],
  ...['slots', 'lockDelayMs', 'breakable', 'reason', 'metadata', 'createdAtMs', 'recorded'],
]
const LEASE_FIELDS = [
  ...[...CLAIM_FIELDS, 'grantedAtMs', 'holdUntilUs', 'lockedUntil', 'revoking', 'upgrading'],
  ...['adopted', 'epoch', 'delegation', 'under'],
]
const TICKET_FIELDS = [
  ...[...CLAIM_FIELDS, 'group', 'priority', 'orderUs', 'claimWindowMs', 'offered', 'failure'],
  ...['cycle', 'delegation', 'under'],
]
/** Of a ticket only the first three. */
const MOVING_FIELDS = [
  ...['state', 'ttlMs', 'deadline', 'renewedAtMs', 'expiresAtMs', 'terminatedAtMs', 'renewals'],
  'releaseReason',
]
const TICKET_MOVING = 3
const TICKS: ReadonlySet<string> = new Set(['deadline', 'lockedUntil', 'offered'])
/** Those that an entry has or has not, and never as null. */
const OPTIONAL: ReadonlySet<string> = new Set(['delegation', 'under'])

type Fields = readonly unknown[]
type Named = Readonly<Record<string, unknown>>

function named(names: readonly string[], fields: Fields): Named {
  const all: Record<string, unknown> = {}
  for (const [at, name] of names.entries()) {
    const field = fields[at]
    if (field === undefined || (field === null && OPTIONAL.has(name))) continue
    all[name] = TICKS.has(name) && field !== null ? tickOf(field as TickText) : field
  }
  return all
}

function stateOf(code: unknown): EntryState {
  const state = STATES[String(code)]
  if (state === undefined) throw new Error(`there is no state ${String(code)}`)
  return state
}

function typeOf(code: unknown): readonly [OldEventType, ...string[]] {
  const type = TYPES[String(code)]
  if (type === undefined) throw new Error(`there is no event ${String(code)}`)
  return type
}

/** Microseconds, or with its domain a tick of a clock that is not the server's. */
type TickText = number | readonly [domain: string, us: number]

function tickOf(text: TickText): Tick {
  if (typeof text === 'number') return { domain: CLOCK_DOMAIN, us: text }
  return { domain: text[0], us: text[1] }
}

/** What changes in an entry, in the order of `MOVING_FIELDS`. */
function movingOf(head: string): Fields {
  const fields = JSON.parse(head.slice(HEAD_JSON_AT, -CREATED_WIDTH)) as Fields
  const state = stateOf(fields[0])
  if (fields.length <= TICKET_MOVING) return [state, fields[1], fields[2] ?? liveUsOf(head)]
  const [, ttlMs, renewedAtMs, expiresAtMs, terminatedAtMs, reason, tick = liveUsOf(head)] = fields
  const renewals = Number(head.slice(54, 64))
  return [state, ttlMs, tick, renewedAtMs, expiresAtMs, terminatedAtMs, renewals, reason]
}

/** The same of an entry that an event creates. */
function firstMovingOf(fields: Fields): Fields {
  const [first, tick, expiresAtMs] = fields
  if (typeof first !== 'number') return fields
  return ['active', first, tick, null, expiresAtMs, null, 0, null]
}

interface EntryParts {
  readonly id: string
  readonly fence: number
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
  if (body[0] !== 't') {
    const lease = { ...named(LEASE_FIELDS, body), ...named(MOVING_FIELDS, moving) }
    return { ...lease, id, kind: 'lease', fence } as unknown as Entry
  }
  const { offered, ...claim } = named(TICKET_FIELDS, body)
  const offer = offered === null ? null : { fence, deadline: offered }
  const moved = named(MOVING_FIELDS.slice(0, TICKET_MOVING), moving)
  return { ...claim, ...moved, id, kind: 'ticket', offer } as unknown as Entry
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
    type: typeOf(text[37])[0],
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
  const fence = fenceText === '-' ? 0 : Number(fenceText)
  const [type, ...names] = typeOf(code)
  const common = {
    ...{ type, leaseId, atMs: Number(atMs), renewals: fields[0] as number },
    requestId: requestId === '-' ? null : requestId,
    before: fields[1] === null ? null : stateOf(fields[1]),
    after: stateOf(fields[2]),
  }
  const entryWith = (kept: unknown, moving: unknown): Entry => {
    const moved = firstMovingOf(moving as Fields)
    return entryOf({ id: leaseId, fence, moving: moved, body: kept as Fields })
  }
  if (isBorn === 'b') {
    const entry = entryWith(JSON.parse(body), fields[3])
    const { resource, holder, session, reason } = entry
    return withEntry({ ...common, resource, holder, session, reason }, entry)
  }
  const [resource, holder, session, reason, ...own] = fields.slice(3)
  const event = { ...common, resource, holder, session, reason } as TypedCommon
  if (isCreation(type)) return withEntry(event, entryWith(own[0], own[1]))
  const hasFence = type === 'lease.upgraded' || type === 'lease.offered'
  return { ...event, ...(hasFence ? { fence } : {}), ...named(names, own) } as unknown as LeaseEvent
}

type TypedCommon = EventCommon & { readonly type: OldEventType }

function isCreation(type: OldEventType): boolean {
  return type === 'lease.issued' || type === 'lease.queued' || type === 'lease.denied'
}

function withEntry(event: TypedCommon, entry: Entry): LeaseEvent {
  const created = event.type === 'lease.issued' ? { lease: entry } : { ticket: entry }
  return { ...event, ...created } as unknown as LeaseEvent
}
