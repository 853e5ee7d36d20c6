/** The handle's derive, spend, grant and end, on every store there is. */
import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { generateSigningKey, verifyGrant } from '../../src/delegation/index.ts'
import { openApi, openTenure, type Tenure } from '../../src/index.ts'
import { foldLedger } from '../../src/ledger/fold.ts'
import { verifier } from '../registrar/grants.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'

const KEY = generateSigningKey()
const KEYS = [verifier(KEY)]

async function client(url: string, holder: string): Promise<Tenure> {
  const tenure = await openTenure(url, { holder, signingKey: KEY })
  onTestFinished(() => tenure.close())
  return tenure
}

it.each(EVERY_STORE)('a supervisor on %s derives, spends and ends', async (name) => {
  const url = await freshStoreOf(name)
  const [tenure, before] = [await client(url, 'boss'), await client(url, 'before')]
  const first = await before.acquire('file:/repo', { extent: 'subtree', ttlMs: 30_000 })
  const scope = { tools: ['edit', 'run'], namespaces: ['src'] }
  const limited = { scope, budget: { tokens: 100 }, extent: 'subtree', ttlMs: 30_000 } as const
  const waiting = tenure.acquire('file:/repo', { ...limited, waitMs: 15_000 })
  await first.release()
  const root = await waiting
  const lead = await root.derive({
    ...{ holder: 'lead', resource: 'file:/repo/src', extent: 'subtree', ttlMs: 20_000 },
    ...{ scope: { tools: ['edit'], namespaces: ['src/a'] }, budget: { tokens: 60 } },
  })
  const aide = await lead.derive({ holder: 'aide', budget: { tokens: 20 } })
  expect(await aide.spend({ tokens: 5 })).toEqual({ tokens: 15 })
  await expect(aide.spend({ tokens: 16 })).rejects.toMatchObject({ code: 'BUDGET_EXHAUSTED' })
  await lead.renew()
  expect(verifyGrant(aide.grant, KEYS, { now: Date.now() })).toMatchObject({
    ...{ holder: 'aide', depth: 2, budget: { tokens: 20 } },
    root: { leaseId: root.id, fence: root.fence },
  })
  await aide.release()
  expect((await tenure.get(lead.id))?.delegation?.used).toEqual({ tokens: 5 })
  await lead.release()
  expect((await tenure.get(root.id))?.delegation).toMatchObject({ used: { tokens: 5 } })
  const last = await root.derive({ holder: 'last', budget: { tokens: 95 } })
  await root.release()
  expect([last.state, (await tenure.get(last.id))?.state]).toEqual(['lost', 'revoked'])
  const events = (await tenure.history({ limit: 1_000, refusals: false })).map(({ event }) => event)
  const folded = foldLedger(events)
  for (const id of [root.id, lead.id, aide.id, last.id]) {
    const { delegation } = (await tenure.get(id)) ?? {}
    expect(folded.get(id)?.delegation).toEqual(delegation)
  }
})

it.each(EVERY_STORE)('a request id on %s names one request', async (name) => {
  const api = await openApi(await freshStoreOf(name))
  onTestFinished(() => api.close())
  const held = { holder: 'boss', session: 'boss', waitMs: 0, ttlMs: 60_000 } as const
  const [work, flow] = [parseResource('work:W-1'), parseResource('workflow:F-1')]
  const [leaseId, flowId] = [randomUUID(), randomUUID()]
  await api.acquire({ ...held, id: leaseId, resource: work, budget: { tokens: 50 } })
  await api.acquire({ ...held, id: flowId, resource: flow })

  const spend = { id: leaseId, holder: 'boss', requestId: randomUUID() }
  const spent = [1, 10, 1].map((tokens) => () => api.spend({ ...spend, amounts: { tokens } }))
  expect(await kindsOf(spent)).toEqual(['spent', 'request_reused', 'spent'])
  expect((await api.get({ id: leaseId }))?.delegation?.used).toEqual({ tokens: 1 })

  const advance = { id: flowId, holder: 'boss', from: 0, requestId: randomUUID() }
  const advanced = [1, 10, 1].map((count) => () => api.advance({ ...advance, count }))
  expect(await kindsOf(advanced)).toEqual(['advanced', 'request_reused', 'advanced'])

  const transfer = { id: leaseId, holder: 'boss', newId: randomUUID(), requestId: randomUUID() }
  const transferred = ['ann', 'bob', 'ann'].map((to) => () => api.transfer({ ...transfer, to }))
  expect(await kindsOf(transferred)).toEqual(['transferred', 'request_reused', 'transferred'])

  expect(await kindsOf(spent)).toEqual(['spent', 'request_reused', 'spent'])
})

async function kindsOf(
  calls: readonly (() => Promise<{ readonly kind: string }>)[],
): Promise<readonly string[]> {
  const kinds: string[] = []
  for (const call of calls) kinds.push((await call()).kind)
  return kinds
}

it('a lease is not shared while one that was derived from it is exclusive', async () => {
  const tenure = await client(await freshStoreOf('memory'), 'boss')
  const root = await tenure.acquire('file:/repo', { extent: 'subtree', ttlMs: 30_000 })
  const child = await root.derive({ holder: 'lead', resource: 'file:/repo/src' })
  await expect(root.downgrade()).rejects.toMatchObject({ code: 'INVALID_DERIVATION' })
  expect([(await tenure.get(root.id))?.mode, root.mode]).toEqual(['exclusive', 'shared'])
  await root.upgrade()
  expect(root.mode).toBe('exclusive')
  await child.release()
  expect(await root.downgrade()).toEqual({ changed: true })
  const reader = await root.derive({ holder: 'reader' })
  await expect(reader.upgrade()).rejects.toMatchObject({ code: 'INVALID_DERIVATION' })
  expect(reader.state).toBe('held')
})
