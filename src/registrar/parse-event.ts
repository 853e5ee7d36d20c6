/**
 * Reads an event that came from outside. A hash proves that a line was not changed since it was written, not that it
 * was a store that wrote it: so every field must be there, be of its kind, be known, and be within the limits that hold
 * for a request to a store.
 */
import { parseBudget } from '../core/budget.ts'
import type { AccountChange, Delegation } from '../core/delegation.ts'
import { isLeaseError, show } from '../core/errors.ts'
import { LEASE_EVENT_TYPES, type EventCommon, type LeaseEvent } from '../core/event.ts'
import {
  parseExtent,
  parseHolder,
  parseLeaseId,
  parseLockDelayMs,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseMode,
  parseNote,
  parsePriority,
  parseSession,
  parseSlots,
  parseTtlMs,
  requireText,
} from '../core/input.ts'
import {
  ENTRY_STATES,
  RELEASE_REASONS,
  type Claim,
  type CycleStep,
  type Lease,
  type Offer,
  type Revoking,
  type Ticket,
  type TicketFailure,
  type Under,
} from '../core/lease.ts'
import { CLAIM_WINDOW_MS_MAX, CLAIM_WINDOW_MS_MIN } from '../core/limits.ts'
import { parseResource } from '../core/resource.ts'
import { parseScope } from '../core/scope.ts'
import { US_PER_MS, type Tick } from '../core/time.ts'
import { undecodable } from './canonical-bytes.ts'
import { canonicalJson } from '../core/canonical-json.ts'

interface Check {
  (value: unknown): boolean
  /** Of an object: the field that is not as it must be. */
  readonly oddField?: (value: unknown) => string | null
}
type Shape<Value> = Readonly<Record<keyof Value, Check>>

const flag: Check = (value) => typeof value === 'boolean'
// As far as a store can count: it must be able to read what it has written. Of another it takes less (read-ledger.ts).
const integer: Check = within(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)
const count: Check = within(0, Number.MAX_SAFE_INTEGER)
const wallMs: Check = within(0, Number.MAX_SAFE_INTEGER / US_PER_MS)

function within(min: number, max: number): Check {
  return (value) =>
    Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max
}

function maybe(check: Check): Check {
  return (value) => value === null || check(value)
}

function optional(check: Check): Check {
  return (value) => value === undefined || check(value)
}

function oneOf(words: readonly unknown[]): Check {
  return (value) => words.includes(value)
}

function listOf(check: Check): Check {
  return (value) => Array.isArray(value) && value.every(check)
}

/** Whether a value is what reading it gives: there is one spelling of it. */
function spelt(parse: (value: unknown) => unknown): Check {
  return (value) => {
    try {
      return same(parse(value), value)
    } catch (error) {
      if (isLeaseError(error)) return false
      throw error
    }
  }
}

/** In whatever order the fields are: a store may keep them in one of its own, as PostgreSQL does. */
function same(a: unknown, b: unknown): boolean {
  return a === b || canonicalJson(a) === canonicalJson(b)
}

/** The first field that is not as it must be; null if all are. */
function oddField(shape: Readonly<Record<string, Check>>, value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return ''
  const fields = value as Readonly<Record<string, unknown>>
  const strange = Object.keys(fields).find((name) => !Object.hasOwn(shape, name))
  if (strange !== undefined) return strange
  const odd = Object.keys(shape).find((name) => shape[name]?.(fields[name]) !== true)
  if (odd === undefined) return null
  const inner = shape[odd]?.oddField?.(fields[odd]) ?? ''
  return inner === '' ? odd : `${odd}.${inner}`
}

function object<Value>(shape: Shape<Value>): Check {
  const odd = (value: unknown): string | null => oddField(shape, value)
  return Object.assign((value: unknown) => odd(value) === null, { oddField: odd })
}

const text = spelt((value) => requireText('text', value))
const note = spelt((value) => parseNote(value, null).reason)
const id = spelt((value) => parseLeaseId(value))
const holder = spelt((value) => parseHolder(value))
const session = spelt((value) => parseSession(value))
const resource = spelt((value) => parseResource(value))
const budget = spelt((value) => parseBudget('budget', value))
const tick = object<Tick>({ domain: text, us: integer })
const IF_TRUE = optional(oneOf([true]))
const CYCLE_STEP: Shape<Required<CycleStep>> = {
  holder,
  session: text,
  resource,
  implied: IF_TRUE,
}
const cycle = listOf(object(CYCLE_STEP))
const metadata = spelt((value) => parseNote(null, value).metadata)
const ttlMs = spelt(parseTtlMs)

const DELEGATION: Shape<Required<Delegation>> = {
  line: listOf(id),
  rootFence: maybe(count),
  rootMode: optional((value) => value === 'shared'),
  scope: spelt((value) => parseScope(value)),
  limits: budget,
  audience: optional(holder),
  used: budget,
  children: listOf(id),
}

const under = object<Under>({ leaseIds: listOf(id), implied: flag })

const CLAIM: Shape<Required<Claim>> = {
  id,
  resource,
  mode: spelt((value) => parseMode(value)),
  extent: spelt((value) => parseExtent(value)),
  holder,
  session,
  ttlMs,
  maxRenewals: spelt(parseMaxRenewals),
  maxHoldMs: maybe(spelt(parseMaxHoldMs)),
  slots: maybe(spelt(parseSlots)),
  lockDelayMs: spelt(parseLockDelayMs),
  breakable: flag,
  reason: maybe(note),
  metadata: maybe(metadata),
  createdAtMs: wallMs,
  recorded: oneOf([true]),
  delegation: optional(object(DELEGATION)),
  under: optional(under),
  tokenName: optional(holder),
}

