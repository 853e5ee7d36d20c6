import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import { decide, readSetsOf } from '../../src/core/decide.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import type { Lease } from '../../src/core/lease.ts'
import { parseResource, type Extent, type Mode } from '../../src/core/resource.ts'
import {
  acquire,
  adopt,
  claim,
  file,
  GROUP,
  id,
  lease,
  nowAt,
  renew,
  revoke,
  tickAt,
  ticket,
  told,
  transfer,
  TTL_MS,
  view,
  WAITING,
  WALL_MS,
} from './builders.ts'

interface Shape {
  readonly mode: Mode
  readonly extent: Extent
  readonly slots: number | null
}

function shapeText({ mode, extent, slots }: Shape): string {
  return `${mode} ${extent}${slots === null ? '' : ` of ${slots}`}`
}

const LIMITED = { ...ROOT_DELEGATION, limits: { tokens: 5 }, used: { tokens: 2 } }

const given = lease({ id: id(6), holder: 'eve', session: 'eve', adopted: false, fence: 2_000 })

describe('a transfer to a named holder', () => {
  it('ends the one lease and begins the other in one commit: new id, higher fence', () => {
    const before = view([lease({ mode: 'shared', maxHoldMs: 60_000, holdUntilUs: 60_000_000 })])
    const decision = decide(before, transfer(), nowAt(400))
    expect(told(decision)).toEqual(['lease.transferred 1', 'lease.issued 6'])
    const received = decision.entries.get(id(6))
    expect(decision.outcome).toEqual({ kind: 'transferred', lease: received })
    expect(decision.entries.get(id(1))).toMatchObject({
      ...{ state: 'released', releaseReason: 'transferred', terminatedAtMs: WALL_MS + 400 },
    })
    expect(received).toMatchObject({
      ...{ state: 'active', holder: 'eve', session: 'eve', adopted: false, mode: 'shared' },
      ...{ ttlMs: TTL_MS, holdUntilUs: 60_000_000, deadline: tickAt(TTL_MS + 400) },
    })
    const [one, two] = [decision.entries.get(id(1)), received]
    expect(two?.kind === 'lease' && one?.kind === 'lease' && two.fence > one.fence).toBe(true)
    expect(commitOf(before, decision).wakes).toContainEqual({ session: 'eve', leaseId: id(6) })
  })

  it.each([
    ['may be used for everything, hands on no account', ROOT_DELEGATION, undefined],
    ['has a budget, hands on what is left', LIMITED, LIMITED],
  ])('of a lease that %s', (_, delegation, inherited) => {
    const { entries } = decide(view([lease({ delegation })]), transfer(), nowAt(1))
    expect(entries.get(id(6))?.delegation).toEqual(inherited)
  })

  it('is not found at another resource, whose fences are others', () => {
    const elsewhere = transfer({ resource: parseResource('work:W-2') })
    expect(decide(view([lease()]), elsewhere, nowAt(1)).outcome.kind).toBe('not_found')
  })

  it('passes the queue', () => {
    const decision = decide(view([lease(), ticket()]), transfer(), nowAt(1))
    expect(told(decision)).toEqual(['lease.transferred 1', 'lease.issued 6'])
    expect(decision.events[0]).toMatchObject({ to: 'eve', reason: 'transferred to eve' })
  })

  it('wakes of those who wait the receiver alone, and where it waits for this very resource', () => {
    const reach = { resource: file('/s'), extent: 'subtree' } as const
    const hers = ticket({ ...reach, holder: 'eve' })
    const below = ticket({ id: id(4), resource: file('/s/a'), holder: 'eve', orderUs: 4 })
    const his = ticket({ ...reach, id: id(5), orderUs: 5 })
    const held = lease(reach)
    const { wakes } = decide(view([held, hers, below, his]), transfer(reach), nowAt(1))
    expect(wakes).toEqual([{ session: hers.session, leaseId: hers.id }])
  })

  it('hands on the end that somebody asked for, and no more time than that', () => {
    const asked = lease({ revoking: { by: 'op', reason: null }, deadline: tickAt(500) })
    const { entries } = decide(view([asked]), transfer(), nowAt(100))
    expect(entries.get(id(6))).toMatchObject({ deadline: tickAt(500), revoking: { by: 'op' } })
  })

  it('of a sharer that wished to be alone lets the waiting readers in', () => {
    const entries = [
      lease({ mode: 'shared', upgrading: true }),
      lease({ id: id(7), holder: 'bob', mode: 'shared' }),
      ticket({ mode: 'shared', holder: 'dan' }),
    ]
    const decision = decide(view(entries), transfer(), nowAt(1))
    expect(told(decision)).toEqual(['lease.transferred 1', 'lease.issued 6', 'lease.offered 2'])
  })

  it('under an id that is in use is refused, wherever it is in use', () => {
    const taken = lease({ id: id(6), resource: file('/elsewhere'), state: 'released' })
    const { outcome, events } = decide(view([lease(), taken]), transfer(), nowAt(1))
    expect(outcome.kind).toBe('id_taken')
    expect(events).toEqual([])
    expect(readSetsOf(transfer()).map(({ leaseId }) => leaseId)).toEqual([id(1), id(6)])
    expect(readSetsOf(transfer({ to: null }))).toHaveLength(1)
  })

  it.each([
    ['kept', [lease({ state: 'released' }), given]],
    ['not kept', [given]],
  ])('that is heard again tells what it gave, history being %s', (_, entries) => {
    const prior = { leaseId: id(1), type: 'lease.transferred' } as const
    const command = transfer({ requestId: 'r1' })
    const { outcome, events } = decide(view(entries, { prior }), command, nowAt(1))
    expect(outcome).toEqual({ kind: 'transferred', lease: given })
    expect(events).toEqual([])
  })

  it('that is heard again after the other lease is no more says that it was done', () => {
    const prior = { leaseId: id(1), type: 'lease.transferred' } as const
    const { outcome } = decide(view([], { prior }), transfer({ requestId: 'r1' }), nowAt(1))
    expect(outcome).toEqual({ kind: 'transferred', lease: null })
  })

  it('by a request that transferred another lease is refused', () => {
    const prior = { leaseId: id(7), type: 'lease.transferred' } as const
    const { outcome } = decide(view([lease()], { prior }), transfer({ requestId: 'r1' }), nowAt(1))
    expect(outcome).toEqual({ kind: 'request_reused', leaseId: id(1) })
  })

  it.each([
    ['by another', { holder: 'bob' }, 1, 'not_holder'],
    ['of a lease that ran out', {}, TTL_MS, 'expired'],
    ['of nothing', { leaseId: id(9) }, 1, 'not_found'],
  ])('%s is refused', (_, change, at, kind) => {
    expect(decide(view([lease()]), transfer(change), nowAt(at)).outcome.kind).toBe(kind)
  })
})

