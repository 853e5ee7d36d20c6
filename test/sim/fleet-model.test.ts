import { expect, it } from 'vitest'
import { FleetModel, type ModelReport } from '../../sim/fleet/fleet-model.ts'
import { plotOf } from '../../sim/fleet/fleet-plot.ts'
import { Random } from '../../sim/random.ts'

const INSTANCES = 50
const SESSIONS = 2_500

function run(seed: number): ModelReport {
  const random = new Random(`fleet/${seed}`)
  return new FleetModel({
    ...{ instances: INSTANCES, sessions: SESSIONS, durationMs: 150_000 },
    events: [
      { atMs: 40_000, kind: 'join', instances: 1 },
      { atMs: 60_000, kind: 'leave', instances: 1 },
      { atMs: 80_000, kind: 'kill', instances: 1 },
    ],
    random: () => random.fraction(),
  }).run()
}

it('a fleet in virtual time is balanced, moves little, and asks little', () => {
  const { seconds, changes, bound } = run(1)
  for (const { fullest, unowned } of [...seconds.slice(20, 40), ...seconds.slice(-10)]) {
    expect(fullest).toBeLessThanOrEqual(bound)
    expect(unowned).toBe(0)
  }
  const [join, leave, kill] = changes
  for (const change of [join, leave, kill]) {
    expect(change?.moved).toBeGreaterThan(0.01)
    expect(change?.moved).toBeLessThan(0.05)
  }
  expect(join?.settledAfterMs).toBeLessThan(1_000)
  expect(kill?.settledAfterMs).toBeLessThan(40_000)
  const rest = seconds.slice(20, 40)
  const perSecond = rest.reduce((sum, { renewing, discovering }) => sum + renewing + discovering, 0)
  expect(perSecond / rest.length).toBeLessThan(2 * INSTANCES)
})

it('the same seed gives the same run, and a plot of it', () => {
  const report = run(2)
  expect(run(2)).toEqual(report)
  const plot = plotOf(report, 'a title')
  expect(plot).toMatch(/^<svg [^>]*>/)
  expect(plot.match(/<polyline/g)?.length).toBe(7)
})
