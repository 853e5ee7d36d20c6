import { expect, it } from 'vitest'
import { readingsOf } from '../../bench/report/targets.ts'
import { JUDGED_SCENE } from '../../bench/works/contended.ts'
import { contention, FINDINGS, result } from './some-findings.ts'

const CONTENDED = { work: JUDGED_SCENE, inFlight: 50 }

function handoverReadings(results: Parameters<typeof readingsOf>[0]['results']) {
  const readings = readingsOf({ ...FINDINGS, results })
  return readings.filter(({ target }) => target.includes('handovers ×'))
}

it('the best of those who poll may be the one that is written by hand', () => {
  const peers = [result('floor', 50, CONTENDED), result('redlock', 20, CONTENDED)]
  const readings = handoverReadings([result('tenure', 100, CONTENDED), ...peers])
  expect(readings).toMatchObject([
    {
      target: `redis, ${JUDGED_SCENE}: handovers × the best that polls (floor)`,
      ...{ reads: '2.00', met: 'no' },
    },
  ])
})

it('a target against whom this run did not measure is left out', () => {
  expect(handoverReadings([result('tenure', 100, CONTENDED)])).toEqual([])
})

it('a target against whom this run could not measure stays, with the reason', () => {
  const advisory = result('advisory', 0, {
    ...{ ...CONTENDED, store: 'postgres', rounds: [], error: 'no server' },
  })
  const readings = handoverReadings([result('tenure', 100, CONTENDED), advisory])
  expect(readings).toMatchObject([
    {
      target: `redis, ${JUDGED_SCENE}: handovers × advisory`,
      ...{ reads: 'not measured: no server', met: 'no' },
    },
  ])
})

it('what must be so every time is judged by the worst round, and workers are counted whole', () => {
  const rounds = [[0.95, 0] as const, [0.5, 41] as const, [0.95, 0] as const]
  const ours = result('tenure', 9, {
    work: JUDGED_SCENE,
    contention: {
      rounds: rounds.map(([fairness, starved]) => contention({ fairness, starved })),
      ...{ operationsPerHandover: null, commitsPerHandover: null },
    },
  })
  const readings = readingsOf({ ...FINDINGS, results: [ours] })
  expect(readings.filter(({ target }) => target.endsWith('worst round'))).toMatchObject([
    { wanted: '≤ 0', reads: '41', met: 'no' },
    { wanted: '≥ 0.90', reads: '0.50', met: 'no' },
  ])
})
