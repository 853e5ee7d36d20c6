import { expect, it } from 'vitest'
import { measureEmissions } from './emission-speed.ts'

/** What is left is the disk, which each commit waits for once: `npm run proof` measures the speed. */
it('100 emissions in flight share one commit', async () => {
  const { emitted, epoch, commits } = await measureEmissions(5_000, 100)
  expect([emitted, epoch]).toEqual([5_000, 5_000])
  expect(commits).toBeLessThanOrEqual(55)
})
