import { expect, it } from 'vitest'
import { holdsUs } from './holds.ts'

it('a hold lasts no less than it should, however busy the loop is', async () => {
  expect(Math.min(...(await holdsUs(200)))).toBeGreaterThanOrEqual(1_000)
})
