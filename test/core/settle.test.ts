import { describe, expect, it } from 'vitest'
import type { Command } from '../../src/core/command.ts'
import { isBlocked } from '../../src/core/conflict.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import {
  acquire,
  claim,
  downgrade,
  file,
  GROUP,
  id,
  lease,
  nowAt,
  release,
  renew,
  revoke,
  settle,
  tickAt,
  ticket,
  told,
  transfer,
  TTL_MS,
  view,
  WALL_MS,
  WINDOW_MS,
  withdraw,
  withdrawUpgrade,
  type Moment,
} from './builders.ts'

function settled(entries: readonly Entry[], at: number, moment: Moment = {}) {
  return decide(view(entries), settle(), nowAt(at, moment))
}

describe('settling', () => {
  it('changes nothing that the clock did not', () => {
    const decision = settled([lease(), ticket()], WINDOW_MS - 1)
    expect(decision).toMatchObject({ outcome: { kind: 'settled', expired: 0 }, events: [] })
    expect(decision.validUntilUs).toBe(WINDOW_MS * 1000)
  })

  it('ends a lease with its own expiry, never with the moment somebody noticed', () => {
    const decision = settled([lease({ renewals: 4 })], 99_000)
    expect(decision.outcome).toEqual({ kind: 'settled', expired: 1 })
    expect(decision.events).toMatchObject([
      {
        ...{ type: 'lease.expired', terminatedAtMs: WALL_MS + TTL_MS, atMs: WALL_MS + 99_000 },
        ...{ before: 'active', after: 'expired', renewals: 4, lockedUntil: null },
        reason: 'ttl passed',
      },
    ])
  })

  it('ends a lease no later than the event when the wall was set back', () => {
    const decision = settled([lease()], TTL_MS, { wallShiftMs: -3_000 })
    expect(decision.events).toMatchObject([{ terminatedAtMs: WALL_MS + TTL_MS - 3_000 }])
  })

  it.each([-1, 0, 1])('judges by the tick alone, %i ticks from the deadline', (us) => {
    const decision = settled([lease()], TTL_MS, { us })
    expect(told(decision)).toEqual(us < 0 ? [] : ['lease.expired 1'])
  })

  it.each<[string, number, Moment, readonly string[]]>([
    ['at its first deadline, which it outlives', TTL_MS, {}, []],
    ['one tick before its new deadline', TTL_MS + 4_000, { us: -1 }, []],
    ['at its new deadline', TTL_MS + 4_000, {}, ['lease.expired 1']],
  ])('judges a lease that was renewed by its new deadline alone, %s', (_, at, moment, events) => {
    const { outcome } = decide(view([lease()]), renew(), nowAt(4_000))
    if (outcome.kind !== 'renewed') throw new Error(`the renewal was answered ${outcome.kind}`)
    expect(told(settled([outcome.lease], at, moment))).toEqual(events)
  })

  it('drops a waiter that was not heard of and offers to the next', () => {
    const late = ticket({ id: id(4), holder: 'eve', orderUs: 1, deadline: tickAt(99_000) })
    const decision = settled([lease(), ticket(), late], TTL_MS)
    expect(told(decision)).toEqual(['lease.expired 1', 'lease.failed 2', 'lease.offered 4'])
    expect(decision.events[1]).toMatchObject({ failure: 'abandoned' })
  })

  it('lets an offer lapse without a lock delay', () => {
    const offer = { fence: 2000, deadline: tickAt(WINDOW_MS) }
    const next = ticket({ id: id(4), holder: 'eve', orderUs: 1, deadline: tickAt(99_000) })
    const decision = settled([ticket({ offer }), next], WINDOW_MS)
    expect(told(decision)).toEqual(['lease.failed 2', 'lease.offered 4'])
    expect(decision.events[0]).toMatchObject({ failure: 'lapsed' })
  })

  it('writes down what is over in the same order, however a store keeps it', () => {
    const entries = [
      ticket({ id: id(3), orderUs: 20 }),
      ticket({ id: id(4), orderUs: 10, holder: 'eve' }),
      lease({ id: id(2), mode: 'shared' }),
      lease({ id: id(1), mode: 'shared' }),
    ]
    const order = ['lease.expired 1', 'lease.expired 2', 'lease.failed 4', 'lease.failed 3']
    expect(told(settled(entries, TTL_MS))).toEqual(order)
    expect(told(settled(entries.toReversed(), TTL_MS))).toEqual(order)
  })

  it('writes down leases before tickets, whatever their ids', () => {
    const entries = [ticket({ id: id(3) }), lease({ id: id(7) })]
    for (const kept of [entries, entries.toReversed()]) {
      expect(told(settled(kept, TTL_MS))).toEqual(['lease.expired 7', 'lease.failed 3'])
    }
  })

  it('offers in order of filing, and by id when two were filed at one tick', () => {
    const [first, second] = [ticket({ id: id(4) }), ticket({ id: id(5), holder: 'eve' })]
    expect(told(settled([second, first], 1))).toEqual(['lease.offered 4'])
  })
})

