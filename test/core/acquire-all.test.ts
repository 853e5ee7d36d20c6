import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import type { Acquire, AcquireAll, ClaimAll } from '../../src/core/command.ts'
import { mergeViews } from '../../src/core/acquire-all.ts'
import { decide, decideSeveral } from '../../src/core/decide.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import type { Entry, Lease } from '../../src/core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../src/core/limits.ts'
import { parseResource } from '../../src/core/resource.ts'
import { DEFAULT_SETTINGS } from '../../src/core/settings.ts'
import {
  acquireAll,
  claimAll,
  file,
  GROUP,
  id,
  lease,
  nowAt,
  refuseDeadlock,
  release,
  tickAt,
  ticket,
  told,
  transfer,
  view,
  WAITING,
  WINDOW_MS,
  WORK,
} from './builders.ts'

const OTHER = parseResource('work:W-2')
const TREE = file('/src')
const places = [
  { leaseId: id(31), resource: WORK },
  { leaseId: id(32), resource: TREE, extent: 'subtree' as const },
  { leaseId: id(33), resource: OTHER },
]
const asked = acquireAll(places.map((place) => ({ ...place, ...WAITING })))
const unwaiting = acquireAll(places)
const claimed = claimAll(places.map((place) => ({ ...place, session: 'session-of-cyd' })))
const waiting = places.map((place) => {
  const { leaseId, ...rest } = place
  return ticket({ ...rest, id: leaseId, holder: 'cyd', group: GROUP })
})
/** What Cyd has of the last of them already. */
const shareOfCyd = lease({ id: id(60), resource: OTHER, holder: 'cyd', mode: 'shared' })

function sequentially(members: readonly Partial<Acquire>[]): AcquireAll {
  return acquireAll(members.map((member) => ({ ...member, ...WAITING, sequential: true })))
}

function several(entries: readonly Entry[], command: AcquireAll | ClaimAll, at = 1) {
  const views = command.members.map((member) => {
    const kind = member.resource.split(':')[0] ?? ''
    return view(entries.filter((entry) => entry.resource.startsWith(`${kind}:`)))
  })
  return decideSeveral(views, command, nowAt(at))
}

