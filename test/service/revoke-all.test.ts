/** What a caller that ends all of a holder hears when the store goes away in the middle. */
import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { FaultyStore, type CallWeather, type StoreCall } from '../../src/testing/faulty-store.ts'

it('a holder of whose leases some were revoked is not said to be as it was', async () => {
  const runtime = new FakeRuntime()
  let left = Infinity
  const weather = ({ method }: StoreCall): CallWeather | undefined => {
    if (method === 'transact') left -= 1
    return left < 0 ? { fault: 'lost_request' } : undefined
  }
  const store = new FaultyStore({ store: new MemoryStore({ ticks: runtime.ticks }), weather })
  const service = new LeaseService({ store, runtime })
  for (const name of ['1', '2']) {
    const resource = parseResource(`work:${name}`)
    await service.acquire({ id: runtime.uuid(), resource, holder: 'ann', session: 'ann' })
  }
  left = 1
  const all = { holder: 'ann', by: 'operator' }
  const failed = { code: 'STORE_UNAVAILABLE', effect: 'unknown', retryable: true }
  await expect(service.revokeAll(all)).rejects.toMatchObject(failed)
  left = Infinity
  expect((await service.list({ holder: 'ann' })).leases).toHaveLength(1)
  expect(await service.revokeAll(all)).toBe(1)
})
