import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DIMENSIONS } from '../../src/core/budget.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import { isScopeWithin } from '../../src/core/scope.ts'
import { differences, foldLedger } from '../../src/ledger/fold.ts'
import { LeaseReducer } from '../../src/registrar/lease-reducer.ts'
import { ledgerRecord } from '../../src/registrar/payloads.ts'
import { openApi } from '../../src/open.ts'
import { allEntries } from '../../src/testing/all-entries.ts'
import { fc } from '../fast-check.ts'
import { wholeHistory } from '../ledger/ledger-world.ts'
import { codeOf, Family, id, ROOT_TTL_MS } from './family.ts'

describe('a derived lease', () => {
  it('has less than its parent, a higher fence, and says where it comes from', async () => {
    const family = new Family()
    const root = await family.root()
    const child = await family.derive(root, {
      ttlMs: 1_000,
      scope: { tools: ['edit'] },
      budget: { tokens: 10 },
    })
    expect(child.fence).toBeGreaterThan(root.fence ?? 0)
    expect(child.delegation).toEqual({
      line: [root.id],
      rootFence: root.fence,
      scope: { unlimited: false, workIds: [], tools: ['edit'], namespaces: [] },
      limits: { tokens: 10 },
      used: {},
      children: [],
    })
    expect((await family.see(root)).delegation?.children).toEqual([child.id])
  })

  it('stands beside its parent and others like it, and in the way of everybody else', async () => {
    const family = new Family()
    const root = await family.root()
    const child = await family.derive(root)
    await family.derive(root)
    expect(await codeOf(family.derive(root, { mode: 'exclusive' }))).toBe('RESOURCE_HELD')
    await family.derive(child)
    const stranger = { id: id(1), holder: 'eve', session: 'eve', waitMs: 0 } as const
    const answer = await family.api.acquire({ ...stranger, resource: parseResource('work:W-1') })
    expect(answer.kind).toBe('held')
  })

  it('of a file lies in the subtree of its parent; siblings that overlap are refused', async () => {
    const family = new Family()
    const root = await family.root('file:/repo', 'subtree')
    await family.derive(root, { resource: 'file:/repo/src', extent: 'subtree' })
    await family.derive(root, { resource: 'file:/repo/docs/a.md' })
    expect(await codeOf(family.derive(root, { resource: 'file:/repo/src/b.ts' }))).toBe(
      'RESOURCE_HELD',
    )
    for (const resource of ['file:/repo_backup/a', 'file:/', 'work:W-1']) {
      expect(await codeOf(family.derive(root, { resource }))).toBe('INVALID_DERIVATION')
    }
  })

  it('passes those who wait for the parent, as it ends with it', async () => {
    const family = new Family()
    const root = await family.root()
    const request = { id: id(1), holder: 'eve', session: 'eve', waitMs: 60_000 } as const
    const queued = await family.api.acquire({ ...request, resource: parseResource('work:W-1') })
    expect(queued.kind).toBe('queued')
    await family.derive(root)
    await family.release(root)
    expect((await family.see({ ...root, id: id(1) })).fence).not.toBeNull()
  })

  it('is refused, never cut down, where it asks for more; and nothing is changed', async () => {
    const family = new Family()
    const root = await family.root()
    const scope = { tools: ['edit'], namespaces: ['src'] }
    const child = await family.derive(root, { scope, budget: { tokens: 10 }, ttlMs: 10_000 })
    const before = await family.see(child)
    const budget = { tokens: 1 }
    for (const wish of [
      { budget: { tokens: 11 } },
      { budget: {} },
      { budget, ttlMs: 10_001 },
      { budget, scope: { tools: ['shell'] } },
      { budget, scope: { namespaces: ['src_backup'] } },
      { budget, scope: { unlimited: true } },
      { budget, mode: 'exclusive' as const },
    ]) {
      expect(await codeOf(family.derive(child, wish))).toBe('INVALID_DERIVATION')
    }
    expect(await codeOf(family.derive({ ...child, holder: 'eve' }, { budget }))).toBe('NOT_HOLDER')
    expect(await codeOf(family.derive(child, { scope: { namespaces: [''] } }))).toBe(
      'INVALID_INPUT',
    )
    expect(await family.see(child)).toEqual(before)
    await family.derive(child, {
      budget: { tokens: 10 },
      ttlMs: 9_999,
      scope: { tools: ['edit'] },
    })
  })

  it('is at most sixteen derivations away from its root', async () => {
    const family = new Family()
    let lease = await family.root()
    for (let depth = 1; depth <= 16; depth += 1) lease = await family.derive(lease)
    expect(lease.delegation?.line).toHaveLength(16)
    expect(await codeOf(family.derive(lease))).toBe('INVALID_DERIVATION')
  })

  it('cannot be derived from a counted resource, nor transferred', async () => {
    const family = new Family()
    const pool = { id: id(1), holder: 'boss', session: 'boss', waitMs: 0, slots: 2 } as const
    const answer = await family.api.acquire({ ...pool, resource: parseResource('pool:p') })
    if (answer.kind !== 'granted') throw new Error('not granted')
    expect(await codeOf(family.derive(answer.lease))).toBe('INVALID_DERIVATION')
    const child = await family.derive(await family.root())
    const given = { id: child.id, holder: child.holder, to: 'eve', newId: id(2) }
    expect((await family.api.transfer(given)).kind).toBe('invalid_derivation')
  })

  it('is the same when it is asked for twice', async () => {
    const family = new Family()
    const root = await family.root()
    const request = {
      id: id(1),
      parent: { id: root.id },
      by: 'boss',
      holder: 'ann',
      session: 'ann',
      budget: { tokens: 5 },
    }
    const [first, second] = [await family.api.derive(request), await family.api.derive(request)]
    expect([first.kind, second]).toMatchObject(['granted', { kind: 'granted', repeated: true }])
    expect((await family.see(root)).delegation?.children).toEqual([id(1)])
    expect((await family.api.derive({ ...request, holder: 'eve' })).kind).toBe('id_taken')
  })
})

