/** What must be true of many who contend for one resource, for a short time or a long one. */
import { expect } from 'vitest'
import type { ContendedStore } from './contention-stores.ts'
import {
  contend,
  type ContentionFigures,
  type ContentionOptions,
  figuresOf,
  overlaps,
  passed,
} from './contention.ts'

const COMMITS_PER_TURN_MAX = 3

/** Gives the figures, for whoever expects more of them. */
export async function expectFairHandovers(
  store: ContendedStore,
  directory: string,
  turnsOf: Pick<ContentionOptions, 'rounds' | 'forMs'>,
): Promise<ContentionFigures> {
  await using place = await store.open(directory)
  const before = await store.calls(place.url)
  const contention = await contend({ store: place.url, processes: 4, workers: 25, ...turnsOf })
  const after = await store.calls(place.url)
  const figures = figuresOf(contention)
  const { turns, medianWakeMs, p90WakeMs, commitsPerTurn } = figures
  const calls =
    after === null || before === null ? '' : `, ${((after - before) / turns).toFixed(2)} calls`
  process.stdout.write(
    `${store.name}, 100 workers: ${turns} turns, median wake-up ${medianWakeMs.toFixed(1)} ms, ` +
      `p90 ${p90WakeMs.toFixed(1)} ms, ${commitsPerTurn.toFixed(2)} commits${calls} a turn\n`,
  )
  expect(overlaps(contention.turns)).toEqual([])
  expect(passed(contention.events)).toEqual([])
  expect(turns).toBeGreaterThanOrEqual(100)
  expect(commitsPerTurn).toBeLessThanOrEqual(COMMITS_PER_TURN_MAX)
  return figures
}
