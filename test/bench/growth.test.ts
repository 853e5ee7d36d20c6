import { expect, it } from 'vitest'
import { ticksUpTo } from '../../bench/report/line-plot.ts'
import { manyTables } from '../../bench/report/many-tables.ts'
import { plotsOf } from '../../bench/report/plots.ts'
import type { Growth } from '../../bench/works/many.ts'
import { FINDINGS } from './some-findings.ts'

/** One round for each pair: what it took among many, and among 1,000 beside it. */
function growthTo(size: number, pairs: readonly (readonly [large: number, small: number])[]) {
  const slice = (p50Ms: number) => ({ opsPerSecond: 1, p50Ms, p99Ms: p50Ms })
  const growth: Growth = {
    ...({ store: 'redis', system: 'tenure-service', kind: 'acquire', size } as const),
    rounds: pairs.map(([large]) => slice(large)),
    smallRounds: pairs.map(([, small]) => slice(small)),
  }
  return growth
}

// The machine was twice as busy when the largest store and the small one beside it were measured.
const GROWTH = [
  growthTo(1, [[1, 1]]),
  growthTo(100_000, [
    [1, 1],
    [1.5, 1],
    [1.2, 1],
  ]),
  growthTo(1_000_000, [[2.4, 2]]),
  growthTo(1_000, [[2, 2]]),
]

it('each row of growth stands beside the small store of its own rounds', () => {
  const [table] = manyTables({ ...FINDINGS, growth: GROWTH })
  expect(table?.columns.slice(3)).toEqual([
    ...['live leases', 'p50 ms', 'p99 ms', 'p50 ms among 1,000', 'p50 × that among 1,000'],
  ])
  expect(table?.rows.map((row) => row.slice(3))).toEqual([
    ['1', '1.0', '1.0', '1.0', '1.00'],
    ['1,000', '2.0', '2.0', '2.0', '1.00'],
    ['100,000', '1.2', '1.2', '1.0', '1.20 (1.00–1.50)'],
    ['1,000,000', '2.4', '2.4', '2.0', '1.20'],
  ])
})

function growthSvg(): string {
  const plots = plotsOf({ ...FINDINGS, growth: GROWTH })
  return plots.find(({ file }) => file === 'bench-growth.svg')?.svg ?? ''
}

it('the line of growth goes from the smallest store to the largest, by the ratio to the small one', () => {
  const [, points = ''] = /<polyline [^>]*points="([^"]+)"/.exec(growthSvg()) ?? []
  const places = points.split(' ').map((point) => point.split(',').map(Number))
  const xs = places.map(([x]) => x ?? Number.NaN)
  expect(xs).toHaveLength(4)
  expect(xs).toEqual(xs.toSorted((a, b) => a - b))
  const ys = places.map(([, y]) => y)
  expect(ys[1]).toBe(ys[0])
  expect(ys[2]).toBeLessThan(ys[1] ?? Number.NaN)
  expect(ys[3]).toBe(ys[2])
})

it('the plot of growth shows from where to where the rounds went', () => {
  const uprights = [...growthSvg().matchAll(/<line x1="([\d.]+)" x2="([\d.]+)" [^>]*>/g)].filter(
    ([, x1, x2]) => x1 === x2,
  )
  expect(uprights).toHaveLength(1)
})

it.each([0.04, 0.9, 1.05, 1.3, 7, 12, 1_500])('no two ticks up to %d read the same', (most) => {
  const ticks = ticksUpTo(most)
  const words = ticks.map(({ words: text }) => text)
  expect(new Set(words).size).toBe(words.length)
  expect(ticks[0]).toEqual({ value: 0, words: expect.stringMatching(/^0/) })
  expect(ticks.length).toBeGreaterThan(2)
  expect(ticks.at(-1)?.value).toBeGreaterThanOrEqual(most)
  for (const { value, words: text } of ticks) expect(Number(text)).toBeCloseTo(value, 9)
})
