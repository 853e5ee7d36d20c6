import { describe, expect, it } from 'vitest'
import { decide } from '../../src/core/decide.ts'
import {
  id,
  lease,
  nowAt,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WINDOW_MS,
  withdraw,
} from './builders.ts'

const granted = lease({ id: id(2), holder: 'bob' })

describe('a waiter that gives up', () => {
  it.each(['timed_out', 'aborted'] as const)('leaves a ticket that failed as %s', (why) => {
    const decision = decide(view([lease(), ticket()]), withdraw({ why }), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'withdrawn', released: false })
    expect(decision.events).toMatchObject([
      { type: 'lease.failed', before: 'pending', after: 'failed', failure: why, reason: why },
    ])
  })

  it('passes its offer on to the next in the same commit', () => {
    const offer = { fence: 2000, deadline: tickAt(WINDOW_MS) }
    const next = ticket({ id: id(4), holder: 'eve', orderUs: 5 })
    const decision = decide(view([ticket({ offer }), next]), withdraw(), nowAt(1))
    expect(told(decision)).toEqual(['lease.failed 2', 'lease.offered 4'])
  })

  it('releases the lease that its claim was given after it stopped listening', () => {
    const next = ticket({ id: id(4), holder: 'eve', deadline: tickAt(TTL_MS) })
    const decision = decide(view([granted, next]), withdraw(), nowAt(TTL_MS - 1))
    expect(decision.outcome).toEqual({ kind: 'withdrawn', released: true })
    expect(told(decision)).toEqual(['lease.released 2', 'lease.offered 4'])
    const reason = { releaseReason: 'aborted', reason: 'timed_out' }
    expect(decision.events[0]).toMatchObject({ before: 'active', after: 'released', ...reason })
  })

  it('has nothing to release at the deadline of that lease', () => {
    const decision = decide(view([granted]), withdraw(), nowAt(TTL_MS))
    expect(decision.outcome).toEqual({ kind: 'withdrawn', released: false })
    expect(told(decision)).toEqual(['lease.expired 2'])
  })

  it.each([
    ['its ticket is unknown', []],
    ['its ticket has failed', [ticket({ state: 'failed', failure: 'lapsed' })]],
    ['its lease was revoked', [{ ...granted, state: 'revoked' } as const]],
  ])('changes nothing when %s', (_, entries) => {
    const decision = decide(view(entries), withdraw(), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'withdrawn', released: false })
    expect(decision.events).toEqual([])
  })

  it.each([
    ['ticket', ticket()],
    ['lease', granted],
  ])('cannot give up the %s of another session', (_, entry) => {
    const command = withdraw({ session: 'session-of-eve' })
    const decision = decide(view([entry]), command, nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'not_holder', leaseId: id(2), holder: 'bob' })
    expect(decision.events).toEqual([])
  })

  it.each([
    ['holder', { holder: 'eve', session: 'session-of-bob' }],
    ['session', { holder: 'bob', session: 'another' }],
  ])('changes nothing when its %s alone is another', (_, asker) => {
    for (const entry of [ticket(), granted]) {
      const decision = decide(view([entry]), withdraw(asker), nowAt(1))
      expect(decision.outcome).toEqual({ kind: 'not_holder', leaseId: id(2), holder: 'bob' })
      expect(decision.events).toEqual([])
    }
  })
})
