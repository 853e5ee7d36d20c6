/** Every field of every kind of entry and event comes back from its record, whatever the value, also through JSON. */
import { describe, expect, it } from 'vitest'
import type { AccountChange, Delegation } from '../../src/core/delegation.ts'
import {
  LEASE_EVENT_TYPES,
  type EventCommon,
  type LeaseEvent,
  type LeaseEventType,
} from '../../src/core/event.ts'
import {
  ENTRY_STATES,
  liveDeadline,
  RELEASE_REASONS,
  type Claim,
  type CycleStep,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseState,
  type Ticket,
  type TicketFailure,
  type Under,
} from '../../src/core/lease.ts'
import {
  decodeEntry,
  decodeEvent,
  encodeEntry,
  encodeEvent,
  type RecordBody,
} from '../../src/core/record.ts'
import { parseResource } from '../../src/core/resource.ts'
import { UNLIMITED_SCOPE } from '../../src/core/scope.ts'
import type { Tick } from '../../src/core/time.ts'
import { fc } from '../fast-check.ts'
import {
  file,
  lease as held,
  id,
  tickAt,
  ticket as waiting,
  TTL_MS,
  WALL_MS,
  WORK,
} from './builders.ts'

const HERE = 'host-a/boot-1/0#1'

const wallMs = fc.nat({ max: 2 ** 42 })
const maybeMs = fc.option(wallMs)
const tick: fc.Arbitrary<Tick> = fc.record({
  domain: fc.constantFrom(HERE, HERE, 'host-b/boot-7/0#2'),
  us: fc.nat({ max: 2 ** 50 }),
})
const anId = fc.integer({ min: 1, max: 9 }).map(id)
const word = fc.constantFrom('ada', 'bob', 'x y', 'ünïcode', '', '{"a":1}')
const note = fc.option(word)
const fence = fc.nat({ max: 2 ** 50 })
const resource = fc.constantFrom(WORK, file('/s/a'), parseResource('workflow:w'))
const under: fc.Arbitrary<Under> = fc.record({
  leaseIds: fc.array(anId, { maxLength: 3 }),
  implied: fc.boolean(),
})
const budget = fc.constantFrom({}, { tokens: 5 }, { tokens: 0, usd: 12 })
const delegation: fc.Arbitrary<Delegation> = fc.record({
  line: fc.array(anId, { maxLength: 3 }),
  rootFence: fc.option(fence),
  scope: fc.constant(UNLIMITED_SCOPE),
  limits: budget,
  used: budget,
  children: fc.array(anId, { maxLength: 3 }),
})
const FAILURES: readonly TicketFailure[] = [
  ...(['denied', 'timed_out', 'aborted'] as const),
  ...(['abandoned', 'lapsed', 'deadlock'] as const),
]
const failure = fc.constantFrom(...FAILURES)
const cycle: fc.Arbitrary<readonly CycleStep[]> = fc.array(
  fc.record({ holder: word, session: word, resource: word }),
  { maxLength: 3 },
)

/** One arbitrary per field, so that a field that is new to the type does not compile until it is here. */
type Arbitraries<Value> = {
  readonly [Name in keyof Value]-?: fc.Arbitrary<NonNullable<Value>[Name]>
}

const CLAIM: Arbitraries<Omit<Claim, 'delegation' | 'under' | 'tokenName'>> = {
  id: anId,
  resource,
  mode: fc.constantFrom('exclusive', 'shared'),
  extent: fc.constantFrom('exact', 'subtree'),
  holder: word,
  session: word,
  ttlMs: wallMs,
  maxRenewals: fc.integer({ min: -1, max: 5 }),
  maxHoldMs: maybeMs,
  slots: fc.option(fc.integer({ min: 1, max: 5 })),
  lockDelayMs: fc.nat({ max: 5 }),
  breakable: fc.boolean(),
  reason: note,
  metadata: fc.option(fc.constantFrom({}, { a: 1, b: 'x', c: false })),
  createdAtMs: wallMs,
  recorded: fc.boolean(),
}
const RARE = { delegation, under, tokenName: word }