describe('several at once', () => {
  it('are granted together, in order, each with a fence of its own', () => {
    const { outcome, events } = several([], unwaiting)
    expect(outcome).toMatchObject({ kind: 'granted_all', repeated: false })
    expect(events.map((event) => event.type)).toEqual(Array(3).fill('lease.issued'))
    const fences = outcome.kind === 'granted_all' ? outcome.leases.map((one) => one.fence) : []
    expect(fences).toEqual(fences.toSorted((a, b) => a - b))
    expect(new Set(fences).size).toBe(3)
  })

  it('are refused together when one is held, and nothing is granted', () => {
    const decision = several([lease({ resource: file('/src/a') })], unwaiting)
    expect(decision.outcome).toMatchObject({
      ...{ kind: 'held', notWaiting: 'not_asked', blockers: [{ holder: 'ada' }] },
      resource: 'work:W-1, file:/src, work:W-2',
    })
    expect(told(decision)).toEqual(['lease.denied 31', 'lease.denied 32', 'lease.denied 33'])
  })

  it('wait together, with one order key', () => {
    const decision = several([lease()], asked)
    expect(decision.outcome).toMatchObject({
      kind: 'queued_all',
      leaseIds: [id(31), id(32), id(33)],
    })
    const tickets = [...decision.entries.values()].filter((entry) => entry.kind === 'ticket')
    expect(new Set(tickets.map((one) => one.orderUs)).size).toBe(1)
    expect(tickets.every((one) => one.group === GROUP)).toBe(true)
  })

  it('are never offered singly: whoever waits is woken, if there is news', () => {
    const before = view([lease(), ...waiting.slice(0, 1)])
    const decision = decide(before, release(), nowAt(1))
    expect(told(decision)).toEqual(['lease.released 1'])
    expect(commitOf(before, decision).wakes).toEqual([
      { session: 'session-of-cyd', leaseId: id(31) },
    ])
  })

  it('do not wake themselves when they look', () => {
    const entries = [lease(), ...waiting]
    const decision = several(entries, claimed)
    expect(decision.outcome.kind).toBe('queued_all')
    expect(decision.wakes).toEqual([])
  })

  it('hold their place in each queue against those who come later', () => {
    const later = ticket({ id: id(40), holder: 'dan', resource: OTHER, orderUs: 9 })
    const decision = several([lease(), ...waiting, later], claimed)
    expect(told(decision).filter((text) => text.startsWith('lease.offered'))).toEqual([])
  })

  it('are claimed together once all are free', () => {
    const { outcome } = several(waiting, claimed)
    expect(outcome).toMatchObject({ kind: 'granted_all', repeated: false })
  })

  it('are found again by a claim whose answer was lost, by the same session only', () => {
    const held = waiting.map((one) =>
      lease({ id: one.id, resource: one.resource, extent: one.extent, holder: 'cyd' }),
    )
    expect(several(held, claimed).outcome).toMatchObject({ kind: 'granted_all', repeated: true })
    const strange = claimAll(places.map((place) => ({ ...place, session: 'another' })))
    expect(several(held, strange).outcome.kind).toBe('not_holder')
  })

  it('are not claimed where one of them is held by itself, whose id is taken then', () => {
    const [first, ...rest] = waiting
    const held = lease({ id: id(31), resource: first?.resource ?? WORK, holder: 'cyd' })
    expect(several([held, ...rest], claimed).outcome).toEqual({
      ...{ kind: 'id_taken', leaseId: id(31), resource: held.resource },
    })
  })

  const shared = { mode: 'shared' } as const
  it.each<[string, AcquireAll, Entry[]]>([
    ['the same wish', asked, waiting],
    ['a wish that would not wait', unwaiting, waiting],
    [
      'a wish to share what their session, which does one thing after another, shares by now',
      sequentially(places.map((place) => ({ ...place, ...shared }))),
      [...waiting.map((one) => ({ ...one, ...shared })), shareOfCyd],
    ],
    [
      'a wish that a transfer does not cover',
      asked,
      [...waiting, { ...shareOfCyd, adopted: false }],
    ],
  ])('that ask again with %s keep their place', (_, command, entries) => {
    const decision = several([lease(), ...entries], command)
    expect(decision.outcome.kind).toBe('queued_all')
    expect(decision.events).toEqual([])
  })

  it('that have lost one of their tickets keep the place of the others', () => {
    const later = ticket({ id: id(70), resource: WORK, orderUs: 1_000_000 })
    const [first, ...others] = waiting
    const { outcome } = several([...(first === undefined ? [] : [first]), later], asked, 2_000)
    expect(outcome.kind).toBe('granted_all')
    expect(several([...others, later], asked, 2_000).outcome.kind).toBe('queued_all')
  })

  it('keep their place whatever else was done under the id of one of them', () => {
    const prior = { leaseId: id(77), type: 'lease.released' } as const
    const views = [view([lease(), ...waiting], { prior }), view(), view()]
    expect(decideSeveral(views, asked, nowAt(1)).outcome.kind).toBe('queued_all')
  })

  it('are asked for anew under another group, and where one of them has been dropped', () => {
    const another = acquireAll(unwaiting.members, id(901))
    expect(several([lease(), ...waiting], another).outcome).toMatchObject({ kind: 'held' })
    const dropped = waiting.map((one, index) => {
      return index === 0 ? ({ ...one, state: 'failed', failure: 'abandoned' } as const) : one
    })
    const decision = several([lease(), ...dropped], asked)
    expect(decision.outcome.kind).toBe('queued_all')
    expect(told(decision)).toEqual(['lease.queued 31'])
    const shares = dropped.map((one) => ({ ...one, mode: 'shared' as const }))
    const again = sequentially(places.map((place) => ({ ...place, mode: 'shared' })))
    expect(several([lease(), ...shares], again).outcome.kind).toBe('queued_all')
  })

  it('are heard of as often as the one with the shortest window, and have waited since the first', () => {
    const unlike = waiting.map((one, index) => {
      return { ...one, orderUs: index * 1000, claimWindowMs: WINDOW_MS - index * 3000 }
    })
    const { outcome } = several([lease(), ...unlike], claimed, 10)
    expect(outcome).toMatchObject({ kind: 'queued_all', waitedMs: 10, keepAliveMs: 1 })
  })

  it('are dropped when they were not heard of in time', () => {
    expect(several([lease(), ...waiting], claimed, WINDOW_MS).outcome.kind).toBe('dropped')
  })

  it.each([
    ['a ticket', ticket({ id: id(33), resource: OTHER, holder: 'bob' })],
    ['a lease', lease({ id: id(33), resource: OTHER, holder: 'bob' })],
  ])('never take the id of %s of somebody else', (_, taken) => {
    const decision = several([taken], asked)
    expect(decision.outcome.kind).toBe('id_taken')
    expect(decision.events).toEqual([])
  })

  it.each(places)('do not come back where no history is kept and $resource has ended', (ended) => {
    const prior = { leaseId: ended.leaseId, type: 'lease.released' } as const
    const views = places.map((place) => view([], place === ended ? { prior } : {}))
    expect(decideSeveral(views, asked, nowAt(1)).outcome).toMatchObject({
      ...{ kind: 'terminal', leaseId: ended.leaseId, state: 'released' },
    })
  })

  const granted = waiting.map(({ id: leaseId, resource, extent }) => {
    return lease({ id: leaseId, resource, extent, holder: 'cyd' })
  })
  const [first, second, third] = granted
  it.each<[string, (Lease | undefined)[], object]>([
    ['is held by itself', [third], { kind: 'id_taken', resource: OTHER }],
    ['has ended', [first, second, lease({ ...third, state: 'released' })], { kind: 'terminal' }],
    [
      'is of another resource',
      [first, second, lease({ ...third, resource: WORK })],
      { kind: 'id_taken', resource: WORK },
    ],
  ])('are not granted under the id of a lease of their own that %s', (_, entries, outcome) => {
    const decision = several(
      entries.filter((entry) => entry !== undefined),
      asked,
    )
    expect(decision.outcome).toMatchObject({ ...outcome, leaseId: id(33) })
    expect(decision.events).toEqual([])
  })

  it('keep the history of those of which it is kept', () => {
    const off = { ...DEFAULT_SETTINGS, keep_history: false }
    const over = lease({ resource: WORK, deadline: { domain: nowAt(0).tick.domain, us: 1 } })
    const views = [view([over]), view(), view([], { settings: off })]
    const decision = decideSeveral(views, unwaiting, nowAt(1))
    const { events, changes } = commitOf(mergeViews(views), decision)
    expect(events.map((event) => event.leaseId)).toEqual([id(1), id(31), id(32)])
    expect(changes.find((change) => change.id === id(1))?.after).toMatchObject({ state: 'expired' })
  })

  it('end a derived lease of which nothing is left to read', () => {
    const delegation = { ...ROOT_DELEGATION, children: [id(80)] }
    const over = lease({ resource: OTHER, delegation, deadline: tickAt(1) })
    const absent = new Set([id(80)])
    const views = [view(), view(), view([over])]
    expect(decideSeveral(views, asked, nowAt(1)).outcome.kind).toBe('look_further')
    views[1] = view([], { absent })
    expect(decideSeveral(views, asked, nowAt(1)).outcome.kind).toBe('granted_all')
  })

  it('ask those to finish that are in their way, and no other', () => {
    const breakable = { mode: 'shared', breakable: true } as const
    const entries = [lease({ ...breakable, id: id(2) }), lease({ resource: OTHER, ...breakable })]
    const members = [
      { leaseId: id(31), mode: 'shared' as const },
      { leaseId: id(33), resource: OTHER },
    ]
    const pressing = members.map((member) => ({ ...member, ...WAITING, breakGraceMs: 100 }))
    const decision = several(entries, acquireAll(pressing))
    expect(decision.outcome.kind).toBe('queued_all')
    expect(told(decision).filter((text) => text.startsWith('lease.revoking'))).toEqual([
      'lease.revoking 1',
    ])
  })

  it('wake another group once, whatever is granted beside it', () => {
    const over = lease({ deadline: tickAt(1) })
    const other = ticket({ mode: 'shared', group: id(901) })
    const beside = acquireAll(places.map((place) => ({ ...place, mode: 'shared' })))
    const decision = several([over, other], beside)
    expect(decision.outcome.kind).toBe('granted_all')
    expect(decision.wakes).toEqual([{ session: 'session-of-bob', leaseId: id(2) }])
  })

  it('offer what is free on one resource although another is blocked', () => {
    const entries = [
      ...[lease(), ticket({ holder: 'bob', orderUs: -2 })],
      ticket({ id: id(5), holder: 'dan', resource: OTHER, orderUs: -1 }),
    ]
    expect(told(several(entries, unwaiting))).toContain('lease.offered 5')
  })
})

