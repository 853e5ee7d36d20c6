import { describe, expect, it } from 'vitest'
import type { TakeUp } from '../../src/core/command.ts'
import { decide, readSetOf } from '../../src/core/decide.ts'
import { parseResource } from '../../src/core/resource.ts'
import {
  claim,
  file,
  id,
  lease,
  nowAt,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WALL_MS,
  WINDOW_MS,
} from './builders.ts'

const offered = ticket({ offer: { fence: 2000, deadline: tickAt(WINDOW_MS) } })
const granted = lease({ id: id(2), holder: 'bob' })

describe('a claim of an offer', () => {
  it('becomes the lease, with the fence of the offer and a ttl that runs from the claim', () => {
    const decision = decide(view([offered]), claim(), nowAt(WINDOW_MS, { us: -1 }))
    expect(decision.outcome).toMatchObject({
      kind: 'granted',
      repeated: false,
      lease: { fence: 2000, deadline: tickAt(WINDOW_MS + TTL_MS, { us: -1 }), holder: 'bob' },
    })
    expect(decision.events).toMatchObject([{ before: 'pending', after: 'active' }])
  })

  it.each([0, 1])('is too late %i ticks after the end of its window', (us) => {
    const decision = decide(view([offered]), claim(), nowAt(WINDOW_MS, { us }))
    expect(decision.outcome).toEqual({ kind: 'dropped', leaseId: id(2) })
    expect(decision.events).toMatchObject([{ type: 'lease.failed', failure: 'lapsed' }])
  })

  it('keeps the wish of the request: metadata, limits, reason and arrival', () => {
    const wish = { metadata: { pr: 7 }, maxRenewals: 3, maxHoldMs: 50_000, reason: 'to edit' }
    const decision = decide(view([{ ...offered, ...wish }]), claim(), nowAt(40))
    expect(decision.outcome).toMatchObject({
      lease: { ...wish, createdAtMs: WALL_MS, grantedAtMs: WALL_MS + 40 },
    })
  })

  it('for a shared lease takes a new fence, above shared leases that were granted beside it', () => {
    const beside = lease({ mode: 'shared', fence: 2001 })
    const shared = { ...offered, mode: 'shared' } as const
    const lastFence = WALL_MS * 2000
    const { outcome } = decide(view([shared, beside], { lastFence }), claim(), nowAt(1))
    expect(outcome).toMatchObject({ kind: 'granted', lease: { fence: lastFence + 1 } })
  })

  it('is refused where it names another resource, of whose fences it would take one', () => {
    const elsewhere = claim({ resource: parseResource('work:W-2') })
    const { outcome, events } = decide(view([offered]), elsewhere, nowAt(1))
    expect(outcome).toEqual({ kind: 'not_found', leaseId: id(2) })
    expect(events).toEqual([])
  })
})

describe('taking up an offer that one was told of', () => {
  const takeUp: TakeUp = { ...claim(), kind: 'take_up' }

  it('is a claim that depends on nothing but its own ticket', () => {
    expect(readSetOf(takeUp).depth).toBe('entry')
    const decision = decide(view([offered]), takeUp, nowAt(WINDOW_MS, { us: -1 }))
    expect(decision.outcome).toMatchObject({
      ...{ kind: 'granted', repeated: false },
      lease: { fence: 2000, deadline: tickAt(WINDOW_MS + TTL_MS, { us: -1 }), holder: 'bob' },
    })
    expect(told(decision)).toEqual(['lease.issued 2'])
    expect(decision.validUntilUs).toBe(tickAt(WINDOW_MS).us)
  })

  it.each([
    ['there is no ticket', []],
    ['it has none', [ticket()]],
    ['its window is over', [ticket({ offer: { fence: 2000, deadline: tickAt(1) } })]],
    ['it is that of another session', [{ ...offered, session: 'another' }]],
    ['it is that of another holder', [{ ...offered, holder: 'eve' }]],
    ['it is shared, and others may have come beside it', [{ ...offered, mode: 'shared' as const }]],
    ['the ticket has failed', [{ ...offered, state: 'failed' as const }]],
    ['it became a lease before', [granted]],
  ])('comes to nothing, and changes nothing, if %s', (_why, entries) => {
    const decision = decide(view(entries), takeUp, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'no_offer', leaseId: id(2) })
    expect(decision.events).toEqual([])
  })
})

