import { describe, expect, it } from 'vitest'
import { commitOf, NOTHING, recordedEvents, type RequestMark } from '../../src/core/commit.ts'
import type { Advance, Command, Withdraw } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import type { Entry } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { DEFAULT_SETTINGS, type Settings } from '../../src/core/settings.ts'
import {
  acquire,
  claim,
  id,
  lease,
  nowAt,
  release,
  renew,
  revoke,
  tickAt,
  ticket,
  view,
  WAITING,
  WALL_MS,
  withdraw,
} from './builders.ts'

const DAY_MS = 86_400_000
const UNRECORDED: Settings = { ...DEFAULT_SETTINGS, record_renewals: false }
const NO_HISTORY: Settings = { ...DEFAULT_SETTINGS, keep_history: false }

function committed(entries: readonly Entry[], command: Command, settings = DEFAULT_SETTINGS) {
  const before = view(entries, { settings })
  return commitOf(before, decide(before, command, nowAt(1)))
}

describe('a commit', () => {
  it('of nothing is empty', () => {
    expect(
      commitOf(view(), {
        outcome: null,
        events: [],
        refusals: [],
        entries: new Map(),
        wakes: [],
        reliedOn: [],
        validUntilUs: null,
        firstFence: 0,
        lastFence: 0,
      }),
    ).toEqual({
      ...{
        changes: [],
        events: [],
        requests: [],
        wakes: [],
        firstFence: 0,
        lastFence: 0,
        epochs: [],
      },
    })
  })

  it('has one change per entry, from what was read to what the last event left', () => {
    const offered = ticket({ offer: { fence: 2_000, deadline: tickAt(9_000) } })
    const { changes, events, firstFence, lastFence } = committed([offered], claim())
    expect(events.map((event) => event.type)).toEqual(['lease.issued'])
    expect(changes).toMatchObject([
      { id: id(2), before: offered, after: { kind: 'lease', state: 'active', fence: 2_000 } },
    ])
    // The fence is as old as the offer.
    expect([firstFence, lastFence]).toEqual([0, 0])
  })

  it('says which fences are new', () => {
    const { firstFence, lastFence } = committed([], acquire())
    expect([firstFence, lastFence]).toEqual([(WALL_MS + 1) * 1000, (WALL_MS + 1) * 1000])
    const readers = [2, 4, 5].map((n) => ticket({ id: id(n), mode: 'shared', orderUs: n }))
    const offered = committed([lease(), ...readers], release())
    expect(offered.firstFence).toBe((WALL_MS + 1) * 1000)
    expect(offered.lastFence).toBe(offered.firstFence + 2)
  })

  it('tells a renewal from what others must know', () => {
    expect(committed([lease()], renew()).changes).toMatchObject([{ renewal: true }])
    expect(committed([lease(), ticket()], claim()).changes).toMatchObject([{ renewal: true }])
    expect(committed([lease()], release()).changes).toMatchObject([{ renewal: false }])
  })

  it('tells it of each entry, by all that happened to it', () => {
    const silent = ticket({ id: id(4), holder: 'eve', deadline: tickAt(1) })
    const { changes } = committed([lease(), silent, ticket()], claim())
    expect(changes).toMatchObject([
      { id: id(4), renewal: false },
      { id: id(2), renewal: true },
    ])
    const filed = committed([lease()], acquire({ ...WAITING, behindOwn: true }))
    expect(filed.changes).toMatchObject([{ id: id(3), renewal: false }])
  })

  it('tells an epoch that its holder used up from what others must know', () => {
    const resource = parseResource('workflow:order-991')
    const request = { leaseId: id(1), resource, extent: 'exact', holder: 'ada' } as const
    const advance: Advance = {
      ...{ kind: 'advance', ...request, from: 0, count: 1, reason: null, requestId: null },
    }
    expect(committed([lease({ resource })], advance).changes).toMatchObject([{ renewal: true }])
  })

  it('rewrites what a revocation leaves as it is no more than a renewal would', () => {
    const delegation = { ...ROOT_DELEGATION, line: [id(1)], rootFence: 1000 }
    const parent = lease({ delegation: { ...ROOT_DELEGATION, children: [id(5)] } })
    const child = lease({ id: id(5), mode: 'shared', delegation, deadline: tickAt(50) })
    const { changes, epochs } = committed([parent, child], revoke({ graceMs: 100 }))
    expect(changes).toMatchObject([
      { id: id(5), before: child, after: child, renewal: true },
      { id: id(1), renewal: false },
    ])
    expect(epochs).toEqual([])
  })

  it('says undefined for an entry that is new', () => {
    expect(committed([], acquire()).changes).toMatchObject([{ id: id(3), before: undefined }])
  })

  it('raises the last fence for an offer already', () => {
    expect(committed([lease(), ticket()], release()).lastFence).toBe((WALL_MS + 1) * 1000)
  })

  it('wakes the waiter whose turn it is and nobody else', () => {
    const third = ticket({ id: id(4), holder: 'eve', orderUs: 9 })
    const { wakes } = committed([lease(), ticket(), third], release())
    expect(wakes).toEqual([{ session: 'session-of-bob', leaseId: id(2) }])
  })

  it('wakes a holder whose lease was given back because its wait was given up', () => {
    const given = withdraw({ leaseId: id(1), session: 'session-of-ada', why: 'aborted' })
    expect(committed([lease()], given).wakes).toEqual([
      { session: 'session-of-ada', leaseId: id(1) },
    ])
    expect(committed([lease()], release()).wakes).toEqual([])
  })

  it('wakes nobody for a refusal, a ticket or a renewal', () => {
    expect(committed([lease()], acquire()).wakes).toEqual([])
    expect(committed([lease()], acquire(WAITING)).wakes).toEqual([])
    expect(committed([lease()], renew()).wakes).toEqual([])
  })
})

