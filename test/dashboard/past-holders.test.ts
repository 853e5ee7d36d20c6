/** Who held a resource at a moment, as the page asks a server that has gone on since. */
import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { openApi } from '../../src/open.ts'
import type { AcquireAnswer, LeaseApi } from '../../src/service/lease-api.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { serving, type Serving } from '../server/serving.ts'
import { pageModule } from './page-module.ts'

interface Asked {
  readonly method?: 'GET' | 'POST'
  readonly body?: object
}

interface Calls {
  json(path: string, asked?: Asked): Promise<unknown>
}

interface HoldersModule {
  readonly holdersAt: (
    calls: Calls,
    asked: { readonly resource: string; readonly atMs: number },
    signal: AbortSignal,
  ) => Promise<{ readonly holds: readonly object[]; readonly isCut: boolean }>
}

interface HistoryModule {
  readonly readHistory: (
    calls: Calls,
    asked: { readonly pagesMax: number },
    signal: AbortSignal,
  ) => Promise<{ readonly rows: readonly object[]; readonly isCut: boolean }>
}

/** The page's calls, made from here. */
function callsTo({ ask }: Serving): Calls {
  return {
    json: async (path, { method = 'GET', body } = {}) => {
      const answer = await ask(`${method} ${path}`, { ...(body === undefined ? {} : { body }) })
      expect(answer.status).toBe(200)
      return answer.body
    },
  }
}

interface Served {
  readonly server: Serving
  readonly runtime: FakeRuntime
  /** The store of the server. */
  readonly api: LeaseApi
}

async function served(): Promise<Served> {
  const runtime = new FakeRuntime()
  const store = `memory:past-${randomUUID()}`
  const open = (namespace: string) => openApi(store, { namespace, runtime })
  const api = await open('default')
  onTestFinished(() => api.close())
  return { server: await serving({ runtime, open }), runtime, api }
}

function acquire(api: LeaseApi, resource: string, holder: string): Promise<AcquireAnswer> {
  const request = { id: randomUUID(), resource: parseResource(resource), holder, session: holder }
  return api.acquire({ ...request, ttlMs: 3_600_000, waitMs: 0 })
}

async function release(api: LeaseApi, answer: AcquireAnswer): Promise<void> {
  if (answer.kind !== 'granted') throw new Error(answer.kind)
  const { id, holder } = answer.lease
  await api.release({ id, holder, session: holder, releaseReason: 'completed' })
}

const NEVER = new AbortController().signal

it('is told of a moment behind which a great deal has happened', async () => {
  const { holdersAt } = await pageModule<HoldersModule>('state/past-holders')
  const { server, runtime, api } = await served()
  const first = await acquire(api, 'work:busy', 'ann')
  await runtime.advance(1_000)
  const atMs = runtime.wallMs()
  await runtime.advance(1_000)
  await release(api, first)
  for (let turn = 1; turn <= 2_600; turn += 1) {
    await release(api, await acquire(api, 'work:busy', 'bob'))
    if (turn % 100 === 0) await runtime.advance(10)
  }
  const asked = { resource: 'work:busy', atMs }
  const { holds, isCut } = await holdersAt(callsTo(server), asked, NEVER)
  expect(isCut).toBe(false)
  expect(holds).toMatchObject([{ holder: 'ann', end: 'released', endedAtMs: atMs + 1_000 }])
})

it('says that it was not read to its beginning, where a page has less than one moment', async () => {
  const { readHistory } = await pageModule<HistoryModule>('state/history')
  const { server, api } = await served()
  const names = Array.from({ length: 1_500 }, (_none, index) => `work:${index}`)
  await Promise.all(names.map((name) => acquire(api, name, 'ann')))
  const { rows, isCut } = await readHistory(callsTo(server), { pagesMax: 5 }, NEVER)
  expect([rows.length, isCut]).toEqual([1_000, true])
})
