import { describe, expect, it } from 'vitest'
import type { Command, Derive, Spend } from '../../src/core/command.ts'
import { decide, decideSeveral, readSetOf, readSetsOf } from '../../src/core/decide.ts'
import type { Delegation } from '../../src/core/delegation.ts'
import { ROOT_DELEGATION, rootOf } from '../../src/core/delegation.ts'
import type { Lease, LeaseId } from '../../src/core/lease.ts'
import type { NeedsMoreReads } from '../../src/core/outcome.ts'
import { decideReleaseAll } from '../../src/core/release.ts'
import { parseResource } from '../../src/core/resource.ts'
import { NO_SCOPE, parseScope } from '../../src/core/scope.ts'
import {
  acquire,
  acquireAll,
  downgrade,
  id,
  lease,
  nowAt,
  release,
  renew,
  revoke,
  settle,
  tickAt,
  ticket,
  told,
  transfer,
  TTL_MS,
  upgrade,
  view,
  WAITING,
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

const OTHER = parseResource('work:W-2')

function ids(count: number): readonly LeaseId[] {
  return Array.from({ length: count }, (_, index) => id(100 + index))
}

/** What is granted for the first time. */
function derived(entries: readonly Lease[], command: Derive): Lease | null {
  const { outcome } = decide(view(entries), command, nowAt(0))
  return outcome.kind === 'granted' && !outcome.repeated ? outcome.lease : null
}

function lookingFor(leaseId: LeaseId): NeedsMoreReads {
  return { kind: 'look_further', unseen: [{ leaseId, resource: WORK }] }
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

  const own = { scope: parseScope({ tools: ['edit'] }), audience: 'ci' }
  const generous = lease({
    mode: 'shared',
    delegation: account({ ...own, limits: { tokens: 5 }, used: { tokens: 2 } }),
  })
  const least = { ...own, budget: { tokens: 3 } }
  it.each<[string, Lease, Partial<Derive>, string]>([
    ['elsewhere', generous, { ...least, resource: OTHER }, 'resource must be within work:W-1'],
    [
      'to be alone',
      generous,
      { ...least, mode: 'exclusive' },
      'mode must be shared, as that of its parent',
    ],
    [
      'for longer',
      generous,
      { ...least, ttlMs: TTL_MS + 1 },
      'ttlMs must end no later than the parent, got 10001',
    ],
    [
      'for more',
      generous,
      { ...least, scope: parseScope({ tools: ['edit', 'shell'] }) },
      'scope must be within that of its parent',
    ],
    [
      'for another verifier',
      generous,
      { ...least, audience: 'cd' },
      'audience must be ci, as that of its parent',
    ],
    [
      'with more than is left',
      generous,
      { ...least, budget: { tokens: 4 } },
      'tokens must be at most 3, got 4',
    ],
    [
      'without a limit',
      generous,
      { ...least, budget: {} },
      'tokens must be at most 3, got no limit',
    ],
    [
      'of a share that is counted',
      lease({ mode: 'shared', slots: 2 }),
      {},
      'a lease of a counted resource cannot be derived from',
    ],
    [
      'too far down',
      lease({ delegation: account({ line: ids(16) }) }),
      {},
      'at most 16 derivations may follow each other',
    ],
    [
      'one too many',
      lease({ delegation: account({ children: ids(64) }) }),
      {},
      'at most 64 children may live',
    ],
  ])('%s says what it may be', (_, from, change, problem) => {
    const { outcome, events } = decide(view([from]), derive(change), nowAt(0))
    expect(outcome).toMatchObject({ kind: 'invalid_derivation', leaseId: id(1), problem })
    expect(events).toEqual([])
  })

  it.each([
    ['all that its parent has left', generous, least],
    ['the last that may be derived', lease({ delegation: account({ line: ids(15) }) }), {}],
    ['the last child', lease({ delegation: account({ children: ids(63) }) }), {}],
  ])('may be %s', (_, from, change) => {
    expect(decide(view([from]), derive(change), nowAt(0)).outcome.kind).toBe('granted')
  })

  it('tells its child whose it is, for whom it was asked, and nothing that was not said', () => {
    const asked = derive({ tokenName: 'ci', audience: 'deployer', budget: { tokens: 4 } })
    const named = derived([lease()], asked)
    expect(named).toMatchObject({ state: 'active', breakable: false, tokenName: 'ci' })
    const root = { line: [id(1)], rootFence: 1000, scope: NO_SCOPE, used: {}, children: [] }
    const limits = { tokens: 4 }
    expect(named?.delegation).toStrictEqual({ ...root, limits, audience: 'deployer' })
    const plain = derived([lease({ mode: 'shared' })], derive())
    expect(plain).not.toHaveProperty('tokenName')
    expect(plain?.delegation).toStrictEqual({ ...root, limits: {}, rootMode: 'shared' })
  })

  it.each(['exclusive', 'shared'] as const)('of a derivation acts for the %s root', (mode) => {
    const elder = lease({ ...parent(), mode })
    const rootMode = mode === 'shared' ? { rootMode: mode } : {}
    const between = child({}, rootMode)
    const command = derive({ leaseId: id(6), parentId: id(5), by: 'cyd' })
    const grandchild = derived([elder, between], command)
    expect(grandchild?.delegation?.line).toEqual([id(1), id(5)])
    const root = { id: id(1), fence: 1000, mode }
    const roots = [elder, between, grandchild].map((each) => each && rootOf(each))
    expect(roots).toEqual([null, root, root])
  })

  it('debits its parent where that has a limit, and nowhere else', () => {
    const limited = lease({ delegation: account({ limits: { tokens: 10 } }) })
    const command = derive({ budget: { tokens: 4, toolCalls: 2 } })
    const { entries, events } = decide(view([limited]), command, nowAt(1))
    expect(entries.get(id(5))?.delegation?.limits).toEqual({ tokens: 4, toolCalls: 2 })
    expect(entries.get(id(1))?.delegation?.used).toEqual({ tokens: 4 })
    expect(events.at(-1)).toMatchObject({ change: { kind: 'derived', amounts: { tokens: 4 } } })
  })

  it('passes those who wait for the resource, because it ends with its parent', () => {
    const waiting = ticket({ orderUs: -99 })
    const decision = decide(view([lease(), waiting]), derive(), nowAt(1))
    expect(told(decision)).toEqual(['lease.issued 5', 'lease.accounted 1'])
  })

  it('beside one that is alone is refused, and says for how long', () => {
    const alone = child({ id: id(7), mode: 'exclusive', deadline: tickAt(3_001) })
    const elder = parent({ children: [id(7)] })
    const { outcome, events } = decide(view([elder, alone]), derive(), nowAt(1))
    expect(outcome).toMatchObject({
      ...{ kind: 'held', resource: WORK, blockers: [{ leaseId: id(7) }] },
      ...{ retryAfterMs: 3_000, notWaiting: 'not_asked' },
    })
    expect(events).toEqual([])
  })

  it.each<[string, Partial<Lease>, Partial<Delegation>, string]>([
    ['the very same', {}, {}, 'granted'],
    ['the very same, which has ended', { state: 'released' }, {}, 'terminal'],
    ['of another holder', { holder: 'eve', session: 'session-of-cyd' }, {}, 'id_taken'],
    ['of another session', { session: 'another' }, {}, 'id_taken'],
    ['of another parent', {}, { line: [id(8)] }, 'id_taken'],
  ])('is asked for again: %s', (_whose, change, delegation, kind) => {
    const entries = [parent(), child(change, delegation)]
    const { outcome, events } = decide(view(entries), derive(), nowAt(1))
    expect([outcome.kind, events]).toEqual([kind, []])
    if (outcome.kind === 'granted') expect(outcome.repeated).toBe(true)
  })

  it('under an id whose lease has ended, of which no history was kept, does not come back', () => {
    const prior = { leaseId: id(5), type: 'lease.released' } as const
    const { outcome, events } = decide(view([lease()], { prior }), derive(), nowAt(1))
    expect(outcome).toEqual({ kind: 'terminal', leaseId: id(5), state: 'released' })
    expect(events).toEqual([])
  })

  it('reads its place, and the parent by its id', () => {
    expect(readSetsOf(derive())).toMatchObject([
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
    expect(readSetOf(spend()).depth).toBe('entry')
  })
})

describe('a derived lease', () => {
  it('is not renewed before its parent was looked at', () => {
    const command = renew({ leaseId: id(5), holder: 'cyd' })
    const alone = decide(view([child()]), command, nowAt(1_000))
    expect(alone.outcome).toEqual(lookingFor(id(1)))
    expect(told(alone)).toEqual([])
    const { outcome } = decide(view([child(), parent()]), command, nowAt(1_000))
    expect(outcome).toMatchObject({ kind: 'renewed', lease: { deadline: tickAt(TTL_MS) } })
  })

  it.each<readonly [string, Command, number]>([
    ['release', release({ leaseId: id(1), holder: 'ada' }), 1],
    ['revocation', revoke({ leaseId: id(1) }), 1],
    ['revocation with a grace', revoke({ leaseId: id(1), graceMs: 100 }), 1],
    ['transfer', transfer({ leaseId: id(1), holder: 'ada', to: 'bob', newLeaseId: id(7) }), 1],
    ['expiry, which a stranger notices', acquire({ leaseId: id(2), holder: 'bob' }), TTL_MS],
    ['expiry, which a sweep notices', settle({ leaseId: id(1) }), TTL_MS],
    ['expiry, which its holder notices', release({ leaseId: id(1), holder: 'ada' }), TTL_MS],
  ])('that nobody has read keeps its parent from its end: %s', (_how, command, at) => {
    const decision = decide(view([parent()]), command, nowAt(at))
    expect(decision.outcome).toEqual(lookingFor(id(5)))
    expect([told(decision), decision.firstFence, decision.wakes]).toEqual([[], 0, []])
    const again = decide(view([parent(), child()]), command, nowAt(at))
    expect(again.outcome.kind).not.toBe('look_further')
    expect(told(again).some((event) => event.endsWith(' 5'))).toBe(true)
  })

  it('that nobody has read is looked for under one that was', () => {
    const between = child({}, { children: [id(6)] })
    const decision = decide(view([parent(), between]), settle({ leaseId: id(1) }), nowAt(TTL_MS))
    expect(decision.outcome).toEqual(lookingFor(id(6)))
  })

  it('that nobody has read keeps its parent from being asked to finish', () => {
    const asking = acquire({ leaseId: id(2), holder: 'bob', ...WAITING, breakGraceMs: 100 })
    const breakable = lease({ ...parent(), breakable: true })
    expect(decide(view([breakable]), asking, nowAt(1)).outcome).toEqual(lookingFor(id(5)))
    const { entries } = decide(view([breakable, child()]), asking, nowAt(1))
    expect(entries.get(id(5))).toMatchObject({ deadline: tickAt(101) })
  })

  it('that nobody has read keeps nothing of its parent from those who leave it alone', () => {
    const commands = [acquire({ leaseId: id(2), holder: 'bob' }), settle({ leaseId: id(1) })]
    const outcomes = commands.map((command) => decide(view([parent()]), command, nowAt(1)).outcome)
    expect(outcomes.map(({ kind }) => kind)).toEqual(['held', 'settled'])
  })

  it.each([
    ['an earlier boot of this host', 'host-a/boot-0/0#1', 1_000],
    ['another host, whose holders may count on', 'host-b/boot-1/0#1', TTL_MS + 1_000 - 1],
  ])('ends with its parent when both were counted by %s', (_whose, domain, retryAfterMs) => {
    const deadline = tickAt(5_000, { domain })
    const elder = lease({ ...parent(), deadline, lockDelayMs: 1_000 })
    const stranger = acquire({ leaseId: id(2), holder: 'bob' })
    expect(decide(view([elder]), stranger, nowAt(1)).outcome).toEqual(lookingFor(id(5)))
    const decision = decide(view([elder, child({ deadline })]), stranger, nowAt(1))
    expect(told(decision).slice(0, 3)).toEqual([
      ...['lease.expired 5', 'lease.accounted 1', 'lease.expired 1'],
    ])
    // The lock delay of the parent covers all that the child had.
    const { id: leaseId } = elder
    const blockers = [{ kind: 'lock_delay', leaseId }]
    expect(decision.outcome).toMatchObject({ kind: 'held', retryAfterMs, blockers })
  })

  it('keeps several from ending where one of them needs a look', () => {
    const other = lease({ id: id(2), resource: OTHER })
    const members = [
      release({ leaseId: id(1), holder: 'ada' }),
      release({ leaseId: id(2), resource: OTHER, holder: 'ada' }),
    ]
    const together = { kind: 'release_all', members } as const
    const views = [view([parent()]), view([other])]
    const decision = decideReleaseAll(views, together, nowAt(1))
    expect([decision.outcome, told(decision)]).toEqual([lookingFor(id(5)), []])
    const all = acquireAll([{ leaseId: id(3) }, { leaseId: id(4), resource: OTHER }])
    const asked = decideSeveral([view([parent()]), view()], all, nowAt(TTL_MS))
    expect([asked.outcome, told(asked)]).toEqual([lookingFor(id(5)), []])
  })

  it.each([
    ['nobody asked for', null, 'lease.expired 5', 'expired'],
    ['somebody asked for', { by: 'operator', reason: 'enough' }, 'lease.revoked 5', 'revoked'],
  ] as const)(
    'whose time is over ended then, by an end that %s',
    (_whose, revoking, told5, state) => {
      const asked = { by: 'operator', reason: null }
      const elder = lease({ ...parent(), revoking: asked, deadline: tickAt(6_000) })
      const over = child({ revoking, expiresAtMs: nowAt(5_000).wallMs })
      const decision = decide(view([elder, over]), settle({ leaseId: id(1) }), nowAt(7_000))
      expect(told(decision)).toEqual([told5, 'lease.accounted 1', 'lease.revoked 1'])
      const { wallMs: terminatedAtMs } = nowAt(5_000)
      expect(decision.entries.get(id(5))).toMatchObject({ state, terminatedAtMs })
      const event = decision.events[0]
      if (revoking !== null) expect(event).toMatchObject({ ...revoking })
    },
  )

  it('gives back to a parent that nobody has read only after a look at it', () => {
    const command = release({ leaseId: id(5), holder: 'cyd' })
    const alone = decide(view([child({}, { limits: { tokens: 4 } })]), command, nowAt(1))
    expect([alone.outcome, told(alone)]).toEqual([lookingFor(id(1)), []])
  })

  it('waits for no relative that was looked for and is not there', () => {
    const absent = new Set([id(1), id(5)])
    const command = release({ leaseId: id(1), holder: 'ada' })
    expect(told(decide(view([parent()], { absent }), command, nowAt(1)))).toEqual([
      'lease.released 1',
    ])
    const orphan = decide(view([child()], { absent }), settle({ leaseId: id(5) }), nowAt(5_000))
    expect(told(orphan)).toEqual(['lease.expired 5'])
  })

  it.each([
    ['shared', 'invalid_derivation', []],
    ['exclusive', 'upgraded', ['lease.upgraded 5']],
  ] as const)('of a %s parent asks to be alone: %s', (mode, kind, events) => {
    const entries = [lease({ ...parent(), mode }), child()]
    const command = upgrade({ leaseId: id(5), holder: 'cyd' })
    const decision = decide(view(entries), command, nowAt(1))
    expect([decision.outcome.kind, told(decision)]).toEqual([kind, events])
    if (kind !== 'invalid_derivation') return
    expect(decision.outcome).toEqual({
      ...{ kind, leaseId: id(5), problem: 'mode must be shared, as that of its parent' },
    })
  })

  it.each([
    ['is alone', child({ mode: 'exclusive' }), 'invalid_derivation'],
    ['wishes to be alone', child({ upgrading: true }), 'invalid_derivation'],
    ['shares', child(), 'downgraded'],
    ['has ended', child({ state: 'released', mode: 'exclusive' }), 'downgraded'],
  ] as const)('that %s, and a parent that is to share: %s', (_what, derived, kind) => {
    const command = downgrade({ leaseId: id(1), holder: 'ada' })
    const { outcome } = decide(view([parent(), derived]), command, nowAt(1))
    expect(outcome.kind).toBe(kind)
    if (kind === 'invalid_derivation') {
      const problem = `mode must be exclusive, as that of lease ${id(5)} that was derived from it`
      expect(outcome).toEqual({ kind, leaseId: id(1), problem })
    }
    expect(decide(view([parent()]), command, nowAt(1)).outcome).toEqual(lookingFor(id(5)))
  })

  it.each([null, 'eve'])('is not transferred, to %s', (to) => {
    const command = transfer({ leaseId: id(5), holder: 'cyd', to })
    const { outcome, events } = decide(view([parent(), child()]), command, nowAt(1))
    const problem = 'a derived lease cannot be transferred; its parent can derive another'
    expect(outcome).toEqual({ kind: 'invalid_derivation', leaseId: id(5), problem })
    expect(events).toEqual([])
  })

  it('ends before its parent does, in the same commit, and is told why', () => {
    const entries = [parent(), child()]
    const command = release({ leaseId: id(1), holder: 'ada' })
    const decision = decide(view(entries), command, nowAt(1))
    expect(told(decision)).toEqual(['lease.revoked 5', 'lease.accounted 1', 'lease.released 1'])
    const reason = `its parent ${id(1)} has ended`
    expect(decision.events[0]).toMatchObject({ by: 'its parent', reason })
  })

  it.each([
    ['later than', 5_001, ['lease.revoking 1', 'lease.revoking 5']],
    ['with', 5_000, ['lease.revoking 1']],
    ['before', 4_999, ['lease.revoking 1']],
  ])('that would end %s the grace of its parent', (_when, endsAt, events) => {
    const entries = [parent(), child({ deadline: tickAt(endsAt) })]
    const decision = decide(view(entries), revoke({ graceMs: 4_000 }), nowAt(1_000))
    expect(told(decision)).toEqual(events)
    expect(decision.reliedOn).toEqual(events.length === 1 ? [id(5)] : [])
    expect(decision.entries.get(id(5))).toMatchObject({ deadline: tickAt(Math.min(endsAt, 5_000)) })
  })

  it('is not looked for once its parent has ended and only the lock delay of that is over', () => {
    const delayed = lease({ ...parent(), state: 'expired', lockedUntil: tickAt(5_000) })
    const decision = decide(view([delayed]), settle({ leaseId: id(1) }), nowAt(5_000))
    expect(told(decision)).toEqual(['lease.unlocked 1'])
  })
})