describe('a transfer to whoever is next', () => {
  it('offers it in the same commit', () => {
    const later = ticket({ id: id(4), holder: 'dan', orderUs: 5 })
    const decision = decide(view([lease(), later, ticket()]), transfer({ to: null }), nowAt(1))
    expect(told(decision)).toEqual(['lease.transferred 1', 'lease.offered 2'])
    expect(decision.outcome).toEqual({ kind: 'transferred', lease: null })
    expect(decision.events).toMatchObject([
      { before: 'active', after: 'released', reason: 'transferred to the next in the queue' },
      { before: 'pending', after: 'pending' },
    ])
  })

  it('needs no id of its own, so that one in use is no hindrance', () => {
    const waiting = ticket({ id: transfer().newLeaseId })
    const decision = decide(view([lease(), waiting]), transfer({ to: null }), nowAt(1))
    expect(told(decision)).toEqual(['lease.transferred 1', 'lease.offered 6'])
  })

  const offer = { fence: 2_000, deadline: tickAt(TTL_MS) }

  it.each([
    ['nobody waits', []],
    ['the only one who waits was offered a share before', [ticket({ mode: 'shared', offer })]],
    ['the only one who waits is dead', [ticket({ deadline: tickAt(1) })]],
    ['the only one who waits does so for several', [ticket({ group: GROUP })]],
    ['another sharer is in the way too', [lease({ id: id(7), mode: 'shared' }), ticket()]],
  ])('changes nothing when %s', (_, others) => {
    const entries = [lease({ mode: 'shared' }), ...others]
    const decision = decide(view(entries), transfer({ to: null }), nowAt(1))
    expect(decision.outcome.kind).toBe('nobody_waiting')
    expect(decision.entries.get(id(1))).toMatchObject({ state: 'active' })
  })

  it('changes nothing when whoever waits reaches further than anybody looked', () => {
    const held = lease({ resource: file('/s/a') })
    const waiting = ticket({ resource: file('/s'), extent: 'subtree' })
    const command = transfer({ to: null, resource: file('/s/a') })
    expect(decide(view([held, waiting]), command, nowAt(1)).outcome.kind).toBe('nobody_waiting')
  })
})