describe('a decision is valid until the first deadline that it took for running', () => {
  it.each<[string, readonly Entry[], number | null]>([
    ['of several', [ticket(), lease(), ticket({ id: id(4), orderUs: 1 })], WINDOW_MS],
    ['of an offer that it makes', [ticket({ claimWindowMs: 500 })], 501],
    ['and for good where there is none', [], null],
    ['and for good where all have ended', [lease({ state: 'released' })], null],
    ['not one that is over', [lease({ deadline: tickAt(1) })], null],
  ])('%s', (_, entries, untilMs) => {
    const { validUntilUs } = decide(view(entries), settle(), nowAt(1))
    expect(validUntilUs).toBe(untilMs === null ? null : untilMs * 1000)
  })

  it('on the clock that decides, and on no other', () => {
    const before = view([lease({ deadline: tickAt(TTL_MS, { domain: ANOTHER_HOST }) })])
    const { outcome, validUntilUs } = decide(before, release({ holder: 'eve' }), nowAt(1))
    expect([outcome.kind, validUntilUs]).toEqual(['not_holder', null])
  })
})

describe('a waiter that must look for itself', () => {
  const grouped = ticket({ id: id(31), holder: 'cyd', mode: 'shared', group: GROUP, orderUs: 5 })
  const shared = lease({ mode: 'shared' })
  const other = lease({ id: id(7), mode: 'shared', holder: 'bob' })
  const delayed = lease({ state: 'expired', lockedUntil: tickAt(1) })
  const woken = { session: 'session-of-cyd', leaseId: id(31) }

  it.each<[string, readonly Entry[], Command]>([
    ['released', [lease()], release()],
    ['expired', [lease({ deadline: tickAt(1) })], settle()],
    ['revoked', [lease()], revoke()],
    ['transferred', [lease(), ticket({ mode: 'shared' })], transfer({ to: null })],
    ['unlocked', [delayed], settle()],
    ['downgraded', [lease()], downgrade()],
    ['failed', [shared, ticket()], withdraw()],
    ['upgrading', [{ ...shared, upgrading: true }, other], withdrawUpgrade()],
  ])('is woken when what was in its way is %s', (type, entries, command) => {
    const before = view([...entries, grouped])
    expect(isBlocked(grouped, before.entries.values(), nowAt(0))).toBe(true)
    const decision = decide(before, command, nowAt(1))
    expect(decision.events).toMatchObject([{ type: `lease.${type}` }, ...decision.events.slice(1)])
    expect(decision.wakes).toEqual([woken])
  })

  it('is not woken by what takes nothing away, or those who wake each other would never stop', () => {
    const { wakes, events } = decide(view([shared, grouped]), revoke({ graceMs: 100 }), nowAt(1))
    expect(events).toMatchObject([{ type: 'lease.revoking' }])
    expect(wakes).toEqual([])
  })
})

