import { expect, it } from 'vitest'
import { plotsOf } from '../../bench/report/plots.ts'
import { FINDINGS } from './some-findings.ts'

it('a plot has a bar for each that was scored, and none for the others', () => {
  const [plot] = plotsOf(FINDINGS)
  const labels = [...(plot?.svg ?? '').matchAll(/text-anchor="end"[^>]*>([^<]*)</g)].map(
    ([, text]) => text,
  )
  expect(labels).toEqual(['floor', 'tenure'])
})
