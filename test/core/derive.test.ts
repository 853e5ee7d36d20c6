import { describe, expect, it } from 'vitest'
import type { Derive, Spend } from '../../src/core/command.ts'
import { decide, footprintOf, footprintsOf } from '../../src/core/decide.ts'
import type { Delegation } from '../../src/core/delegation.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import type { Lease } from '../../src/core/lease.ts'
import { NO_SCOPE } from '../../src/core/scope.ts'
import {
  id,
  lease,
  nowAt,
  release,
  renew,
  revoke,
  tickAt,
  ticket,
  told,
  TTL_MS,
  view,
  WORK,
  type Moment,
} from './builders.ts'

function derive(change: Partial<Derive> = {}): Derive {
  return {
    kind: 'derive',
    leaseId: id(5),
    parentId: id(1),
    resource: WORK,
    extent: 'exact',
    mode: 'shared',
    holder: 'cyd',
    session: 'session-of-cyd',
    by: 'ada',
    ttlMs: 1_000,
    scope: NO_SCOPE,
    budget: {},
    reason: null,
    ...change,
  }
}

function spend(change: Partial<Spend> = {}): Spend {
  const place = { leaseId: id(5), resource: WORK, extent: 'exact', holder: 'cyd' } as const
  return { kind: 'spend', ...place, amounts: { tokens: 1 }, requestId: null, ...change }
}

function account(change: Partial<Delegation> = {}): Delegation {
  return { ...ROOT_DELEGATION, ...change }
}

/** Cyd's lease, derived from Ada's. */
function child(change: Partial<Lease> = {}, delegation: Partial<Delegation> = {}): Lease {
  const own = account({ line: [id(1)], rootFence: 1000, scope: NO_SCOPE, ...delegation })
  const whose = { id: id(5), holder: 'cyd', mode: 'shared', fence: 1001 } as const
  return lease({ ...whose, deadline: tickAt(5_000), delegation: own, ...change })
}

function parent(delegation: Partial<Delegation> = {}): Lease {
  return lease({ delegation: account({ children: [id(5)], ...delegation }) })
}

interface Case {
  readonly at: number
  readonly ttlMs: number | null
  readonly moment?: Moment
  readonly kind: string
}

describe('a derivation', () => {
  it.each<Case>([
    { at: 4_000, ttlMs: 6_000, kind: 'granted' },
    { at: 4_000, ttlMs: 6_001, kind: 'invalid_derivation' },
    { at: 4_000, ttlMs: 6_000, moment: { us: 1 }, kind: 'invalid_derivation' },
    { at: 4_000, ttlMs: 6_000, moment: { toleranceUs: 1 }, kind: 'invalid_derivation' },
    { at: TTL_MS - 1, ttlMs: 1, kind: 'granted' },
    { at: TTL_MS, ttlMs: 1, kind: 'expired' },
    { at: 4_000, ttlMs: null, kind: 'granted' },
  ])('at $at for $ttlMs ms is $kind', ({ at, ttlMs, moment, kind }) => {
    const now = nowAt(at, moment)
    const { outcome } = decide(view([lease()]), derive({ ttlMs }), now)
    expect(outcome.kind).toBe(kind)
    if (outcome.kind !== 'granted') return
    expect(outcome.lease.deadline.us).toBeLessThanOrEqual(tickAt(TTL_MS).us)
  })

  it('is one commit: the child, and the account of its parent', () => {
    const limits = { tokens: 10 }
    const entries = [lease({ delegation: account({ limits }) })]
    const decision = decide(view(entries), derive({ budget: { tokens: 4 } }), nowAt(1))
    expect(told(decision)).toEqual(['lease.issued 5', 'lease.accounted 1'])
    expect(decision.entries.get(id(1))?.delegation).toMatchObject({
      used: { tokens: 4 },
      children: [id(5)],
    })
  })

  it.each([
    ['a stranger', { by: 'eve' }, 'not_holder'],
    ['an unknown parent', { parentId: id(9) }, 'not_found'],
    ['an id in use', { leaseId: id(2) }, 'id_taken'],
  ] as const)('by %s changes nothing', (_who, change, kind) => {
    const decision = decide(view([lease(), ticket()]), derive(change), nowAt(1))
    expect([decision.outcome.kind, told(decision)]).toEqual([kind, []])
  })

  it('reads its place, and the parent by its id', () => {
    expect(footprintsOf(derive())).toMatchObject([
      { leaseId: id(5), requestId: id(5), depth: 'claims' },
      { leaseId: id(1), requestId: null, depth: 'entry' },
    ])
  })
})

describe('a spending', () => {
  it.each([
    [4_999, 'spent'],
    [5_000, 'expired'],
  ])('at %i is %s', (at, kind) => {
    const entries = [child({}, { limits: { tokens: 1 } })]
    expect(decide(view(entries), spend(), nowAt(at)).outcome.kind).toBe(kind)
  })

  it.each([
    [0, 'spent'],
    [1, 'budget_exhausted'],
  ])('of the last one when %i are used is %s', (tokens, kind) => {
    const entries = [child({}, { limits: { tokens: 1 }, used: { tokens } })]
    const decision = decide(view(entries), spend(), nowAt(1))
    expect(decision.outcome.kind).toBe(kind)
    expect(told(decision)).toEqual(kind === 'spent' ? ['lease.accounted 5'] : [])
  })

  it('looks at its own entry and nothing else', () => {
    expect(footprintOf(spend()).depth).toBe('entry')
  })
})

describe('a derived lease', () => {
  it('is not renewed before its parent was looked at', () => {
    const command = renew({ leaseId: id(5), holder: 'cyd' })
    const alone = decide(view([child()]), command, nowAt(1_000))
    expect(alone.outcome).toEqual({ kind: 'look_further', leaseIds: [id(1)] })
    expect(told(alone)).toEqual([])
    const { outcome } = decide(view([child(), parent()]), command, nowAt(1_000))
    expect(outcome).toMatchObject({ kind: 'renewed', lease: { deadline: tickAt(TTL_MS) } })
  })

  it('that nobody has read keeps its parent from ending', () => {
    for (const command of [
      release({ leaseId: id(1), holder: 'ada' }),
      revoke({ leaseId: id(1) }),
    ]) {
      const decision = decide(view([parent()]), command, nowAt(1))
      expect(decision.outcome).toEqual({ kind: 'look_further', leaseIds: [id(5)] })
      expect(told(decision)).toEqual([])
    }
  })

  it('ends before its parent does, in the same commit', () => {
    const entries = [parent(), child()]
    const command = release({ leaseId: id(1), holder: 'ada' })
    expect(told(decide(view(entries), command, nowAt(1)))).toEqual([
      'lease.revoked 5',
      'lease.accounted 1',
      'lease.released 1',
    ])
  })
})
