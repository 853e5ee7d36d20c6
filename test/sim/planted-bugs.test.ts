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
import type { KnownDefect } from './planting.ts'
import { RICH_DEFECTS } from './rich-defects.ts'
import { SERVER_DEFECTS } from './server-defects.ts'

const SEEDS_MAX = 60

/**
 * Worlds that are known to suffer from a defect that few of them do, to be looked at first. Where the simulation has
 * changed since, the search goes through all of them, and only takes longer.
 */
const LIKELY: Readonly<Record<string, number>> = {
  'a dead waiter at the head blocks all others': 17,
  'a derived lease is renewed past its parent': 4,
  'a downgrade forgets the slots': 21,
  'a fence is not moved past what was given meanwhile': 100,
  'a file is granted below a directory that is held': 4,
  'a keep-alive does not look at what its holder was given': 22,
  'a keep-alive revives a ticket that has ended': 45,
  'a lease does not know what was derived from it': 4,
  'a lease that ended is issued again to its late request': 7,
  'a lost answer is taken for no': 9,
  'a refusal is believed without comparing what it is based on': 12,
  'a renewal does not look at the deadline': 5,
  'a renewal goes past the longest time': 4,
  'a renewal is committed however late': 39,
  'a repeated request counts twice': 20,
  'a timeout leaves a grant behind': 9,
  'a withdrawal that the store did not hear is not sent again': 125,
  'an expired lease blocks until somebody sweeps it': 5,
  'an id that is known is granted again': 37,
  'each file of a tree counts its own fences': 4,
  'nobody keeps away after an expiry': 7,
  'nobody looks for cycles': 17,
  'priority is not looked at': 3,
  'the revision of the settings is not compared': 4,
  'the search passes over what was transferred': 70,
  'what was lost is not given back': 36,
  'what was spent before is not looked at': 4,
  'whoever is asked to finish renews': 8,
}

function seedsFor(name: string): readonly number[] {
  const all = Array.from({ length: SEEDS_MAX }, (_, index) => index + 1)
  return [LIKELY[name] ?? 1, ...all]
}

async function complaintsOf(
  { promise, store = 'memory' }: KnownDefect,
  seed: number,
  defect: Defect = {},
): Promise<readonly string[]> {
  const checkers = CHECKERS.filter((checker) => checker.promise === promise)
  const { verdicts } = await runSeed(seed, { store, defect, checkers })
  return verdicts.flatMap((verdict) => verdict.complaints)
}

describe('a planted defect is found', () => {
  const defects = [...KNOWN_DEFECTS, ...RICH_DEFECTS, ...FAMILY_DEFECTS, ...SERVER_DEFECTS]
  for (const known of defects) {
    const { name, promise, says, defect } = known
    it(`${name} (${promise})`, async () => {
      let caught: number | null = null
      for (const seed of seedsFor(name)) {
        const complaints = await complaintsOf(known, seed, defect)
        if (complaints.some((complaint) => says.test(complaint))) caught = seed
        if (caught !== null) break
      }
      expect(caught, `not found within ${SEEDS_MAX} seeds`).not.toBeNull()
      expect(await complaintsOf(known, caught ?? 0)).toEqual([])
    })
  }

  it('and its report says how to see it again', async () => {
    const { defect, promise } = STILL_HELD
    const lines = failureLines(await runSeed(1, { defect }))
    expect(lines[0]).toMatch(`seed 1 on the memory store broke ${promise}`)
    expect(lines.at(-1)).toBe('replay: npm run sim -- --seed 1 --store memory')
  })
})
