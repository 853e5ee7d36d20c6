/** Which event can follow from those before it, and which no store would have decided. */
import { describe, expect, it } from 'vitest'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import type { LeaseEvent, LeaseIssued } from '../../src/core/event.ts'
import type { Lease } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { CheckedFold } from '../../src/ledger/checked-fold.ts'
import {
  acquire,
  claim,
  file,
  id,
  release,
  renew,
  revoke,
  TTL_MS,
  upgrade,
  WAITING,
  withdraw,
} from '../core/builders.ts'
import { TinyRealm } from '../core/tiny-realm.ts'

const ADA = { leaseId: id(1), holder: 'ada' }
const BOB = { leaseId: id(2), holder: 'bob' }
const FLOW = parseResource('workflow:f')

/** What is wrong with the first event that cannot follow, or with the end. */
function problemOf(events: readonly LeaseEvent[]): string | null {
  const fold = new CheckedFold()
  for (const [index, event] of events.entries()) {
    const problem = fold.take(event, index + 1)
    if (problem !== null) return problem
  }
  return fold.missing()?.problem ?? null
}

function lived(...commands: readonly Parameters<TinyRealm['run']>[0][]): readonly LeaseEvent[] {
  const realm = new TinyRealm()
  for (const command of commands) {
    realm.pass(10)
    realm.run(command)
  }
  return realm.ledger
}

function withFacts(
  events: readonly LeaseEvent[],
  type: LeaseEvent['type'],
  facts: object,
): readonly LeaseEvent[] {
  const at = events.findLastIndex((event) => event.type === type)
  return events.map((event, index) => (index === at ? { ...event, ...facts } : event))
}

/** The lease of the last one that was issued is another than it was. */
function withLease(events: readonly LeaseEvent[], change: Partial<Lease>): readonly LeaseEvent[] {
  return withFacts(events, 'lease.issued', { lease: { ...issuedIn(events).lease, ...change } })
}

function issuedIn(events: readonly LeaseEvent[]): LeaseIssued {
  const issued = events.findLast((event) => event.type === 'lease.issued')
  if (issued === undefined) throw new Error('nothing was issued')
  return issued
}

/** The same lease once more, of a stranger with the next fence. */
function again(events: readonly LeaseEvent[], change: Partial<Lease> = {}): LeaseIssued {
  const { lease, ...event } = issuedIn(events)
  const atMs = Math.max(...events.map((each) => each.atMs))
  const other = { id: id(9), fence: lease.fence + 1e9, grantedAtMs: atMs }
  return { ...event, atMs, leaseId: id(9), lease: { ...lease, ...other, ...change } }
}

const waited = lived(acquire(ADA), acquire({ ...BOB, ...WAITING }), release(), claim())
const renewed = lived(acquire(ADA), renew(), release())
const held = lived(acquire(ADA))
const released = lived(acquire(ADA), release())
const advanced = lived(acquire({ ...ADA, resource: FLOW }), {
  ...{ kind: 'advance', leaseId: id(1), resource: FLOW, extent: 'exact' },
  ...{ holder: 'ada', from: 0, count: 5, reason: null, requestId: null },
})
const shared = lived(acquire({ ...ADA, mode: 'shared' }), acquire({ ...BOB, mode: 'shared' }))
const sharedOnce = lived(
  ...[acquire({ ...ADA, mode: 'shared' }), acquire({ ...BOB, mode: 'shared' }), release()],
)
const below = lived(acquire({ ...ADA, resource: file('/q/a') }))

function without(events: readonly LeaseEvent[], type: LeaseEvent['type']): readonly LeaseEvent[] {
  return events.filter((event) => event.type !== type)
}

/** An event that the store has not decided, about the lease of Ada. */
function forged(events: readonly LeaseEvent[], facts: object): LeaseEvent {
  const { lease: _lease, ...event } = again(events)
  return { ...event, leaseId: id(1), before: 'active', ...facts } as unknown as LeaseEvent
}

