/** How waiters keep their places, and those that stand behind others of their own client. */
import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import { decide, decideSeveral } from '../../src/core/decide.ts'
import { BEHIND_OWN_WINDOWS } from '../../src/core/keep-alive.ts'
import type { Entry, LeaseId, Ticket, Under } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { ticketAhead } from '../../src/core/ticket-ahead.ts'
import { fc } from '../fast-check.ts'
import {
  acquire,
  claim,
  claimAll,
  GROUP,
  id,
  lease,
  nowAt,
  settle,
  tickAt,
  ticket,
  told,
  view,
  WAITING,
  WINDOW_MS,
} from './builders.ts'

const holding = lease({ deadline: tickAt(9_999_999) })
const IS_WAITING = {
  ...{ type: 'lease.waiting', leaseId: id(2) },
  ...{ before: 'pending', after: 'pending' },
}

/** Whose waiter was last heard of at this moment. */
function heardAt(ms: number, change: Partial<Ticket>): Ticket {
  const windows = change.behindOwn === true ? BEHIND_OWN_WINDOWS : 1
  return ticket({ deadline: tickAt(ms + windows * WINDOW_MS), ...change })
}

describe.each(['claim', 'keep_alive'] as const)('a %s', (kind) => {
  const heard = (waiting: Ticket, behindOwn?: boolean) => {
    const hints = behindOwn === undefined ? {} : { behindOwn }
    const command = { ...claim(hints), kind } as const
    return decide(view([holding, waiting]), command, nowAt(100))
  }
  const implying = (under: Under | undefined, hint: readonly LeaseId[] | undefined) => {
    const waiting = ticket(under === undefined ? {} : { under })
    const command = { ...claim(hint === undefined ? {} : { implied: hint }), kind } as const
    return decide(view([holding, waiting]), command, nowAt(100))
  }

  it.each([
    ['says nothing', undefined, WINDOW_MS, 5_000, 1_666],
    ['says that no own tickets are before it', false, WINDOW_MS, 5_000, 1_666],
    ['says that own tickets are before it', true, WINDOW_MS, 60_000, 20_000],
    ['says so and has the shortest window', true, 50, 600, 200],
    ['says so and has a long window', true, 20_000, 60_000, 20_000],
    ['says so and has the longest window', true, 60_000, 60_000, 20_000],
  ])('that %s', (_what, behindOwn, claimWindowMs, livesMs, keepAliveMs) => {
    const { outcome, entries } = heard(ticket({ claimWindowMs }), behindOwn)
    expect(outcome).toMatchObject({ keepAliveMs })
    const kept = entries.get(id(2))
    expect(kept).toMatchObject({ deadline: tickAt(100 + livesMs), claimWindowMs })
    expect(kept !== undefined && 'behindOwn' in kept).toBe(behindOwn === true)
  })

  it('without the flag takes a ticket back to its short window', () => {
    const { outcome, entries } = heard(heardAt(0, { behindOwn: true }))
    expect(outcome).toMatchObject({ keepAliveMs: 1_666 })
    expect(entries.get(id(2))).toEqual(ticket({ deadline: tickAt(100 + WINDOW_MS) }))
  })

  const said = { leaseIds: [id(9)], implied: false }
  const implied = { ...said, implied: true }

  it.each<[string, Under | undefined, readonly LeaseId[] | undefined]>([
    ['says nothing of a ticket that is under nothing', undefined, undefined],
    ['says again that a ticket is under nothing', undefined, []],
    ['says nothing of what a ticket is under by implication', implied, undefined],
    ['says again what a ticket is under by implication', implied, [id(9)]],
    ['implies a lease, where the requester said another', said, [id(8)]],
    ['implies nothing, where the requester said a lease', said, []],
  ])('that %s leaves it under that', (_what, under, hint) => {
    const { events, entries } = implying(under, hint)
    expect(events).toMatchObject([{ ...IS_WAITING, deadline: tickAt(100 + WINDOW_MS) }])
    expect(events[0]).not.toHaveProperty('implied')
    expect(entries.get(id(2))?.under).toEqual(under)
  })

  it.each<[string, Under | undefined, readonly LeaseId[], Under | undefined]>([
    ['that is under nothing', undefined, [id(9)], implied],
    ['of which another was implied', { ...implied, leaseIds: [id(8)] }, [id(9)], implied],
    ['of which a lease was implied', implied, [], undefined],
  ])('puts a ticket %s under what it implies from now on', (_what, under, hint, after) => {
    const { events, entries } = implying(under, hint)
    expect(events).toMatchObject([{ ...IS_WAITING, implied: hint }])
    expect(entries.get(id(2))?.under).toEqual(after)
  })
})

