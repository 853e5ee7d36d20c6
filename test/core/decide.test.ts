/** What a store must read for each command, and how what it has read is seen. */
import { describe, expect, it } from 'vitest'
import type { Command, Derive } from '../../src/core/command.ts'
import { decide, readSetOf, readSetsOf, viewOf } from '../../src/core/decide.ts'
import type { ReadSet } from '../../src/core/realm.ts'
import { parseResource } from '../../src/core/resource.ts'
import { NO_SCOPE } from '../../src/core/scope.ts'
import {
  acquire,
  adopt,
  claim,
  downgrade,
  id,
  lease,
  nowAt,
  refuseDeadlock,
  release,
  renew,
  revoke,
  settle,
  tickAt,
  transfer,
  trespass,
  upgrade,
  view,
  withdraw,
  withdrawUpgrade,
  WORK,
} from './builders.ts'

const { kind: _kind, ...WAITER } = claim()

describe('what is read for', () => {
  it.each<[string, Command, Partial<ReadSet>]>([
    ['a request', acquire(), { depth: 'claims', requestId: id(3) }],
    [
      'a request of a session that does several things',
      acquire({ sequential: false }),
      { depth: 'claims', requestId: id(3) },
    ],
    [
      'a request of a session that does one thing after another',
      acquire({ sequential: true }),
      { depth: 'claims', requestId: id(3), isWhole: true },
    ],
    ['a claim', claim(), { depth: 'claims', requestId: id(2), urgency: 'place' }],
    ['a keep-alive', { ...WAITER, kind: 'keep_alive' }, { depth: 'entry', urgency: 'place' }],
    [
      'the taking up of an offer',
      { ...WAITER, kind: 'take_up' },
      { depth: 'entry', urgency: 'place' },
    ],
    ['a withdrawal', withdraw(), { depth: 'claims', requestId: id(2) }],
    ['the refusal of a deadlock', refuseDeadlock(), { depth: 'claims' }],
    [
      'a renewal',
      renew({ requestId: id(9) }),
      { depth: 'entry', requestId: id(9), urgency: 'lease' },
    ],
    ['a release', release({ requestId: id(9) }), { depth: 'claims', requestId: id(9) }],
    ['a revocation', revoke(), { depth: 'claims' }],
    ['an upgrade', upgrade({ sequential: true }), { depth: 'claims' }],
    ['the withdrawal of an upgrade', withdrawUpgrade(), { depth: 'claims' }],
    ['a downgrade', downgrade(), { depth: 'claims' }],
    ['a transfer', transfer(), { depth: 'claims' }],
    ['an adoption', adopt(), { depth: 'claims' }],
    ['a sweep', settle(), { depth: 'claims' }],
    ['a trespass', trespass(), { depth: 'entry' }],
  ])('%s', (_, command, expected) => {
    const { leaseId, resource, extent } = command
    const read = readSetOf(command)
    expect(read).toStrictEqual({ leaseId, resource, extent, requestId: null, ...expected })
  })

  it('a transfer to a holder is also what has the id that its lease will have', () => {
    expect(readSetsOf(transfer({ requestId: id(9) }))).toMatchObject([
      { leaseId: id(1), depth: 'claims', requestId: id(9) },
      { leaseId: id(6), depth: 'entry', requestId: null },
    ])
  })
})

describe('what was read', () => {
  it('in one place is seen as it is, with what was left out and what is not there', () => {
    const one = view([lease()], { leftOut: 3, absent: new Set([id(5)]) })
    expect(viewOf([one])).toBe(one)
  })

  it('in two places has the epoch of the first, from which a derived lease goes on', () => {
    const flow = parseResource('workflow:order-991')
    const parent = lease({ resource: flow, epoch: 5 })
    const derive: Derive = {
      ...{ kind: 'derive', leaseId: id(5), parentId: id(1), by: 'ada', ttlMs: 1_000 },
      ...{ resource: flow, extent: 'exact', mode: 'shared', holder: 'cyd', session: 'cyds' },
      ...{ scope: NO_SCOPE, budget: {}, reason: null },
    }
    const seen = viewOf([view([], { epoch: 8 }), view([parent], { epoch: 2 })])
    const { outcome } = decide(seen, derive, nowAt(1))
    expect(outcome).toMatchObject({ kind: 'granted', lease: { id: id(5), epoch: 8 } })
  })
})

describe('a sweep counts the leases that it has found expired', () => {
  const asked = { by: 'op', reason: null }
  const delayed = { state: 'expired', lockDelayMs: 500 } as const
  const elsewhere = tickAt(400, { domain: 'host-b/boot-1/0#1' })
  it.each([
    ['not one that was revoked with a grace', { revoking: asked }, 'lease.revoked', 0],
    [
      'not one that expired before, and whose lock delay starts again',
      { ...delayed, deadline: elsewhere, lockedUntil: elsewhere },
      'lease.expired',
      0,
    ],
    ['one whose time is over', {}, 'lease.expired', 1],
  ])('%s', (_, change, type, expired) => {
    const held = lease({ resource: WORK, ...change })
    const { outcome, events } = decide(view([held]), settle(), nowAt(10_000))
    expect(events).toMatchObject([{ type }])
    expect(outcome).toEqual({ kind: 'settled', expired })
  })
})
