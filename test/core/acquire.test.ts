import { describe, expect, it } from 'vitest'
import { decide } from '../../src/core/decide.ts'
import type { Acquire } from '../../src/core/command.ts'
import { commitOf, NOTHING } from '../../src/core/commit.ts'
import type { Entry, Lease, Ticket } from '../../src/core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../src/core/limits.ts'
import { DEFAULT_SETTINGS, type Settings } from '../../src/core/settings.ts'
import {
  acquire,
  file,
  id,
  lease,
  nowAt,
  release,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WAITING,
  WALL_MS,
  WINDOW_MS,
  type Moment,
} from './builders.ts'

const offered = ticket({ offer: { fence: 1001, deadline: tickAt(WINDOW_MS) } })
const lockedUntil = tickAt(9_000)

interface Case {
  readonly name: string
  readonly entries: readonly Entry[]
  readonly at: number
  readonly moment?: Moment
  readonly outcome: string
  readonly events: readonly string[]
}

const notWaiting: readonly Case[] = [
  { name: 'a free resource', entries: [], at: 0, outcome: 'granted', events: ['lease.issued 3'] },
  {
    name: 'a lease one tick before its deadline',
    ...{ entries: [lease()], at: TTL_MS, moment: { us: -1 } },
    ...{ outcome: 'held', events: ['lease.denied 3'] },
  },
  {
    name: 'a lease at its deadline',
    ...{ entries: [lease()], at: TTL_MS },
    ...{ outcome: 'granted', events: ['lease.expired 1', 'lease.issued 3'] },
  },
  {
    name: 'a lease one tick after its deadline',
    ...{ entries: [lease()], at: TTL_MS, moment: { us: 1 } },
    ...{ outcome: 'granted', events: ['lease.expired 1', 'lease.issued 3'] },
  },
  {
    name: 'a running lease although the wall was set a year forward',
    ...{ entries: [lease()], at: TTL_MS - 1, moment: { wallShiftMs: 31_536_000_000 } },
    ...{ outcome: 'held', events: ['lease.denied 3'] },
  },
  {
    name: 'a lease that is over although the wall was set a day back',
    ...{ entries: [lease()], at: TTL_MS, moment: { wallShiftMs: -86_400_000 } },
    ...{ outcome: 'granted', events: ['lease.expired 1', 'lease.issued 3'] },
  },
  {
    name: 'a released lease',
    ...{ entries: [lease({ state: 'released' })], at: 1 },
    ...{ outcome: 'granted', events: ['lease.issued 3'] },
  },
  {
    name: 'a ticket one tick before the end of its window',
    ...{ entries: [lease(), ticket()], at: WINDOW_MS, moment: { us: -1 } },
    ...{ outcome: 'held', events: ['lease.denied 3'] },
  },
  {
    name: 'a ticket at the end of its window, and nobody else',
    ...{ entries: [ticket()], at: WINDOW_MS },
    ...{ outcome: 'granted', events: ['lease.failed 2', 'lease.issued 3'] },
  },
  {
    name: 'a ticket whose turn it is',
    ...{ entries: [ticket()], at: WINDOW_MS, moment: { us: -1 } },
    ...{ outcome: 'held', events: ['lease.offered 2', 'lease.denied 3'] },
  },
  {
    name: 'an offer one tick before the end of its window',
    ...{ entries: [offered], at: WINDOW_MS, moment: { us: -1 } },
    ...{ outcome: 'held', events: ['lease.denied 3'] },
  },
  {
    name: 'an offer at the end of its window',
    ...{ entries: [offered], at: WINDOW_MS },
    ...{ outcome: 'granted', events: ['lease.failed 2', 'lease.issued 3'] },
  },
  {
    name: 'an offer that ran on although its ticket had a shorter window',
    entries: [ticket({ offer: { fence: 1001, deadline: tickAt(8_000) } })],
    ...{ at: 7_999, outcome: 'held', events: ['lease.denied 3'] },
  },
  {
    name: 'a lock delay one tick before its end',
    entries: [lease({ state: 'expired', lockedUntil: tickAt(20_000) })],
    ...{ at: 20_000, moment: { us: -1 }, outcome: 'held', events: ['lease.denied 3'] },
  },
  {
    name: 'a lock delay at its end',
    entries: [lease({ state: 'expired', lockedUntil: tickAt(20_000) })],
    ...{ at: 20_000, outcome: 'granted', events: ['lease.unlocked 1', 'lease.issued 3'] },
  },
]

