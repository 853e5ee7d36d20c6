/**
 * The simulator must be able to fail. Each known defect is planted (`planting.ts` says how), and within a bounded
 * number of seeds the checker of the very promise that it breaks must complain, on a seed that keeps the promise
 * without the defect.
 */
import { describe, expect, it } from 'vitest'
import { failureLines } from '../../sim/report.ts'
import { CHECKERS, runSeed } from '../../sim/run-seed.ts'
import type { Defect } from '../../sim/simulation.ts'
import { KNOWN_DEFECTS, STILL_HELD } from './defects.ts'
import { FAMILY_DEFECTS } from './family-defects.ts'
import { RICH_DEFECTS } from './rich-defects.ts'

const SEEDS_MAX = 60

async function complaintsOf(
  promise: string,
  seed: number,
  defect?: Defect,
): Promise<readonly string[]> {
  const checkers = CHECKERS.filter((checker) => checker.promise === promise)
  const { verdicts } = await runSeed(seed, defect, checkers)
  return verdicts.flatMap((verdict) => verdict.complaints)
}

describe('a planted defect is found', () => {
  const defects = [...KNOWN_DEFECTS, ...RICH_DEFECTS, ...FAMILY_DEFECTS]
  for (const { name, promise, says, defect } of defects) {
    it(`${name} (${promise})`, async () => {
      let caught: number | null = null
      for (let seed = 1; seed <= SEEDS_MAX && caught === null; seed += 1) {
        const complaints = await complaintsOf(promise, seed, defect)
        if (complaints.some((complaint) => says.test(complaint))) caught = seed
      }
      expect(caught, `not found within ${SEEDS_MAX} seeds`).not.toBeNull()
      expect(await complaintsOf(promise, caught ?? 0)).toEqual([])
    })
  }

  it('and its report says how to see it again', async () => {
    const { defect, promise } = STILL_HELD
    const lines = failureLines(await runSeed(1, defect))
    expect(lines[0]).toMatch(`seed 1 broke ${promise}`)
    expect(lines.at(-1)).toBe('replay: npm run sim -- --seed 1')
  })
})