describe('a session that let an offer lapse', () => {
  const offer = { fence: 2000, deadline: tickAt(WINDOW_MS) }
  const reach = { resource: file('/src'), extent: 'subtree' } as const
  const lapsed = ticket({ resource: file('/src/a'), offer })
  const other = ticket({ id: id(4), resource: file('/src/b'), deadline: tickAt(99_000) })
  const blocker = lease({ resource: file('/src/b'), deadline: tickAt(99_000) })

  it('keeps its other tickets: they are of other tasks, which are heard of', () => {
    const decision = decide(view([lapsed, other, blocker]), settle(reach), nowAt(WINDOW_MS))
    expect(told(decision)).toEqual(['lease.failed 2'])
    expect(decision.events).toMatchObject([{ failure: 'lapsed' }])
  })

  it.each([
    ['whose window ended at the same tick', { ...other, deadline: tickAt(WINDOW_MS) }],
    ['whose offer ended at the same tick', { ...other, offer }],
  ])('loses a ticket %s', (_, twin) => {
    const decision = decide(view([lapsed, twin]), settle(reach), nowAt(WINDOW_MS))
    expect(told(decision)).toEqual(['lease.failed 2', 'lease.failed 4'])
  })

  it('delays the next waiter by two windows at most, however many tickets it left in one queue', () => {
    // The process dies just before its first offer lapses, so all its tickets were heard of until then.
    const left = [3, 4, 5].map((n) => {
      return ticket({ id: id(n), orderUs: n, deadline: tickAt(2 * WINDOW_MS - 1) })
    })
    const next = ticket({ id: id(9), holder: 'eve', orderUs: 9, deadline: tickAt(99_000) })
    const queue = [ticket({ offer }), ...left, next]
    const first = decide(view(queue), settle(), nowAt(WINDOW_MS))
    expect(told(first)).toEqual(['lease.failed 2', 'lease.offered 3'])
    const second = decide(view([...first.entries.values()]), settle(), nowAt(2 * WINDOW_MS))
    expect(told(second).at(-1)).toBe('lease.offered 9')
  })
})

const REBOOTED = 'host-a/boot-2/0#2'
const ANOTHER_HOST = 'host-b/boot-9/0#2'
const ANOTHER_NAMESPACE = 'host-a/boot-1/77.0#2'

describe('in a new clock domain', () => {
  it('a lease of an earlier boot of this host is over and its resource free at once', () => {
    const moment = { domain: REBOOTED, domainSinceMs: 3 }
    const decision = decide(view([lease()]), acquire(), nowAt(3, moment))
    expect(told(decision)).toEqual(['lease.expired 1', 'lease.issued 3'])
  })

  it.each([
    ['another host', ANOTHER_HOST],
    ['another time namespace', ANOTHER_NAMESPACE],
    ['its own domain that came back', 'host-a/boot-1/0#3'],
    ['a domain without a boot', 'host-c#2'],
    ['a domain with an empty host', '/boot-2/0#2'],
  ])('%s: over, and nobody gets the resource for a whole ttl', (_, domain) => {
    const moment = { domain, domainSinceMs: 3 }
    const decision = decide(view([lease()]), acquire(), nowAt(8, moment))
    expect(told(decision)).toEqual(['lease.expired 1', 'lease.denied 3'])
    expect(decision.events[0]).toMatchObject({
      lockedUntil: { domain, us: (3 + TTL_MS) * 1000 },
    })
    expect(decision.outcome).toMatchObject({
      kind: 'held',
      blockers: [{ kind: 'lock_delay', holder: 'ada', remainingMs: TTL_MS - 5 }],
    })
  })

  it.each([
    [-1, ['lease.expired 1', 'lease.denied 3']],
    [0, ['lease.expired 1', 'lease.issued 3']],
  ])('the delay counts from when the store met the domain, at its end %i ticks', (us, events) => {
    const moment = { domain: ANOTHER_HOST, domainSinceMs: 3, us }
    const decision = decide(view([lease()]), acquire(), nowAt(3 + TTL_MS, moment))
    expect(told(decision)).toEqual(events)
  })

  it('all tickets and offers are dropped', () => {
    const offered = ticket({ id: id(5), offer: { fence: 9, deadline: tickAt(99_000) } })
    const moment = { domain: REBOOTED }
    const decision = settled([ticket({ holder: 'eve' }), offered], 0, moment)
    expect(told(decision)).toEqual(['lease.failed 2', 'lease.failed 5'])
  })

  it('a lock delay of the domain before starts again, because it cannot have run out', () => {
    const delayed = lease({
      ...{ state: 'expired', terminatedAtMs: WALL_MS },
      lockedUntil: tickAt(9_000, { domain: ANOTHER_NAMESPACE }),
    })
    const moment = { domain: 'host-a/boot-1/0#3', domainSinceMs: 5 }
    const decision = decide(view([delayed]), acquire(), nowAt(9, moment))
    expect(told(decision)).toEqual(['lease.expired 1', 'lease.denied 3'])
    expect(decision.events[0]).toMatchObject({
      ...{ before: 'expired', after: 'expired', terminatedAtMs: WALL_MS },
      reason: 'clock changed, lock delay starts again',
      lockedUntil: { domain: moment.domain, us: (5 + TTL_MS) * 1000 },
    })
  })

  it('a lock delay ends when the holder turns out to be of an earlier boot', () => {
    const delayed = lease({
      state: 'expired',
      lockedUntil: tickAt(9_000, { domain: ANOTHER_HOST }),
    })
    const decision = settled([delayed], 1, { domain: 'host-a/boot-2/0#3' })
    expect(told(decision)).toEqual(['lease.unlocked 1'])
    expect(decision.events).toMatchObject([{ before: 'expired', after: 'expired' }])
  })

  it('a lock delay that has run out here ends, although its lease was of another clock', () => {
    const deadline = tickAt(9_000, { domain: ANOTHER_HOST })
    const delayed = lease({ state: 'expired', deadline, lockedUntil: tickAt(4_000) })
    expect(told(settled([delayed], 4_000, { domainSinceMs: 3 }))).toEqual(['lease.unlocked 1'])
  })

  it.each([
    ['who revoked it', { by: 'eve', reason: null }, 'eve'],
    ['an operator, where an older store does not say who it was', null, 'an operator'],
  ])('a lock delay after a revocation starts again in the name of %s', (_, revoking, by) => {
    const lockedUntil = tickAt(9_000, { domain: ANOTHER_NAMESPACE })
    const delayed = lease({ state: 'revoked', revoking, lockedUntil })
    const { events } = settled([delayed], 1, { domain: 'host-d/boot-9/0#3' })
    expect(events).toMatchObject([
      { type: 'lease.revoked', before: 'revoked', after: 'revoked', by },
    ])
  })

  it('a delay that starts again is not counted as another expiry', () => {
    const delayed = lease({
      state: 'expired',
      lockedUntil: tickAt(9_000, { domain: ANOTHER_HOST }),
    })
    const decision = settled([delayed], 1, { domain: 'host-d/boot-9/0#3' })
    expect(decision.outcome).toEqual({ kind: 'settled', expired: 0 })
  })
})