describe('a claim of a ticket', () => {
  it.each([
    ['the head of the queue is served as soon as nothing blocks it', [ticket()], 'granted'],
    ['a running lease keeps it waiting', [lease(), ticket()], 'queued'],
    ['a lease that is over does not', [lease({ deadline: tickAt(1) }), ticket()], 'granted'],
    [
      'an earlier ticket keeps it waiting',
      [ticket({ orderUs: 9 }), ticket({ id: id(4) })],
      'queued',
    ],
  ])('%s', (_, entries, kind) => {
    expect(decide(view(entries), claim(), nowAt(1)).outcome.kind).toBe(kind)
  })

  it('lives for another window when its waiter is heard of one tick before its end', () => {
    const decision = decide(view([lease(), ticket()]), claim(), nowAt(WINDOW_MS, { us: -1 }))
    expect(decision.outcome).toMatchObject({ kind: 'queued', position: 0 })
    expect(decision.events).toMatchObject([
      { type: 'lease.waiting', deadline: tickAt(2 * WINDOW_MS, { us: -1 }) },
    ])
  })

  it('is dropped when its waiter is heard of at the end of its window', () => {
    const decision = decide(view([lease(), ticket()]), claim(), nowAt(WINDOW_MS))
    expect(decision.outcome).toEqual({ kind: 'dropped', leaseId: id(2) })
    expect(decision.events).toMatchObject([{ type: 'lease.failed', failure: 'abandoned' }])
  })

  it('is dropped in another clock domain', () => {
    const moment = { domain: 'host-a/boot-2/0#2' }
    const decision = decide(view([ticket()]), claim(), nowAt(0, moment))
    expect(decision.outcome.kind).toBe('dropped')
  })

  it('says how far back in the queue it is', () => {
    const queue = [1, 2, 3].map((n) => ticket({ id: id(n + 1), orderUs: n, holder: `h${n}` }))
    const command = claim({ leaseId: id(4), session: 'session-of-h3' })
    const decision = decide(view([lease(), ...queue]), command, nowAt(1))
    expect(decision.outcome).toMatchObject({ kind: 'queued', position: 2, checkAfterMs: 1_666 })
  })

  it('leaves those before it time to act first when the blocker runs out', () => {
    const first = ticket({ orderUs: 0, holder: 'fay' })
    const second = ticket({ id: id(4), orderUs: 1 })
    const command = claim({ leaseId: id(4) })
    const decision = decide(
      view([lease({ deadline: tickAt(100) }), first, second]),
      command,
      nowAt(0),
    )
    expect(decision.outcome).toMatchObject({ kind: 'queued', position: 1, checkAfterMs: 150 })
  })

  it('of a subtree is served when nothing below is held any more', () => {
    const reach = { resource: file('/src'), extent: 'subtree' } as const
    const waiting = ticket(reach)
    const below = lease({ resource: file('/src/a.ts') })
    expect(decide(view([waiting, below]), claim(reach), nowAt(1)).outcome.kind).toBe('queued')
    expect(decide(view([waiting]), claim(reach), nowAt(1)).outcome.kind).toBe('granted')
  })
})

describe('a repeated claim', () => {
  it('finds the lease that the first one made', () => {
    const decision = decide(view([granted]), claim(), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'granted', lease: granted, repeated: true })
    expect(decision.events).toEqual([])
  })

  it('does not answer with a lease that is over', () => {
    const { outcome } = decide(view([granted]), claim(), nowAt(TTL_MS))
    expect(outcome).toEqual({ kind: 'expired', leaseId: id(2), terminatedAtMs: WALL_MS + TTL_MS })
  })

  it('hears that the lease was revoked', () => {
    const { outcome } = decide(view([{ ...granted, state: 'revoked' }]), claim(), nowAt(1))
    expect(outcome).toEqual({ kind: 'terminal', leaseId: id(2), state: 'revoked' })
  })
})