const LEASE: Arbitraries<Omit<Lease, 'delegation' | 'under' | 'tokenName' | 'changedAtMs'>> = {
  ...CLAIM,
  kind: fc.constant('lease'),
  state: fc.constantFrom<LeaseState>('active', 'released', 'expired', 'revoked'),
  fence,
  grantedAtMs: wallMs,
  renewedAtMs: maybeMs,
  expiresAtMs: wallMs,
  terminatedAtMs: maybeMs,
  deadline: tick,
  holdUntilUs: maybeMs,
  renewals: fc.nat({ max: 9 }),
  releaseReason: fc.option(fc.constantFrom(...RELEASE_REASONS)),
  lockedUntil: fc.option(tick),
  revoking: fc.option(fc.record({ by: word, reason: note })),
  upgrading: fc.boolean(),
  adopted: fc.boolean(),
  epoch: fc.nat({ max: 3 }),
}

const TICKET: Arbitraries<Omit<Ticket, 'delegation' | 'under' | 'tokenName' | 'behindOwn'>> = {
  ...CLAIM,
  kind: fc.constant('ticket'),
  state: fc.constantFrom('pending', 'failed'),
  group: fc.option(anId),
  priority: fc.integer({ min: -3, max: 3 }),
  orderUs: wallMs,
  deadline: tick,
  claimWindowMs: fc.constantFrom(5_000, 50),
  offer: fc.option(fc.record({ fence, deadline: tick })),
  failure: fc.option(failure),
  cycle: fc.option(cycle),
}

function partly<Value extends object>(required: object, optional: object): fc.Arbitrary<Value> {
  const requiredKeys = Object.keys(required)
  return fc.record({ ...required, ...optional } as never, {
    requiredKeys: requiredKeys as never,
  }) as unknown as fc.Arbitrary<Value>
}

const lease = partly<Lease>(LEASE, { ...RARE, changedAtMs: wallMs })
const ticket = partly<Ticket>(TICKET, { ...RARE, behindOwn: fc.constant(true) })
const entry: fc.Arbitrary<Entry> = fc.oneof(lease, ticket)

const COMMON: Arbitraries<EventCommon> = {
  leaseId: anId,
  resource,
  holder: word,
  session: word,
  atMs: wallMs,
  before: fc.option(fc.constantFrom(...ENTRY_STATES)),
  after: fc.constantFrom(...ENTRY_STATES),
  renewals: fc.nat({ max: 9 }),
  reason: note,
  requestId: fc.option(anId),
}

type Own<Type extends LeaseEventType> = Omit<
  Extract<LeaseEvent, { readonly type: Type }>,
  keyof EventCommon | 'type' | 'under' | 'implied' | 'behindOwn'
>
const change: fc.Arbitrary<AccountChange> = fc.oneof(
  fc.record({ kind: fc.constant('spent' as const), amounts: budget }),
  fc.record({ kind: fc.constant('derived' as const), childId: anId, amounts: budget }),
)
const end = { terminatedAtMs: wallMs, lockedUntil: fc.option(tick) }

const OWN: { readonly [Type in LeaseEventType]: Arbitraries<Own<Type>> } = {
  'lease.issued': { lease },
  'lease.renewed': { ttlMs: wallMs, expiresAtMs: wallMs, deadline: tick },
  'lease.released': { releaseReason: fc.constantFrom(...RELEASE_REASONS) },
  'lease.expired': end,
  'lease.revoked': { by: word, ...end },
  'lease.revoking': { by: word, deadline: tick, expiresAtMs: wallMs },
  'lease.upgrading': { wished: fc.boolean() },
  'lease.upgraded': { fence },
  'lease.downgraded': {},
  'lease.transferred': { to: note },
  'lease.adopted': { deadline: tick, expiresAtMs: wallMs },
  'lease.advanced': { from: wallMs, to: wallMs },
  'lease.unlocked': {},
  'lease.queued': { ticket },
  'lease.offered': { fence, deadline: tick },
  'lease.waiting': { deadline: tick },
  'lease.failed': { failure, cycle: fc.option(cycle) },
  'lease.denied': { ticket: fc.option(ticket) },
  'lease.accounted': { change },
  'lease.updated': { metadata: fc.option(fc.constantFrom({}, { a: 1 })) },
  'lease.trespassed': { by: word, target: resource },
}

/** Of the types that have them. */
const OWN_RARE: Partial<Record<LeaseEventType, object>> = {
  'lease.upgrading': { under },
  'lease.waiting': { implied: fc.array(anId, { maxLength: 2 }), behindOwn: fc.constant(true) },
}