describe('an acquire that does not wait meets', () => {
  it.each(notWaiting)('$name: $outcome', ({ entries, at, moment, outcome, events }) => {
    const decision = decide(view(entries), acquire(), nowAt(at, moment))
    expect(decision.outcome.kind).toBe(outcome)
    expect(told(decision)).toEqual(events)
  })
})

describe('a granted lease', () => {
  it('runs for its ttl from now, on the tick and on the wall', () => {
    const { outcome } = decide(view(), acquire({ ttlMs: 1 }), nowAt(250))
    expect(outcome).toMatchObject({
      kind: 'granted',
      repeated: false,
      lease: {
        ...{ id: id(3), holder: 'cyd', state: 'active', renewals: 0, maxRenewals: -1 },
        ...{ deadline: tickAt(251), grantedAtMs: WALL_MS + 250, expiresAtMs: WALL_MS + 251 },
      },
    })
  })

  it('takes ttl and renewal limit from the settings when the request names none', () => {
    const settings = { ...DEFAULT_SETTINGS, default_ttl_seconds: 7, max_renewals: 4 }
    const command = acquire({ ttlMs: null, maxRenewals: null })
    const { outcome } = decide(view([], { settings }), command, nowAt(0))
    expect(outcome).toMatchObject({ lease: { ttlMs: 7_000, maxRenewals: 4 } })
  })

  it('ends at maxHoldMs when that is shorter than its ttl', () => {
    const command = acquire({ ttlMs: 10_000, maxHoldMs: 400 })
    const { outcome } = decide(view(), command, nowAt(100))
    expect(outcome).toMatchObject({
      lease: { deadline: tickAt(500), expiresAtMs: WALL_MS + 500, holdUntilUs: 500_000 },
    })
  })

  it.each([
    ['the wall clock in microseconds when the realm is new', 0, WALL_MS * 1000],
    ['the wall clock when the last fence lies in the past', 12, WALL_MS * 1000],
    ['one above the last fence when the wall was set back', WALL_MS * 1000, WALL_MS * 1000 + 1],
    ['one above the last fence, however far ahead', WALL_MS * 2000, WALL_MS * 2000 + 1],
  ])('has a fence of %s', (_, lastFence, fence) => {
    const { outcome } = decide(view([], { lastFence }), acquire(), nowAt(0))
    expect(outcome).toMatchObject({ kind: 'granted', lease: { fence } })
    expect(Number.isSafeInteger(fence)).toBe(true)
  })

  it('has the last fence that is exact, and none above it', () => {
    const last = Number.MAX_SAFE_INTEGER
    const granted = decide(view([], { lastFence: last - 1 }), acquire(), nowAt(0))
    expect(granted.outcome).toMatchObject({ kind: 'granted', lease: { fence: last } })
    const late = { wallShiftMs: last / 1000 }
    for (const [lastFence, now] of [
      [last, nowAt(0)],
      [0, nowAt(0, late)],
    ] as const) {
      expect(() => decide(view([], { lastFence }), acquire(), now)).toThrow(
        expect.objectContaining({
          code: 'STORE_UNAVAILABLE',
          message: `no fence is left at wall time ${now.wallMs}`,
        }),
      )
    }
  })

  it('must be committed before its own deadline and before any other that was taken for running', () => {
    const other = lease({ id: id(9), mode: 'shared', deadline: tickAt(700) })
    const shared = acquire({ mode: 'shared', ttlMs: 900 })
    expect(decide(view([other]), shared, nowAt(0)).validUntilUs).toBe(700_000)
    expect(decide(view(), shared, nowAt(0)).validUntilUs).toBe(900_000)
  })
})

