/** Modes, subtrees, slots and priority: who may be beside whom, and who goes first. */
import { describe, expect, it } from 'vitest'
import { decide } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import type { Extent, Mode } from '../../src/core/resource.ts'
import {
  acquire,
  claim,
  file,
  id,
  lease,
  nowAt,
  release,
  revoke,
  settle,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WAITING,
  WALL_MS,
} from './builders.ts'
import { fc } from '../fast-check.ts'

function asked(entries: readonly Entry[], change: Parameters<typeof acquire>[0], at = 1) {
  return decide(view(entries), acquire(change), nowAt(at)).outcome.kind
}

describe('of two that want the same', () => {
  it.each<[Mode, Mode, string]>([
    ['exclusive', 'exclusive', 'held'],
    ['exclusive', 'shared', 'held'],
    ['shared', 'exclusive', 'held'],
    ['shared', 'shared', 'granted'],
  ])('one has it %s and the other asks for it %s: %s', (has, asks, outcome) => {
    expect(asked([lease({ mode: has })], { mode: asks })).toBe(outcome)
  })

  it('a reader does not pass a writer that waits', () => {
    const entries = [lease({ mode: 'shared' }), ticket()]
    expect(asked(entries, { mode: 'shared' })).toBe('held')
    expect(asked(entries, { mode: 'shared', ...WAITING })).toBe('queued')
  })

  it('a reader passes readers that wait for nothing but a writer before them', () => {
    const reader = ticket({ mode: 'shared' })
    const decision = decide(view([lease(), reader]), release(), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 2'])
    const next = decide(
      view([{ ...reader, offer: { fence: 9, deadline: tickAt(99) } }]),
      acquire({ mode: 'shared' }),
      nowAt(1),
    )
    expect(next.outcome.kind).toBe('granted')
  })

  it('readers are offered together, the writer behind them is not', () => {
    const waiting = [
      ticket({ mode: 'shared' }),
      ticket({ id: id(3), holder: 'cyd', mode: 'shared', orderUs: 1 }),
      ticket({ id: id(4), holder: 'dan', orderUs: 2 }),
      ticket({ id: id(5), holder: 'eve', mode: 'shared', orderUs: 3 }),
    ]
    const decision = decide(view([lease(), ...waiting]), release(), nowAt(3))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 2', 'lease.offered 3'])
  })

  it('a reader that claims after others came in has the greatest fence', () => {
    const offered = ticket({ mode: 'shared', offer: { fence: 2000, deadline: tickAt(4_000) } })
    const beside = lease({ mode: 'shared', fence: WALL_MS * 1000 + 5_000_000 })
    const { outcome } = decide(view([offered, beside]), claim(), nowAt(1))
    expect(outcome.kind === 'granted' && outcome.lease.fence).toBe(beside.fence + 1)
  })
})

describe('a directory and what is near it', () => {
  it.each<[string, Extent, string, Extent, string]>([
    ['/src', 'subtree', '/src/a', 'exact', 'held'],
    ['/src', 'subtree', '/src/a/b', 'subtree', 'held'],
    ['/src', 'subtree', '/src', 'exact', 'held'],
    ['/src', 'exact', '/src', 'subtree', 'held'],
    ['/src/a/b', 'exact', '/src', 'subtree', 'held'],
    ['/src', 'exact', '/src/a', 'exact', 'granted'],
    ['/src/a', 'subtree', '/src', 'exact', 'granted'],
    ['/src', 'subtree', '/src_backup', 'exact', 'granted'],
    ['/src', 'subtree', '/src_backup', 'subtree', 'granted'],
    ['/src_backup', 'subtree', '/src', 'subtree', 'granted'],
    ['/src', 'subtree', '/srca', 'exact', 'granted'],
    ['/', 'subtree', '/anything', 'exact', 'held'],
    ['/anything', 'exact', '/', 'subtree', 'held'],
  ])('%s as %s is held, %s as %s: %s', (has, extent, asks, askedExtent, outcome) => {
    const entries = [lease({ resource: file(has), extent })]
    const decision = decide(
      view(entries.filter((entry) => touchesForTest(entry, asks, askedExtent))),
      acquire({ resource: file(asks), extent: askedExtent }),
      nowAt(1),
    )
    expect(decision.outcome.kind).toBe(outcome)
    // The view holds only what overlaps, but the core judges for itself when it is shown more.
    expect(asked(entries, { resource: file(asks), extent: askedExtent })).toBe(outcome)
  })
})

function touchesForTest(entry: Entry, asks: string, extent: Extent): boolean {
  const path = entry.resource.slice('file:'.length)
  const below = (inner: string, outer: string): boolean =>
    inner.startsWith(outer === '/' ? '/' : `${outer}/`)
  if (path === asks) return true
  return (
    (entry.extent === 'subtree' && below(asks, path)) || (extent === 'subtree' && below(path, asks))
  )
}

describe('a counted resource', () => {
  const taken = (number: number, slots: number | null): Entry =>
    lease({ id: id(10 + number), holder: `h${number}`, mode: 'shared', slots })
  const slots2 = { mode: 'shared', slots: 2 } as const

  it.each([
    [0, 'granted'],
    [1, 'granted'],
    [2, 'held'],
  ])('of two slots with %i taken: %s', (count, outcome) => {
    const entries = Array.from({ length: count }, (_, number) => taken(number, 2))
    expect(asked(entries, slots2)).toBe(outcome)
  })

  it('counts offers and those who wait', () => {
    const offered = ticket({ ...slots2, offer: { fence: 9, deadline: tickAt(4_000) } })
    expect(asked([taken(1, 2), offered], slots2)).toBe('held')
    expect(asked([taken(1, 2), ticket({ ...slots2, group: id(90) })], slots2)).toBe('held')
  })

  it('offers one place when one comes free', () => {
    const waiting = [ticket(slots2), ticket({ ...slots2, id: id(3), holder: 'cyd', orderUs: 1 })]
    const entries = [lease(slots2), taken(1, 2), ...waiting]
    expect(told(decide(view(entries), release(), nowAt(1)))).toEqual([
      'lease.released 1',
      'lease.offered 2',
    ])
  })

  it.each<[(number | null)[], number | null, string]>([
    [[1], 1, 'held'],
    [[1], 2, 'held'],
    [[2], 1, 'held'],
    [[2], 3, 'granted'],
    [[3], 2, 'granted'],
    [[2, 3], 3, 'held'],
    [[3, 3], 3, 'granted'],
    [[3, 3], 2, 'held'],
    [[3, 3], 4, 'granted'],
    [[4, 3, 4], 4, 'held'],
    [[4, 4, 4], 4, 'granted'],
    [[null], 3, 'held'],
    [[2], null, 'held'],
    [[null, null], null, 'granted'],
  ])('with leases of %j slots, one who says %j: %s', (live, slots, outcome) => {
    const entries = live.map((count, number) => taken(number, count))
    expect(asked(entries, { mode: 'shared', slots })).toBe(outcome)
    if (outcome === 'held') {
      expect(asked(entries, { mode: 'shared', slots, ...WAITING })).toBe('queued')
    }
  })

  it('names all who share it to one for whom there is no place', () => {
    const entries = [taken(1, 2), taken(2, 3)]
    const { outcome } = decide(view(entries), acquire({ mode: 'shared', slots: 9 }), nowAt(1))
    expect(outcome).toMatchObject({ blockers: [{ leaseId: id(11) }, { leaseId: id(12) }] })
  })

  it('lets one with other slots wait while one of its holders wishes to be alone', () => {
    const upgrading = { ...lease({ mode: 'shared', slots: 2 }), upgrading: true }
    const entries = [upgrading, taken(1, 2)]
    expect(asked(entries, { mode: 'shared', slots: 5, ...WAITING })).toBe('queued')
  })

  it('is changed from two to three places without anybody being refused', () => {
    const old = [lease(slots2), taken(1, 2)]
    const waiting = [2, 3, 4].map((number) => {
      const wish = { mode: 'shared', slots: 3, orderUs: number } as const
      return ticket({ id: id(number), holder: `new${number}`, ...wish })
    })
    const first = decide(view([...old, ...waiting]), release(), nowAt(1))
    expect(told(first)).toEqual(['lease.released 1', 'lease.offered 2'])
    const last = { leaseId: id(11), holder: 'h1', session: 'session-of-ada' }
    const second = decide(view([...first.entries.values()]), release(last), nowAt(2))
    expect(told(second)).toEqual(['lease.released 11', 'lease.offered 3', 'lease.offered 4'])
  })

  it('is not had by one who shares with many before one who came first and shares with few', () => {
    const first = ticket({ mode: 'shared', slots: 1 })
    const entries = [taken(1, 3), first]
    expect(asked(entries, { mode: 'shared', slots: 3 })).toBe('held')
    const next = ticket({ id: id(3), mode: 'shared', slots: 3, orderUs: 1 })
    expect(told(decide(view([...entries, next]), settle(), nowAt(1)))).toEqual([])
    expect(told(decide(view([first, next]), settle(), nowAt(1)))).toEqual(['lease.offered 2'])
  })

  it.each<[string, Extent, number, string]>([
    ['/s/a', 'exact', 3, 'held'],
    ['/s/b', 'exact', 2, 'granted'],
    ['/s/b', 'exact', 1, 'held'],
    ['/s', 'subtree', 3, 'held'],
    ['/t', 'subtree', 1, 'granted'],
  ])('counts what overlaps: %s as %s of %i slots: %s', (path, extent, slots, outcome) => {
    const share = { mode: 'shared', holder: 'h1' } as const
    const entries = [
      lease({ ...share, id: id(11), resource: file('/s'), extent: 'subtree', slots: 2 }),
      lease({ ...share, id: id(12), resource: file('/s/a'), slots: 5 }),
    ]
    expect(asked(entries, { mode: 'shared', resource: file(path), extent, slots })).toBe(outcome)
  })
})

/** Who is served, by the rule as a person would say it: in order, and the first who does not fit keeps the others waiting. */
function servedInTurn(
  live: readonly (number | null)[],
  waiting: readonly (number | null)[],
): readonly (number | null)[] {
  const together = [...live]
  for (const slots of waiting) {
    const all = [...together, slots]
    const isMixed = all.includes(null) && all.some((count) => count !== null)
    const isTooMany = all.some((count) => count !== null && count < all.length)
    if (isMixed || isTooMany) break
    together.push(slots)
  }
  return together.slice(live.length)
}

describe('of leases and waiters with any slots', () => {
  const slots = fc.oneof(
    { arbitrary: fc.integer({ min: 1, max: 5 }), weight: 5 },
    fc.constant(null),
  )
  const several = fc.array(slots, { maxLength: 6 })

  it('so many are served, in turn, as all of them agree to share with', () => {
    const property = fc.property(several, several, (wished, waiting) => {
      const live = servedInTurn([], wished)
      const leases = live.map((count, n) => lease({ id: id(50 + n), mode: 'shared', slots: count }))
      const tickets = waiting.map((count, n) => {
        return ticket({ id: id(70 + n), mode: 'shared', slots: count, orderUs: n })
      })
      const settled = decide(view([...tickets, ...leases]), settle(), nowAt(1))
      const served = servedInTurn(live, waiting)
      expect(told(settled)).toEqual(served.map((_, n) => `lease.offered ${70 + n}`))
      const queue = waiting.slice(served.length)
      for (const newcomer of [null, 1, 2, 3, 4, 5]) {
        const isServed = queue.length === 0 && servedInTurn([...live, ...served], [newcomer])
        const answer = asked([...settled.entries.values()], { mode: 'shared', slots: newcomer })
        expect(answer).toBe(isServed && isServed.length === 1 ? 'granted' : 'held')
      }
    })
    fc.assert(property, { numRuns: 500 })
  })
})

describe('priority', () => {
  it.each([
    ['a point less', -1, 1, false],
    ['the same', 0, 1, false],
    ['a point more, ten seconds and a tick later', 1, 10_000.001, false],
    ['a point more, a tick before ten seconds later', 1, 9_999.999, true],
    ['a hundred points more, a thousand seconds later', 100, 1_000_000.001, false],
  ])('of %s', (_, priority, atMs, passes) => {
    const far = { deadline: tickAt(10_000_000) }
    const entries = [lease({ mode: 'shared', ...far }), ticket(far)]
    const outcome = asked(entries, { priority, mode: 'shared' }, atMs)
    expect(outcome).toBe(passes ? 'granted' : 'held')
  })

  it('orders the queue', () => {
    const first = ticket({ id: id(4), orderUs: 5 })
    const second = ticket({ id: id(2), orderUs: 6, holder: 'eve' })
    expect(told(decide(view([second, first]), settle(), nowAt(1)))).toEqual(['lease.offered 4'])
  })
})

describe('a lock delay', () => {
  const delayed = lease({ lockDelayMs: 500 })

  it.each([
    [TTL_MS + 499, 'held'],
    [TTL_MS + 500, 'granted'],
  ])('after an expiry, at %i: %s', (at, outcome) => {
    expect(asked([delayed], {}, at)).toBe(outcome)
  })

  it('counts from the expiry, not from when it was noticed', () => {
    const { events } = decide(view([delayed]), settle(), nowAt(TTL_MS + 300))
    expect(events).toMatchObject([{ type: 'lease.expired', lockedUntil: tickAt(TTL_MS + 500) }])
    expect(told(decide(view([delayed]), settle(), nowAt(TTL_MS + 500)))).toEqual([
      'lease.expired 1',
    ])
  })

  it.each([
    ['a revocation', 100, 600],
    ['a revocation with a grace', 100, 650],
  ])('follows %s', (what, at, until) => {
    const graceMs = what.includes('grace') ? 50 : 0
    const { entries } = decide(view([delayed]), revoke({ graceMs }), nowAt(at))
    const left = [...entries.values()]
    expect(asked(left, {}, until - 1)).toBe('held')
    expect(asked(left, {}, until)).toBe('granted')
  })

  it('does not follow a release', () => {
    const { entries } = decide(view([delayed]), release(), nowAt(1))
    expect(asked([...entries.values()], {})).toBe('granted')
  })

  it('of a revoked lease starts again on another clock, because it cannot have run out', () => {
    const { entries } = decide(view([delayed]), revoke({ by: 'pat', graceMs: 0 }), nowAt(1))
    const moment = { domain: 'host-b/boot-1/0#2', domainSinceMs: 5 }
    const decision = decide(view([...entries.values()]), acquire(), nowAt(9, moment))
    expect(told(decision)).toEqual(['lease.revoked 1', 'lease.denied 3'])
    expect(decision.events[0]).toMatchObject({ before: 'revoked', after: 'revoked', by: 'pat' })
  })
})