describe('several at once, of which one cannot be waited for', () => {
  const held = lease({ resource: OTHER })

  it('are refused where a session that does one thing after another has one of them', () => {
    const own = lease({ resource: OTHER, holder: 'cyd', slots: null })
    const refused = several([own], sequentially(places))
    expect(refused.outcome).toMatchObject({
      ...{ kind: 'held', notWaiting: 'own', blockers: [{ leaseId: id(1) }] },
    })
    expect(several([own], asked).outcome.kind).toBe('queued_all')
  })

  it('are refused where such a session would share one of them twice', () => {
    const shared = sequentially(places.map((place) => ({ ...place, mode: 'shared' })))
    const refused = several([shareOfCyd], shared)
    expect(refused.outcome).toMatchObject({
      ...{ kind: 'held', notWaiting: 'own', blockers: [{ leaseId: id(60) }] },
    })
    const atOnce = shared.members.map((member) => ({ ...member, sequential: false }))
    expect(several([shareOfCyd], acquireAll(atOnce)).outcome.kind).toBe('granted_all')
    const gift = { ...shareOfCyd, id: id(61), session: 'cyd', adopted: false }
    expect(several([shareOfCyd, gift], shared).outcome.kind).toBe('granted_all')
  })

  it.each([0, 1, 2])('are refused where place %i may not wait', (disabled) => {
    const off = { ...DEFAULT_SETTINGS, blocking_mode_enabled: false }
    const views = places.map((_, index) => {
      return view(index === 2 ? [held] : [], index === disabled ? { settings: off } : {})
    })
    expect(decideSeveral(views, asked, nowAt(1)).outcome).toMatchObject({
      ...{ kind: 'held', notWaiting: 'waiting_disabled', blockers: [{ leaseId: id(1) }] },
    })
  })

  it('are refused where the settings of one of them cannot be read', () => {
    const settings = { ...DEFAULT_SETTINGS, malformed: 'ttl: 7' }
    const views = [view(), view([], { settings }), view()]
    expect(decideSeveral(views, asked, nowAt(1)).outcome).toEqual({
      ...{ kind: 'malformed_setting', problem: 'ttl: 7' },
    })
  })

  it('are refused where the tickets of all would be more than one realm takes', () => {
    const outcomeAt = (ticketCount: number) => {
      return decideSeveral([view(), view([], { ticketCount }), view([held])], asked, nowAt(1))
        .outcome
    }
    const limit = TICKETS_PER_REALM_MAX
    expect(outcomeAt(limit - 3).kind).toBe('queued_all')
    expect(outcomeAt(limit - 2)).toEqual({ kind: 'queue_full', resource: WORK, limit })
  })
})

