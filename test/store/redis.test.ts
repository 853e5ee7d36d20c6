import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { openRedisBackend } from '../../src/store/redis/redis-store.ts'
import { OptimisticStore } from '../../src/store/optimistic/optimistic-store.ts'
import { storeConformance } from '../../src/testing/index.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'
import { compareStores } from './differential.ts'
import { ServerTicks } from './server-ticks.ts'

let place: Place
let namespaces = 0

beforeAll(async () => {
  place = await freshRedis()
})

afterAll(() => place.remove())

async function openOn(ticks: ServerTicks, namespace: string): Promise<OptimisticStore> {
  const backend = await openRedisBackend({ url: place.url, namespace, nowUs: ticks.nowUs })
  return OptimisticStore.open(ticks.drive(backend), systemRuntime, ticks.time)
}

function freshNamespace(): string {
  namespaces += 1
  return `n${namespaces}`
}

storeConformance(
  { describe, it, skip: it.skip },
  {
    name: 'redis',
    without: {
      wall: 'a server has one clock for everything',
      domains: 'a server has one clock',
    },
    open: async () => {
      const ticks = new ServerTicks()
      const namespace = freshNamespace()
      const opened: OptimisticStore[] = []
      const open = async (): Promise<OptimisticStore> => {
        const store = await openOn(ticks, namespace)
        opened.push(store)
        return store
      }
      const store = await open()
      const close = async (): Promise<void> => {
        await Promise.all(opened.map((one) => one.close()))
      }
      const reopen = async (): Promise<OptimisticStore> => {
        await close()
        return open()
      }
      return { store, clock: ticks, reopen, openAnother: open, close }
    },
  },
)

describe('a fence on Redis', () => {
  it('is moved up by the server when another process has taken it meanwhile', async () => {
    const ticks = new ServerTicks()
    const namespace = freshNamespace()
    const [one, other] = [await openOn(ticks, namespace), await openOn(ticks, namespace)]
    const fences: (number | null)[] = []
    for (const store of [one, other, one]) {
      const api = new LeaseService({ store, runtime: systemRuntime })
      const leaseId = systemRuntime.uuid()
      const place = { id: leaseId, resource: parseResource('work:W-1'), holder: 'ada' }
      const granted = await api.acquire({ ...place, session: 'ada', ttlMs: 1_000, waitMs: 0 })
      if (granted.kind !== 'granted') throw new Error(`acquire came to ${granted.kind}`)
      fences.push(granted.lease.fence)
      const [kept] = (await store.find({ ids: [leaseId], limit: 1 })).entries
      expect(kept).toMatchObject({ fence: granted.lease.fence })
      const [told] = await store.history({ leaseId, limit: 1 })
      expect(told?.event).toMatchObject({ lease: { fence: granted.lease.fence } })
      await api.release({ ...place, requestId: systemRuntime.uuid() })
    }
    expect(fences).toEqual([...new Set(fences)].toSorted((a, b) => Number(a) - Number(b)))
    await Promise.all([one.close(), other.close()])
  })
})

describe('places that are counted on Redis', () => {
  it('are not given twice because a process has not heard of those given meanwhile', async () => {
    const ticks = new ServerTicks()
    const namespace = freshNamespace()
    const [one, other] = [await openOn(ticks, namespace), await openOn(ticks, namespace)]
    const kinds: string[] = []
    for (const store of [one, other, one, other]) {
      const api = new LeaseService({ store, runtime: systemRuntime })
      const leaseId = systemRuntime.uuid()
      const place = { id: leaseId, resource: parseResource('work:W-1'), holder: `h${kinds.length}` }
      const span = { session: 'ada', ttlMs: 1_000, waitMs: 0, slots: 3 }
      kinds.push((await api.acquire({ ...place, ...span })).kind)
    }
    expect(kinds).toEqual(['granted', 'granted', 'granted', 'held'])
    await Promise.all([one.close(), other.close()])
  })

  it('are given back by whoever has not heard of the others', async () => {
    const ticks = new ServerTicks()
    const namespace = freshNamespace()
    const [one, other] = [await openOn(ticks, namespace), await openOn(ticks, namespace)]
    const apis = [one, other].map((store) => new LeaseService({ store, runtime: systemRuntime }))
    const resource = parseResource('work:W-1')
    const ids = apis.map(() => systemRuntime.uuid())
    for (const [index, api] of apis.entries()) {
      const place = { id: ids[index] ?? '', resource, holder: 'ada', session: 'ada' }
      await api.acquire({ ...place, ttlMs: 1_000, waitMs: 0, slots: 2 })
    }
    const place = { id: ids[0] ?? '', resource, holder: 'ada' }
    await apis[0]?.release({ ...place, requestId: systemRuntime.uuid() })
    const live = await other.find({ resource, states: ['active'], limit: 3 })
    expect(live.entries.map(({ id }) => id)).toEqual([ids[1]])
    await Promise.all([one.close(), other.close()])
  })
})

describe('Redis and memory', () => {
  it.each([3])('answer alike at every step (seed %i)', { timeout: 120_000 }, async (seed) => {
    const [here, there] = [new ServerTicks(), new ServerTicks()]
    const source = { ...here.source, domain: 'redis/time/0' }
    const memory = new MemoryStore({ ticks: source })
    const redis = await openOn(there, freshNamespace())
    const sides = [
      { store: memory, ticks: here },
      { store: redis, ticks: there },
    ] as const
    await compareStores(seed, sides, { oneClock: true })
  })
})
