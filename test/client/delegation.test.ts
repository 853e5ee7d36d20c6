/** Deriving, spending and signed grants on the handle that applications hold. */
import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/client/contract.ts'
import type { AcquireOptions } from '../../src/client/options.ts'
import { generateSigningKey, LeaseSigner, verifyGrant } from '../../src/delegation/index.ts'
import { verifier } from '../registrar/grants.ts'
import {
  failWith,
  first,
  follow,
  hang,
  loseAnswer,
  newClient,
  newWorld,
  type TestClient,
  type World,
} from './harness.ts'

const KEY = generateSigningKey()
const KEYS = [verifier(KEY)]
const SIGNER = LeaseSigner.of(KEY)
const TTL_MS = 30_000

interface Supervision extends TestClient {
  readonly world: World
  readonly root: Lease
  readonly advance: (spanMs: number) => Promise<void>
  readonly nowMs: () => number
}

async function supervision(options: AcquireOptions = {}): Promise<Supervision> {
  const world = newWorld()
  const client = newClient(world, 'boss', { signer: SIGNER })
  const root = await client.tenure.acquire('work:W-1', { ttlMs: TTL_MS, ...options })
  return {
    ...client,
    world,
    root,
    advance: (spanMs) => world.runtime.advance(spanMs),
    nowMs: () => world.runtime.ticks.wallMs(),
  }
}

