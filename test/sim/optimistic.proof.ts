/** The long form of optimistic.test.ts: more worlds, in which everything must have occurred that can. */
import { describe, expect, it } from 'vitest'
import { ATTEMPT_SHAPES } from '../../sim/attempt-shapes.ts'
import { canHappen, FAULT_KINDS } from '../../sim/log.ts'
import { failureLines, Tally } from '../../sim/report.ts'
import { runSeed } from '../../sim/run-seed.ts'
import { SHAPES } from '../../sim/shapes.ts'

const FIRST = 13
const LAST = 412
const SEEDS_PER_TEST = 50

describe('a store that decides before it asks', () => {
  const tally = new Tally()

  for (let first = FIRST; first <= LAST; first += SEEDS_PER_TEST) {
    const last = first + SEEDS_PER_TEST - 1
    it(`keeps every promise in the worlds of seeds ${first} to ${last}`, async () => {
      const failures: string[] = []
      for (let seed = first; seed <= last; seed += 1) {
        const report = await runSeed(seed, { store: 'optimistic' })
        tally.add(report)
        failures.push(...failureLines(report))
      }
      expect(failures).toEqual([])
    })
  }

  it('although every fault was injected, in worlds of every shape', () => {
    const faults = FAULT_KINDS.filter((kind) => canHappen(kind, 'optimistic'))
    expect(faults.filter((kind) => !tally.faults.has(kind))).toEqual([])
    const shapes = [...SHAPES, ...ATTEMPT_SHAPES]
    expect(shapes.filter((shape) => !tally.outcomes.has(shape))).toEqual([])
  })
})