describe('a claim is refused', () => {
  it('when another session makes it', () => {
    const decision = decide(view([offered]), claim({ session: 'session-of-eve' }), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'not_holder', leaseId: id(2), holder: 'bob' })
    expect(decision.events).toEqual([])
  })

  it.each([
    ['holder', { holder: 'eve', session: 'session-of-bob' }],
    ['session', { holder: 'bob', session: 'another' }],
  ])('when its %s alone is another', (_, asker) => {
    const decision = decide(view([offered]), claim(asker), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'not_holder', leaseId: id(2), holder: 'bob' })
    expect(decision.events).toEqual([])
  })

  it('when nothing is known of the ticket', () => {
    expect(decide(view(), claim(), nowAt(1)).outcome).toEqual({ kind: 'dropped', leaseId: id(2) })
  })

  it.each([
    [id(2), { kind: 'terminal', leaseId: id(2), state: 'failed' }],
    [id(9), { kind: 'dropped', leaseId: id(2) }],
  ])(
    'when its id is that of a request that took ticket %s out of the queue',
    (leaseId, outcome) => {
      const prior = { leaseId, type: 'lease.failed' } as const
      expect(decide(view([], { prior }), claim(), nowAt(1)).outcome).toEqual(outcome)
    },
  )

  it.each([
    ['aborted', 'terminal'],
    ['timed_out', 'terminal'],
    ['abandoned', 'dropped'],
    ['lapsed', 'dropped'],
    ['denied', 'dropped'],
  ] as const)('after the ticket failed as %s: %s', (failure, kind) => {
    const failed = ticket({ state: 'failed', failure })
    const decision = decide(view([failed]), claim(), nowAt(1))
    expect(decision.outcome.kind).toBe(kind)
    expect(told(decision)).toEqual([])
  })

  it('after the ticket failed, whatever else is over there by then', () => {
    const failed = ticket({ state: 'failed', failure: 'abandoned' })
    const decision = decide(view([lease(), failed]), claim(), nowAt(TTL_MS))
    expect(decision.outcome.kind).toBe('dropped')
    expect(decision.events).toEqual([])
  })
})

describe('a keep-alive', () => {
  const own = { ...claim(), kind: 'keep_alive' } as const
  const waiting = ticket()

  it('lets its ticket live for another window, and looks at nothing else', () => {
    const { outcome, entries } = decide(view([waiting]), own, nowAt(WINDOW_MS - 1))
    expect(outcome).toMatchObject({ kind: 'waiting', waitedMs: WINDOW_MS - 1 })
    expect(entries.get(waiting.id)?.deadline).toEqual(tickAt(2 * WINDOW_MS - 1))
  })

  it.each([
    ['of another session', { ...own, session: 'another' }, waiting],
    ['of another holder', { ...own, holder: 'eve' }, waiting],
    ['for an offer', own, { ...waiting, offer: { fence: 7, deadline: tickAt(90_000) } }],
    ['for one of several', own, { ...waiting, group: id(9) }],
  ])('%s changes nothing: a claim tells how things stand', (_name, command, entry) => {
    const { outcome, events } = decide(view([entry]), command, nowAt(1))
    expect([outcome.kind, events]).toEqual(['claim_needed', []])
  })

  it.each([
    ['abandoned', 'dropped'],
    ['lapsed', 'dropped'],
    ['aborted', 'claim_needed'],
    ['denied', 'claim_needed'],
    ['deadlock', 'claim_needed'],
  ] as const)('of a ticket that failed as %s: %s', (failure, kind) => {
    const { outcome, events } = decide(view([ticket({ state: 'failed', failure })]), own, nowAt(1))
    expect([outcome.kind, events]).toEqual([kind, []])
  })

  it('at the end of the window is too late', () => {
    const { outcome, events } = decide(view([waiting]), own, nowAt(WINDOW_MS))
    expect([outcome.kind, events]).toEqual(['claim_needed', []])
  })
})