/** What an event tells of is its own entry. */
function consistent(event: LeaseEvent): LeaseEvent {
  const { leaseId, resource: at } = event
  if (event.type === 'lease.issued') {
    return { ...event, lease: { ...event.lease, id: leaseId, resource: at } }
  }
  if (event.type !== 'lease.queued' && event.type !== 'lease.denied') return event
  if (event.ticket === null) return event
  return { ...event, ticket: { ...event.ticket, id: leaseId, resource: at, offer: null } }
}

function eventOf(type: LeaseEventType): fc.Arbitrary<LeaseEvent> {
  const required = { ...COMMON, ...OWN[type], type: fc.constant(type) }
  return partly<LeaseEvent>(required, OWN_RARE[type] ?? {}).map(consistent)
}

function throughJson<Kept extends { readonly body: RecordBody }>(record: Kept): Kept {
  return { ...record, body: JSON.parse(JSON.stringify(record.body)) as RecordBody }
}

describe('the record of an entry', () => {
  it.each([false, true])('gives the entry back, whatever it is; terse: %s', (isTerse) => {
    fc.assert(
      fc.property(entry, (before) => {
        const record = throughJson(encodeEntry(before, HERE, isTerse))
        expect(decodeEntry(record, HERE, isTerse)).toEqual(before)
        expect(record.liveUntil).toEqual(liveDeadline(before))
      }),
    )
  })

  it('of a lease that expires with its deadline need not say when, where ticks are wall time', () => {
    const ending = held({ deadline: { domain: HERE, us: 60_123_456 }, expiresAtMs: 60_123 })
    expect(encodeEntry(ending, HERE, true).body).not.toHaveProperty('expiresAtMs')
    expect(encodeEntry(ending, HERE).body).toHaveProperty('expiresAtMs', 60_123)
  })

  it('of an ordinary lease says when and for how long, and nothing else', () => {
    const { body } = encodeEntry(held(), HERE)
    expect(Object.keys(body).toSorted()).toEqual(['createdAtMs', 'ttlMs'])
  })

  it('has no fence in its body, so that a server can raise the key alone', () => {
    fc.assert(
      fc.property(entry, (before) => {
        const record = encodeEntry(before, HERE)
        const raised = decodeEntry({ ...record, fence: record.fence + 7 }, HERE)
        const fenceIn = (one: Entry): number =>
          one.kind === 'lease' ? one.fence : (one.offer?.fence ?? 0)
        expect(fenceIn(raised)).toBe(
          record.fence === 0 && fenceIn(raised) === 0 ? 0 : fenceIn(before) + 7,
        )
      }),
    )
  })
})

describe.each(LEASE_EVENT_TYPES)('the record of %s', (type) => {
  it.each([false, true])('gives the event back, whatever it says; terse: %s', (isTerse) => {
    fc.assert(
      fc.property(eventOf(type), (event) => {
        const record = throughJson(encodeEvent({ event, ended: null }, HERE, isTerse))
        expect(decodeEvent(record, HERE, isTerse)).toEqual({ event, ended: null })
      }),
    )
  })

  it.each([false, true])('gives back what ended with it; terse: %s', (isTerse) => {
    const gives = ['lease.issued', 'lease.offered', 'lease.upgraded'].includes(type)
    fc.assert(
      fc.property(eventOf(type), entry, (event, some) => {
        const ended: Entry = { ...some, id: event.leaseId, resource: event.resource }
        if (gives || (ended.kind === 'ticket' && ended.offer !== null)) return
        const record = throughJson(encodeEvent({ event, ended }, HERE, isTerse))
        expect(decodeEvent(record, HERE, isTerse)).toEqual({ event, ended })
      }),
    )
  })
})

/**
 * The form in which stores keep them, field by field. Stores that are there already are read with it, so that it may gain fields
 * and lose or change none.
 */
const ELSEWHERE = 'host-b/boot-7/0#2'
const ORDINARY = { ttlMs: TTL_MS, createdAtMs: WALL_MS }
const ADAS = {
  ...{ leaseId: id(1), resource: WORK, holder: 'ada', session: 'session-of-ada' },
  ...{ atMs: WALL_MS, requestId: null },
}

function common(before: EntryState | null, after: EntryState): EventCommon {
  return { ...ADAS, before, after, renewals: 0, reason: null }
}