describe('a repeated acquire', () => {
  const mine = lease({ id: id(3), holder: 'cyd' })

  it('answers with the present lease and changes nothing', () => {
    const renewed = { ...mine, renewals: 2 }
    const decision = decide(view([renewed]), acquire(), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'granted', lease: renewed, repeated: true })
    expect(decision.events).toEqual([])
  })

  it.each([
    ['released', { kind: 'terminal', leaseId: id(3), state: 'released' }],
    ['revoked', { kind: 'terminal', leaseId: id(3), state: 'revoked' }],
  ] as const)('never brings a %s lease back to life', (state, outcome) => {
    const decision = decide(view([{ ...mine, state }]), acquire(), nowAt(1))
    expect(decision.outcome).toEqual(outcome)
    expect(decision.events).toEqual([])
  })

  it('says how the lease of a session that has gone ended', () => {
    const ended = lease({ ...mine, session: 'before', state: 'released' })
    const { outcome } = decide(view([ended]), acquire(), nowAt(1))
    expect(outcome).toEqual({ kind: 'terminal', leaseId: id(3), state: 'released' })
  })

  it('never answers with a lease that is over', () => {
    const decision = decide(view([mine]), acquire(), nowAt(TTL_MS))
    expect(decision.outcome).toMatchObject({ kind: 'expired', terminatedAtMs: WALL_MS + TTL_MS })
  })

  it.each([
    ['another holder', { holder: 'eve' }],
    ['another holder of a session with its name', { holder: 'eve', session: mine.session }],
    ['another resource', { resource: file('/elsewhere') }],
  ])('is refused when the id belongs to %s', (_, change) => {
    const decision = decide(view([mine]), acquire(change), nowAt(1))
    expect(decision.outcome.kind).toBe('id_taken')
    expect(decision.events).toEqual([])
  })

  it('finds its ticket where it was in the queue', () => {
    const first = ticket({ orderUs: 1 })
    const own = ticket({ id: id(3), holder: 'cyd', orderUs: 2 })
    const decision = decide(view([lease(), first, own]), acquire(WAITING), nowAt(1))
    expect(decision.outcome).toMatchObject({ kind: 'queued', position: 1, waitMs: 60_000 })
    expect(decision.events).toEqual([])
  })

  it('counts neither what came after its ticket nor what failed before it', () => {
    const own = ticket({ id: id(3), holder: 'cyd', orderUs: 2_000 })
    const failed = ticket({ state: 'failed', failure: 'denied', orderUs: 1 })
    const later = ticket({ id: id(4), holder: 'dee', orderUs: 3_000 })
    const { outcome } = decide(view([lease(), failed, own, later]), acquire(WAITING), nowAt(5))
    expect(outcome).toMatchObject({ kind: 'queued', position: 0, orderUs: 2_000, waitedMs: 3 })
  })

  it('is decided anew after a refusal, which is the before of its grant', () => {
    const failed = ticket({ id: id(3), holder: 'cyd', state: 'failed', failure: 'denied' })
    const decision = decide(view([failed]), acquire(), nowAt(1))
    expect(decision.outcome).toMatchObject({ kind: 'granted', repeated: false })
    expect(decision.events).toMatchObject([{ before: 'failed', after: 'active' }])
  })

  it.each(['released', 'expired', 'revoked'] as const)(
    'is refused after its lease was %s, even where no history is kept',
    (state) => {
      const prior = { leaseId: id(3), type: `lease.${state}` } as const
      const decision = decide(view([], { prior }), acquire(), nowAt(1))
      expect(decision.outcome).toEqual({ kind: 'terminal', leaseId: id(3), state })
      expect(decision.events).toEqual([])
    },
  )

  it('is decided anew after a failure, even where no history is kept', () => {
    const prior = { leaseId: id(3), type: 'lease.failed' } as const
    expect(decide(view([], { prior }), acquire(), nowAt(1)).outcome.kind).toBe('granted')
  })

  it.each([
    { leaseId: id(8), type: 'lease.released' },
    { leaseId: id(3), type: 'lease.renewed' },
  ] as const)('is refused when its id was the request id of something else: %o', (prior) => {
    const { outcome } = decide(view([], { prior }), acquire(), nowAt(1))
    expect(outcome).toEqual({ kind: 'request_reused', leaseId: id(3) })
  })

  it('goes to the end of the queue when its ticket was not heard of in time', () => {
    const own = ticket({ id: id(3), holder: 'cyd' })
    const decision = decide(view([lease(), own]), acquire(WAITING), nowAt(WINDOW_MS))
    expect(decision.outcome.kind).toBe('queued')
    expect(told(decision)).toEqual(['lease.failed 3', 'lease.queued 3'])
    expect(decision.events.at(-1)).toMatchObject({ ticket: { orderUs: WINDOW_MS * 1000 } })
  })
})

