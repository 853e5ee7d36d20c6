/** The median ratio of several interleaved rounds of `same-rows-loop.ts`, and how it is shown. */
import { median } from '../../bench/measure/statistics.ts'
import { measureRound, type Round } from './same-rows-loop.ts'

export async function medianRatio(rounds: number, pairs: number): Promise<number> {
  // The first round is for the compiler: it would be counted against whoever needs it more.
  await measureRound(5_000)
  const measured: Round[] = []
  for (let round = 0; round < rounds; round += 1) measured.push(await measureRound(pairs))
  const ratio = median(measured.map((round) => round.ratio))
  const [bare, tenure] = [
    median(measured.map((round) => round.barePairsPerSecond)),
    median(measured.map((round) => round.tenurePairsPerSecond)),
  ].map(Math.round)
  process.stdout.write(
    `embedded: bare loop ${bare} pairs/s, Tenure ${tenure} pairs/s, median ratio ${ratio.toFixed(2)}\n`,
  )
  return ratio
}