describe('what is kept of an entry', () => {
  const far = tickAt(TTL_MS, { domain: ELSEWHERE })
  it.each<[string, Entry, object, boolean]>([
    ['an ordinary lease', held(), ORDINARY, false],
    [
      'a lease by another clock',
      held({ deadline: far, lockedUntil: far }),
      { ...ORDINARY, lockedUntil: far },
      false,
    ],
    ['a lease by another clock, tersely', held({ deadline: far }), ORDINARY, true],
    [
      'a lease that is over',
      held({ state: 'released', releaseReason: 'voluntary' }),
      { ...ORDINARY, releaseReason: 'voluntary', deadline: TTL_MS * 1000 },
      false,
    ],
    [
      'a lease that has ended and is locked',
      held({ state: 'expired', lockedUntil: tickAt(5) }),
      { ...ORDINARY, lockedUntil: 5_000, deadline: TTL_MS * 1000 },
      false,
    ],
    ['an ordinary ticket', waiting({ orderUs: WALL_MS * 1000 }), ORDINARY, false],
    [
      'a ticket with an offer by another clock',
      waiting({ orderUs: 7, offer: { fence: 9, deadline: { ...far, us: 5_000_000 } } }),
      { ...ORDINARY, orderUs: 7, offered: { ...far, us: 5_000_000 }, deadline: 5_000_000 },
      false,
    ],
  ])('%s', (_, kept, body, isTerse) => {
    const record = isTerse ? encodeEntry(kept, HERE, true) : encodeEntry(kept, HERE)
    expect(record.body).toStrictEqual(body)
    const read = isTerse ? decodeEntry(record, HERE, true) : decodeEntry(record, HERE)
    expect(read).toStrictEqual(kept)
  })

  it('is its deadline as well, or it cannot be read', () => {
    const record = { ...encodeEntry(held(), HERE), liveUntil: null }
    expect(() => decodeEntry(record, HERE)).toThrow(`the record of ${id(1)} has no deadline`)
  })
})

type Stored<Type extends LeaseEventType> = readonly [
  states: readonly [EntryState | null, EntryState],
  own: Omit<Extract<LeaseEvent, { readonly type: Type }>, keyof EventCommon | 'type'>,
  body: object,
]

const deadline = tickAt(TTL_MS)
const us = TTL_MS * 1000
const expiresAtMs = WALL_MS + TTL_MS
const inTicket = { ...ORDINARY, orderUs: 0, deadline: 5_000_000 }

const STORED: { readonly [Type in LeaseEventType]: Stored<Type> } = {
  'lease.issued': [
    [null, 'active'],
    { lease: held() },
    { entry: { body: { ...ORDINARY, deadline: us } } },
  ],
  'lease.renewed': [
    ['active', 'active'],
    { ttlMs: 5, expiresAtMs, deadline },
    { ttlMs: 5, expiresAtMs, deadline: us },
  ],
  'lease.released': [
    ['active', 'released'],
    { releaseReason: 'completed' },
    { releaseReason: 'completed' },
  ],
  'lease.expired': [
    ['active', 'expired'],
    { terminatedAtMs: 9, lockedUntil: null },
    { terminatedAtMs: 9, lockedUntil: null },
  ],
  'lease.revoked': [
    ['active', 'revoked'],
    { by: 'op', terminatedAtMs: 9, lockedUntil: deadline },
    { by: 'op', terminatedAtMs: 9, lockedUntil: us },
  ],
  'lease.revoking': [
    ['active', 'active'],
    { by: 'op', deadline: { ...deadline, domain: ELSEWHERE }, expiresAtMs },
    { by: 'op', deadline: { ...deadline, domain: ELSEWHERE }, expiresAtMs },
  ],
  'lease.upgrading': [['active', 'active'], { wished: true }, { wished: true }],
  'lease.upgraded': [['active', 'active'], { fence: 9 }, {}],
  'lease.downgraded': [['active', 'active'], {}, {}],
  'lease.transferred': [['active', 'released'], { to: null }, { to: null }],
  'lease.adopted': [['active', 'active'], { expiresAtMs, deadline }, { expiresAtMs, deadline: us }],
  'lease.advanced': [['active', 'active'], { from: 1, to: 3 }, { from: 1, to: 3 }],
  'lease.unlocked': [['expired', 'expired'], {}, {}],
  'lease.queued': [
    [null, 'pending'],
    { ticket: waiting({ id: id(1) }) },
    { entry: { holder: 'bob', session: 'session-of-bob', body: inTicket } },
  ],
  'lease.offered': [['pending', 'pending'], { fence: 9, deadline }, { deadline: us }],
  'lease.waiting': [['pending', 'pending'], { deadline }, { deadline: us }],
  'lease.failed': [
    ['pending', 'failed'],
    { failure: 'lapsed', cycle: null },
    { failure: 'lapsed', cycle: null },
  ],
  'lease.denied': [[null, 'failed'], { ticket: null }, {}],
  'lease.accounted': [
    ['active', 'active'],
    { change: { kind: 'spent', amounts: { tokens: 1 } } },
    { change: { kind: 'spent', amounts: { tokens: 1 } } },
  ],
  'lease.updated': [['active', 'active'], { metadata: null }, { metadata: null }],
  'lease.trespassed': [
    ['active', 'active'],
    { by: 'mallory', target: WORK },
    { by: 'mallory', target: WORK },
  ],
}