describe('an acquire that waits', () => {
  it('files a ticket with its own claim window and says who stands in the way', () => {
    const command = acquire({ ...WAITING, claimWindowMs: 900, reason: 'to edit' })
    const decision = decide(view([lease({ reason: 'editing' })]), command, nowAt(1))
    expect(decision.outcome).toMatchObject({
      ...{ kind: 'queued', leaseId: id(3), position: 0, waitMs: 60_000, checkAfterMs: 300 },
      blockers: [
        { kind: 'lease', leaseId: id(1), holder: 'ada', reason: 'editing', remainingMs: 9_999 },
      ],
    })
    expect(decision.events).toMatchObject([
      { type: 'lease.queued', before: null, after: 'pending', ticket: { deadline: tickAt(901) } },
    ])
  })

  it('waits as long as the settings say when it does not say', () => {
    const settings = { ...DEFAULT_SETTINGS, acquisition_timeout_ms: 1_234 }
    const command = acquire({ wait: { kind: 'configured' } })
    const { outcome } = decide(view([lease()], { settings }), command, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'queued', waitMs: 1_234 })
  })

  it('does not wait when the settings say zero', () => {
    const settings = { ...DEFAULT_SETTINGS, acquisition_timeout_ms: 0 }
    const command = acquire({ wait: { kind: 'configured' } })
    const { outcome } = decide(view([lease()], { settings }), command, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'held', notWaiting: 'not_asked' })
  })

  it('looks again when the blocker runs out, if that is sooner than its keep-alive', () => {
    const { outcome } = decide(view([lease()]), acquire(WAITING), nowAt(TTL_MS - 100))
    expect(outcome).toMatchObject({ kind: 'queued', checkAfterMs: 100 })
  })

  it('never passes a ticket that came before it, although nobody holds the resource', () => {
    const decision = decide(view([ticket()]), acquire(WAITING), nowAt(1))
    expect(decision.outcome).toMatchObject({ kind: 'queued', position: 1 })
    expect(told(decision)).toEqual(['lease.offered 2', 'lease.queued 3'])
  })

  it.each([
    ['a lease', lease({ session: 'session-of-cyd' })],
    ['a ticket', ticket({ session: 'session-of-cyd' })],
    ['an offer', { ...offered, session: 'session-of-cyd' }],
  ])('waits for %s of its own session, unless that does one thing after another', (_, own) => {
    expect(decide(view([own]), acquire(WAITING), nowAt(1)).outcome.kind).toBe('queued')
    const decision = decide(view([own]), acquire({ ...WAITING, sequential: true }), nowAt(1))
    expect(decision.outcome).toMatchObject({ kind: 'held', notWaiting: 'own' })
    expect(told(decision).at(-1)).toBe('lease.denied 3')
  })

  it.each<[string, Partial<Lease>, Partial<Acquire>, string]>([
    ['the very same', {}, {}, 'held'],
    ['as one of several sessions', { session: 'session-of-bob' }, {}, 'granted'],
    ['of another resource', { resource: file('/a') }, {}, 'granted'],
    ['less of it', { extent: 'subtree' }, {}, 'granted'],
    ['places of it', { slots: 2 }, { slots: 2 }, 'granted'],
    ['what has run out', { deadline: tickAt(1) }, {}, 'granted'],
    ['as a session that does several things at once', {}, { sequential: false }, 'granted'],
  ])('that shares asks again for %s', (_, mine, asked, kind) => {
    const own = lease({ id: id(9), mode: 'shared', ...mine })
    const session = { holder: 'ada', session: 'session-of-ada', sequential: true }
    const command = acquire({ ...session, mode: 'shared', ...asked })
    const { outcome } = decide(view([own]), command, nowAt(1))
    expect(outcome.kind).toBe(kind)
    if (outcome.kind !== 'held') return
    expect(outcome).toMatchObject({ notWaiting: 'own', blockers: [{ kind: 'lease' }] })
  })

  const cyds = { holder: 'cyd', session: 'session-of-cyd' }
  it.each<[string, Entry]>([
    ['the lease of another', lease()],
    ['a lock delay after its own lease', lease({ ...cyds, state: 'expired', lockedUntil })],
  ])('waits for %s even if its session does one thing after another', (_, blocker) => {
    const command = acquire({ ...WAITING, sequential: true })
    const { outcome } = decide(view([blocker]), command, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'queued', blockers: [{ leaseId: blocker.id }] })
  })

  const [shared, counted] = [{ mode: 'shared' } as const, { mode: 'shared', slots: 2 } as const]
  it.each<[string, string, Partial<Ticket>, Partial<Acquire>]>([
    ['share, for a share', 'held', shared, shared],
    ['lease alone, for a share', 'queued', {}, shared],
    ['share, for a lease alone', 'queued', shared, {}],
    ['lease alone, for a lease alone', 'queued', {}, {}],
    ['place, for a share', 'queued', counted, shared],
    ['share, for a place', 'queued', shared, counted],
    ['place, for a place', 'queued', counted, counted],
  ])('of such a session goes before its own ticket for a %s: %s', (_, kind, own, asked) => {
    const command = acquire({ ...WAITING, ...asked, sequential: true, priority: 1 })
    const entries = [lease(), ticket({ ...cyds, ...own })]
    const { outcome } = decide(view(entries), command, nowAt(1))
    expect(outcome.kind).toBe(kind)
    if (outcome.kind !== 'held') return
    expect(outcome).toMatchObject({ notWaiting: 'own', blockers: [{ kind: 'ticket' }] })
  })

  it('is refused at once when a lease that it is under blocks it, and that is its own', () => {
    const command = acquire({ ...WAITING, under: [id(1)] })
    const own = decide(view([lease({ holder: command.holder })]), command, nowAt(1))
    expect(own.outcome).toMatchObject({
      ...{ kind: 'held', notWaiting: 'own', blockers: [{ leaseId: id(1) }] },
    })
    expect(decide(view([lease()]), command, nowAt(1)).outcome.kind).toBe('queued')
  })

  it('is under what it says, and under nothing once it has an offer', () => {
    const decision = decide(view([lease()]), acquire({ ...WAITING, under: [id(9)] }), nowAt(1))
    const filed = decision.entries.get(id(3))
    expect(filed?.under).toEqual({ leaseIds: [id(9)], implied: false })
    const released = decide({ ...view([]), entries: decision.entries }, release(), nowAt(2))
    expect(released.entries.get(id(3))).toMatchObject({ offer: { fence: expect.any(Number) } })
    expect(released.entries.get(id(3))).not.toHaveProperty('under')
  })

  it('looks again later, the further back it is, and keeps itself alive all the same', () => {
    const ahead = Array.from({ length: 60 }, (_, index) => {
      return ticket({ id: id(100 + index), orderUs: index, session: `s${index}` })
    })
    const { outcome } = decide(view([lease(), ...ahead]), acquire(WAITING), nowAt(1))
    const keepAliveMs = Math.floor(WINDOW_MS / 3)
    expect(outcome).toMatchObject({ kind: 'queued', position: 60, keepAliveMs })
    expect(outcome.kind === 'queued' && outcome.checkAfterMs).toBeGreaterThan(10 * keepAliveMs)
  })

  it('may wait for a lock delay of its own session, which nobody can release', () => {
    const delay = { state: 'expired', lockedUntil: tickAt(20_000) } as const
    const own = lease({ session: 'session-of-cyd', ...delay })
    const { outcome } = decide(view([own]), acquire(WAITING), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'queued', blockers: [{ kind: 'lock_delay' }] })
  })

  it('is refused where waiting is turned off', () => {
    const settings: Settings = { ...DEFAULT_SETTINGS, blocking_mode_enabled: false }
    const { outcome } = decide(view([lease()], { settings }), acquire(WAITING), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'held', notWaiting: 'waiting_disabled' })
  })

  it.each([
    [TICKETS_PER_REALM_MAX - 1, 'queued'],
    [TICKETS_PER_REALM_MAX, 'queue_full'],
  ])('with %i tickets in the realm comes to %s', (ticketCount, kind) => {
    const { outcome } = decide(view([lease()], { ticketCount }), acquire(WAITING), nowAt(1))
    expect(outcome.kind).toBe(kind)
  })
})

