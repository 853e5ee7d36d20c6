import { expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { LiveIndex } from '../../src/server/live-index.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
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