describe('an adoption', () => {
  it('ends no sooner than what was transferred, or a lease derived from that would outlive it', () => {
    const slow = { ...given, deadline: tickAt(TTL_MS + 700, { us: 900 }) }
    const { entries } = decide(view([slow]), adopt(), nowAt(700, { toleranceUs: 250 }))
    expect(entries.get(id(6))).toMatchObject({ deadline: slow.deadline })
  })

  it('takes the lease over under its session, with its id and fence, and the ttl runs anew', () => {
    const { outcome, entries } = decide(view([given]), adopt(), nowAt(700))
    expect(outcome).toMatchObject({ kind: 'granted', repeated: false })
    expect(entries.get(id(6))).toMatchObject({
      ...{ adopted: true, session: 'session-of-eve', fence: 2_000, renewals: 0 },
      ...{ deadline: tickAt(TTL_MS + 700), expiresAtMs: WALL_MS + TTL_MS + 700 },
    })
  })

  it('gives no time beyond maxHoldMs, nor beyond the end that somebody asked for', () => {
    const capped = { ...given, holdUntilUs: 10_200_000 }
    const asked = { ...given, revoking: { by: 'op', reason: null }, deadline: tickAt(900) }
    expect(decide(view([capped]), adopt(), nowAt(700)).entries.get(id(6))).toMatchObject({
      deadline: tickAt(10_200),
    })
    expect(decide(view([asked]), adopt(), nowAt(700)).entries.get(id(6))).toMatchObject({
      deadline: tickAt(900),
    })
  })

  it('again by the same session finds it, and by another is refused', () => {
    const taken = { ...given, adopted: true, session: 'session-of-eve' }
    const again = decide(view([taken]), adopt(), nowAt(1))
    expect(again.outcome).toMatchObject({ kind: 'granted', repeated: true })
    const other = decide(view([taken]), adopt({ session: 'another' }), nowAt(1))
    expect(other.outcome.kind).toBe('already_adopted')
    expect([...again.events, ...other.events]).toEqual([])
  })

  it.each([
    ['by another holder', { holder: 'bob' }, 1, 'not_holder'],
    ['one tick too late', {}, TTL_MS, 'expired'],
  ])('%s is refused', (_, change, at, kind) => {
    expect(decide(view([given]), adopt(change), nowAt(at)).outcome.kind).toBe(kind)
  })

  it('comes of acquiring the resource too, under the id of the lease', () => {
    const asks = acquire({ holder: 'eve' })
    const { outcome, events } = decide(view([given]), asks, nowAt(1))
    expect(outcome).toMatchObject({ lease: { id: id(6), fence: 2_000 } })
    expect(outcome).toMatchObject({ kind: 'granted', repeated: false })
    expect(events).toMatchObject([{ type: 'lease.adopted', requestId: asks.leaseId }])
  })

  it('by an acquire that is heard again is found by what the first one did', () => {
    const taken = { ...given, adopted: true, session: 'session-of-eve' }
    const prior = { leaseId: id(6), type: 'lease.adopted' } as const
    const { outcome, events } = decide(
      view([taken], { prior }),
      acquire({ holder: 'eve' }),
      nowAt(1),
    )
    expect(outcome).toMatchObject({ kind: 'granted', repeated: true, lease: { id: id(6) } })
    expect(events).toEqual([])
  })

  it.each<[string, Partial<Lease> | null, object]>([
    ['nothing is left of it', null, { kind: 'terminal', state: 'released' }],
    ['it was released', { state: 'released' }, { kind: 'terminal', state: 'released' }],
    ['it is over', { deadline: tickAt(1) }, { kind: 'expired' }],
    ['another session took it over', { session: 'another' }, { kind: 'already_adopted' }],
  ])('by an acquire that is heard again, after %s, says so', (_, change, outcome) => {
    const taken = { ...given, adopted: true, session: 'session-of-eve' }
    const prior = { leaseId: id(6), type: 'lease.adopted' } as const
    const before = view(change === null ? [] : [{ ...taken, ...change }], { prior })
    const decision = decide(before, acquire({ holder: 'eve' }), nowAt(1))
    expect(decision.outcome).toMatchObject({ ...outcome, leaseId: id(6) })
    expect(decision.events).toEqual([])
  })

  it('is not for somebody else who asks for the resource', () => {
    expect(decide(view([given]), acquire(), nowAt(1)).outcome.kind).toBe('held')
  })
})

