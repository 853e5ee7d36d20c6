import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import { decide } from '../../src/core/decide.ts'
import { parseResource } from '../../src/core/resource.ts'
import { decideReleaseAll } from '../../src/core/release.ts'
import {
  id,
  lease,
  nowAt,
  release,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WALL_MS,
  WINDOW_MS,
} from './builders.ts'

describe('a release', () => {
  it('of another process wakes whoever has a handle of the lease, its own does not', () => {
    const held = view([lease()])
    expect(decide(held, release(), nowAt(1)).wakes).toEqual([])
    const { session: _session, ...named } = release()
    const woken = [{ session: 'session-of-ada', leaseId: id(1) }]
    expect(decide(held, named, nowAt(1)).wakes).toEqual(woken)
    const other = release({ session: 'another' })
    expect(decide(held, other, nowAt(1)).wakes).toEqual(woken)
  })

  it('ends the lease now, with its reason', () => {
    const command = release({ releaseReason: 'completed' })
    const decision = decide(view([lease({ renewals: 2 })]), command, nowAt(700))
    expect(decision.outcome).toMatchObject({
      kind: 'released',
      lease: {
        ...{ state: 'released', releaseReason: 'completed', lockedUntil: null },
        terminatedAtMs: WALL_MS + 700,
      },
    })
    expect(decision.events).toMatchObject([
      { type: 'lease.released', before: 'active', after: 'released', renewals: 2 },
    ])
  })

  it('writes its note before the end', () => {
    const note = { reason: 'half done', metadata: { at: 7 } }
    const { events } = decide(view([lease()]), release({ note }), nowAt(1))
    expect(events).toMatchObject([
      { type: 'lease.updated', reason: 'half done', metadata: { at: 7 }, requestId: null },
      { type: 'lease.released' },
    ])
  })

  it('offers the resource to the next in the same commit, with a higher fence', () => {
    const queue = [7, 3].map((orderUs) =>
      ticket({ id: id(orderUs), orderUs, holder: `h${orderUs}` }),
    )
    const decision = decide(view([lease(), ...queue]), release(), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 3'])
    expect(decision.events[1]).toMatchObject({
      ...{ before: 'pending', after: 'pending', deadline: tickAt(1 + WINDOW_MS) },
      fence: (WALL_MS + 1) * 1000,
    })
  })

  it('takes the claim of a waiter that stands by along: it has its lease, and nobody wakes it', () => {
    const seen = view([lease(), ticket({ id: id(3), orderUs: 3, holder: 'bob', ttlMs: 9_000 })])
    const decision = decide(seen, release({ handOffTo: id(3) }), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 3', 'lease.issued 3'])
    const fence = (WALL_MS + 1) * 1000
    const claimed = { id: id(3), holder: 'bob', state: 'active', fence, deadline: tickAt(9_001) }
    expect(decision.outcome).toMatchObject({ kind: 'released', claimed })
    expect(commitOf(seen, decision).wakes).toEqual([])
  })

  it.each([
    ['it is not its turn', [ticket({ id: id(3), orderUs: 3 }), ticket({ id: id(2), orderUs: 2 })]],
    ['its ticket is gone', [ticket({ id: id(2), orderUs: 2 })]],
    ['its ticket is over', [ticket({ id: id(3), deadline: tickAt(1) }), ticket({ id: id(2) })]],
  ])('wakes whoever is next when a waiter stands by but %s', (_why, queue) => {
    const seen = view([lease(), ...queue])
    const decision = decide(seen, release({ handOffTo: id(3) }), nowAt(1))
    expect(told(decision).at(-1)).toBe('lease.offered 2')
    expect(decision.outcome).not.toHaveProperty('claimed')
    expect(commitOf(seen, decision).wakes).toMatchObject([{ leaseId: id(2) }])
  })

  it('that comes too late takes no claim along, and the waiter is offered what has run out', () => {
    const seen = view([lease(), ticket({ id: id(3), deadline: tickAt(20_000) })])
    const decision = decide(seen, release({ handOffTo: id(3) }), nowAt(TTL_MS))
    expect(told(decision)).toEqual(['lease.expired 1', 'lease.offered 3'])
    expect(decision.outcome).not.toHaveProperty('claimed')
  })

  it('takes no claim along that is about another resource', () => {
    const [above, below] = [parseResource('file:/a'), parseResource('file:/a/b')]
    const held = lease({ resource: above, extent: 'subtree' })
    const waiting = ticket({ id: id(3), resource: below })
    const command = release({ resource: above, extent: 'subtree', handOffTo: id(3) })
    const decision = decide(view([held, waiting]), command, nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 3'])
  })

  it('passes over a waiter that was not heard of', () => {
    const dead = ticket({ deadline: tickAt(10) })
    const next = ticket({ id: id(4), holder: 'eve', orderUs: 5 })
    const decision = decide(view([lease(), dead, next]), release(), nowAt(10))
    expect(told(decision)).toEqual(['lease.failed 2', 'lease.released 1', 'lease.offered 4'])
  })

  it('offers a shared resource to all readers at the head of the queue, and to none behind a writer', () => {
    const queue = [
      ticket({ id: id(2), orderUs: 2, mode: 'shared', holder: 'r1' }),
      ticket({ id: id(3), orderUs: 3, mode: 'shared', holder: 'r2' }),
      ticket({ id: id(4), orderUs: 4, holder: 'w' }),
      ticket({ id: id(5), orderUs: 5, mode: 'shared', holder: 'r3' }),
    ]
    const decision = decide(view([lease(), ...queue]), release(), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1', 'lease.offered 2', 'lease.offered 3'])
  })
})

describe('a release comes', () => {
  it.each([
    ['one tick before the deadline', -1, 'released', ['lease.released 1']],
    ['at the deadline', 0, 'expired', ['lease.expired 1']],
    ['one tick after the deadline', 1, 'expired', ['lease.expired 1']],
  ] as const)('%s: %s', (_, us, kind, events) => {
    const decision = decide(view([lease()]), release(), nowAt(TTL_MS, { us }))
    expect(decision.outcome.kind).toBe(kind)
    expect(told(decision)).toEqual(events)
  })

  it('after a reboot: the lease is expired', () => {
    const moment = { domain: 'host-a/boot-2/0#2' }
    expect(decide(view([lease()]), release(), nowAt(1, moment)).outcome.kind).toBe('expired')
  })
})

describe('a release is refused', () => {
  it.each([
    ['a stranger asks', [lease()], { holder: 'eve' }, 'not_holder'],
    ['nothing has this id', [], {}, 'not_found'],
    ['the lease is released', [lease({ state: 'released' })], {}, 'terminal'],
    ['the lease is revoked', [lease({ state: 'revoked' })], {}, 'terminal'],
    ['the lease is expired', [lease({ state: 'expired' })], {}, 'expired'],
    ['the id is a ticket', [ticket({ id: id(1), holder: 'ada' })], {}, 'not_found'],
  ] as const)('when %s', (_, entries, change, kind) => {
    const decision = decide(view(entries), release(change), nowAt(1))
    expect(decision.outcome.kind).toBe(kind)
    expect(decision.events).toEqual([])
  })
})

describe('a repeated release', () => {
  const prior = { leaseId: id(1), type: 'lease.released' } as const
  const command = release({ requestId: 'r1' })

  it('answers that the lease is released and ends nothing else', () => {
    const ended = lease({ state: 'released', releaseReason: 'voluntary' })
    const next = lease({ id: id(5), holder: 'bob' })
    const decision = decide(view([ended, next], { prior }), command, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'released', lease: ended })
    expect(decision.events).toEqual([])
  })

  it('hears that the lease is released even where no history is kept', () => {
    const decision = decide(view([], { prior }), command, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'terminal', leaseId: id(1), state: 'released' })
  })

  it.each([
    ['is refused when the id was used for another lease', [lease()], 'request_reused'],
    ['says nothing of a lease that left nothing behind when it was of another', [], 'not_found'],
  ])('%s', (_, entries, kind) => {
    const other = { ...prior, leaseId: id(9) }
    const { outcome } = decide(view(entries, { prior: other }), command, nowAt(1))
    expect(outcome.kind).toBe(kind)
  })
})

describe('a release of several together', () => {
  const OTHER = parseResource('work:W-2')
  const both = {
    kind: 'release_all' as const,
    members: [release(), release({ leaseId: id(11), resource: OTHER, requestId: id(800) })],
  }
  const other = lease({ id: id(11), resource: OTHER })

  it('ends all of them before anybody is offered anything', () => {
    const [one, two] = [ticket({ id: id(3) }), ticket({ id: id(4), resource: OTHER })]
    const views = [view([lease(), one]), view([other, two])]
    const decision = decideReleaseAll(views, both, nowAt(1))
    expect(told(decision)).toEqual([
      ...['lease.released 1', 'lease.released 11'],
      ...['lease.offered 3', 'lease.offered 4'],
    ])
    const outcomes = [{ kind: 'released' }, { kind: 'released' }]
    expect(decision.outcome).toMatchObject({ kind: 'released_all', outcomes })
  })

  it('does not keep the others because one is no longer held, and says which', () => {
    const expired = lease({ deadline: tickAt(1) })
    const decision = decideReleaseAll([view([expired]), view([other])], both, nowAt(1))
    expect(told(decision)).toEqual(['lease.expired 1', 'lease.released 11'])
    const outcomes = [{ kind: 'expired' }, { kind: 'released' }]
    expect(decision.outcome).toMatchObject({ outcomes })
  })

  it('has no second effect when it is heard twice, and refuses a stranger', () => {
    const ended = lease({ ...other, state: 'released', releaseReason: 'voluntary' })
    const prior = { leaseId: id(11), type: 'lease.released' as const }
    const foreign = view([lease({ holder: 'eve' })])
    const decision = decideReleaseAll([foreign, view([ended], { prior })], both, nowAt(1))
    expect(decision.events).toEqual([])
    const outcomes = [{ kind: 'not_holder' }, { kind: 'released' }]
    expect(decision.outcome).toMatchObject({ outcomes })
  })
})