describe('an acquire that asks holders to finish', () => {
  const breakable = lease({ breakable: true, mode: 'shared' })
  const asking = acquire({ ...WAITING, breakGraceMs: 2_000 })

  it('asks one that allows it, in its own name, and says who stands in the way', () => {
    const decision = decide(view([breakable]), asking, nowAt(1))
    expect(decision.events).toMatchObject([
      { type: 'lease.queued' },
      { type: 'lease.revoking', by: 'cyd', reason: 'cyd waits for it', deadline: tickAt(2_001) },
    ])
    const blockers = [{ leaseId: id(1), remainingMs: 9_999 }]
    expect(decision.outcome).toMatchObject({ kind: 'queued', position: 0, blockers })
  })

  it('gives its reason', () => {
    const { events } = decide(view([breakable]), { ...asking, reason: 'to deploy' }, nowAt(1))
    expect(events.at(-1)).toMatchObject({ type: 'lease.revoking', reason: 'to deploy' })
  })

  const asked = { by: 'dee', reason: 'to deploy', deadline: tickAt(9_000) }
  it.each<[string, Partial<Lease>, Partial<Acquire>]>([
    ['without being told to', {}, { breakGraceMs: null }],
    ['that do not allow it', { breakable: false }, {}],
    ['that were asked before', { revoking: asked }, {}],
  ])('asks none %s', (_, held, change) => {
    const decision = decide(view([{ ...breakable, ...held }]), { ...asking, ...change }, nowAt(1))
    expect(told(decision)).toEqual(['lease.queued 3'])
  })

  it('asks none that does not stand in its way', () => {
    const decision = decide(view([breakable, ticket()]), { ...asking, mode: 'shared' }, nowAt(1))
    expect(told(decision)).toEqual(['lease.queued 3'])
  })

  it('asks all that stand in its way, in one order however a store keeps them, and none elsewhere', () => {
    const other = { ...breakable, id: id(7), holder: 'bob' }
    const elsewhere = { ...breakable, id: id(8), resource: file('/a') }
    for (const kept of [
      [breakable, other, elsewhere],
      [elsewhere, other, breakable],
    ]) {
      const decision = decide(view(kept), asking, nowAt(1))
      expect(told(decision)).toEqual(['lease.queued 3', 'lease.revoking 1', 'lease.revoking 7'])
    }
  })
})

