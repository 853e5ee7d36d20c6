/** The long form of seeds.test.ts: the worlds that `npm test` has no time for. */
import { expect, it } from 'vitest'
import { failureLines } from '../../sim/report.ts'
import { runSeed } from '../../sim/run-seed.ts'

const FIRST = 121
const LAST = 1_120
const SEEDS_PER_TEST = 100

for (let first = FIRST; first <= LAST; first += SEEDS_PER_TEST) {
  const last = first + SEEDS_PER_TEST - 1
  it(`every promise is kept in the worlds of seeds ${first} to ${last}`, async () => {
    const failures: string[] = []
    for (let seed = first; seed <= last; seed += 1)
      failures.push(...failureLines(await runSeed(seed)))
    expect(failures).toEqual([])
  })
}