describe('a decision that sees part of a tree', () => {
  const subtree = { resource: file('/src'), extent: 'subtree' } as const
  const held = lease({ resource: file('/src/a') })

  it('offers no subtree, because something below it may be held out of sight', () => {
    const waiting = ticket(subtree)
    const command = release({ resource: file('/src/a') })
    const decision = decide(view([held, waiting]), command, nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1'])
  })

  it('offers a file below the subtree that it looks at', () => {
    const waiting = ticket({ resource: file('/src/a') })
    const decision = decide(view([lease(subtree), waiting]), release(subtree), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 2'])
  })

  it('keeps later tickets behind the subtree that it cannot offer', () => {
    const waiting = ticket({ ...subtree, orderUs: 1 })
    const later = ticket({ id: id(5), resource: file('/src/a'), orderUs: 2, holder: 'eve' })
    const command = claim({ leaseId: id(5), resource: file('/src/a'), session: 'session-of-eve' })
    const decision = decide(view([waiting, later]), command, nowAt(1))
    expect(decision.outcome).toMatchObject({ kind: 'queued', blockers: [{ kind: 'ticket' }] })
  })

  it('offers a directory alone to a reader while another waits for all of it', () => {
    const readers = { resource: file('/src'), mode: 'shared' } as const
    const all = ticket({ ...readers, extent: 'subtree', orderUs: 1 })
    const itself = ticket({ ...readers, id: id(5), holder: 'eve', orderUs: 2 })
    const decision = decide(view([held, all, itself]), settle(subtree), nowAt(1))
    expect(told(decision)).toEqual(['lease.offered 5'])
  })

  it('offers what is free beside a ticket that is blocked', () => {
    const blocked = ticket({ resource: file('/src/b'), orderUs: 1 })
    const blocker = lease({ id: id(8), resource: file('/src/b') })
    const free = ticket({ id: id(5), resource: file('/src/a'), orderUs: 2, holder: 'eve' })
    const entries = [lease(subtree), blocked, blocker, free]
    const decision = decide(view(entries), release(subtree), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 5'])
  })
})
