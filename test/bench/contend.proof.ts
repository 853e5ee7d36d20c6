import { expect, it } from 'vitest'
import { median } from '../../bench/measure/statistics.ts'
import { holdsUs } from './holds.ts'

it('a hold lasts no longer than it should, however busy the loop is', async () => {
  // A timer would be half a millisecond off, to one side or the other.
  expect(median(await holdsUs(1_000))).toBeLessThan(1_100)
})