describe('a lease that was acquired with a scope and a budget', () => {
  it('gives away and spends no more than that, and keeps it through a wait', async () => {
    const { tenure, world, root } = await supervision()
    const options = { scope: { tools: ['edit'] }, budget: { tokens: 100 }, waitMs: 10_000 }
    const other = newClient(world, 'second').tenure
    const waiting = follow(other.acquire('work:W-1', options))
    await world.runtime.advance(10)
    await root.release()
    await world.runtime.advance(10)
    const lease = waiting.value()
    expect(lease.info.delegation).toMatchObject({
      line: [],
      limits: { tokens: 100 },
      scope: { unlimited: false, tools: ['edit'] },
    })
    const budget = { tokens: 101 }
    await expect(lease.derive({ holder: 'ann', budget })).rejects.toMatchObject({
      code: 'INVALID_DERIVATION',
      details: { dimension: 'tokens', asked: 101, left: 100 },
    })
    const wide = { scope: { tools: ['run'] }, budget: { tokens: 1 } }
    await expect(lease.derive({ holder: 'ann', ...wide })).rejects.toMatchObject({
      code: 'INVALID_DERIVATION',
    })
    expect(await lease.spend({ tokens: 60, episodes: 1 })).toEqual({ tokens: 40 })
    await expect(lease.spend({ tokens: 41 })).rejects.toMatchObject({
      code: 'BUDGET_EXHAUSTED',
      details: { dimension: 'tokens', asked: 41, left: 40 },
    })
    await tenure.close()
  })

  it('spends once under one request id, however often its holder asks', async () => {
    const { tenure, root } = await supervision({ budget: { tokens: 100 } })
    const requestId = '00000000-0000-4000-8000-00000000beef'
    expect(await root.spend({ tokens: 30 }, { requestId })).toEqual({ tokens: 70 })
    expect(await root.spend({ tokens: 30 }, { requestId })).toEqual({ tokens: 70 })
    await expect(root.spend({ tokens: 31 }, { requestId })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    })
    expect(await root.spend({ tokens: 30 })).toEqual({ tokens: 40 })
    for (const odd of [{ request: requestId }, { requestId: 'mine' }, requestId]) {
      await expect(root.spend({ tokens: 1 }, odd as object)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      })
    }
    expect(await root.spend({ tokens: 1 })).toEqual({ tokens: 39 })
    expect(root.state).toBe('held')
    await tenure.close()
  })

  it('says what it may be used for and what is left, and whether it allows an act', async () => {
    const scope = { tools: ['edit'], namespaces: ['src'] }
    const { tenure, root } = await supervision({ scope, budget: { tokens: 100 } })
    expect([root.parentId, root.depth, root.budget]).toEqual([null, 0, { tokens: 100 }])
    expect(root.scope).toMatchObject({ unlimited: false, ...scope })
    expect(root.allows({ tool: 'edit', path: 'src/app.ts' }, { tokens: 100 })).toBe(true)
    for (const act of [
      { tool: 'run' },
      { path: 'src_backup/a' },
      { tool: 'edit', path: 'a' },
      {},
    ]) {
      expect(root.allows(act)).toBe(false)
    }
    expect(root.allows({ tool: 'edit' }, { tokens: 101 })).toBe(false)
    expect(() => root.allows({ tols: 'edit' } as object)).toThrow(
      /act must have workId, tool, path/,
    )
    await root.spend({ tokens: 30 })
    expect(root.budgetLeft).toEqual({ tokens: 70 })
    const child = await root.derive({
      holder: 'ann',
      scope: { tools: ['edit'] },
      budget: { tokens: 50 },
    })
    expect([root.budgetLeft, child.budgetLeft]).toEqual([{ tokens: 20 }, { tokens: 50 }])
    expect([child.parentId, child.depth]).toEqual([root.id, 1])
    expect(root.allows({ tool: 'edit' }, { tokens: 21 })).toBe(false)
    expect(child.allows({ path: 'src/app.ts' })).toBe(false)
    await child.spend({ tokens: 10 })
    expect(child.info).toMatchObject({
      ...{ parentId: root.id, depth: 1, budget: { tokens: 50 }, budgetLeft: { tokens: 40 } },
      scope: { tools: ['edit'], namespaces: [] },
    })
    await child.release()
    expect(child.allows({ tool: 'edit' })).toBe(false)
    await root.renew()
    expect(root.budgetLeft).toEqual({ tokens: 60 })
    expect((await tenure.get(root.id))?.budgetLeft).toEqual({ tokens: 60 })
    await tenure.close()
  })

  it('that was acquired with everything says so', async () => {
    const { tenure, root } = await supervision()
    expect([root.parentId, root.depth, root.budget, root.budgetLeft]).toEqual([null, 0, {}, {}])
    expect(root.scope.unlimited).toBe(true)
    expect(root.allows({ tool: 'anything' }, { tokens: 10 ** 9 })).toBe(true)
    expect(root.allows({ path: '../out' })).toBe(false)
    const child = await root.derive({ holder: 'ann', scope: { unlimited: true } })
    expect([child.depth, (await child.derive({ holder: 'bob' })).depth]).toEqual([1, 2])
    await root.release()
    expect([root.allows({ tool: 'x' }), child.allows({ tool: 'x' })]).toEqual([false, false])
    await tenure.close()
  })

  it('hands its limits, and what it has used of them, on with a transfer', async () => {
    const { world, root } = await supervision({ budget: { tokens: 100 } })
    await root.spend({ tokens: 30 })
    const child = await root.derive({ holder: 'ann', budget: { tokens: 50 } })
    await child.spend({ tokens: 5 })
    const given = await root.transfer('heir')
    const heir = newClient(world, 'heir').tenure
    const lease = await heir.adopt(given ?? '')
    expect(lease.info.delegation).toMatchObject({
      limits: { tokens: 100 },
      used: { tokens: 35 },
      children: [],
    })
    await expect(lease.spend({ tokens: 66 })).rejects.toMatchObject({ code: 'BUDGET_EXHAUSTED' })
  })
})

