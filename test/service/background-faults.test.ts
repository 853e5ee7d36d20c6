/** What the service does by itself and cannot do is reported, and not tried without a pause. */
import { expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { FaultyStore, type FaultyMethod } from '../../src/testing/faulty-store.ts'
import { hearFaults } from '../store/faults-heard.ts'

const HOUR_MS = 3_600_000

/** A service on a store of which one method fails for as long as the test says. */
class World {
  readonly runtime = new FakeRuntime()
  readonly faults = hearFaults()
  readonly service: LeaseService
  failing: FaultyMethod | null = null
  tries = 0

  constructor({ sweep }: { readonly sweep: boolean }) {
    const { runtime } = this
    const weather = ({
      method,
    }: {
      method: FaultyMethod
    }): { before: Promise<void> } | undefined => {
      if (method !== this.failing) return undefined
      this.tries += 1
      return { before: Promise.reject(new LeaseError('STORE_UNAVAILABLE', 'a fault of the test')) }
    }
    const store = new FaultyStore({ store: new MemoryStore({ ticks: runtime.ticks }), weather })
    this.service = new LeaseService({ store, runtime, sweep })
  }
}

it.each(['prune', 'settings'] as const)(
  'a sweep that never works (%s) is told at first and then now and then',
  async (method) => {
    const world = new World({ sweep: true })
    world.failing = method
    await world.runtime.advance(HOUR_MS)
    const told = world.faults.of('service/sweep')
    expect(told[0]).toMatchObject({ count: 1, error: { code: 'STORE_UNAVAILABLE' } })
    expect(told.length).toBeGreaterThan(1)
    expect(told.length).toBeLessThanOrEqual(61)
    // A minute at most between two tries, and no less once it has failed often.
    expect(world.tries).toBeLessThan(80)
    world.failing = null
    await world.runtime.advance(HOUR_MS)
    expect(world.faults.of('service/sweep')).toHaveLength(told.length)
    await world.service.close()
  },
)

it('a watch that cannot settle what runs out goes on and is told of it', async () => {
  const world = new World({ sweep: false })
  const { runtime, service } = world
  const stop = new AbortController()
  const seen: string[] = []
  const watching = (async () => {
    for await (const { event } of service.watch({}, { signal: stop.signal })) seen.push(event.type)
  })()
  await runtime.settle()
  world.failing = 'find'
  await runtime.advance(10 * 60_000)
  const resource = parseResource('work:W-1')
  const asked = { id: runtime.uuid(), resource, holder: 'ann', session: 'ann' }
  await service.acquire({ ...asked, ttlMs: 60_000, waitMs: 0 })
  await runtime.advance(1_000)
  expect(seen).toEqual(['lease.issued'])
  expect(world.faults.of('service/watch/settle')[0]).toMatchObject({ count: 1 })
  expect(world.tries).toBeLessThan(40)
  stop.abort()
  await watching
  await service.close()
})

it('a watch that cannot read is told of it', async () => {
  const world = new World({ sweep: false })
  const { runtime, service } = world
  const stop = new AbortController()
  const watching = (async () => {
    for await (const { event } of service.watch({}, { signal: stop.signal })) void event
  })()
  await runtime.settle()
  world.failing = 'history'
  await runtime.advance(30_000)
  expect(world.faults.of('service/watch')).toMatchObject([{ count: 1 }])
  stop.abort()
  await watching
  await service.close()
})
