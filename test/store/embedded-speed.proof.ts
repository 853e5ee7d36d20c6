/** How fast it is; that what is in flight shares a commit is shown by sqlite-commits.test.ts. */
import { expect, it } from 'vitest'
import { medianRatio } from './embedded-speed.ts'

it('durable pairs with 100 in flight reach half of what a bare loop does with the same rows', async () => {
  expect(await medianRatio(9, 20_000)).toBeGreaterThanOrEqual(0.5)
})
