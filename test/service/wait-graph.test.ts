/** What a search for cycles says of what it read, where two readings of one request differ, and what it leaves out. */
import { expect, it } from 'vitest'
import { isLive, type Entry } from '../../src/core/lease.ts'
import { LIST_LIMIT_MAX } from '../../src/core/limits.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { CycleSearch, HolderWaits, WaitPlace, type Readings } from '../../src/service/wait-graph.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

it('a cycle is called implied although the request it was begun from was read before it implied anything', async () => {
  const store = new MemoryStore({ ticks: new ManualTicks() })
  const api = new LeaseService({ store, runtime: systemRuntime })
  const ask = (n: number, holder: string, resource: string, under: readonly string[] = []) => {
    const common = { holder, session: holder, ttlMs: 60_000, waitMs: 60_000 }
    const said = under.length === 0 ? {} : { under }
    return api.acquire({ id: idOf(n), resource: parseResource(resource), ...common, ...said })
  }
  await ask(1, 'ann', 'work:X')
  await ask(2, 'bob', 'work:Y')
  await ask(3, 'bob', 'work:X', [idOf(2)])
  await ask(4, 'ann', 'work:Y')
  const { entries, now } = await store.find({ limit: LIST_LIMIT_MAX })
  await api.close()
  const live = entries.filter(isLive)
  const start = live.find((entry) => entry.id === idOf(4))
  if (start?.kind !== 'ticket') throw new Error('ann does not wait')
  const later: Entry[] = live.map((entry) => {
    return entry.id === start.id
      ? { ...start, under: { leaseIds: [idOf(1)], implied: true } }
      : entry
  })
  const readings: Readings = {
    placeOf: () => new WaitPlace(later, now),
    waitsOf: (holder) =>
      new HolderWaits(
        later.filter((entry) => entry.holder === holder),
        now,
      ),
  }
  const search = new CycleSearch(start, readings)
  expect(search.unread()).toBeNull()
  expect(search.cycle()?.steps).toMatchObject([
    { holder: 'ann', resource: 'work:Y', implied: true },
    { holder: 'bob', resource: 'work:X' },
  ])
})

it('a queue of n tickets is not n² edges: the last of many waits for no more entries than the third', async () => {
  const store = new MemoryStore({ ticks: new ManualTicks() })
  const api = new LeaseService({ store, runtime: systemRuntime })
  const resource = parseResource('work:door')
  const shared = new Set([3, 100])
  for (let n = 1; n <= 101; n += 1) {
    const own = { id: idOf(n), holder: `h-${n}`, session: `h-${n}` }
    const mode = shared.has(n) ? 'shared' : 'exclusive'
    await api.acquire({ ...own, resource, mode, ttlMs: 60_000, waitMs: 60_000 })
  }
  const { entries, now } = await store.find({ limit: LIST_LIMIT_MAX })
  await api.close()
  const live = entries.filter(isLive)
  const place = new WaitPlace(live, now)
  const countOf = (n: number): number | undefined => {
    const waiter = live.find(({ id }) => id === idOf(n))
    return waiter?.kind === 'ticket' ? place.blockersOf(waiter).alone.length : undefined
  }
  // The lease alone; and for one that shares also the last before it that would be alone.
  expect([2, 4, 101].map(countOf)).toEqual([1, 1, 1])
  expect([...shared].map(countOf)).toEqual([2, 2])
})