describe('an event cannot follow where', () => {
  const child = { delegation: { ...ROOT_DELEGATION, line: [id(1)], rootFence: 1 } }
  const spent = { type: 'lease.accounted', change: { kind: 'spent', amounts: { tokens: 1 } } }
  const over = { before: 'released', after: 'released' }
  const [queued] = waited.filter(({ type }) => type === 'lease.queued')
  it.each<[string, string, readonly LeaseEvent[]]>([
    [
      'an offer has the fence of a lease before it',
      ', got 1',
      withFacts(waited, 'lease.offered', { fence: 1 }),
    ],
    [
      'a lease is offered that is held',
      'work:W-1 is held by another',
      without(waited, 'lease.released').slice(0, -1),
    ],
    [
      'a lease is taken that is offered to another',
      'work:W-1 is held by another',
      [...waited.slice(0, -1), again(waited.slice(0, -1))],
    ],
    [
      'a waiter gives up on another resource',
      'resource must be work:W-1, got work:W-2',
      [
        ...(queued === undefined ? [] : [queued]),
        ...lived(acquire(ADA), acquire({ ...BOB, ...WAITING }), withdraw())
          .filter(({ type }) => type === 'lease.failed')
          .map((event) => ({ ...event, resource: parseResource('work:W-2') })),
      ],
    ],
    [
      'a lease is renewed on another clock',
      'it was renewed on another clock',
      withFacts(renewed, 'lease.renewed', { deadline: { domain: 'other', us: 1 } }),
    ],
    [
      'a lease is renewed that may not be',
      'renewals must be at most 0, got 1',
      withLease(renewed, { maxRenewals: 0 }),
    ],
    [
      'a lease is renewed for longer than its TTL',
      'expiresAtMs must be at most',
      withFacts(renewed, 'lease.renewed', { expiresAtMs: 2e12 }),
    ],
    [
      'a renewal is taken back',
      'renewals must be at least 1',
      withFacts(renewed, 'lease.released', { renewals: 0 }),
    ],
    [
      'a lease is given notice for years',
      'expiresAtMs must be at most',
      [...held, forged(held, { type: 'lease.revoking', expiresAtMs: 2e13, deadline: {} })],
    ],
    [
      'a lease is adopted for years',
      'expiresAtMs must be at most',
      [...held, forged(held, { type: 'lease.adopted', expiresAtMs: 2e13, deadline: {} })],
    ],
    ['no epoch is used up', 'to must be 1..', withFacts(advanced, 'lease.advanced', { to: 0 })],
    [
      'a lease that has ended spends',
      'the lease has ended',
      [...released, forged(released, { ...spent, ...over })],
    ],
    [
      'a lease is derived from one that has ended',
      'its parent has ended',
      [...released, again(released, child)],
    ],
    [
      'a lease ends before it tells what it gave to its child',
      `what ${id(1)} gave to ${id(9)} must be told first`,
      [...held, again(held, child), ...released.slice(1)],
    ],
    [
      'a directory is taken of which another holds a file',
      'file:/q is held by another',
      [
        ...below,
        {
          ...again(below, { resource: file('/q'), extent: 'subtree' }),
          resource: file('/q'),
        },
      ],
    ],
    [
      'one of two that share is gone, and a third takes it alone',
      'work:W-1 is held by another',
      [...sharedOnce, again(sharedOnce, { mode: 'exclusive' })],
    ],
    [
      'one of two that share has it alone',
      'work:W-1 is held by another',
      [
        ...shared,
        forged(shared, {
          type: 'lease.upgraded',
          fence: 2e15,
          holder: 'ada',
          session: 'session-of-ada',
        }),
      ],
    ],
  ])('%s', (_what, said, events) => {
    expect(problemOf(events)).toContain(said)
  })

  it('a lease is live and no parent tells of it; one that has ended is forgotten with its parent', () => {
    const orphan = { delegation: { ...ROOT_DELEGATION, line: [id(5)], rootFence: 1 } }
    expect(problemOf(withLease(held, orphan))).toContain('no parent tells what it gave to it')
    expect(problemOf(withLease(released, orphan))).toBeNull()
  })
})

describe('an event can follow where', () => {
  it.each<[string, readonly LeaseEvent[]]>([
    ['a waiter got what it was offered', waited],
    [
      'a waiter let go of what it was offered, and another took it',
      lived(
        ...[acquire(ADA), acquire({ ...BOB, ...WAITING }), release(), withdraw()],
        acquire({ leaseId: id(3) }),
      ),
    ],
    [
      'somebody waited for a workflow',
      lived(
        acquire({ ...ADA, resource: FLOW }),
        acquire({ ...BOB, resource: FLOW, ...WAITING }),
        release({ resource: FLOW }),
        claim({ resource: FLOW }),
      ),
    ],
    [
      'a sharer asked for more before another took the share that it was offered',
      lived(
        ...[acquire(ADA), acquire({ ...BOB, mode: 'shared', ...WAITING })],
        acquire({ leaseId: id(3), mode: 'shared', ...WAITING }),
        ...[release(), claim(), upgrade(BOB)],
        claim({ leaseId: id(3), session: 'session-of-cyd' }),
      ),
    ],
    ['it is renewed', renewed],
    ['a lease is given more notice than it has', lived(acquire(ADA), revoke({ graceMs: 9e5 }))],
    [
      'a renewal is told a little late',
      withFacts(renewed, 'lease.renewed', { atMs: issuedIn(renewed).atMs - 1 }),
    ],
    [
      'an advance is told a little late',
      withFacts(advanced, 'lease.advanced', { atMs: issuedIn(advanced).atMs - 1 }),
    ],
    ['a lease ends as it begins', withLease(held, { expiresAtMs: issuedIn(held).atMs })],
  ])('%s', (_what, events) => {
    expect(events.length).toBeGreaterThan(0)
    expect(problemOf(events)).toBeNull()
  })

  it('a lease is given notice beyond its TTL', () => {
    const facts = { type: 'lease.revoking', by: 'root', deadline: issuedIn(held).lease.deadline }
    const expiresAtMs = issuedIn(held).atMs + 9 * TTL_MS
    expect(problemOf([...held, forged(held, { ...facts, expiresAtMs })])).toBeNull()
  })
})