describe('a derived lease and time', () => {
  it('without a span lasts as long as its parent, and renews no further than that', async () => {
    const family = new Family()
    const root = await family.root()
    family.ticks.pass(10_000)
    const child = await family.derive(root)
    expect(child.remainingMs).toBeLessThanOrEqual(ROOT_TTL_MS - 10_000)
    const renew = () => family.api.renew({ id: child.id, holder: child.holder, ttlMs: 60_000 })
    family.ticks.pass(1_000)
    await renew()
    const [later, above] = [await family.see(child), await family.see(root)]
    expect(later.deadline?.us).toBeLessThanOrEqual(above.deadline?.us ?? 0)
    expect((await renew()).kind).toBe('renewal_limit')
    await family.api.renew({ id: root.id, holder: 'boss' })
    expect((await renew()).kind).toBe('renewed')
    const [again, further] = [await family.see(child), await family.see(root)]
    expect(again.deadline?.us).toBeLessThanOrEqual(further.deadline?.us ?? 0)
    expect(again.deadline?.us).toBeGreaterThan(later.deadline?.us ?? 0)
  })

  it('says what it was given by a renewal that its parent cut short, and is not worn down by it', async () => {
    const family = new Family()
    const root = await family.root()
    const child = await family.derive(root, { ttlMs: 1_000 })
    const renew = async (ttlMs?: number) => {
      const span = ttlMs === undefined ? {} : { ttlMs }
      await family.api.renew({ id: child.id, holder: child.holder, ...span })
      return (await family.see(child)).ttlMs
    }
    expect(await renew(55_000)).toBe(55_000)
    family.ticks.pass(50_000)
    expect(await renew(90_000)).toBe(55_000)
    const short = await family.derive(root, { ttlMs: 1_000 })
    await family.api.renew({ id: short.id, holder: short.holder, ttlMs: 90_000 })
    const { ttlMs } = await family.see(short)
    expect(ttlMs).toBeLessThanOrEqual(ROOT_TTL_MS - 50_000)
    expect(ttlMs).toBeGreaterThan(ROOT_TTL_MS - 50_100)
    await family.api.renew({ id: root.id, holder: 'boss' })
    expect(await renew()).toBe(55_000)
  })

  it('ends with its parent when that expires', async () => {
    const family = new Family()
    const root = await family.root()
    const child = await family.derive(root)
    family.ticks.pass(ROOT_TTL_MS)
    expect((await family.see(child)).state).toBe('expired')
    expect(await codeOf(family.spend(child, { tokens: 1 }))).toBe('LEASE_EXPIRED')
  })

  it('is asked to finish no later than its parent', async () => {
    const family = new Family()
    const root = await family.root()
    const child = await family.derive(root)
    await family.api.revoke({ id: root.id, by: 'ops', graceMs: 500 })
    const [above, below] = [await family.see(root), await family.see(child)]
    expect(below.revoking?.by).toBe('ops')
    expect(below.deadline).toEqual(above.deadline)
    expect((await family.api.renew({ id: child.id, holder: child.holder })).kind).toBe(
      'renewal_limit',
    )
  })
})

