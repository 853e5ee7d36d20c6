import { expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { LiveIndex } from '../../src/server/live-index.ts'
import { ServedStores } from '../../src/server/served-store.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { newClient, newWorld } from '../client/harness.ts'

it('what is live counts once, also where reading the list of it failed half way', async () => {
  const world = newWorld()
  const { tenure } = newClient(world, 'ann')
  for (const resource of ['work:1', 'work:2']) await tenure.acquire(resource)
  let isAway = true
  const list: LeaseApi['list'] = async (filter) => {
    if (filter.after !== undefined && isAway) throw new LeaseError('STORE_UNAVAILABLE', 'away')
    return world.service.list({ ...filter, limit: 1 })
  }
  const live = new LiveIndex()
  await expect(live.load({ list })).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  isAway = false
  await live.load({ list })
  expect(live.countOf(['ann'])).toBe(2)
  expect([...live.countsByKind('active')]).toEqual([['work', 2]])
})

it('what was live in a store that has lost its data is not counted any more', async () => {
  const before = newWorld()
  await newClient(before, 'ann').tenure.acquire('work:1')
  let now = before
  let lose = (): void => undefined
  const api: Pick<LeaseApi, 'list' | 'watch' | 'close'> = {
    list: (filter) => now.service.list(filter),
    watch: async function* (filter, { observer } = {}) {
      if (filter.after === undefined) observer?.onPosition(`position of ${String(now === before)}`)
      const foreign = { details: { field: 'after' } }
      yield* await new Promise<never[]>((_, reject) => {
        lose = () => reject(new LeaseError('INVALID_INPUT', 'of another store', foreign))
      })
    },
    close: () => now.service.close(),
  }
  const stores = new ServedStores({
    ...{ open: async () => api as LeaseApi, runtime: systemRuntime },
    ...{ observe: () => undefined, onGrant: () => undefined, onOpen: () => undefined },
  })
  const { live, loaded } = await stores.of('default')
  await loaded()
  expect([live.countOf(['ann']), live.countOf(['bob'])]).toEqual([1, 0])
  now = newWorld()
  await newClient(now, 'bob').tenure.acquire('work:2')
  lose()
  await expect.poll(() => live.countOf(['bob'])).toBe(1)
  expect(live.countOf(['ann'])).toBe(0)
  expect([...live.countsByKind('active')]).toEqual([['work', 1]])
  lose()
  await stores.close(2_000)
})
