import { expect, it } from 'vitest'
import { LedgerFeed } from '../../src/server/ledger-feed.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { newClient, newWorld } from '../client/harness.ts'

it('keeps a few pages for those who read the same, and not all that was ever read of a ledger that stands still', async () => {
  const { service, ...world } = newWorld()
  const { tenure } = newClient({ service, ...world }, 'ann')
  for (let n = 0; n < 20; n += 1) await tenure.acquire(`work:${n}`)
  let reads = 0
  const history: LeaseApi['history'] = (filter) => {
    reads += 1
    return service.history(filter)
  }
  const api = { history } as LeaseApi
  const feed = new LedgerFeed(api, world.runtime)
  const positions = (await service.history({})).map(({ position }) => position)
  for (const position of positions) await feed.pageAfter(position)
  expect(reads).toBe(20)
  const [first = ''] = positions
  const last = positions.at(-1) ?? ''
  expect(await feed.pageAfter(last)).toEqual([])
  expect(reads).toBe(20)
  expect(await feed.pageAfter(first)).toHaveLength(19)
  expect(reads).toBe(21)
})
