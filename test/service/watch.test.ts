import { describe, expect, it } from 'vitest'
import { LeaseError, type ErrorCode } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import type { LedgerEntry, WatchFilter } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { FaultyStore } from '../../src/testing/faulty-store.ts'

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
    const { signal } = stop
    for await (const { event } of service.watch({ resource: doomed }, { signal })) {
      seen.push(event.type)
    }
  })()
  await runtime.settle()
  const holder = 'ann'
  const common = { holder, session: holder, waitMs: 0 }
  await service.acquire({ id: runtime.uuid(), resource: doomed, ttlMs: 1_000, ...common })
  for (let round = 0; round < 20; round += 1) {
    const leaseId = runtime.uuid()
    await service.acquire({ id: leaseId, resource: busy, ttlMs: 60_000, ...common })
    await runtime.advance(100)
    await service.release({ id: leaseId, resource: busy, holder })
  }
  expect(seen).toEqual(['lease.issued', 'lease.expired'])
  stop.abort()
  await watching
  await service.close()
})

/** A store that cannot be read while `trouble` says why, watched through one service and written through another. */
class Outages {
  readonly runtime = new FakeRuntime()
  readonly seen: string[] = []
  readonly told: string[] = []
  stop = new AbortController()
  readonly #store = new MemoryStore({ ticks: this.runtime.ticks })
  readonly #writer = new LeaseService({ store: this.#store, runtime: this.runtime })
  trouble: ErrorCode | 'hang' | null = null
  reads = 0
  #position = ''

  watch(filter: WatchFilter = {}): Promise<'over' | ErrorCode> {
    const weather = (): { before?: Promise<void> } | undefined => {
      this.reads += 1
      if (this.trouble === null) return undefined
      if (this.trouble === 'hang') return { before: new Promise(() => undefined) }
      return { before: Promise.reject(new LeaseError(this.trouble, 'a fault of the test')) }
    }
    const store = new FaultyStore({ store: this.#store, weather })
    const service = new LeaseService({ store, runtime: this.runtime })
    const observer = {
      onAway: ({ code }: LeaseError) => void this.told.push(`away: ${code}`),
      onBack: () => void this.told.push('back'),
      onPosition: (position: string) => void (this.#position = position),
    }
    return this.#follow(service.watch(filter, { observer, signal: this.stop.signal }))
  }

  get position(): string {
    return this.#position
  }

  async issue(name: string): Promise<void> {
    const resource = parseResource(`work:${name}`)
    const asked = { id: this.runtime.uuid(), resource, holder: 'ann', session: 'ann' }
    await this.#writer.acquire({ ...asked, ttlMs: 600_000, waitMs: 0 })
  }

  async #follow(entries: AsyncIterable<LedgerEntry>): Promise<'over' | ErrorCode> {
    try {
      for await (const { event } of entries) this.seen.push(event.resource)
      return 'over'
    } catch (error) {
      return error instanceof LeaseError ? error.code : 'INVALID_INPUT'
    }
  }
}

describe('a store that is away', () => {
  const passing = ['STORE_UNAVAILABLE', 'STORE_OUTCOME_UNKNOWN', 'STORE_CONFLICT'] as const

  it.each(passing)('does not end a watch (%s), which loses and repeats nothing', async (code) => {
    const world = new Outages()
    const watching = world.watch()
    await world.runtime.settle()
    await world.issue('before')
    await world.runtime.advance(600)
    for (const name of ['first', 'second']) {
      world.trouble = code
      await world.issue(name)
      await world.runtime.advance(30_000)
      world.trouble = null
      await world.runtime.advance(2_000)
    }
    await world.issue('after')
    await world.runtime.settle()
    expect(world.seen).toEqual(['work:before', 'work:first', 'work:second', 'work:after'])
    expect(world.told).toEqual([`away: ${code}`, 'back', `away: ${code}`, 'back'])
    world.stop.abort()
    expect(await watching).toBe('over')
  })

  it('is asked again after pauses that grow to two seconds', async () => {
    const world = new Outages()
    const watching = world.watch()
    await world.runtime.advance(600)
    world.trouble = 'STORE_UNAVAILABLE'
    await world.runtime.advance(10_000)
    world.reads = 0
    await world.runtime.advance(60_000)
    expect(world.reads).toBeGreaterThanOrEqual(30)
    expect(world.reads).toBeLessThanOrEqual(60)
    world.stop.abort()
    expect(await watching).toBe('over')
    expect(world.runtime.pendingTimers).toBe(0)
  })

  it('ends a watch that has not read anything yet', async () => {
    const world = new Outages()
    world.trouble = 'STORE_UNAVAILABLE'
    expect(await world.watch()).toBe('STORE_UNAVAILABLE')
    expect(await world.watch({ after: '1' })).toBe('STORE_UNAVAILABLE')
    expect(world.told).toEqual([])
  })

  it.each(['STORE_SCHEMA', 'INVALID_INPUT', 'CLOSED'] as const)(
    'for good (%s) ends a watch',
    async (code) => {
      const world = new Outages()
      const watching = world.watch()
      await world.runtime.settle()
      world.trouble = code
      await world.runtime.advance(600)
      expect(await watching).toBe(code)
    },
  )

  it('and never answers does not keep a watch from being ended', async () => {
    const world = new Outages()
    const watching = world.watch()
    await world.runtime.settle()
    world.trouble = 'hang'
    await world.runtime.advance(600)
    world.stop.abort()
    expect(await watching).toBe('over')
    expect(world.runtime.pendingTimers).toBe(0)
  })
})

it('a watch tells where to go on, also when nothing that it wants has happened', async () => {
  const world = new Outages()
  const first = world.watch({ resource: parseResource('work:other') })
  await world.runtime.settle()
  await world.issue('unwanted')
  await world.runtime.advance(600)
  world.stop.abort()
  await first
  await world.issue('missed')
  world.stop = new AbortController()
  const second = world.watch({ after: world.position })
  await world.runtime.settle()
  world.stop.abort()
  await second
  expect(world.seen).toEqual(['work:missed'])
})