describe('the name of the token of an acquire', () => {
  it('is kept with its ticket and with its lease, where there is one', () => {
    const entryOf = (entries: readonly Entry[], change: Partial<Acquire>): Entry | undefined => {
      return decide(view(entries), acquire({ ...WAITING, ...change }), nowAt(1)).entries.get(id(3))
    }
    expect(entryOf([lease()], { tokenName: 'ci' })).toHaveProperty('tokenName', 'ci')
    expect(entryOf([], { tokenName: 'ci' })).toHaveProperty('tokenName', 'ci')
    for (const key of ['tokenName', 'delegation', 'under']) {
      expect(entryOf([lease()], {})).not.toHaveProperty(key)
      expect(entryOf([], {})).not.toHaveProperty(key)
    }
  })
})

describe('a refused acquire', () => {
  it('is counted with who stood in the way, and changes nothing', () => {
    const before = view([lease()])
    const decision = decide(before, acquire(), nowAt(1))
    expect(commitOf(before, decision)).toBe(NOTHING)
    expect(decision.refusals).toMatchObject([
      {
        ...{ type: 'lease.denied', before: null, after: 'failed', reason: 'held by ada' },
        ticket: { state: 'failed', failure: 'denied', holder: 'cyd' },
      },
    ])
  })

  it('says when to come back: after the last of those in its way', () => {
    const shared = { mode: 'shared' } as const
    const short = lease({ id: id(8), deadline: tickAt(500), ...shared })
    const long = lease({ id: id(9), deadline: tickAt(900), ...shared })
    const { outcome } = decide(view([short, long]), acquire(), nowAt(100))
    expect(outcome).toMatchObject({ kind: 'held', retryAfterMs: 800 })
  })

  it('comes back soon after a waiter whose ticket lives for long, who may go long before', () => {
    const long = ticket({ deadline: tickAt(60_000) })
    const { outcome } = decide(view([long]), acquire(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'held', retryAfterMs: 5_000 })
  })

  it('is refused with the problem when the settings make no sense, and settles nothing', () => {
    const settings = { ...DEFAULT_SETTINGS, malformed: 'max_renewals must be an integer' }
    const decision = decide(view([lease()], { settings }), acquire(), nowAt(TTL_MS))
    expect(decision.outcome).toEqual({
      kind: 'malformed_setting',
      problem: 'max_renewals must be an integer',
    })
    expect(decision.events).toEqual([])
  })
})

