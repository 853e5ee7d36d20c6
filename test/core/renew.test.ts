import { describe, expect, it } from 'vitest'
import { decide, readSetOf } from '../../src/core/decide.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import {
  id,
  lease,
  nowAt,
  renew,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WALL_MS,
  type Moment,
} from './builders.ts'

describe('a renewal', () => {
  it('moves the deadline to a ttl from now and counts', () => {
    const decision = decide(view([lease()]), renew(), nowAt(4_000))
    expect(decision.outcome).toMatchObject({
      kind: 'renewed',
      lease: {
        ...{ deadline: tickAt(14_000), expiresAtMs: WALL_MS + 14_000, renewals: 1 },
        ...{ renewedAtMs: WALL_MS + 4_000, fence: 1000, grantedAtMs: WALL_MS },
      },
    })
    expect(decision.events).toMatchObject([
      { type: 'lease.renewed', before: 'active', after: 'active', renewals: 1, ttlMs: TTL_MS },
    ])
  })

  it('may change the ttl, which later renewals then have', () => {
    const { outcome } = decide(view([lease()]), renew({ ttlMs: 60_000 }), nowAt(1))
    expect(outcome).toMatchObject({ lease: { ttlMs: 60_000, deadline: tickAt(60_001) } })
  })

  it('looks at its own entry and touches no other', () => {
    const others = [lease({ id: id(9), deadline: tickAt(1) }), ticket({ deadline: tickAt(1) })]
    const decision = decide(view([lease(), ...others]), renew(), nowAt(5_000))
    expect(told(decision)).toEqual(['lease.renewed 1'])
    expect(readSetOf(renew()).depth).toBe('entry')
  })
})

interface Case {
  readonly name: string
  readonly at: number
  readonly moment?: Moment
  readonly kind: string
}

const atTheDeadline: readonly Case[] = [
  { name: 'one tick before the deadline', at: TTL_MS, moment: { us: -1 }, kind: 'renewed' },
  { name: 'at the deadline', at: TTL_MS, kind: 'expired' },
  { name: 'one tick after the deadline', at: TTL_MS, moment: { us: 1 }, kind: 'expired' },
  {
    name: 'before the deadline, the wall set a year forward',
    ...{ at: 1, moment: { wallShiftMs: 31_536_000_000 }, kind: 'renewed' },
  },
  {
    name: 'after the deadline, the wall set a day back',
    ...{ at: TTL_MS, moment: { wallShiftMs: -86_400_000 }, kind: 'expired' },
  },
  {
    name: 'after a reboot of the host',
    ...{ at: 1, moment: { domain: 'host-a/boot-2/0#2' }, kind: 'expired' },
  },
  { name: 'on another host', at: 1, moment: { domain: 'host-b/boot-1/0#2' }, kind: 'expired' },
  {
    name: 'in another time namespace',
    ...{ at: 1, moment: { domain: 'host-a/boot-1/5.0#2' }, kind: 'expired' },
  },
  {
    name: 'in its own domain that was left and came back',
    ...{ at: 1, moment: { domain: 'host-a/boot-1/0#3' }, kind: 'expired' },
  },
]

describe('a renewal comes', () => {
  it.each(atTheDeadline)('$name: $kind', ({ at, moment, kind }) => {
    const decision = decide(view([lease()]), renew(), nowAt(at, moment))
    expect(decision.outcome.kind).toBe(kind)
    expect(decision.events).toHaveLength(kind === 'renewed' ? 1 : 0)
  })
})

describe('a renewal is refused', () => {
  it.each([
    [{ maxRenewals: 0, renewals: 0 }, 'renewal_limit'],
    [{ maxRenewals: 3, renewals: 2 }, 'renewed'],
    [{ maxRenewals: 3, renewals: 3 }, 'renewal_limit'],
    [{ maxRenewals: -1, renewals: 2_000_000 }, 'renewed'],
  ])('by its limit, with %o: %s', (limits, kind) => {
    expect(decide(view([lease(limits)]), renew(), nowAt(1)).outcome.kind).toBe(kind)
  })

  it.each(['released', 'revoked', 'expired'] as const)('when the lease is %s', (state) => {
    const decision = decide(view([lease({ state })]), renew(), nowAt(1))
    expect(decision.outcome.kind).toBe(state === 'expired' ? 'expired' : 'terminal')
    expect(decision.events).toEqual([])
  })

  it.each([
    ['a stranger asks', [lease()], { holder: 'eve' }, 'not_holder'],
    ['nothing has this id', [], {}, 'not_found'],
    [
      'the id is a ticket that still waits',
      [ticket({ id: id(1), holder: 'ada' })],
      {},
      'not_found',
    ],
    [
      'the id is a ticket that failed',
      [ticket({ id: id(1), holder: 'ada', state: 'failed' })],
      ...[{}, 'terminal'],
    ],
  ] as const)('when %s', (_, entries, change, kind) => {
    const decision = decide(view(entries), renew(change), nowAt(1))
    expect(decision.outcome.kind).toBe(kind)
    expect(decision.events).toEqual([])
  })

  it.each([
    [9_999, 'does_not_extend'],
    [10_000, 'does_not_extend'],
    [10_001, 'renewed'],
  ])('when %i ms from now is no later than the deadline: %s', (ttlMs, kind) => {
    const held = lease({ deadline: tickAt(11_000) })
    expect(decide(view([held]), renew({ ttlMs }), nowAt(1_000)).outcome.kind).toBe(kind)
  })
})

