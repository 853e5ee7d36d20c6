import { expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

function newService(): { readonly service: LeaseService; readonly runtime: FakeRuntime } {
  const runtime = new FakeRuntime()
  const store = new MemoryStore({ ticks: runtime.ticks })
  return { service: new LeaseService({ store, runtime }), runtime }
}

it('an expiry is seen within a second although other leases come and go all the time', async () => {
  const { service, runtime } = newService()
  const doomed = parseResource('work:doomed')
  const busy = parseResource('work:busy')
  const stop = new AbortController()
  const seen: string[] = []
  const watching = (async () => {
    for await (const { event } of service.watch({ signal: stop.signal, resource: doomed })) {
      seen.push(event.type)
    }
  })()
  await runtime.settle()
  const holder = 'ann'
  const common = { holder, session: holder, waitMs: 0 }
  await service.acquire({ leaseId: runtime.uuid(), resource: doomed, ttlMs: 1_000, ...common })
  for (let round = 0; round < 20; round += 1) {
    const leaseId = runtime.uuid()
    await service.acquire({ leaseId, resource: busy, ttlMs: 60_000, ...common })
    await runtime.advance(100)
    await service.release({ leaseId, resource: busy, holder })
  }
  expect(seen).toEqual(['lease.issued', 'lease.expired'])
  stop.abort()
  await watching
  await service.close()
})