/** Ada holds what Bob waits for; what Bob claims or asks for again is looked at elsewhere. */
describe('several at once, where something else is named than what they wait for', () => {
  const [blocked, elsewhere] = [file('/src/a.ts'), file('/docs/b.md')]
  const held = lease({ resource: blocked })
  const bobs = { holder: 'bob', session: 'session-of-bob' }

  it.each([
    ['another resource of the same realm', blocked, elsewhere],
    ['a resource of another realm', WORK, OTHER],
  ])('are not granted by a claim that names %s', (_, waited, named) => {
    const views = [view([ticket({ resource: waited })])]
    const decision = decideSeveral(views, claimAll([{ resource: named }]), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'not_found', leaseId: id(2) })
    expect(decision.events).toEqual([])
  })

  it('are not granted by a claim that names less of a tree than they wait for', () => {
    const wide = ticket({ resource: TREE, extent: 'subtree' })
    const { outcome } = decideSeveral([view([wide])], claimAll([{ resource: TREE }]), nowAt(1))
    expect(outcome).toEqual({ kind: 'not_found', leaseId: id(2) })
  })

  it('are not granted together with another request of their session for the same', () => {
    const tickets = [ticket({ resource: blocked }), ticket({ id: id(5), resource: blocked })]
    const both = claimAll(tickets.map((one) => ({ leaseId: one.id, resource: blocked })))
    expect(several(tickets, both).outcome).toMatchObject({
      ...{ kind: 'queued_all', blockers: [{ leaseId: id(2), kind: 'offer' }] },
    })
  })

  it('are decided anew by a request that names less of a tree: what it gets is what it names', () => {
    const wide = ticket({ resource: TREE, extent: 'subtree', group: GROUP })
    const less = acquireAll([{ leaseId: id(2), resource: TREE, ...bobs, ...WAITING }])
    const { outcome } = decideSeveral([view([wide])], less, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'granted_all', leases: [{ extent: 'exact' }] })
    const more = acquireAll([{ ...less.members[0], extent: 'subtree' }])
    expect(several([held, wide], more).outcome.kind).toBe('queued_all')
  })
})