describe('shared leases', () => {
  const reader = lease({ mode: 'shared' })

  it('are held side by side', () => {
    const { outcome } = decide(view([reader]), acquire({ mode: 'shared' }), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'granted', lease: { fence: WALL_MS * 1000 + 1000 } })
  })

  it('exclude an exclusive one', () => {
    expect(decide(view([reader]), acquire(), nowAt(1)).outcome.kind).toBe('held')
  })

  it('do not pass an exclusive ticket that came before', () => {
    const { outcome } = decide(view([reader, ticket()]), acquire({ mode: 'shared' }), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'held', blockers: [{ kind: 'ticket' }] })
  })
})

describe('leases in a tree', () => {
  const subtree = lease({ resource: file('/src'), extent: 'subtree' })

  it.each([
    ['/src', 'held'],
    ['/src/a.ts', 'held'],
    ['/src_backup', 'granted'],
    ['/', 'granted'],
  ])('a subtree of /src and a request for %s: %s', (path, kind) => {
    const { outcome } = decide(view([subtree]), acquire({ resource: file(path) }), nowAt(1))
    expect(outcome.kind).toBe(kind)
  })

  it('a request for a subtree is blocked by any lease below it', () => {
    const below = lease({ resource: file('/src/deep/a.ts') })
    const command = acquire({ resource: file('/src'), extent: 'subtree' })
    expect(decide(view([below]), command, nowAt(1)).outcome.kind).toBe('held')
  })
})

describe('a lease id that is in use by another session of the same name', () => {
  it.each([
    ['a lease', lease({ id: id(3), holder: 'cyd', session: 'another' })],
    ['a ticket', ticket({ id: id(3), holder: 'cyd', session: 'another' })],
  ])('for %s is taken', (_name, entry) => {
    const before = view([entry])
    const { outcome, events } = decide(before, acquire(), nowAt(1))
    expect(outcome.kind).toBe('id_taken')
    expect(events).toEqual([])
  })
})
