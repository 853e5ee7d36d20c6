import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import { decide } from '../../src/core/decide.ts'
import {
  id,
  lease,
  nowAt,
  revoke,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WALL_MS,
  WINDOW_MS,
} from './builders.ts'

const waiting = ticket({ id: id(1) })
const OPERATOR = { by: 'operator', reason: null }

describe('a revocation', () => {
  it('ends the lease of whoever holds it, at once, and says by whom', () => {
    const decision = decide(view([lease()]), revoke({ requestId: 'r1' }), nowAt(300))
    expect(decision.outcome).toEqual({ kind: 'revoked', leaseId: id(1) })
    expect(decision.events).toMatchObject([
      {
        ...{ type: 'lease.revoked', by: 'operator', before: 'active', after: 'revoked' },
        ...{ atMs: WALL_MS + 300, reason: 'revoked by operator', requestId: 'r1' },
      },
    ])
  })

  it('keeps the words of the operator', () => {
    const decision = decide(view([lease()]), revoke({ reason: 'stuck' }), nowAt(1))
    expect(decision.events).toMatchObject([{ reason: 'stuck' }])
  })

  it('offers the resource to the next and wakes both', () => {
    const before = view([lease(), ticket()])
    const decision = decide(before, revoke(), nowAt(1))
    expect(told(decision)).toEqual(['lease.revoked 1', 'lease.offered 2'])
    expect(commitOf(before, decision).wakes).toEqual([
      { session: 'session-of-ada', leaseId: id(1) },
      { session: 'session-of-bob', leaseId: id(2) },
    ])
  })

  it('takes a waiter out of the queue and tells it', () => {
    const before = view([lease({ id: id(9) }), waiting])
    const decision = decide(before, revoke({ reason: 'not you' }), nowAt(1))
    expect(decision.outcome.kind).toBe('revoked')
    expect(decision.events).toMatchObject([
      { type: 'lease.failed', failure: 'aborted', reason: 'not you' },
    ])
    expect(commitOf(before, decision).wakes).toEqual([
      { session: 'session-of-bob', leaseId: id(1) },
    ])
  })

  it('passes an offer on when it takes the waiter that had it', () => {
    const offer = { fence: 2000, deadline: tickAt(WINDOW_MS) }
    const next = ticket({ id: id(4), holder: 'eve', orderUs: 5 })
    const decision = decide(view([{ ...waiting, offer }, next]), revoke(), nowAt(1))
    expect(told(decision)).toEqual(['lease.failed 1', 'lease.offered 4'])
  })
})

describe('a revocation comes', () => {
  it.each([
    ['one tick before the deadline', -1, 'revoked', ['lease.revoked 1']],
    ['at the deadline', 0, 'expired', ['lease.expired 1']],
  ] as const)('%s: %s', (_, us, kind, events) => {
    const decision = decide(view([lease()]), revoke(), nowAt(TTL_MS, { us }))
    expect(decision.outcome.kind).toBe(kind)
    expect(told(decision)).toEqual(events)
  })
})

describe('a revocation is refused', () => {
  it.each([
    ['nothing has this id', [], 'not_found'],
    ['the lease is released', [lease({ state: 'released' })], 'terminal'],
    ['the lease is revoked', [lease({ state: 'revoked' })], 'terminal'],
    ['the lease is expired', [lease({ state: 'expired' })], 'expired'],
    ['the wait has failed', [ticket({ id: id(1), state: 'failed' })], 'terminal'],
  ] as const)('when %s', (_, entries, kind) => {
    const decision = decide(view(entries), revoke(), nowAt(1))
    expect(decision.outcome.kind).toBe(kind)
    expect(decision.events).toEqual([])
  })
})

describe('a repeated revocation', () => {
  const command = revoke({ requestId: 'r1' })

  it.each([
    ['of a lease', [lease({ state: 'revoked' })], 'lease.revoked'],
    ['of a lease of which no history is kept', [], 'lease.revoked'],
    ['of a lease with a grace', [lease({ revoking: OPERATOR })], 'lease.revoking'],
    ['of a lease whose grace has passed', [lease({ state: 'revoked' })], 'lease.revoking'],
    ['of a waiter', [ticket({ id: id(1), state: 'failed' })], 'lease.failed'],
    ['of a waiter of which no history is kept', [], 'lease.failed'],
  ] as const)('%s has the first effect', (_, entries, type) => {
    const prior = { leaseId: id(1), type }
    const decision = decide(view(entries, { prior }), command, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'revoked', leaseId: id(1) })
    expect(decision.events).toEqual([])
  })

  it.each([
    ['another lease', { leaseId: id(9), type: 'lease.revoked' }],
    ['another command', { leaseId: id(1), type: 'lease.renewed' }],
  ] as const)('is refused when the id was used for %s', (_, prior) => {
    const decision = decide(view([lease()], { prior }), command, nowAt(1))
    expect(decision.outcome.kind).toBe('request_reused')
    expect(decision.events).toEqual([])
  })

  it('of a waiter carries its request id in the event', () => {
    const decision = decide(view([waiting]), command, nowAt(1))
    expect(decision.events.at(-1)).toMatchObject({ type: 'lease.failed', requestId: 'r1' })
  })
})
