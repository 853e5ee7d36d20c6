/** The long form of the last word in deadlock.test.ts. */
import { expect, it } from 'vitest'
import { compareHistories } from './compared-histories.ts'

it('agrees with an oracle that plays every history to its end, in 10,000 of them', async () => {
  expect(await compareHistories(1, 10_000)).toBeGreaterThan(200)
})
