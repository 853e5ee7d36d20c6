import { expect, it } from 'vitest'
import { median } from '../../bench/measure/statistics.ts'
import { readingsOf } from '../../bench/report/targets.ts'
import { ratioBetween, rowOf, withoutThoseThatOverlap, type Result } from '../../bench/result.ts'

function result(system: string, rates: readonly number[], change: Partial<Result> = {}): Result {
  const rounds = rates.map((opsPerSecond) => ({ opsPerSecond, p50Ms: 1, p99Ms: 2 }))
  return {
    ...{ work: 'renew', store: 'redis', system, isReference: false, inFlight: 100 },
    ...{ rounds, error: null, ...change },
  }
}

it('a ratio is taken within each round, so that a slow moment of the machine weighs on both', () => {
  const ours = result('tenure', [100, 10, 50])
  const floor = result('floor', [200, 20, 50], { isReference: true })
  expect(ratioBetween(ours, floor)).toEqual({
    ...{ values: [0.5, 0.5, 1], median: 0.5, min: 0.5, max: 1 },
  })
})

it('a row compares with the reference of the same store, work and number in flight', () => {
  const ours = result('tenure', [100])
  const others = [
    result('floor', [50], { isReference: true, inFlight: 1 }),
    result('floor', [20], { isReference: true, store: 'postgres' }),
    result('floor', [400], { isReference: true }),
  ]
  expect(rowOf(ours, [ours, ...others])).toEqual({
    ...{ work: 'renew', store: 'redis', system: 'tenure', inFlight: 100 },
    ...{ opsPerSecond: 100, p50Ms: 1, p99Ms: 2, ratio: 0.25 },
  })
})

it('what failed is told of and has no figure, whatever it measured before', () => {
  const failed = result('broken', [1_000_000], { error: 'does not exclude' })
  const floor = result('floor', [10], { isReference: true })
  expect(rowOf(failed, [failed, floor])).toEqual({
    ...{ work: 'renew', store: 'redis', system: 'broken', inFlight: 100 },
    ...{ opsPerSecond: null, p50Ms: null, p99Ms: null, ratio: null, error: 'does not exclude' },
  })
})

it('the median of an even number of rounds is neither the better nor the worse one', () => {
  expect([median([1, 3]), median([4, 1, 2, 3]), median([5, 1, 3])]).toEqual([2, 2.5, 3])
  expect(median([])).toBeNaN()
})

it('what Tenure failed at stands among the targets that it did not reach', () => {
  const failed = result('tenure', [], { error: 'gave up' })
  const results = [failed, result('verrou', [], { error: 'gave up' })]
  const none = {
    systems: [],
    growth: [],
    space: [],
    keeping: [],
    profiles: [],
    pauses: [],
    http: [],
  }
  expect(readingsOf({ results, ...none })).toEqual([
    {
      target: 'redis, renew: tenure',
      wanted: 'no failure',
      reads: 'not scored: gave up',
      met: 'no',
    },
  ])
})

it.each([
  [[1, 1.2, 1.1, 1.3], 'yes'],
  [[0.2, 1.2, 1.1, 1.3], 'yes'],
  [[0.2, 0.9, 1.2, 1.1, 1.3], 'unsure'],
  [[0.2, 0.9, 0.9, 9, 9], 'no'],
])('a target that rounds meet with %j is met: %s', (rates, met) => {
  const none = {
    systems: [],
    growth: [],
    space: [],
    keeping: [],
    profiles: [],
    pauses: [],
    http: [],
  }
  const floor = result(
    'floor',
    rates.map(() => 1),
    { isReference: true },
  )
  expect(readingsOf({ results: [result('tenure', rates), floor], ...none })).toMatchObject([
    { wanted: '≥ 1.00', met },
  ])
})

it('whoever let two have it at one time is scored nowhere on that store', () => {
  const caught = 'does not exclude: worker 1 and worker 2 both had it for 9 µs'
  const results = [
    result('broken', [9]),
    result('broken', [], { work: 'handover', error: `afterwards: ${caught}` }),
    result('broken', [9], { store: 'postgres' }),
    result('whole', [9]),
  ]
  const left = withoutThoseThatOverlap(results)
  expect(left.map(({ rounds, error }) => [rounds.length, error])).toEqual([
    [0, `afterwards: ${caught}`],
    [0, `afterwards: ${caught}`],
    [1, null],
    [1, null],
  ])
})
