/** More leases than one list can hold. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TenureClient } from '../../src/client/tenure-client.ts'
import { FileLeases } from '../../src/files/index.ts'
import { readSettings } from '../../src/fleet/fleet-options.ts'
import { LeaseLayout } from '../../src/fleet/lease-layout.ts'
import { parseResource } from '../../src/core/resource.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

const SESSIONS = 10_100
const runtime = new FakeRuntime()
const store = new MemoryStore({ ticks: runtime.ticks })
const service = new LeaseService({ store, runtime })

async function acquire(resource: string, api = service): Promise<void> {
  await api.acquire({
    ...{ id: runtime.uuid(), resource: parseResource(resource), waitMs: 0 },
    ...{ holder: 'ada', session: 'ada', ttlMs: 60_000 },
  })
}

beforeAll(async () => {
  const names = Array.from({ length: SESSIONS }, (_, index) => `session:${index}`)
  await Promise.all(names.map((name) => acquire(name)))
  await acquire('file:/repo/last.ts')
}, 60_000)

afterAll(() => service.close())

it('are listed page by page, and the last page says that it is the last', async () => {
  const first = await service.list({ limit: 10_000 })
  expect([first.leases.length, first.more]).toEqual([10_000, true])
  const rest = await service.list({ limit: 10_000, after: first.next ?? '' })
  expect([rest.leases.length, rest.more, rest.next]).toEqual([101, false, undefined])
})

it('are all there for whoever asks the library for all', async () => {
  const tenure = new TenureClient({ api: service, runtime, holder: 'bob' })
  const seen = new Set<string>()
  for await (const { resource } of tenure.listAll({ holder: 'ada' })) seen.add(resource)
  expect(seen.size).toBe(SESSIONS + 1)
})

it('do not hide the files among them', async () => {
  const files = new FileLeases(service, { runtime })
  const found = await files.getAllLeases()
  expect(found.map(({ filePath }) => filePath)).toEqual(['/repo/last.ts'])
})

it('are all in the survey of a fleet', async () => {
  const settings = readSettings({}, { runtime, host: 'test', startedAtMs: 0 })
  const layout = new LeaseLayout({ openApi: async () => service, runtime, settings })
  await layout.open(null)
  expect((await layout.survey()).owned.length).toBe(SESSIONS)
})

it('are all there for whoever looks at one place that they have in common', async () => {
  const place = { resource: parseResource('file:/repo'), extent: 'subtree' } as const
  const tree = new LeaseService({ store: new MemoryStore({ ticks: runtime.ticks }), runtime })
  const names = Array.from({ length: SESSIONS }, (_, index) => `file:/repo/${index}`)
  await Promise.all(names.map((resource) => acquire(resource, tree)))
  const { leases } = await tree.inspect(place)
  expect(leases.length).toBe(SESSIONS)
})

it('refuses a cursor that no list gave', async () => {
  for (const after of ['', 'x', '1; DROP', 5 as unknown as string]) {
    await expect(service.list({ after })).rejects.toThrow(/^after must be what another list gave/)
  }
})

describe('what has run out, listed one by one', () => {
  const NAMES = ['work:a', 'work:b', 'work:c']

  class World {
    readonly runtime = new FakeRuntime()
    readonly api = new LeaseService({
      store: new MemoryStore({ ticks: this.runtime.ticks }),
      runtime: this.runtime,
    })

    async acquire(resource: string, { lockDelayMs = 0, ttlMs = 1_000 } = {}): Promise<void> {
      await this.api.acquire({
        ...{ id: this.runtime.uuid(), resource: parseResource(resource), waitMs: 0 },
        ...{ holder: 'ada', session: 'ada', ttlMs, lockDelayMs },
      })
    }

    /** The names on all pages of one lease each, in their order; `between` happens after each page but the last. */
    async pages(between: (page: number) => Promise<unknown>): Promise<readonly string[]> {
      const names: string[] = []
      let page = await this.api.list({ state: 'expired', limit: 1 })
      for (let turn = 1; ; turn += 1) {
        names.push(...page.leases.map(({ resource }) => resource))
        if (page.next === undefined) return names.toSorted()
        await between(turn)
        page = await this.api.list({ state: 'expired', limit: 1, after: page.next })
      }
    }
  }

  it('is there once although it is settled between two pages', async () => {
    const world = new World()
    for (const name of NAMES) await world.acquire(name)
    await world.runtime.advance(1_001)
    const names = await world.pages(async () => {
      for (const name of NAMES) await world.acquire(name)
    })
    expect(names).toEqual(NAMES)
  })

  it('is there once although its lock delay passes between two pages', async () => {
    const world = new World()
    for (const name of NAMES) await world.acquire(name, { lockDelayMs: 5_000 })
    await world.acquire('work:ended')
    await world.runtime.advance(1_001)
    for (const name of [...NAMES, 'work:ended']) await world.acquire(name, { ttlMs: 60_000 })
    const names = await world.pages(async (turn) => {
      // One has ended and one in its lock delay were told.
      if (turn !== 2) return
      await world.runtime.advance(5_000)
      for (const name of NAMES) await world.acquire(name)
    })
    expect(names).toEqual([...NAMES, 'work:ended'])
  })
})