describe('acquiring what was transferred to the requester', () => {
  const path = file('/s')
  const shapes = (['exclusive', 'shared'] as const).flatMap((mode) =>
    (['exact', 'subtree'] as const).flatMap((extent) =>
      (mode === 'exclusive' ? [null] : [null, 2, 3]).map((slots) => ({ mode, extent, slots })),
    ),
  )
  const pairs = shapes.flatMap((has) => {
    return shapes.map((asks) => ({ has, asks, name: `${shapeText(has)} for ${shapeText(asks)}` }))
  })
  const fits = pairs.filter(({ has, asks }) => {
    const mode = has.mode === 'exclusive' || asks.mode === 'shared'
    const extent = has.extent === 'subtree' || asks.extent === 'exact'
    const isMixed = (has.slots === null) !== (asks.slots === null)
    return mode && extent && !isMixed && (has.slots ?? 0) <= (asks.slots ?? 0)
  })
  const eves = { holder: 'eve', session: 'session-of-eve', resource: path }
  // Whoever is before her in the queue keeps her waiting although she might share.
  const before = ticket({ id: id(4), resource: path, extent: 'subtree', orderUs: -1 })

  it('is tried with every combination', () => {
    expect([pairs.length, fits.length]).toEqual([64, 18])
  })

  it.each(fits)('takes it over where it covers the request: $name', ({ has, asks }) => {
    const gift = { ...given, resource: path, ...has }
    const wish = { ...eves, ...asks }
    const waiting = ticket({ ...wish, id: id(3) })
    const claims = claim({
      resource: path,
      extent: wish.extent,
      leaseId: id(3),
      session: wish.session,
    })
    const asked = decide(view([gift]), acquire(wish), nowAt(1))
    const claimed = decide(view([gift, before, waiting]), claims, nowAt(1))
    for (const { outcome } of [asked, claimed]) {
      expect(outcome).toMatchObject({ kind: 'granted', lease: { id: id(6), ...has } })
    }
  })

  const others = pairs.filter((pair) => !fits.includes(pair))
  it.each(others)('is refused where it does not, waiting or not: $name', (pair) => {
    const gift = { ...given, resource: path, ...pair.has }
    const wish = { ...eves, ...pair.asks }
    for (const wait of [{}, WAITING]) {
      const decision = decide(view([gift]), acquire({ ...wish, ...wait }), nowAt(1))
      expect(decision.outcome).toMatchObject({
        ...{ kind: 'held', notWaiting: 'own_transfer' },
        blockers: [{ kind: 'lease', leaseId: id(6) }],
      })
      expect(told(decision)).toEqual(['lease.denied 3'])
      expect(decision.entries.get(id(6))).toEqual(gift)
    }
    const waiting = ticket({ ...wish, id: id(3) })
    const claims = claim({
      resource: path,
      extent: wish.extent,
      leaseId: id(3),
      session: wish.session,
    })
    const claimed = decide(view([gift, before, waiting]), claims, nowAt(1))
    expect(claimed.outcome).toMatchObject({ kind: 'held', notWaiting: 'own_transfer' })
    expect(claimed.entries.get(id(3))).toMatchObject({ state: 'failed', failure: 'denied' })
    expect(claimed.entries.get(id(6))).toEqual(gift)
  })

  it.each<[Partial<Shape>, Partial<Shape>, string]>([
    [{ mode: 'shared' }, {}, 'is shared, not exclusive'],
    [{ mode: 'shared', slots: 3 }, {}, 'is shared, not exclusive and has 3 slots, not none'],
    [{}, { extent: 'subtree' }, 'covers the path alone, not what is below it'],
    [{ mode: 'shared', slots: 3 }, { mode: 'shared', slots: 2 }, 'has 3 slots, not 2'],
    [{ mode: 'shared' }, { mode: 'shared', slots: 2 }, 'has no slots, not 2'],
    [{ mode: 'shared', slots: 2 }, { mode: 'shared' }, 'has 2 slots, not none'],
    [
      { mode: 'shared' },
      { extent: 'subtree' },
      'is shared, not exclusive and covers the path alone, not what is below it',
    ],
  ])('says in what %j is not %j', (has, asks, difference) => {
    const gift = { ...given, resource: path, ...has }
    const { outcome } = decide(view([gift]), acquire({ ...eves, ...asks }), nowAt(400))
    expect(outcome).toMatchObject({ kind: 'held', difference, retryAfterMs: TTL_MS - 400 })
  })

  it('takes the one that fits where there are several', () => {
    const share = { ...given, mode: 'shared' } as const
    const counted = { ...share, id: id(5), slots: 2 }
    const asks = acquire({ holder: 'eve', mode: 'shared' })
    const { outcome } = decide(view([counted, share]), asks, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'granted', lease: { id: id(6) } })
  })

  it('takes the one with the smaller id where several fit, however a store keeps them', () => {
    const shares = [6, 5, 7].map((number) => ({
      ...given,
      id: id(number),
      mode: 'shared' as const,
    }))
    const asks = acquire({ holder: 'eve', mode: 'shared' })
    for (const kept of [shares, shares.toReversed()]) {
      const { outcome } = decide(view(kept), asks, nowAt(1))
      expect(outcome).toMatchObject({ kind: 'granted', lease: { id: id(5) } })
    }
  })

  it('ends the ticket of a claim that takes it over, and a claim that is heard again finds it', () => {
    const waiting = ticket({ id: id(3), holder: 'eve' })
    const command = claim({ leaseId: id(3), session: 'session-of-eve' })
    const { outcome, events, entries } = decide(view([given, waiting]), command, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'granted', repeated: false })
    const reason = `has lease ${id(6)} by transfer`
    expect(events[0]).toMatchObject({ type: 'lease.failed', failure: 'aborted', reason })
    const prior = { leaseId: id(6), type: 'lease.adopted' } as const
    const again = decide(view([...entries.values()], { prior }), command, nowAt(2))
    expect(again.outcome).toMatchObject({ kind: 'granted', repeated: true, lease: { id: id(6) } })
    expect(again.events).toEqual([])
  })

  it('lets on whoever waits behind a claim that is refused so', () => {
    const share = { ...given, mode: 'shared' } as const
    const mine = ticket({ id: id(3), holder: 'eve', orderUs: 1 })
    const reader = ticket({ id: id(4), mode: 'shared', orderUs: 2 })
    const command = claim({ leaseId: id(3), session: 'session-of-eve' })
    const decision = decide(view([share, mine, reader]), command, nowAt(1))
    expect(told(decision)).toEqual(['lease.failed 3', 'lease.offered 4'])
    expect(decision.events[0]).toMatchObject({ reason: `has lease ${id(6)} by transfer` })
  })
})

