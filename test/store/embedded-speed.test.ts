import { expect, it } from 'vitest'
import { medianRatio } from './embedded-speed.ts'

it('durable pairs with 100 in flight reach half of what a bare loop does with the same rows', async () => {
  expect(await medianRatio(11, 5_000)).toBeGreaterThanOrEqual(0.5)
}, 60_000)