describe('the end of its parent', () => {
  const delegation = { ...ROOT_DELEGATION, line: [id(1)], rootFence: 1000 }
  const child = lease({ id: id(5), deadline: tickAt(6_000), delegation })
  const askShorter = renew({ leaseId: id(5), ttlMs: 1_000 })

  it('cuts a renewal, and is the limit of the next one', () => {
    const cut = decide(view([lease(), child]), renew({ leaseId: id(5) }), nowAt(1_000))
    expect(cut.outcome).toMatchObject({ kind: 'renewed', lease: { deadline: tickAt(TTL_MS) } })
    const atEnd = { ...child, deadline: tickAt(TTL_MS) }
    expect(decide(view([lease(), atEnd]), renew({ leaseId: id(5) }), nowAt(1_000)).outcome).toEqual(
      {
        ...{ kind: 'renewal_limit', leaseId: id(5) },
        ...{ limit: 'the end of its parent', parentId: id(1) },
      },
    )
  })

  it('is not the limit of a renewal that asks for too little', () => {
    const { outcome } = decide(view([lease(), child]), askShorter, nowAt(1_000))
    expect(outcome.kind).toBe('does_not_extend')
  })
})

describe('maxHoldMs', () => {
  const held = lease({ maxHoldMs: 12_000, holdUntilUs: 12_000_000 })

  it('cuts the renewal that would go past it', () => {
    const { outcome } = decide(view([held]), renew(), nowAt(9_000))
    expect(outcome).toMatchObject({
      kind: 'renewed',
      lease: { deadline: tickAt(12_000), expiresAtMs: WALL_MS + 12_000 },
    })
  })

  it('lets a renewal through that ends exactly on it', () => {
    const { outcome } = decide(view([held]), renew(), nowAt(2_000))
    expect(outcome).toMatchObject({ kind: 'renewed', lease: { deadline: tickAt(12_000) } })
  })

  it('refuses the next one, and the lease then runs out', () => {
    const atCeiling = { ...held, deadline: tickAt(12_000) }
    expect(decide(view([atCeiling]), renew(), nowAt(11_999)).outcome).toEqual({
      kind: 'renewal_limit',
      leaseId: id(1),
      limit: 'its maxHoldMs of 12000',
    })
    expect(decide(view([atCeiling]), renew(), nowAt(12_000)).outcome.kind).toBe('expired')
  })
})

describe('a repeated renewal', () => {
  const prior = { leaseId: id(1), type: 'lease.renewed' } as const
  const command = renew({ requestId: 'r1' })

  it('answers with the present state and renews no second time', () => {
    const held = lease({ renewals: 5 })
    const decision = decide(view([held], { prior }), command, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'renewed', lease: held })
    expect(decision.events).toEqual([])
  })

  it('hears that the lease has ended since', () => {
    const decision = decide(view([lease()], { prior }), command, nowAt(TTL_MS))
    expect(decision.outcome.kind).toBe('expired')
  })

  it('of which nothing is kept any more is of a lease that is not there, not of a released one', () => {
    const { outcome } = decide(view([], { prior }), command, nowAt(1))
    expect(outcome).toEqual({ kind: 'not_found', leaseId: id(1) })
  })

  it('writes its id into the event that is its effect', () => {
    expect(decide(view([lease()]), command, nowAt(1)).events).toMatchObject([{ requestId: 'r1' }])
  })

  it.each([
    ['another lease', { leaseId: id(9), type: 'lease.renewed' }],
    ['another command', { leaseId: id(1), type: 'lease.released' }],
  ] as const)('is refused when the id was used for %s', (_, other) => {
    const decision = decide(view([lease()], { prior: other }), command, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'request_reused', leaseId: id(1) })
    expect(decision.events).toEqual([])
  })
})
