/** What a run may have found, for tests of the report. */
import type { Contention } from '../../bench/measure/turns.ts'
import type { Result } from '../../bench/result.ts'
import type { Findings } from '../../bench/run-bench.ts'

export function result(system: string, opsPerSecond: number, change: Partial<Result> = {}): Result {
  return {
    ...{ work: 'acquire+release', store: 'redis', system, inFlight: 100, error: null },
    isReference: system === 'floor',
    rounds: [{ opsPerSecond, p50Ms: 1, p99Ms: 2 }],
    ...change,
  }
}

export const FINDINGS: Findings = {
  results: [
    result('floor', 100),
    result('tenure', 110),
    result('verrou', 50, { rounds: [], error: 'does not exclude: <& more' }),
  ],
  ...{ systems: [], growth: [], space: [], keeping: [], profiles: [], pauses: [], http: [] },
}

export function contention(change: Partial<Contention> = {}): Contention {
  return {
    ...{ acquisitions: 9, handovers: 9, handoversPerSecond: 9, gapP50Ms: 1, gapP99Ms: 1 },
    ...{ fairness: 1, fewest: 1, most: 1, starved: 0, waitP99Ms: 1, waitMaxMs: 1, idealWaitMs: 1 },
    ...change,
  }
}