describe('a ticket in a cycle', () => {
  it('is refused with the cycle, and its waiter hears of it', () => {
    const before = view([lease(), ticket()])
    const decision = decide(before, refuseDeadlock(), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'withdrawn', released: false })
    expect(decision.events).toMatchObject([
      {
        ...{ type: 'lease.failed', failure: 'deadlock', cycle: refuseDeadlock().cycle },
        reason: 'bob → work:W-1 → ada → work:W-2 → bob',
      },
    ])
    expect(commitOf(before, decision).wakes).toEqual([
      { session: 'session-of-bob', leaseId: id(2) },
    ])
  })

  it.each([
    ['is gone', []],
    [
      'has been offered the lease',
      [ticket({ offer: { fence: 9, deadline: { domain: nowAt(0).tick.domain, us: 9e9 } } })],
    ],
    ['has become a lease', [lease({ id: id(2) })]],
    ['was filed anew', [lease(), ticket({ orderUs: 1 })]],
    ['has failed', [lease(), ticket({ state: 'failed', failure: 'lapsed' })]],
  ])('is left alone when it %s', (_, entries) => {
    const { outcome, events } = decide(view(entries), refuseDeadlock(), nowAt(1))
    expect(outcome).toEqual({ kind: 'not_found', leaseId: id(2) })
    expect(events).toEqual([])
  })

  it('tells whoever claims it', () => {
    const failed = waiting.map((one) => ({
      ...one,
      state: 'failed' as const,
      failure: 'deadlock' as const,
      cycle: [],
    }))
    expect(several(failed, claimed).outcome).toMatchObject({ kind: 'deadlock', leaseId: id(31) })
  })

  it('makes room for those behind it', () => {
    const behind = ticket({ id: id(4), holder: 'dan', mode: 'shared', orderUs: 5 })
    const decision = decide(
      view([lease({ mode: 'shared' }), ticket(), behind]),
      refuseDeadlock(),
      nowAt(1),
    )
    expect(told(decision)).toEqual(['lease.failed 2', 'lease.offered 4'])
  })
})

