import { describe, expect, it } from 'vitest'
import { blockersOf, compareTickets, isBlocked } from '../../src/core/conflict.ts'
import { decide, decideSeveral } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import {
  acquireAll,
  claim,
  file,
  GROUP,
  id,
  lease,
  nowAt,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WAITING,
  WALL_MS,
} from './builders.ts'

const mine = ticket({ id: id(9), holder: 'me', orderUs: 50 })

describe('what stands in the way of a ticket', () => {
  it.each<[string, Entry, string | null]>([
    ['a running lease', lease(), 'lease'],
    ['a lease that is over', lease({ deadline: tickAt(1) }), null],
    ['a released lease', lease({ state: 'released' }), null],
    ['a lock delay', lease({ state: 'expired', lockedUntil: tickAt(9) }), 'lock_delay'],
    ['a lock delay that has passed', lease({ state: 'expired', lockedUntil: tickAt(1) }), null],
    ['an earlier ticket', ticket({ orderUs: 49 }), 'ticket'],
    ['a ticket of the same tick with a smaller id', ticket({ id: id(8), orderUs: 50 }), 'ticket'],
    ['a later ticket', ticket({ orderUs: 51 }), null],
    ['an offer to a later ticket', offer(51), 'offer'],
    ['an offer that has lapsed', { ...offer(49), offer: { fence: 7, deadline: tickAt(1) } }, null],
    ['a waiter that is dead', ticket({ orderUs: 49, deadline: tickAt(1) }), null],
    ['itself', mine, null],
    ['itself, with its offer', { ...offer(50), id: mine.id }, null],
    ['a lease elsewhere', lease({ resource: file('/a') }), null],
  ])('%s: %s', (_, entry, kind) => {
    const blockers = blockersOf(mine, [entry], nowAt(1))
    expect(blockers.map((blocker) => blocker.kind)).toEqual(kind === null ? [] : [kind])
    expect(isBlocked(mine, [entry], nowAt(1))).toBe(kind !== null)
  })

  it('is told with who, since when, until when and why', () => {
    expect(blockersOf(mine, [lease({ reason: 'editing' })], nowAt(400))).toEqual([
      {
        ...{ kind: 'lease', leaseId: id(1), resource: 'work:W-1', holder: 'ada' },
        ...{ session: 'session-of-ada', mode: 'exclusive', extent: 'exact', slots: null },
        fence: 1000,
        ...{ sinceMs: WALL_MS, expiresAtMs: WALL_MS + TTL_MS, remainingMs: TTL_MS - 400 },
        reason: 'editing',
        metadata: null,
      },
    ])
  })

  it('is told in the order in which it must go, however a store keeps it', () => {
    const entries = [
      ticket({ id: id(3), orderUs: 20 }),
      { ...offer(40), id: id(4) },
      ticket({ id: id(2), orderUs: 10 }),
      lease({ id: id(5), state: 'expired', lockedUntil: tickAt(9) }),
      lease({ id: id(6), mode: 'shared' }),
      lease({ id: id(1), mode: 'shared' }),
    ]
    const order = [id(1), id(6), id(5), id(4), id(2), id(3)]
    for (const kept of [entries, entries.toReversed()]) {
      const blockers = blockersOf(mine, kept, nowAt(1))
      expect(blockers.map((blocker) => blocker.leaseId)).toEqual(order)
    }
  })

  it('is told of waiters in the order in which they are served, whatever their ids', () => {
    const [late, early] = [ticket({ id: id(2), orderUs: 20 }), ticket({ id: id(3), orderUs: 10 })]
    const order = [id(3), id(2)]
    for (const kept of [
      [late, early],
      [early, late],
    ]) {
      const offers = kept.map((each) => ({ ...offer(each.orderUs), id: each.id }))
      for (const entries of [kept, offers]) {
        const blockers = blockersOf(mine, entries, nowAt(1))
        expect(blockers.map((blocker) => blocker.leaseId)).toEqual(order)
      }
    }
  })

  it('is told as far as sixteen of them, however many there are', () => {
    const all = Array.from({ length: 17 }, (_, n) => lease({ id: id(100 + n), mode: 'shared' }))
    const blockers = blockersOf(mine, all, nowAt(1))
    expect(blockers.map((blocker) => blocker.leaseId)).toEqual(
      all.slice(0, 16).map((each) => each.id),
    )
  })

  it('of an offer says its fence, and of a ticket that it has none', () => {
    expect(blockersOf(mine, [offer(1)], nowAt(1))).toMatchObject([
      { fence: 7, remainingMs: 7_999, expiresAtMs: null },
    ])
    expect(blockersOf(mine, [ticket()], nowAt(1))).toMatchObject([
      { fence: null, remainingMs: 4_999 },
    ])
  })
})

describe('the queue', () => {
  it('counts for how long a waiter has waited from its arrival, whatever its priority', () => {
    const urgent = ticket({ priority: 1, orderUs: 2_000_000 - 10_000_000 })
    const { outcome } = decide(view([lease(), urgent]), claim(), nowAt(2_500))
    expect(outcome).toMatchObject({ kind: 'queued', waitedMs: 500 })
  })

  it('has a new place for what a request for several has lost, beside the ticket that it still has', () => {
    const asked = { mode: 'shared', sequential: true, ...WAITING } as const
    const other = parseResource('work:W-2')
    const members = [asked, { ...asked, leaseId: id(4), resource: other }]
    const own = ticket({ holder: 'cyd', mode: 'shared', id: id(3), group: GROUP })
    const views = [view([lease(), own]), view()]
    const decision = decideSeveral(views, acquireAll(members), nowAt(1))
    expect(decision.outcome.kind).toBe('queued_all')
    expect(told(decision)).toEqual(['lease.queued 4'])
  })

  it('is a total order: by filing, then by id', () => {
    const [a, b, c] = [
      ticket({ id: id(3), orderUs: 1 }),
      ticket({ id: id(4) }),
      ticket({ id: id(5) }),
    ]
    expect([a, c, b].toSorted(compareTickets).map((one) => one.id)).toEqual([id(4), id(5), id(3)])
  })
})

function offer(orderUs: number) {
  return ticket({ orderUs, offer: { fence: 7, deadline: tickAt(8_000) } })
}