/** As it was issued: nothing has changed it yet. */
const LEASE: Shape<Required<Omit<Lease, 'changedAtMs'>>> = {
  ...CLAIM,
  kind: oneOf(['lease']),
  state: oneOf(['active']),
  fence: count,
  grantedAtMs: wallMs,
  renewedAtMs: maybe(wallMs),
  expiresAtMs: wallMs,
  terminatedAtMs: maybe(wallMs),
  deadline: tick,
  holdUntilUs: maybe(integer),
  renewals: count,
  releaseReason: maybe(oneOf(RELEASE_REASONS)),
  lockedUntil: maybe(tick),
  revoking: maybe(object<Revoking>({ by: holder, reason: maybe(note) })),
  upgrading: flag,
  adopted: flag,
  epoch: count,
}

const FAILURES: readonly TicketFailure[] = [
  'denied',
  'timed_out',
  'aborted',
  'abandoned',
  'lapsed',
  'deadlock',
]

const TICKET: Shape<Required<Ticket>> = {
  ...CLAIM,
  kind: oneOf(['ticket']),
  state: oneOf(['pending', 'failed']),
  group: maybe(id),
  priority: spelt(parsePriority),
  orderUs: integer,
  deadline: tick,
  claimWindowMs: within(CLAIM_WINDOW_MS_MIN, CLAIM_WINDOW_MS_MAX),
  behindOwn: IF_TRUE,
  offer: maybe(object<Offer>({ fence: count, deadline: tick })),
  failure: maybe(oneOf(FAILURES)),
  cycle: maybe(cycle),
}

const COMMON: Shape<EventCommon> = {
  leaseId: id,
  resource,
  holder,
  session,
  atMs: wallMs,
  before: maybe(oneOf(ENTRY_STATES)),
  after: oneOf(ENTRY_STATES),
  renewals: count,
  reason: maybe(note),
  requestId: maybe(id),
}

const GIVEN: Shape<Extract<AccountChange, { readonly kind: 'derived' }>> = {
  kind: oneOf(['derived', 'refunded']),
  childId: id,
  amounts: budget,
}
const SPENT: Shape<Extract<AccountChange, { readonly kind: 'spent' }>> = {
  kind: oneOf(['spent']),
  amounts: budget,
}
const change: Check = (value) => object(GIVEN)(value) || object(SPENT)(value)

type OwnShape<Type extends LeaseEvent['type']> = Shape<
  Required<Omit<Extract<LeaseEvent, { readonly type: Type }>, keyof EventCommon | 'type'>>
>

const end = { terminatedAtMs: wallMs, lockedUntil: maybe(tick) }

/** What each type has beside what all have. */
const OWN: { readonly [Type in LeaseEvent['type']]: OwnShape<Type> } = {
  'lease.issued': { lease: object(LEASE) },
  'lease.renewed': { ttlMs, expiresAtMs: wallMs, deadline: tick },
  'lease.released': { releaseReason: oneOf(RELEASE_REASONS) },
  'lease.expired': end,
  'lease.revoked': { by: holder, ...end },
  'lease.revoking': { by: holder, deadline: tick, expiresAtMs: wallMs },
  'lease.upgrading': { wished: flag, under: optional(under) },
  'lease.upgraded': { fence: count },
  'lease.downgraded': {},
  'lease.updated': { metadata: maybe(metadata) },
  'lease.transferred': { to: maybe(holder) },
  'lease.adopted': { deadline: tick, expiresAtMs: wallMs },
  'lease.advanced': { from: count, to: count },
  'lease.unlocked': {},
  'lease.queued': { ticket: object(TICKET) },
  'lease.offered': { fence: count, deadline: tick },
  'lease.waiting': { deadline: tick, implied: optional(listOf(id)), behindOwn: IF_TRUE },
  'lease.failed': { failure: oneOf(FAILURES), cycle: maybe(cycle) },
  'lease.denied': { ticket: object(TICKET) },
  'lease.accounted': { change },
  'lease.trespassed': { by: holder, target: resource },
}

/** Throws `DECODE_ERROR` that names the field. */
export function parseLeaseEvent(value: unknown): LeaseEvent {
  const { type: named } = (value ?? {}) as { readonly type?: unknown }
  const type = LEASE_EVENT_TYPES.find((known) => known === named)
  if (type === undefined) throw undecodable(`no event is of type ${show(named)}`)
  const odd = oddField({ type: text, ...COMMON, ...OWN[type] }, value)
  if (odd !== null) throw undecodable(`${type} has no such ${odd}`)
  const event = value as LeaseEvent
  const inner = innerOf(event)
  const isOne = inner === null || (inner.id === event.leaseId && inner.resource === event.resource)
  if (!isOne) throw undecodable(`${type} is about another than what it holds`)
  return event
}

function innerOf(event: LeaseEvent): Lease | Ticket | null {
  if (event.type === 'lease.issued') return event.lease
  return event.type === 'lease.queued' || event.type === 'lease.denied' ? event.ticket : null
}