describe('several at once, of which one was transferred to the requester', () => {
  const gift = lease({ id: id(70), holder: 'cyd', session: 'cyd', adopted: false, fence: 5 })
  const taken = lease({ id: id(71), resource: OTHER, holder: 'bob', session: 'session-of-bob' })

  it('take it over together with the rest: same id, same fence', () => {
    const { outcome, events } = several([gift], asked)
    expect(events.map((event) => event.type)).toEqual([
      'lease.adopted',
      'lease.issued',
      'lease.issued',
    ])
    expect(outcome).toMatchObject({ kind: 'granted_all', repeated: false })
    const leases = outcome.kind === 'granted_all' ? outcome.leases : []
    expect(leases.map((one) => one.id)).toEqual([id(70), id(32), id(33)])
    expect(leases[0]).toMatchObject({ fence: 5, adopted: true, session: 'session-of-cyd' })
  })

  it('leave it as it is while another of them is held', () => {
    const { outcome, entries } = several([gift, taken], asked)
    expect(outcome).toMatchObject({ kind: 'queued_all', blockers: [{ leaseId: id(71) }] })
    expect(entries.get(id(70))).toEqual(gift)
  })

  it('take it over by the claim that finds the rest free, and wait for it no more', () => {
    const decision = several([gift, ...waiting], claimed)
    expect(decision.outcome).toMatchObject({ kind: 'granted_all', repeated: false })
    expect(decision.entries.get(id(70))).toMatchObject({ adopted: true, session: 'session-of-cyd' })
    expect(decision.entries.get(id(31))).toMatchObject({ state: 'failed', failure: 'aborted' })
    expect(decision.events).toContainEqual(
      expect.objectContaining({ leaseId: id(31), reason: `has lease ${id(70)} by transfer` }),
    )
    expect(decision.entries.get(id(33))).toMatchObject({ kind: 'lease', state: 'active' })
  })

  it('leave the place of a ticket that ends so to the next in the queue', () => {
    const counted = { mode: 'shared', slots: 3 } as const
    const entries = [
      ...[lease({ ...gift, ...counted }), lease({ ...counted })],
      ...waiting.map((one, index) => (index === 0 ? { ...one, ...counted } : one)),
      ticket({ id: id(40), orderUs: 9, ...counted }),
    ]
    expect(told(several(entries, claimed))).toContain('lease.offered 40')
  })

  it.each([
    ['asked', asked],
    ['claimed', claimed],
  ])('hear what became of it since, when the answer was lost and they %s again', (_, command) => {
    const prior = { leaseId: id(70), type: 'lease.adopted' as const }
    const ended = { ...gift, adopted: true, state: 'released' } as const
    const views = command.members.map((__, index) => view([ended], index === 2 ? { prior } : {}))
    const { outcome, events } = decideSeveral(views, command, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'terminal', leaseId: id(70), state: 'released' })
    expect(events).toEqual([])
  })

  it('are told the same when the answer was lost, whether they asked or claimed', () => {
    const adopted = { ...gift, adopted: true, session: 'session-of-cyd' }
    const mine = { holder: 'cyd', session: 'session-of-cyd' }
    const rest = [
      lease({ id: id(32), resource: TREE, extent: 'subtree', ...mine }),
      lease({ id: id(33), resource: OTHER, ...mine }),
    ]
    for (const command of [asked, claimed]) {
      const views = command.members.map((_, index) => {
        const prior = { leaseId: id(70), type: 'lease.adopted' as const }
        return view([adopted, ...rest], index === 0 ? { prior } : {})
      })
      const { outcome, events } = decideSeveral(views, command, nowAt(1))
      expect(events).toEqual([])
      expect(outcome).toMatchObject({ kind: 'granted_all', repeated: true })
      const leases = outcome.kind === 'granted_all' ? outcome.leases : []
      expect(leases.map((one) => one.id)).toEqual([id(70), id(32), id(33)])
    }
  })

  it('do not take over what was given to another, or taken over before', () => {
    for (const change of [{ holder: 'dan' }, { adopted: true }]) {
      const { outcome } = several([{ ...gift, ...change }], asked)
      expect(outcome).toMatchObject({ kind: 'queued_all', blockers: [{ leaseId: id(70) }] })
    }
  })

  it.each([WORK, OTHER])('are refused when it is less of %s than they asked for', (resource) => {
    const share = { ...gift, mode: 'shared', resource } as const
    const why = { kind: 'held', notWaiting: 'own_transfer', blockers: [{ leaseId: id(70) }] }
    const refused = several([share], asked)
    expect(refused.outcome).toMatchObject(why)
    expect(refused.events).toEqual([])
    expect(refused.refusals.map((event) => event.type)).toEqual(Array(3).fill('lease.denied'))
    const claims = several([share, ...waiting], claimed)
    expect(claims.outcome).toMatchObject(why)
    expect(claims.events.map((event) => event.type)).toEqual(Array(3).fill('lease.failed'))
    for (const { entries } of [refused, claims]) expect(entries.get(id(70))).toEqual(share)
  })

  it('are refused when it reaches over another of them: waiting would never end', () => {
    const [outer, inner] = [file('/src'), file('/src/a.ts')]
    const wide = lease({ ...gift, resource: outer, extent: 'subtree' })
    const both = acquireAll([
      { leaseId: id(31), resource: outer, ...WAITING },
      { leaseId: id(32), resource: inner, ...WAITING },
    ])
    const { outcome, entries } = several([wide], both)
    expect(outcome).toMatchObject({ kind: 'held', notWaiting: 'own' })
    expect(outcome.kind === 'held' && outcome.blockers.map((one) => one.leaseId)).toEqual([id(70)])
    expect(entries.get(id(70))).toEqual(wide)
  })

  it('are woken by the transfer, because their claim takes it over', () => {
    const given = transfer({ leaseId: id(1), to: 'cyd', newLeaseId: id(72) })
    const decision = decide(view([lease({ id: id(1) }), ...waiting.slice(0, 1)]), given, nowAt(1))
    expect(decision.wakes).toEqual([{ session: 'session-of-cyd', leaseId: id(31) }])
  })
})