it('a claim of several together keeps each ticket by its own window, whatever is before it', () => {
  const several = claimAll([{ behindOwn: true }, { behindOwn: true, leaseId: id(3) }])
  const tickets = [ticket({ group: GROUP }), ticket({ group: GROUP, id: id(3) })]
  const views = [view([holding, ...tickets])]
  const { events, entries } = decideSeveral([...views, ...views], several, nowAt(100))
  expect(events).toMatchObject([IS_WAITING, { ...IS_WAITING, leaseId: id(3) }])
  expect(entries.get(id(2))).toEqual(ticket({ group: GROUP, deadline: tickAt(100 + WINDOW_MS) }))
})

describe('a request that has to wait', () => {
  it('is filed behind own tickets if it says so, of which the ledger does not tell', () => {
    const command = acquire({ ...WAITING, behindOwn: true })
    const now = nowAt(100)
    const decision = decide(view([holding]), command, now)
    expect(decision.outcome).toMatchObject({ kind: 'queued', keepAliveMs: 20_000 })
    const filed = { behindOwn: true, deadline: tickAt(60_100) }
    expect(decision.entries.get(id(3))).toMatchObject(filed)
    const { events, changes } = commitOf(view([holding]), decision)
    expect(events).toMatchObject([{ type: 'lease.queued' }])
    expect(events[0]).not.toHaveProperty('ticket.behindOwn')
    expect(changes).toMatchObject([{ after: filed }])
    expect(
      ticketAhead(commitOf(view([holding]), decision), [holding, ticket({ orderUs: 5 })])?.id,
    ).toBe(id(2))
  })
})

describe('a ticket behind others of its client', () => {
  it('has an offer for one claim window, like any other', () => {
    const decision = decide(view([heardAt(0, { behindOwn: true })]), settle(), nowAt(1))
    const offer = { deadline: tickAt(1 + WINDOW_MS) }
    expect(decision.entries.get(id(2))).toMatchObject({ offer })
  })

  it('says nothing of it once it has failed', () => {
    const [failed] = decide(
      view([heardAt(0, { behindOwn: true })]),
      settle(),
      nowAt(60_000),
    ).entries.values()
    expect(failed).toEqual(
      ticket({ deadline: tickAt(60_000), state: 'failed', failure: 'abandoned' }),
    )
  })

  const first = heardAt(0, { id: id(2), orderUs: 2 })
  const next = heardAt(-9_000, { id: id(3), orderUs: 3, behindOwn: true })
  const last = heardAt(-8_000, { id: id(4), orderUs: 4, behindOwn: true })
  const stranger = { holder: 'eve', behindOwn: true } as const

  it.each<[string, readonly Entry[], readonly string[]]>([
    [
      'fails with the first if nothing was heard of any for a window',
      [first, next, last],
      ['failed 2', 'failed 3', 'failed 4'],
    ],
    [
      'stays if another of its session was heard of, of which the next is heard of within a window',
      [first, next, { ...last, deadline: tickAt(60_001) }],
      ['failed 2', 'waiting 3'],
    ],
    [
      'stays if one before another that was not heard of lately was',
      [first, { ...next, deadline: tickAt(60_001) }, last],
      ['failed 2', 'waiting 3'],
    ],
    [
      'stays if another that is kept alive as ever stands',
      [first, heardAt(1, { id: id(5), orderUs: 5 }), next],
      ['failed 2'],
    ],
    [
      'stays if the one that failed is of another session',
      [first, { ...next, ...stranger, session: 's' }],
      ['failed 2'],
    ],
    [
      'fails with one that lapsed',
      [
        { ...first, deadline: tickAt(9_000), offer: { fence: 7, deadline: tickAt(WINDOW_MS) } },
        next,
      ],
      ['failed 2', 'failed 3'],
    ],
    ['stays while none fails', [heardAt(1, {}), next, last], []],
  ])('%s', (_what, queue, events) => {
    const decision = decide(view([holding, ...queue]), settle(), nowAt(WINDOW_MS))
    expect(told(decision)).toEqual(events.map((event) => `lease.${event}`))
  })

  it('of which the next is to be heard of has one window from when anything was', () => {
    const late = { ...last, deadline: tickAt(60_001) }
    const { entries } = decide(view([holding, first, next, late]), settle(), nowAt(WINDOW_MS))
    const { behindOwn: _behindOwn, ...alone } = next
    expect(entries.get(id(3))).toEqual({ ...alone, deadline: tickAt(1 + WINDOW_MS) })
    const after = decide(view([...entries.values()]), settle(), nowAt(1 + WINDOW_MS))
    expect(told(after)).toEqual(['lease.failed 3', 'lease.failed 4'])
    expect(after.events).toMatchObject([{ failure: 'abandoned' }, { failure: 'abandoned' }])
  })
})

/** When each was last heard of, before the process died or the moment that is looked at: at zero. */
const agesMs = (most: number, options: fc.ArrayConstraints): fc.Arbitrary<readonly number[]> =>
  fc.array(fc.integer({ min: 0, max: most }), options)
const firstAges = agesMs(Math.floor(WINDOW_MS / 3), { minLength: 0, maxLength: 2 })
const laterAges = agesMs((BEHIND_OWN_WINDOWS * WINDOW_MS) / 3, { minLength: 1, maxLength: 8 })

