import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import { decide } from '../../src/core/decide.ts'
import { DEFAULT_SETTINGS } from '../../src/core/settings.ts'
import {
  acquire,
  downgrade,
  file,
  id,
  lease,
  nowAt,
  release,
  settle,
  tickAt,
  ticket,
  told,
  transfer,
  TTL_MS,
  upgrade,
  view,
  WAITING,
  withdrawUpgrade,
} from './builders.ts'

const mine = lease({ mode: 'shared' })
const other = lease({ id: id(7), holder: 'bob', mode: 'shared', fence: 1_001 })
const wishing = { ...mine, upgrading: true }

describe('an upgrade', () => {
  it('of the only sharer is done at once: same id, new fence, same deadline', () => {
    const { outcome, entries } = decide(view([mine]), upgrade(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'upgraded', changed: true })
    const after = entries.get(id(1))
    expect(after).toMatchObject({ mode: 'exclusive', deadline: mine.deadline, upgrading: false })
    expect(after?.kind === 'lease' && after.fence).toBeGreaterThan(mine.fence)
  })

  it('of an exclusive lease changes nothing and says so', () => {
    const { outcome, events } = decide(view([lease()]), upgrade(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'upgraded', changed: false, lease: { fence: 1_000 } })
    expect(events).toEqual([])
  })

  it('beside another sharer waits for it, and asking again tells how it stands', () => {
    const first = decide(view([mine, other]), upgrade(), nowAt(1))
    expect(first.outcome).toMatchObject({ kind: 'upgrading', blockers: [{ holder: 'bob' }] })
    expect(told(first)).toEqual(['lease.upgrading 1'])
    expect(first.events[0]).not.toHaveProperty('under')
    expect(first.events).toMatchObject([{ before: 'active', after: 'active', wished: true }])
    const again = decide(view([...first.entries.values()]), upgrade(), nowAt(2))
    expect(again.outcome.kind).toBe('upgrading')
    expect(again.events).toEqual([])
  })

  it('is told of again where it is under other leases than before', () => {
    const asks = upgrade({ under: { leaseIds: [id(9)], implied: false } })
    const first = decide(view([mine, other]), asks, nowAt(1))
    const again = (command: typeof asks) => {
      return told(decide(view([...first.entries.values()]), command, nowAt(2)))
    }
    expect(again(asks)).toEqual([])
    for (const leaseIds of [[id(8)], [id(8), id(9)]]) {
      expect(again(upgrade({ under: { leaseIds, implied: false } }))).toEqual(['lease.upgrading 1'])
    }
    expect(again(upgrade())).toEqual(['lease.upgrading 1'])
  })

  it('is worth another look when the first other runs out, and another try after the last', () => {
    const others = [other, { ...other, id: id(8), deadline: tickAt(700) }]
    const waiting = decide(view([mine, ...others]), upgrade(), nowAt(1))
    expect(waiting.outcome).toMatchObject({ kind: 'upgrading', checkAfterMs: 699 })
    const refused = decide(view([mine, ...others]), upgrade({ mayWait: false }), nowAt(1))
    expect(refused.outcome).toMatchObject({ kind: 'held', retryAfterMs: TTL_MS - 1 })
  })

  it.each([
    ['who may not wait', { mayWait: false }, true, 'not_asked'],
    ['where waiting is turned off', {}, false, 'waiting_disabled'],
  ])('of somebody %s is refused and changes nothing', (_, change, enabled, notWaiting) => {
    const settings = { ...DEFAULT_SETTINGS, blocking_mode_enabled: enabled }
    const { outcome, events } = decide(view([mine, other], { settings }), upgrade(change), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'held', notWaiting })
    expect(events).toEqual([])
  })

  it('waits for a lease of its own session, unless that cannot end before the upgrade', () => {
    const own = { ...other, session: mine.session, holder: mine.holder }
    const waiting = decide(view([mine, own]), upgrade(), nowAt(1))
    expect(waiting.outcome.kind).toBe('upgrading')
    const under = { leaseIds: [own.id], implied: false }
    for (const change of [{ sequential: true }, { under }]) {
      const { outcome, events } = decide(view([mine, own]), upgrade(change), nowAt(1))
      expect(outcome).toMatchObject({ kind: 'held', notWaiting: 'own' })
      expect(events).toEqual([])
    }
  })

  it('by a second is refused with both named', () => {
    const { outcome, events } = decide(
      view([wishing, other]),
      upgrade({ leaseId: id(7), holder: 'bob' }),
      nowAt(1),
    )
    expect(outcome).toMatchObject({
      kind: 'deadlock',
      cycle: [{ holder: 'bob' }, { holder: 'ada' }],
    })
    expect(events).toEqual([])
  })

  it('has no rival on another path', () => {
    const [here, there] = [file('/s/a'), file('/s/b')]
    const far = { ...other, id: id(8), resource: there, upgrading: true }
    const sharers = [mine, other].map((sharer) => ({ ...sharer, resource: here }))
    const { outcome } = decide(view([...sharers, far]), upgrade({ resource: here }), nowAt(1))
    expect(outcome.kind).toBe('upgrading')
  })

  it('goes before every ticket', () => {
    const waiting = ticket({ orderUs: -99 })
    const { outcome } = decide(view([mine, waiting]), upgrade(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'upgraded', changed: true })
  })

  it('lets nobody in while it waits, neither reader nor writer', () => {
    const entries = [wishing, other]
    for (const mode of ['shared', 'exclusive'] as const) {
      expect(decide(view(entries), acquire({ mode }), nowAt(1)).outcome.kind).toBe('held')
    }
  })

  it('is completed by the last other who leaves, in the same commit, and its holder woken', () => {
    const before = view([wishing, other, ticket()])
    const decision = decide(
      before,
      release({ leaseId: id(7), holder: 'bob', session: other.session }),
      nowAt(1),
    )
    expect(told(decision)).toEqual(['lease.released 7', 'lease.upgraded 1'])
    expect(commitOf(before, decision).wakes).toEqual([{ session: mine.session, leaseId: id(1) }])
  })

  it('is completed when the other runs out', () => {
    const ends = { ...other, deadline: tickAt(50) }
    const decision = decide(view([wishing, ends]), upgrade(), nowAt(50))
    expect(told(decision)).toEqual(['lease.expired 7', 'lease.upgraded 1'])
    expect(decision.outcome).toMatchObject({ kind: 'upgraded', changed: true })
  })

  it('of a directory is not completed by whoever sees only a file, but its holder is woken', () => {
    const directory = { ...wishing, resource: file('/s'), extent: 'subtree' } as const
    const inside = { ...other, resource: file('/s/a') }
    const before = view([directory, inside])
    const own = { holder: 'bob', session: other.session }
    const command = release({ leaseId: id(7), ...own, resource: file('/s/a') })
    const decision = decide(before, command, nowAt(1))
    expect(told(decision)).toEqual(['lease.released 7'])
    expect(commitOf(before, decision).wakes).toEqual([{ session: mine.session, leaseId: id(1) }])
  })

  it('of a directory wakes its holder for news only: looks that wake each other never end', () => {
    const directory = { ...wishing, resource: file('/s'), extent: 'subtree' } as const
    const look = settle({ resource: file('/s/a') })
    expect(decide(view([directory]), look, nowAt(1))).toMatchObject({ events: [], wakes: [] })
  })

  it('of several that nothing delays any more is done by id, however a store keeps them', () => {
    const requests = [3, 1, 2].map((n) => {
      return { ...wishing, id: id(n), resource: file(`/s/${n}`) }
    })
    const look = settle({ resource: file('/s'), extent: 'subtree' })
    for (const kept of [requests, requests.toReversed()]) {
      const upgrades = ['lease.upgraded 1', 'lease.upgraded 2', 'lease.upgraded 3']
      expect(told(decide(view(kept), look, nowAt(1)))).toEqual(upgrades)
    }
  })

  it.each([
    ['another resource', { resource: file('/elsewhere') }],
    ['too small an extent', { resource: file('/s'), extent: 'exact' as const }],
  ])('that names %s is refused, because nobody looked where the lease is', (_, place) => {
    const directory = { ...mine, resource: file('/s'), extent: 'subtree' } as const
    const { outcome, events } = decide(view([directory]), upgrade(place), nowAt(1))
    expect(outcome.kind).toBe('not_found')
    expect(events).toEqual([])
  })

  it.each([
    ['another holder', { holder: 'eve' }, 1, 'not_holder'],
    ['one who has lost it', {}, TTL_MS, 'expired'],
    ['nobody', { leaseId: id(8) }, 1, 'not_found'],
  ])('by %s is refused', (_, change, at, kind) => {
    expect(decide(view([mine]), upgrade(change), nowAt(at)).outcome.kind).toBe(kind)
  })
})