describe('the end of a parent', () => {
  async function tree(family: Family) {
    const root = await family.root('file:/repo', 'subtree')
    const src = await family.derive(root, { resource: 'file:/repo/src', extent: 'subtree' })
    const deep = await family.derive(src, { resource: 'file:/repo/src/a.ts' })
    const docs = await family.derive(root, { resource: 'file:/repo/docs' })
    return { root, src, deep, docs }
  }

  it.each(['release', 'revoke', 'transfer', 'release_all'] as const)(
    'by %s ends all that was derived from it, in one commit, each with its event',
    async (how) => {
      const family = new Family()
      const { root, src, deep, docs } = await tree(family)
      const from = await family.store.end()
      // Without the extent the commit sees too little at first, and has to look further.
      const ref = { id: root.id, resource: root.resource } as const
      if (how === 'release') await family.api.release({ ...ref, holder: 'boss' })
      if (how === 'revoke') await family.api.revoke({ ...ref, by: 'ops' })
      if (how === 'transfer') {
        await family.api.transfer({ ...ref, holder: 'boss', to: 'next', newId: id(1) })
      }
      if (how === 'release_all') {
        await family.api.releaseAll({ holder: 'boss', members: [{ ...ref, requestId: id(2) }] })
      }
      for (const lease of [src, deep, docs]) expect((await family.see(lease)).state).toBe('revoked')
      const events = await family.store.history({ after: from, limit: 100 })
      const ended = events.filter(
        ({ event }) => event.before === 'active' && event.after !== 'active',
      )
      expect(ended.map(({ event }) => event.leaseId).toSorted()).toEqual(
        [root, src, deep, docs].map((lease) => lease.id).toSorted(),
      )
      expect(new Set(ended.map(({ event }) => event.atMs)).size).toBe(1)
    },
  )

  it('of a child leaves its parent and siblings alone', async () => {
    const family = new Family()
    const { root, src, deep, docs } = await tree(family)
    await family.release(src)
    expect((await family.see(deep)).state).toBe('revoked')
    for (const lease of [root, docs]) expect((await family.see(lease)).state).toBe('active')
    expect((await family.see(root)).delegation?.children).toEqual([docs.id])
  })
})

