/** The order of systems within a round. */
import { Random } from '../../sim/random.ts'

/**
 * Another one for each round, the same in every run. Turning a fixed order round would leave everybody with the same
 * neighbour before it, whose garbage and unfinished writes it inherits.
 */
export function shuffled<Item>(items: readonly Item[], round: number): readonly Item[] {
  const random = new Random(`round ${round}`)
  return items
    .map((item) => ({ item, at: random.fraction() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
