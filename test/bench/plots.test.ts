import { expect, it } from 'vitest'
import { plotsOf } from '../../bench/report/plots.ts'
import { contention, FINDINGS, result } from './some-findings.ts'

it('a plot has a bar for each that was scored, and none for the others', () => {
  const [plot] = plotsOf(FINDINGS)
  const labels = [...(plot?.svg ?? '').matchAll(/text-anchor="end"[^>]*>([^<]*)</g)].map(
    ([, text]) => text,
  )
  expect(labels).toEqual(['floor', 'tenure'])
})

it('a plot of bars says what its colours and lines mean', () => {
  const [uncontended] = plotsOf(FINDINGS)
  for (const words of ['Tenure', 'others', 'from the lowest to the highest round', '1.00: the']) {
    expect(uncontended?.svg).toContain(`>${words}`)
  }
  const contended = result('tenure', 9, {
    contention: {
      rounds: [contention()],
      ...{ operationsPerHandover: null, commitsPerHandover: null },
    },
  })
  const plots = plotsOf({ ...FINDINGS, results: [contended] })
  const svg = plots.find(({ file }) => file === 'bench-contended.svg')?.svg
  expect(svg).toContain('>Tenure<')
  expect(svg).not.toContain('1.00: the')
})