describe('a budget', () => {
  it('is spent in all dimensions or in none, and says what is missing', async () => {
    const family = new Family()
    const child = await family.derive(await family.root(), { budget: { tokens: 10, toolCalls: 1 } })
    await family.spend(child, { tokens: 4, episodes: 99 })
    await expect(family.spend(child, { tokens: 7, toolCalls: 1 })).rejects.toMatchObject({
      code: 'BUDGET_EXHAUSTED',
      details: { leaseId: child.id, dimension: 'tokens', asked: 7, left: 6 },
    })
    expect(await family.used(child)).toEqual({ tokens: 4, episodes: 99 })
    await family.spend(child, { tokens: 6, toolCalls: 1 })
    expect(await codeOf(family.spend(child, { tokens: 1 }))).toBe('BUDGET_EXHAUSTED')
    expect(
      await codeOf(family.spend({ ...child, holder: 'eve' }, { tokens: 0, toolCalls: 1 })),
    ).toBe('NOT_HOLDER')
    expect(await codeOf(family.spend(child, {}))).toBe('INVALID_INPUT')
  })

  it('is spent once for a request that is sent twice', async () => {
    const family = new Family()
    const child = await family.derive(await family.root(), { budget: { tokens: 10 } })
    const { id: leaseId, holder } = child
    const request = { id: leaseId, holder, amounts: { tokens: 6 }, requestId: id(9) }
    await family.api.spend(request)
    expect((await family.api.spend(request)).kind).toBe('spent')
    expect(await family.used(child)).toEqual({ tokens: 6 })
  })

  it('is not spent under the id of another request, and says so', async () => {
    const family = new Family()
    const child = await family.derive(await family.root(), { budget: { tokens: 100 } })
    const { id: leaseId, holder } = child
    const spend = async (tokens: number): Promise<string> => {
      const request = { id: leaseId, holder, requestId: id(9) }
      return (await family.api.spend({ ...request, amounts: { tokens } })).kind
    }
    const kinds = [await spend(1), await spend(10), await spend(10), await spend(1)]
    expect(kinds).toEqual(['spent', 'request_reused', 'request_reused', 'spent'])
    const other = { id: leaseId, holder, requestId: id(9), amounts: { tokens: 1, toolCalls: 1 } }
    expect((await family.api.spend(other)).kind).toBe('request_reused')
    const same = { id: leaseId, holder, requestId: id(9), amounts: { tokens: 1, toolCalls: 0 } }
    expect((await family.api.spend(same)).kind).toBe('spent')
    expect(await family.used(child)).toEqual({ tokens: 1 })
  })

  it('is found among many that were spent later', async () => {
    const family = new Family()
    const child = await family.derive(await family.root(), { budget: { tokens: 3_000 } })
    const { id: leaseId, holder } = child
    const request = { id: leaseId, holder, requestId: id(9) }
    await family.api.spend({ ...request, amounts: { tokens: 2 } })
    for (let index = 0; index < 1_100; index += 1) await family.spend(child, { tokens: 1 })
    const repeat = await family.api.spend({ ...request, amounts: { tokens: 2 } })
    const reuse = await family.api.spend({ ...request, amounts: { tokens: 3 } })
    expect([repeat.kind, reuse.kind]).toEqual(['spent', 'request_reused'])
  })

  it.each(['released', 'revoked', 'expired'] as const)(
    'was spent also for whoever asks again once the lease is %s',
    async (end) => {
      const family = new Family()
      const child = await family.derive(await family.root(), { budget: { tokens: 10 } })
      const { id: leaseId, holder } = child
      const request = { id: leaseId, holder, requestId: id(9) }
      await family.api.spend({ ...request, amounts: { tokens: 6 } })
      if (end === 'released') await family.release(child)
      else if (end === 'revoked') await family.api.revoke({ id: leaseId, by: 'ops' })
      else family.ticks.pass(ROOT_TTL_MS + 1)
      const repeat = await family.api.spend({ ...request, amounts: { tokens: 6 } })
      expect(repeat).toMatchObject({ kind: 'spent', lease: { id: leaseId, state: end } })
      const reuse = await family.api.spend({ ...request, amounts: { tokens: 1 } })
      expect(reuse.kind).toBe('request_reused')
      const fresh = await family.api.spend({ ...request, requestId: id(8), amounts: { tokens: 1 } })
      expect(['terminal', 'expired']).toContain(fresh.kind)
      expect(await family.used(child)).toEqual({ tokens: 6 })
    },
  )

  it('that a child did not use comes back when the child ends, by whatever way', async () => {
    const family = new Family()
    const parent = await family.derive(await family.root(), { budget: { tokens: 100 } })
    const wish = { budget: { tokens: 40 }, ttlMs: 1_000 }
    const [a, b] = [await family.derive(parent, wish), await family.derive(parent, wish)]
    expect(await family.used(parent)).toEqual({ tokens: 80 })
    await family.spend(a, { tokens: 15 })
    await family.release(a)
    expect(await family.used(parent)).toEqual({ tokens: 55 })
    await family.spend(b, { tokens: 1 })
    family.ticks.pass(1_001)
    // Nobody has settled the end of the other yet; the spending that needs it does.
    await family.spend(parent, { tokens: 80 })
    expect(await family.used(parent)).toEqual({ tokens: 96 })
    const last = await family.derive(parent, { budget: { tokens: 4 } })
    await family.api.revoke({ id: last.id, by: 'ops' })
    expect(await family.used(parent)).toEqual({ tokens: 96 })
  })
})