function ticketsOf(firsts: readonly number[], behind: readonly number[]): readonly Ticket[] {
  return [...firsts, ...behind].map((ageMs, index) => {
    const place = index < firsts.length ? {} : ({ behindOwn: true } as const)
    return heardAt(-ageMs, { id: id(10 + index), orderUs: index, ...place })
  })
}

/** Settles again and again, as commands of others do, until a time. */
function settledUntil(
  entries: readonly Entry[],
  untilMs: number,
  stepMs: number,
): readonly Entry[] {
  let now = entries
  for (let ms = 0; ms <= untilMs; ms = ms === untilMs ? ms + 1 : Math.min(untilMs, ms + stepMs)) {
    now = [...decide(view(now), settle(), nowAt(ms)).entries.values()]
  }
  return now
}

describe('a process that is dead', () => {
  it('delays the queue of a free resource by two windows at most, however many tickets it left', () => {
    fc.assert(
      fc.property(
        firstAges,
        laterAges,
        fc.integer({ min: 1, max: 3_000 }),
        (firsts, behind, stepMs) => {
          const eve = ticket({ id: id(99), holder: 'eve', orderUs: 99, deadline: tickAt(99_000) })
          const entries = settledUntil([...ticketsOf(firsts, behind), eve], 2 * WINDOW_MS, stepMs)
          // She has been offered it, whether or not her offer has lapsed since.
          const hers = entries.find((entry) => entry.id === id(99))
          expect(hers).not.toMatchObject({ state: 'pending', offer: null })
        },
      ),
    )
  })

  it('whose first tickets stood has left nothing in the queue of a held one after two windows', () => {
    fc.assert(
      fc.property(
        firstAges,
        laterAges,
        fc.integer({ min: 1, max: 3_000 }),
        (firsts, behind, stepMs) => {
          const queue = ticketsOf([0, ...firsts], behind)
          const entries = settledUntil([holding, ...queue], 2 * WINDOW_MS, stepMs)
          expect(entries.filter(({ state }) => state === 'pending')).toEqual([])
        },
      ),
    )
  })
})

describe('a process that lives', () => {
  it('loses no ticket but the one whose waiter has failed', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: Math.floor(WINDOW_MS / 3) }),
        laterAges,
        fc.boolean(),
        (ageMs, behind, isOffered) => {
          const [first, ...others] = ticketsOf([0, ageMs], behind)
          const over = tickAt(0)
          const failing = isOffered ? { offer: { fence: 7, deadline: over } } : { deadline: over }
          const queue = [{ ...first, ...failing } as Ticket, ...others]
          const { entries } = decide(view([holding, ...queue]), settle(), nowAt(0))
          const left = [...entries.values()].filter(({ state }) => state === 'pending')
          expect(left).toEqual(others)
        },
      ),
    )
  })
})

describe('where an offer has lapsed', () => {
  const offered = (change: Partial<Ticket> = {}) => {
    const offer = { fence: 2, deadline: tickAt(WINDOW_MS) }
    return ticket({ id: id(10), session: 'dead', offer, deadline: tickAt(0), ...change })
  }
  const behind = (session: string, index: number, change: Partial<Ticket> = {}) => {
    const facts = { id: id(20 + index), session, orderUs: index, behindOwn: true } as const
    return heardAt(0, { ...facts, ...change })
  }
  const leftOf = (queue: readonly Entry[]) => {
    const { entries } = decide(view(queue), settle(), nowAt(WINDOW_MS + 1))
    return [...entries.values()].filter(({ state }) => state === 'pending').map((one) => one.id)
  }

  it('the tickets of all sessions that died with it are dropped at once', () => {
    const sessions = Array.from({ length: 12 }, (_, index) => `session-${index}`)
    const queue = sessions.flatMap((session, index) => [
      behind(session, 2 * index + 1),
      behind(session, 2 * index + 2),
    ])
    expect(leftOf([offered(), ...queue])).toEqual([])
  })

  it('those of a session whose first speaks for them stand', () => {
    const first = ticket({ id: id(20), session: 'alive', orderUs: 1, deadline: tickAt(9_000) })
    expect(leftOf([offered(), first, behind('alive', 2)])).toEqual([id(20), id(22)])
  })

  it('those of a session with a longer window stand: its first may not have spoken yet', () => {
    const slow = { claimWindowMs: 10_000, deadline: tickAt(60_000) }
    expect(leftOf([offered(), behind('slow', 1, slow)])).toEqual([id(21)])
  })

  it('on another resource, nothing of another session is touched', () => {
    const other = behind('far', 1, { resource: parseResource('work:W-2') })
    expect(leftOf([offered(), other])).toEqual([id(21)])
  })

  it('those of others stand where a ticket was only silent, and the queue may have moved', () => {
    const silent = ticket({ id: id(10), session: 'dead', deadline: tickAt(WINDOW_MS) })
    expect(leftOf([holding, silent, behind('alive', 1)])).toEqual([holding.id, id(21)].slice(1))
  })
})