describe('a derived lease', () => {
  it('is a handle like any other: it renews itself, never beyond its parent', async () => {
    const { root, advance } = await supervision()
    const child = await root.derive({ holder: 'ann' })
    expect([child.holder, child.state, child.mode]).toEqual(['ann', 'held', 'shared'])
    for (let round = 0; round < 12; round += 1) {
      await advance(TTL_MS / 3)
      expect([root.state, child.state]).toEqual(['held', 'held'])
      const [above, below] = [root.info.deadline?.us ?? 0, child.info.deadline?.us ?? 0]
      expect(below).toBeLessThanOrEqual(above)
    }
    expect(child.renewals).toBeGreaterThan(5)
  })

  it('counts on no more than its parent has left, and goes on once the parent was renewed', async () => {
    const { root, advance } = await supervision({ autoRenew: false })
    const child = await root.derive({ holder: 'ann', ttlMs: 12_000 })
    await advance(25_000)
    expect(child.state).not.toBe('lost')
    expect(child.remainingMs).toBeLessThanOrEqual(5_000)
    await root.renew()
    await advance(4_000)
    expect(child.state).toBe('held')
    await advance(TTL_MS)
    expect([root.state, child.state]).toEqual(['lost', 'lost'])
  })

  it('is lost at the moment its parent is released, before the store has answered', async () => {
    const { root, faults } = await supervision()
    const child = await root.derive({ holder: 'ann' })
    const aide = await child.derive({ holder: 'bob' })
    const { signal } = aide
    faults.when('release', () => new Promise(() => undefined))
    void root.release().catch(() => undefined)
    for (const lease of [child, aide]) {
      expect(lease.state).toBe('lost')
      await expect(lease.spend({ tokens: 1 })).rejects.toMatchObject({
        code: 'LEASE_LOST',
        details: { reason: 'parent_ended' },
      })
    }
    expect(signal.aborted).toBe(true)
  })

  it('hears of its revocation, and gives back to its parent what it did not use', async () => {
    const { tenure, world, root, advance } = await supervision({ budget: { tokens: 100 } })
    const child = await root.derive({ holder: 'ann', budget: { tokens: 40 } })
    await child.spend({ tokens: 15 })
    await advance(100)
    await newClient(world, 'ops').tenure.revoke(child.id, { reason: 'off the rails' })
    await advance(10)
    expect(child.state).toBe('lost')
    expect((await tenure.get(root.id))?.delegation?.used).toEqual({ tokens: 15 })
    const next = await root.derive({ holder: 'bob', budget: { tokens: 85 } })
    await next.release()
    expect((await tenure.get(root.id))?.delegation?.used).toEqual({ tokens: 15 })
    expect(root.state).toBe('held')
  })

  it('is lost at once when its own client revokes it or what it was derived from', async () => {
    const { tenure, root } = await supervision()
    const child = await root.derive({ holder: 'ann' })
    const aide = await child.derive({ holder: 'bob' })
    await tenure.revoke(child.id)
    expect([root.state, child.state, aide.state]).toEqual(['held', 'lost', 'lost'])
  })

  it('is derived once and spent from once, though answers are lost', async () => {
    const { tenure, root, faults, advance } = await supervision({ budget: { tokens: 100 } })
    faults.when('derive', first(1, loseAnswer))
    const deriving = follow(root.derive({ holder: 'ann', budget: { tokens: 40 } }))
    await advance(1_000)
    const child = deriving.value()
    faults.when('spend', first(2, loseAnswer))
    const spending = follow(child.spend({ tokens: 7 }))
    await advance(1_000)
    expect(spending.value()).toEqual({ tokens: 33 })
    expect((await tenure.get(child.id))?.delegation?.used).toEqual({ tokens: 7 })
    expect((await tenure.get(root.id))?.delegation?.children).toEqual([child.id])
  })

  it('of which nobody knows whether it was derived is taken back', async () => {
    const { tenure, root, faults, advance } = await supervision({ budget: { tokens: 100 } })
    faults.when('derive', first(1, loseAnswer))
    const deriving = follow(root.derive({ holder: 'ann', budget: { tokens: 40 } }))
    faults.when('derive', failWith('STORE_UNAVAILABLE'))
    await advance(10_000)
    expect(deriving.error().code).toBe('STORE_OUTCOME_UNKNOWN')
    expect((await tenure.get(root.id))?.delegation).toMatchObject({ used: {}, children: [] })
  })

  it('is not asked for again once the lease that it is derived from is lost, and leaves no timer', async () => {
    const { tenure, world, root, faults, advance } = await supervision()
    faults.when('derive', failWith('STORE_UNAVAILABLE'))
    const deriving = follow(root.derive({ holder: 'ann' }))
    await advance(200)
    await tenure.revoke(root.id)
    await advance(1)
    expect(deriving.error().code).toBe('LEASE_LOST')
    faults.when('derive', hang)
    const asked = faults.count('derive')
    await advance(2_000)
    expect(faults.count('derive')).toBe(asked)
    await tenure.close()
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('leaves no timer of a spending that has no answer when it is lost', async () => {
    const { tenure, world, root, faults, advance } = await supervision()
    faults.when('spend', hang)
    const spending = follow(root.spend({ tokens: 1 }))
    await advance(200)
    await tenure.revoke(root.id)
    await advance(1)
    expect(spending.error().code).toBe('LEASE_LOST')
    await tenure.close()
    expect(world.runtime.pendingTimers).toBe(0)
    expect(faults.count('spend')).toBe(1)
  })

  it('of another session is taken over there by its id, and signed there as well', async () => {
    const { world, root, nowMs } = await supervision()
    const child = await root.derive({ holder: 'ann', session: 'ann', ttlMs: 10_000 })
    const ann = newClient(world, 'ann', { session: 'ann', signer: SIGNER }).tenure
    const taken = await ann.adopt(child.id)
    child.abandon()
    expect(taken.id).toBe(child.id)
    await world.runtime.advance(25_000)
    expect(taken.state).toBe('held')
    void taken.grant
    await world.runtime.advance(10)
    const verified = verifyGrant(taken.grant, KEYS, { now: nowMs() })
    expect(verified).toMatchObject({ holder: 'ann', root: { leaseId: root.id } })
    expect(verified.expiresAtMs).toBe(taken.info.expiresAtMs)
  })

  it('is refused with one line for what cannot be read', async () => {
    const { root } = await supervision()
    const derive = (options: unknown) => root.derive(options as { holder: string })
    for (const [options, said] of [
      [undefined, 'options must be an object with a holder'],
      [{}, 'holder must be text, got undefined'],
      [{ holder: 'a', ttl: 1 }, 'ttl'],
      [{ holder: 'a', ttlMs: -1 }, 'ttlMs must be'],
      [{ holder: 'a', scope: { namespaces: ['..'] } }, 'scope.namespaces must be'],
      [{ holder: 'a', budget: { gold: 1 } }, 'budget must be of'],
      [{ holder: 'a', budget: { tokens: 0.5 } }, 'budget.tokens must be'],
      [{ holder: 'a', audience: '' }, 'audience must be'],
      [{ holder: 'a', autoRenew: 1 }, 'autoRenew must be'],
    ] as const) {
      await expect(derive(options)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining(said) as string,
      })
    }
    await expect(root.spend({})).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })
})

describe('a grant', () => {
  it('is the chain from the root, for whom it was made, and can be checked by anybody', async () => {
    const { root, nowMs } = await supervision()
    const scope = { tools: ['edit', 'test'], namespaces: ['src'] }
    const lead = await root.derive({ holder: 'lead', scope, budget: { tokens: 100 } })
    const aide = await lead.derive({
      holder: 'aide',
      scope: { tools: ['edit'], namespaces: ['src/core'] },
      budget: { tokens: 40 },
      audience: 'editor',
    })
    const verified = verifyGrant(aide.grant, KEYS, { now: nowMs(), audience: 'editor' })
    expect(verified).toMatchObject({ id: aide.id, holder: 'aide', depth: 2, parentId: lead.id })
    expect(verified.root).toEqual({ leaseId: root.id, fence: root.fence, mode: 'exclusive' })
    expect(() => verifyGrant(aide.grant, KEYS, { now: nowMs() })).toThrow(/is for "editor"/)
  })

  it('stays for whom it was made, in whatever is derived from it and for whoever takes it over', async () => {
    const { root, world, nowMs } = await supervision()
    const lead = await root.derive({ holder: 'lead', audience: 'editor', session: 'of-aide' })
    const aide = await lead.derive({ holder: 'aide' })
    await expect(lead.derive({ holder: 'aide', audience: 'shell' })).rejects.toMatchObject({
      code: 'INVALID_DERIVATION',
      message: expect.stringContaining('audience must be editor') as string,
    })
    const other = newClient(world, 'lead', { signer: SIGNER, session: 'of-aide' }).tenure
    const adopted = await other.adopt(lead.id)
    for (const { grant } of [lead, aide, adopted]) {
      expect(() => verifyGrant(grant, KEYS, { now: nowMs() })).toThrow(/is for "editor"/)
      expect(verifyGrant(grant, KEYS, { now: nowMs(), audience: 'editor' }).audience).toBe('editor')
    }
  })

  it('does not change when something is spent', async () => {
    const { root, nowMs } = await supervision()
    const lead = await root.derive({ holder: 'lead', budget: { tokens: 100 } })
    const before = lead.grant
    await lead.spend({ tokens: 99 })
    expect(lead.grant).toBe(before)
    expect(verifyGrant(before, KEYS, { now: nowMs() }).budget).toEqual({ tokens: 100 })
  })

  it('is signed anew after every renewal, of the lease and of what it was derived from', async () => {
    const { root, advance, nowMs } = await supervision()
    const lead = await root.derive({ holder: 'lead' })
    const [first, early] = [lead.grant, verifyGrant(root.grant, KEYS, { now: nowMs() })]
    await advance(TTL_MS)
    expect(() => verifyGrant(first, KEYS, { now: nowMs() })).toThrow(
      expect.objectContaining({ code: 'LEASE_EXPIRED' }),
    )
    const renewed = verifyGrant(lead.grant, KEYS, { now: nowMs() })
    expect(renewed.expiresAtMs).toBe(lead.info.expiresAtMs)
    expect(verifyGrant(root.grant, KEYS, { now: nowMs() }).expiresAtMs).toBe(root.info.expiresAtMs)
    expect(root.info.expiresAtMs).toBeGreaterThan(early.expiresAtMs)
  })

  it('of a child still holds after its parent was upgraded, under the new fence of the root', async () => {
    const { root, nowMs } = await supervision({ mode: 'shared' })
    const lead = await root.derive({ holder: 'lead' })
    await root.upgrade()
    expect(root.fence).toBeGreaterThan(lead.fence)
    const verified = verifyGrant(lead.grant, KEYS, { now: nowMs() })
    expect(verified.root).toEqual({ leaseId: root.id, fence: root.fence, mode: 'exclusive' })
  })

  it('ends no later than the grant of its parent, though the wall clock was set between them', async () => {
    const { root, world, nowMs } = await supervision({ autoRenew: false })
    world.runtime.stepWall(5_000)
    const lead = await root.derive({ holder: 'lead' })
    expect(lead.info.expiresAtMs).toBeGreaterThan(root.info.expiresAtMs ?? 0)
    const verified = verifyGrant(lead.grant, KEYS, { now: nowMs() })
    expect(verified.expiresAtMs).toBe(root.info.expiresAtMs)
  })

  it('is not to be had without a key, nor of what has ended', async () => {
    const world = newWorld()
    const lease = await newClient(world, 'boss').tenure.acquire('work:W-1', { ttlMs: TTL_MS })
    expect(() => lease.grant).toThrow(expect.objectContaining({ code: 'MISSING_SIGNATURE' }))
    const { root } = await supervision()
    const child = await root.derive({ holder: 'ann' })
    await root.release()
    expect(() => root.grant).toThrow(expect.objectContaining({ code: 'LEASE_TERMINAL' }))
    expect(() => child.grant).toThrow(expect.objectContaining({ code: 'LEASE_LOST' }))
  })
})