describe('what the ledger keeps', () => {
  it('is never that a waiter was heard of', () => {
    const { events, changes } = committed([lease(), ticket()], claim())
    expect(events).toEqual([])
    expect(changes).toMatchObject([{ id: id(2), after: { deadline: tickAt(5_001) } }])
  })

  it('is a renewal with its request id, which then needs no mark', () => {
    const { events, requests } = committed([lease()], renew({ requestId: 'r1' }))
    expect(events).toMatchObject([{ type: 'lease.renewed', requestId: 'r1' }])
    expect(requests).toEqual([])
  })

  it('is an end, which then needs no mark', () => {
    expect(committed([lease()], release({ requestId: 'r1' })).requests).toEqual([])
    expect(committed([lease(), ticket()], withdraw({ why: 'aborted' })).requests).toEqual([])
  })

  it('of an entry that has ended stands with the last event that tells of it', () => {
    const parent = lease({ delegation: { ...ROOT_DELEGATION, children: [id(5)] } })
    const delegation = { ...ROOT_DELEGATION, line: [id(1)], rootFence: 1000 }
    const child = lease({ id: id(5), holder: 'cyd', mode: 'shared', delegation })
    const recorded = recordedEvents(committed([parent, child, ticket()], release()))
    expect(recorded.map(({ event, ended }) => [event.type, ended?.id, ended?.state])).toEqual([
      ['lease.revoked', id(5), 'revoked'],
      ['lease.accounted', undefined, undefined],
      ['lease.released', id(1), 'released'],
      ['lease.offered', undefined, undefined],
    ])
  })

  it('is no renewal where renewals are not recorded; its request id is then marked', () => {
    const { events, requests, changes } = committed(
      [lease()],
      renew({ requestId: 'r1' }),
      UNRECORDED,
    )
    expect(events).toEqual([])
    expect(changes).toMatchObject([{ after: { renewals: 1 } }])
    expect(requests).toEqual([
      {
        ...{ requestId: 'r1', leaseId: id(1), type: 'lease.renewed' },
        keepUntilMs: WALL_MS + 1 + DAY_MS,
      },
    ])
  })

  it('remembers a request for the ttl when that is longer than a day', () => {
    const long = renew({ requestId: 'r1', ttlMs: 2 * DAY_MS })
    expect(committed([lease()], long, UNRECORDED).requests).toMatchObject([
      { keepUntilMs: WALL_MS + 1 + 2 * DAY_MS },
    ])
  })

  it('needs no mark for a renewal without a request id', () => {
    expect(committed([lease()], renew(), UNRECORDED).requests).toEqual([])
  })
})

describe('where no history is kept', () => {
  it('live entries are kept and nothing else', () => {
    const granted = committed([], acquire(), NO_HISTORY)
    expect(granted.events).toEqual([])
    expect(granted.changes).toMatchObject([{ id: id(3), after: { state: 'active' } }])
    expect(granted.lastFence).toBe((WALL_MS + 1) * 1000)
  })

  it.each<[string, readonly Entry[], Command]>([
    ['a released lease', [lease()], release()],
    ['a failed ticket', [lease({ id: id(7) }), ticket()], withdraw()],
  ])('%s leaves nothing behind', (_, entries, command) => {
    const { changes, events } = committed(entries, command, NO_HISTORY)
    expect(changes.map((change) => change.after)).toEqual([null])
    expect(events).toEqual([])
  })

  it('a refused request leaves nothing behind, and is not counted', () => {
    const before = view([lease()], { settings: NO_HISTORY })
    const decision = decide(before, acquire(), nowAt(1))
    expect(commitOf(before, decision)).toBe(NOTHING)
    expect(decision.refusals).toEqual([])
  })

  it('a request id outlives its lease, and so does the id of the lease', () => {
    const { requests } = committed([lease()], release({ requestId: 'r1' }), NO_HISTORY)
    const keepUntilMs = WALL_MS + 1 + DAY_MS
    expect(requests).toEqual([
      { requestId: 'r1', type: 'lease.released', leaseId: id(1), keepUntilMs },
      { requestId: id(1), type: 'lease.released', leaseId: id(1), keepUntilMs },
    ])
  })

  it.each<[string, Partial<Withdraw>, readonly string[]]>([
    ['that its waiter gave up in time leaves no mark', { why: 'timed_out' }, []],
    ['that was taken out of the queue leaves its id', { why: 'aborted' }, [id(2)]],
  ])('a ticket %s', (_, change, left) => {
    const entries = [lease({ id: id(7) }), ticket()]
    const { requests } = committed(entries, withdraw(change), NO_HISTORY)
    expect(requests.map(({ requestId }) => requestId)).toEqual(left)
    expect(requests.every(({ type }) => type === 'lease.failed')).toBe(true)
  })

  it.each<[string, boolean, RequestMark['type'] | undefined]>([
    ['the ledger, which tells of it', true, undefined],
    ['a mark', false, 'lease.adopted'],
  ])('a waiter that was given a lease is led to it from its own id by %s', (_, recorded, type) => {
    const given = lease({ id: id(6), holder: 'bob', adopted: false, recorded })
    const { requests } = committed([given, ticket({ recorded })], claim(), NO_HISTORY)
    const mark = { requestId: id(2), leaseId: id(6), type }
    expect(requests).toMatchObject(type === undefined ? [] : [mark])
  })

  it('a refused request leaves no mark: it is decided anew', () => {
    expect(committed([lease()], acquire(), NO_HISTORY).requests).toEqual([])
  })
})