describe('what is kept of an event', () => {
  it.each(LEASE_EVENT_TYPES)('%s', (type) => {
    const [states, own, body] = STORED[type]
    const event = { ...common(...states), ...own, type } as LeaseEvent
    const record = encodeEvent({ event, ended: null }, HERE)
    const fence = { 'lease.issued': 1000, 'lease.upgraded': 9, 'lease.offered': 9 }[type as string]
    expect(record).toStrictEqual({ ...ADAS, type, fence: fence ?? 0, body })
    expect(decodeEvent(record, HERE)).toStrictEqual({ event, ended: null })
  })

  // Where ticks are wall time, a lease expires with its deadline.
  const own = { ttlMs: TTL_MS, deadline: us }
  const over = { terminatedAtMs: WALL_MS, expiresAtMs: TTL_MS } as const
  const adas = held({ ...over, state: 'released', releaseReason: 'completed' })
  const release = {
    ...{ ...common('active', 'released'), type: 'lease.released' as const, reason: 'completed' },
    releaseReason: 'completed',
  } as const
  const end = { by: 'op', terminatedAtMs: 9, lockedUntil: null } as const
  const reason = 'stuck'
  const revocation = {
    ...common('active', 'revoked'),
    type: 'lease.revoked',
    reason,
    ...end,
  } as const
  const granted = { ...held({ expiresAtMs: TTL_MS, extent: 'subtree', reason }) } as const
  const grant = { ...common(null, 'active'), type: 'lease.issued', lease: granted } as const
  const lapse = { failure: 'lapsed', cycle: null } as const
  const failure = { ...common('pending', 'failed'), type: 'lease.failed', ...lapse } as const
  const failed = waiting({ ...lapse, id: id(1), holder: 'ada', state: 'failed' })

  it.each<[string, LeaseEvent, Entry | null, object]>([
    [
      'a grant, in the words of the request',
      { ...grant, reason },
      null,
      { reason, entry: { extent: 'subtree', body: own } },
    ],
    [
      'a grant, in other words',
      grant,
      null,
      { entry: { extent: 'subtree', body: { ...own, reason } } },
    ],
    ['a release', release, adas, { releaseReason: 'completed', ended: { body: own } }],
    ['a release alone', release, null, { releaseReason: 'completed' }],
    [
      'a release of a lease that had words of its own',
      release,
      { ...adas, reason },
      { releaseReason: 'completed', ended: { body: { ...own, reason } } },
    ],
    [
      'a release in other words',
      { ...release, reason },
      adas,
      { releaseReason: 'completed', reason, ended: { body: own } },
    ],
    [
      'a release without words',
      { ...release, reason: null },
      null,
      { releaseReason: 'completed', reason: null },
    ],
    [
      'a revocation',
      revocation,
      held({ ...over, state: 'revoked', reason, terminatedAtMs: 9 }),
      { ...end, reason, ended: { body: own } },
    ],
    [
      'a revocation of a lease that says otherwise',
      revocation,
      held({ ...over, state: 'released', session: 's', terminatedAtMs: null }),
      {
        ...{ ...end, reason },
        ended: {
          ...{ state: 'released', session: 's' },
          body: { ...own, reason: null, terminatedAtMs: null },
        },
      },
    ],
    [
      'the end of a wait',
      failure,
      failed,
      {
        ...lapse,
        ended: { body: { ttlMs: TTL_MS, orderUs: 0, failure: 'lapsed', deadline: 5e6 } },
      },
    ],
  ])('tersely: %s', (_, event, ended, body) => {
    const record = encodeEvent({ event, ended }, HERE, true)
    expect(record.body).toStrictEqual(body)
    expect(decodeEvent(record, HERE, true)).toStrictEqual({ event, ended })
  })
})