describe('for every family', () => {
  type Act = readonly [what: number, whom: number, amount: number]
  const acts = fc.array(fc.tuple(fc.nat(9), fc.nat(20), fc.integer({ min: 1, max: 60 })), {
    maxLength: 40,
  })
  const TOTAL = 100

  it('authority and time are within the parent’s, and nothing of a budget is made or lost', async () => {
    await fc.assert(
      fc.asyncProperty(acts, async (script: readonly Act[]) => {
        const family = new Family()
        const top = await family.derive(await family.root(), {
          budget: { tokens: TOTAL },
          scope: { tools: ['a', 'b', 'c'] },
        })
        const leases: LeaseInfo[] = [top]
        let spent = 0
        for (const [what, whom, amount] of script) {
          family.ticks.pass(50)
          const lease = leases[whom % leases.length] ?? top
          if (what < 4) {
            const tools = ['a', 'b', 'c'].slice(0, amount % 4)
            const wish = { budget: { tokens: amount }, scope: { tools }, ttlMs: 100 + amount * 20 }
            const child = await family.derive(lease, wish).catch(() => null)
            if (child !== null) leases.push(child)
          } else if (what < 8) {
            if ((await codeOf(family.spend(lease, { tokens: amount }))) === 'done') spent += amount
          } else if (lease !== top) await codeOf(family.release(lease))
          await checkFamily(family, leases)
        }
        await family.api.cleanup()
        for (const lease of leases.slice(1).toReversed()) await codeOf(family.release(lease))
        expect(await family.used(top)).toEqual(spent === 0 ? {} : { tokens: spent })
      }),
      { numRuns: 60 },
    )
  })

  async function checkFamily(family: Family, leases: readonly LeaseInfo[]): Promise<void> {
    const found = await Promise.all(leases.map((lease) => family.see(lease)))
    const byId = new Map(found.map((lease) => [lease.id, lease]))
    for (const lease of found) {
      const parent = byId.get(lease.delegation?.line.at(-1) ?? '')
      for (const dimension of DIMENSIONS) {
        const limit = lease.delegation?.limits[dimension] ?? Infinity
        expect(lease.delegation?.used[dimension] ?? 0).toBeLessThanOrEqual(limit)
      }
      if (parent === undefined || lease.state !== 'active') continue
      expect(parent.state).toBe('active')
      expect(lease.deadline?.us).toBeLessThanOrEqual(parent.deadline?.us ?? 0)
      const scopes = [lease.delegation?.scope, parent.delegation?.scope] as const
      if (scopes[0] && scopes[1]) expect(isScopeWithin(scopes[0], scopes[1])).toBe(true)
    }
  }
})

describe('the ledger of a family', () => {
  it('folds into what the store keeps, and is taken by the reducer', async () => {
    const family = new Family()
    const root = await family.root()
    const child = await family.derive(root, { budget: { tokens: 9 }, scope: { tools: ['x'] } })
    await family.spend(child, { tokens: 2 })
    await family.derive(child, { budget: { tokens: 3 } })
    await family.release(child)
    const events = (await wholeHistory(family.store)).map(({ event }) => event)
    const entries = await allEntries(family.store)
    const kept = new Map(entries.map((entry) => [entry.id, entry]))
    expect(differences(foldLedger(events), kept)).toEqual([])
    const reducer = new LeaseReducer()
    for (const event of events) reducer.apply(ledgerRecord(event))
    expect(reducer.state.activeCount()).toBe(1)
  })
})

it('on SQLite survives the process, and two processes never spend more than there is', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-derive-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const url = `sqlite:${path.join(directory, 'a.db')}`
  const [one, two] = [
    await openApi(url, { holder: 'boss' }),
    await openApi(`${url}?synchronous=normal`, { holder: 'boss' }),
  ]
  onTestFinished(async () => void (await Promise.all([one.close(), two.close()])))
  const resource = parseResource('work:W-1')
  const boss = { holder: 'boss', session: 'boss' }
  await one.acquire({ id: id(1), resource, ...boss, ttlMs: 60_000, waitMs: 0 })
  const who = { by: 'boss', holder: 'ann', session: 'ann' }
  const budget = { tokens: 100 }
  await one.derive({ id: id(2), parent: { id: id(1) }, ...who, budget })
  const spending = Array.from({ length: 30 }, (_, index) => {
    return (index % 2 === 0 ? one : two).spend({
      id: id(2),
      holder: 'ann',
      amounts: { tokens: 7 },
    })
  })
  const kinds = (await Promise.all(spending)).map(({ kind }) => kind)
  expect(kinds.filter((kind) => kind === 'spent')).toHaveLength(14)
  expect((await two.get({ id: id(2) }))?.delegation?.used).toEqual({ tokens: 98 })
  const events = (await two.history({ limit: 100, refusals: false })).map(({ event }) => event)
  expect(foldLedger(events).get(id(2))?.delegation?.used).toEqual({ tokens: 98 })
  await two.release({ id: id(1), holder: 'boss' })
  expect((await one.get({ id: id(2) }))?.state).toBe('revoked')
})