describe('a holder that is asked to finish', () => {
  const asked = revoke({ graceMs: 300, reason: 'deploy' })

  it('has until the end of the grace, hears of it, and gets no renewal', () => {
    const before = view([lease()])
    const decision = decide(before, asked, nowAt(100))
    expect(told(decision)).toEqual(['lease.revoking 1'])
    expect(decision.entries.get(id(1))).toMatchObject({
      ...{ state: 'active', deadline: tickAt(400), expiresAtMs: WALL_MS + 400 },
      revoking: { by: 'operator', reason: 'deploy' },
    })
    expect(commitOf(before, decision).wakes).toEqual([
      { session: 'session-of-ada', leaseId: id(1) },
    ])
  })

  it('is told so when it wants to renew', () => {
    const { entries } = decide(view([lease()]), asked, nowAt(100))
    const decision = decide(view([...entries.values()]), renew({ ttlMs: 60_000 }), nowAt(200))
    expect(decision.outcome).toMatchObject({
      ...{ kind: 'renewal_limit', limit: 'the end that operator asked for' },
    })
    expect(decision.events).toEqual([])
  })

  it.each([
    [399, 'renewal_limit'],
    [400, 'terminal'],
  ])('at %i of a grace that ends at 400 hears %s', (at, kind) => {
    const { entries } = decide(view([lease()]), asked, nowAt(100))
    expect(decide(view([...entries.values()]), renew(), nowAt(at)).outcome.kind).toBe(kind)
  })

  it('never gets more time than it had', () => {
    const decision = decide(view([lease()]), revoke({ graceMs: 999_999 }), nowAt(1))
    expect(decision.entries.get(id(1))).toMatchObject({ deadline: tickAt(TTL_MS) })
  })

  it.each([
    [399, 'held', []],
    [400, 'granted', ['lease.revoked 1', 'lease.issued 3']],
  ])('at %i of a grace that ends at 400: %s', (at, kind, events) => {
    const { entries } = decide(view([lease()]), asked, nowAt(100))
    const decision = decide(view([...entries.values()]), acquire(), nowAt(at))
    expect(decision.outcome.kind).toBe(kind)
    if (kind === 'granted') expect(told(decision)).toEqual(events)
  })

  it.each([
    [true, 100, ['lease.queued 3', 'lease.revoking 1']],
    [true, 0, ['lease.queued 3', 'lease.revoked 1', 'lease.offered 3']],
    [false, 100, ['lease.queued 3']],
  ])('by a waiter, breakable %s, with a grace of %i', (breakable, breakGraceMs, events) => {
    const wait = { kind: 'up_to', waitMs: 1_000 } as const
    const command = acquire({ breakGraceMs, wait })
    expect(told(decide(view([lease({ breakable })]), command, nowAt(1)))).toEqual(events)
  })
})
