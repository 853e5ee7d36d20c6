import { expect, it } from 'vitest'
import { ViewCache } from '../../src/store/optimistic/attempt-plan.ts'
import { learnRange, LIMIT } from './filled-view-cache.ts'

const MEASURED = 50_000

it('to forget what it has known longest costs no more than to remember', () => {
  const cache = new ViewCache()
  learnRange(cache, 0, LIMIT - MEASURED)
  const roomUs = learnRange(cache, LIMIT - MEASURED, LIMIT)
  const fullUs = learnRange(cache, LIMIT, LIMIT + MEASURED)
  expect(fullUs / roomUs).toBeLessThan(2)
})
