import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import type { Advance } from '../../src/core/command.ts'
import { decide, readSetOf } from '../../src/core/decide.ts'
import { evolve } from '../../src/core/evolve.ts'
import type { Lease } from '../../src/core/lease.ts'
import { refusalError, type Refusal } from '../../src/core/outcome.ts'
import type { PriorEffect } from '../../src/core/realm.ts'
import { parseResource } from '../../src/core/resource.ts'
import { id, lease, nowAt, view } from './builders.ts'

const FLOW = parseResource('workflow:order-991')
const REQUEST = id(50)

function flow(change: Partial<Lease> = {}): Lease {
  return lease({ resource: FLOW, epoch: 5, ...change })
}

function advance(change: Partial<Advance> = {}): Advance {
  return {
    kind: 'advance',
    leaseId: id(1),
    resource: FLOW,
    extent: 'exact',
    holder: 'ada',
    from: 5,
    count: 1,
    reason: null,
    requestId: REQUEST,
    ...change,
  }
}

describe('an advance', () => {
  it('uses up the next epochs, in one event that says which, and by itself changes nothing else', () => {
    const held = flow()
    const { outcome, events, entries } = decide(view([held]), advance({ count: 3 }), nowAt(7))
    const after = { ...held, epoch: 8 }
    expect(outcome).toEqual({ kind: 'advanced', lease: after, from: 5, to: 8 })
    expect(events).toMatchObject([
      {
        type: 'lease.advanced',
        from: 5,
        to: 8,
        before: 'active',
        after: 'active',
        requestId: REQUEST,
      },
    ])
    const [event] = events
    if (event === undefined) throw new Error('no event')
    expect(evolve(new Map([[held.id, held]]), event)).toEqual(entries)
  })

  it('is remembered apart from the lease and from the ledger', () => {
    const held = flow({ recorded: false })
    const decision = decide(view([held]), advance({ count: 3 }), nowAt(7))
    const commit = commitOf(view([held]), decision)
    expect(commit).toMatchObject({ events: [], epochs: [{ resource: FLOW, epoch: 8 }] })
  })

  it('depends on its own entry alone', () => {
    expect(readSetOf(advance())).toMatchObject({ depth: 'entry', requestId: REQUEST })
  })

  it.each<[string, Lease, Partial<Advance>, number, Refusal['kind'], string]>([
    ['behind the epoch', flow(), { from: 4 }, 0, 'stale_epoch', 'STALE_EPOCH'],
    ['ahead of the epoch', flow(), { from: 6 }, 0, 'stale_epoch', 'STALE_EPOCH'],
    ['at the deadline tick', flow(), {}, 10_000, 'expired', 'LEASE_EXPIRED'],
    ['of another holder', flow(), { holder: 'bob' }, 0, 'not_holder', 'NOT_HOLDER'],
    ['of an unknown lease', flow(), { leaseId: id(9) }, 0, 'not_found', 'LEASE_NOT_FOUND'],
    ['after a release', flow({ state: 'released' }), {}, 0, 'terminal', 'LEASE_TERMINAL'],
    ['after a revocation', flow({ state: 'revoked' }), {}, 0, 'terminal', 'LEASE_TERMINAL'],
    ['of a shared lease', flow({ mode: 'shared' }), {}, 0, 'no_epoch', 'INVALID_INPUT'],
    ['of no workflow', lease({ epoch: 5 }), {}, 0, 'no_epoch', 'INVALID_INPUT'],
  ])('%s is refused and changes nothing', (_, held, change, atMs, kind, code) => {
    const { outcome, events } = decide(view([held]), advance(change), nowAt(atMs))
    expect(outcome.kind).toBe(kind)
    expect(events).toEqual([])
    expect(refusalError(outcome as Refusal).code).toBe(code)
  })

  it('is allowed one tick before the deadline, and within the grace of a revocation', () => {
    expect(decide(view([flow()]), advance(), nowAt(9_999)).outcome.kind).toBe('advanced')
    const revoking = flow({ revoking: { by: 'ops', reason: null } })
    expect(decide(view([revoking]), advance(), nowAt(9_999)).outcome.kind).toBe('advanced')
  })

  it('that is repeated has one effect, and its range, even when the lease has ended since', () => {
    const prior: PriorEffect = { leaseId: id(1), type: 'lease.advanced' }
    for (const held of [flow({ epoch: 9 }), flow({ epoch: 9, state: 'released' })]) {
      const decision = decide(view([held], { prior }), advance({ count: 2 }), nowAt(1))
      expect(decision.outcome).toEqual({ kind: 'advanced', lease: held, from: 5, to: 7 })
      expect(decision.events).toEqual([])
    }
    const other: PriorEffect = { leaseId: id(1), type: 'lease.renewed' }
    const { outcome } = decide(view([flow()], { prior: other }), advance(), nowAt(1))
    expect(outcome.kind).toBe('request_reused')
  })

  it('says in one line what was expected and what came', () => {
    const { outcome } = decide(view([flow()]), advance({ from: 3 }), nowAt(0))
    expect(refusalError(outcome as Refusal).message).toBe('from must be the next epoch, 5, got 3')
    const plain = decide(view([lease()]), advance(), nowAt(0)).outcome
    expect(refusalError(plain as Refusal).message).toBe(
      `leaseId must be of a workflow, got ${id(1)}`,
    )
    const shared = decide(view([flow({ mode: 'shared' })]), advance(), nowAt(0)).outcome
    expect(refusalError(shared as Refusal).message).toBe(
      `leaseId must be of a workflow that nobody shares, got ${id(1)}`,
    )
  })
})
