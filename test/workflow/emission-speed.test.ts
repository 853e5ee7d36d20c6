import { expect, it } from 'vitest'
import { measureEmissions } from './emission-speed.ts'

/**
 * One commit for 100 emissions, and a processor's time for more than 20,000 a second: what is left is the disk, which
 * each commit waits for once. By the clock it is 20,000 a second where a sync to disk takes less than 3 ms.
 */
it('100 emissions in flight share one commit, and cost time for 20,000 a second', async () => {
  await measureEmissions(5_000, 100)
  const { perSecond, perCpuSecond, emitted, epoch, commits } = await measureEmissions(20_000, 100)
  process.stdout.write(
    `emissions: ${Math.round(perSecond)} a second by the clock, ${Math.round(perCpuSecond)} by the ` +
      `processor's time, ${commits} commits\n`,
  )
  expect([emitted, epoch]).toEqual([20_000, 20_000])
  expect(commits).toBeLessThanOrEqual(220)
  expect(perCpuSecond).toBeGreaterThan(20_000)
})