describe('a wish to be upgraded that is taken back', () => {
  it('lets those in who waited for it', () => {
    const reader = ticket({ mode: 'shared' })
    const decision = decide(view([wishing, other, reader]), withdrawUpgrade(), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'upgrade_withdrawn', leaseId: id(1) })
    expect(told(decision)).toEqual(['lease.upgrading 1', 'lease.offered 2'])
    expect(decision.events[0]).toMatchObject({ wished: false })
  })

  it.each([
    ['a wish be taken back', withdrawUpgrade({ holder: 'bob' })],
    ['a lease be downgraded', downgrade({ holder: 'bob' })],
  ])('only its holder can let %s', (_, command) => {
    const { outcome, events } = decide(view([wishing]), command, nowAt(1))
    expect(outcome).toEqual({ kind: 'not_holder', leaseId: id(1), holder: 'ada' })
    expect(events).toEqual([])
  })

  it('leaves a lease alone that has none', () => {
    const { outcome, events } = decide(view([mine]), withdrawUpgrade(), nowAt(1))
    expect(outcome).toEqual({ kind: 'upgrade_withdrawn', leaseId: id(1) })
    expect(events).toEqual([])
  })

  it('comes too late when the lease is over', () => {
    const { outcome } = decide(view([wishing]), withdrawUpgrade(), nowAt(TTL_MS))
    expect(outcome.kind).toBe('expired')
  })

  it('comes too late when it was done', () => {
    const { outcome } = decide(view([lease()]), withdrawUpgrade(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'upgraded', changed: false })
  })

  it('ends with its lease', () => {
    const decision = decide(view([wishing]), release(), nowAt(1))
    expect(decision.entries.get(id(1))).toMatchObject({ state: 'released', upgrading: false })
  })
})

