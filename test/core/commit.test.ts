import { describe, expect, it } from 'vitest'
import { commitOf, NOTHING, recordedEvents } from '../../src/core/commit.ts'
import type { Advance, Command } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
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
  })

  it('tells a renewal from what others must know', () => {
    expect(committed([lease()], renew()).changes).toMatchObject([{ renewal: true }])
    expect(committed([lease(), ticket()], claim()).changes).toMatchObject([{ renewal: true }])
    expect(committed([lease()], release()).changes).toMatchObject([{ renewal: false }])
    const resource = parseResource('workflow:order-991')
    const place = { leaseId: id(1), resource, extent: 'exact', holder: 'ada' } as const
    const advance: Advance = {
      kind: 'advance',
      ...place,
      from: 0,
      count: 1,
      reason: null,
      requestId: null,
    }
    expect(committed([lease({ resource })], advance).changes).toMatchObject([{ renewal: true }])
  })

  it('tells so of each entry, where one was kept alive and another has ended', () => {
    const dead = ticket({ id: id(4), holder: 'eve', orderUs: 9, deadline: tickAt(1) })
    expect(committed([lease(), ticket(), dead], claim()).changes).toMatchObject([
      { id: id(4), renewal: false },
      { id: id(2), renewal: true },
    ])
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

  it('wakes a holder whose lease was released for it', () => {
    const { wakes } = committed([lease()], release({ releaseReason: 'aborted' }))
    expect(wakes).toEqual([{ session: 'session-of-ada', leaseId: id(1) }])
    expect(committed([lease()], release()).wakes).toEqual([])
  })

  it('wakes nobody for a refusal, a ticket or a renewal', () => {
    expect(committed([lease()], acquire()).wakes).toEqual([])
    expect(committed([lease()], acquire(WAITING)).wakes).toEqual([])
    expect(committed([lease()], renew()).wakes).toEqual([])
  })
})

describe('what the ledger keeps', () => {
  it('is what an entry was at its end, with the last event that tells of it', () => {
    const note = { reason: 'done', metadata: null }
    const ended = committed([lease(), ticket()], release({ note }))
    expect(recordedEvents(ended)).toMatchObject([
      { event: { type: 'lease.updated' }, ended: null },
      { event: { type: 'lease.released' }, ended: { id: id(1), state: 'released' } },
      { event: { type: 'lease.offered' }, ended: null },
    ])
    expect(recordedEvents(committed([], acquire()))).toMatchObject([{ ended: null }])
  })

  it('tells of an id that has ended, which then needs no mark', () => {
    expect(committed([lease()], release()).requests).toEqual([])
  })

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

  it('the id of a ticket that an operator took out of the queue outlives it, and no other', () => {
    const entries = [lease({ id: id(7) }), ticket()]
    const revoked = committed(entries, revoke({ leaseId: id(2) }), NO_HISTORY)
    const keepUntilMs = WALL_MS + 1 + DAY_MS
    expect(revoked.requests).toEqual([
      { requestId: id(2), type: 'lease.failed', leaseId: id(2), keepUntilMs },
    ])
    expect(committed(entries, withdraw(), NO_HISTORY).requests).toEqual([])
  })

  it('the id of a ticket leads to the lease that its waiter was given by transfer', () => {
    const unadopted = { session: 'bob', adopted: false, recorded: false }
    const given = lease({ id: id(6), holder: 'bob', ...unadopted })
    const { requests } = committed([given, ticket()], claim(), NO_HISTORY)
    expect(requests).toMatchObject([{ requestId: id(2), type: 'lease.adopted', leaseId: id(6) }])
  })

  it('a refused request leaves no mark: it is decided anew', () => {
    expect(committed([lease()], acquire(), NO_HISTORY).requests).toEqual([])
  })
})
