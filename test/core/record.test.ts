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
import { file, lease as held, id, WORK } from './builders.ts'

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