describe('a downgrade', () => {
  it('keeps id and fence and lets the readers in', () => {
    const reader = ticket({ mode: 'shared' })
    const decision = decide(view([lease(), reader]), downgrade(), nowAt(1))
    expect(told(decision)).toEqual(['lease.downgraded 1', 'lease.offered 2'])
    expect(decision.events[0]).toMatchObject({ before: 'active', after: 'active' })
    expect(decision.entries.get(id(1))).toMatchObject({ mode: 'shared', fence: 1_000 })
  })

  it('of a shared lease changes nothing and says so', () => {
    const { outcome, events } = decide(view([mine]), downgrade(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'downgraded', changed: false })
    expect(events).toEqual([])
  })

  it('of a lease that is over is refused', () => {
    expect(decide(view([lease()]), downgrade(), nowAt(TTL_MS)).outcome.kind).toBe('expired')
  })

  it('that is heard again has its first effect only, and the first answer', () => {
    const prior = { leaseId: id(1), type: 'lease.downgraded' } as const
    const command = downgrade({ requestId: 'r1' })
    const { outcome, events } = decide(view([lease()], { prior }), command, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'downgraded', changed: true })
    expect(events).toEqual([])
  })

  it('makes room for a newcomer', () => {
    const { entries } = decide(view([lease()]), downgrade(), nowAt(1))
    const asks = acquire({ mode: 'shared', ...WAITING })
    expect(decide(view([...entries.values()]), asks, nowAt(2)).outcome.kind).toBe('granted')
  })
})

describe('a lease of a counted resource that was upgraded', () => {
  const counted = lease({ mode: 'shared', slots: 2 })
  const upgraded = decide(view([counted]), upgrade(), nowAt(1)).entries
  const alone = view([...upgraded.values()])

  it('has its slots back when it is downgraded', () => {
    const { entries } = decide(alone, downgrade(), nowAt(2))
    expect(entries.get(id(1))).toMatchObject({ mode: 'shared', slots: 2 })
    const asked = (slots: number | null) => {
      const command = acquire({ mode: 'shared', slots })
      return decide(view([...entries.values()]), command, nowAt(3)).outcome.kind
    }
    expect([1, 2, 3, null].map(asked)).toEqual(['held', 'granted', 'granted', 'held'])
  })

  it.each([1, 2, 3, null])('meanwhile lets everybody wait, also with %s slots', (slots) => {
    const command = acquire({ mode: 'shared', slots, ...WAITING })
    expect(decide(alone, command, nowAt(2)).outcome.kind).toBe('queued')
  })

  it.each([
    ['who share with as many', [2, 2], ['lease.offered 2']],
    ['who share with more', [3, 3], ['lease.offered 2']],
    ['of whom the first shares with nobody', [1, 3], []],
    ['of whom the first shares with anybody', [null, 3], []],
  ])('lets in no more than its slots when it is downgraded, of those %s', (_, slots, offered) => {
    const waiting = slots.map((count, n) => {
      return ticket({ id: id(2 + n), holder: `h${n}`, mode: 'shared', slots: count, orderUs: n })
    })
    const decision = decide(view([...upgraded.values(), ...waiting]), downgrade(), nowAt(2))
    expect(told(decision)).toEqual(['lease.downgraded 1', ...offered])
  })

  it('can be adopted by its receiver, who asks to be alone', () => {
    const given = decide(alone, transfer(), nowAt(2)).entries
    const command = acquire({ holder: 'eve' })
    const { outcome } = decide(view([...given.values()]), command, nowAt(3))
    expect(outcome).toMatchObject({ kind: 'granted', lease: { id: id(6), slots: 2 } })
  })
})
