import { expect, it } from 'vitest'
import { ViewCache } from '../../src/store/optimistic/attempt-plan.ts'
import { placeOf } from './postgres/hand-made.ts'
import { learnRange, leaseNumbered, LIMIT } from './filled-view-cache.ts'

it('forgets what it has known longest, and nothing before it is full', () => {
  const cache = new ViewCache()
  const seen = (number: number) => cache.viewOf(placeOf(leaseNumbered(number)).readSet)
  learnRange(cache, 0, LIMIT)
  expect(seen(0)).toMatchObject({ lastFence: 7, records: { size: 1 } })
  learnRange(cache, LIMIT, LIMIT + 1)
  expect(seen(0)).toMatchObject({ lastFence: 0, records: new Map() })
  expect(seen(LIMIT)).toMatchObject({ lastFence: 7, records: { size: 1 } })
})
