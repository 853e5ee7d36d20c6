/** What Tenure means to reach, and what this run read. A target that was not measured is left out, unless Tenure failed there. */
import { median, type Spread } from '../measure/statistics.ts'
import { ratioBetween, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import type { StoreName } from '../system.ts'
import { NODE_ALONE, START_UP } from '../works/start-up.ts'
import { percentText, ratioText, twoDigits } from './figures.ts'
import type { Table } from './table.ts'
import { growthOf } from './tables.ts'

export interface Reading {
  readonly target: string
  readonly wanted: string
  readonly reads: string
  readonly isMet: boolean
}

type Bound = { readonly atLeast: number } | { readonly atMost: number }

const TENURES = ['tenure', 'tenure-service'] as const
const DISK_BYTES_MAX = 600
const CPU_PART_MAX = 0.05
const START_UP_EXTRA_MS = 30

export function readingsOf(findings: Findings): readonly Reading[] {
  return [
    ...uncontendedReadings(findings.results),
    ...contendedReadings(findings.results),
    ...growthReadings(findings),
    ...keepingReadings(findings),
    ...startUpReadings(findings.results),
    ...failedReadings(findings.results),
  ]
}

/** Whatever was meant to be reached there was not, and must not go missing from the table. */
function failedReadings(results: readonly Result[]): readonly Reading[] {
  const failed = results.filter(({ system, error }) => {
    return error !== null && TENURES.some((name) => name === system)
  })
  return failed.map(({ store, work, system, error }) => {
    const reads = `not scored: ${error}`
    return { target: `${store}, ${work}: ${system}`, wanted: 'no failure', reads, isMet: false }
  })
}

export function targetTables(findings: Findings, isJudged: boolean): readonly Table[] {
  const readings = readingsOf(findings)
  if (readings.length === 0) return []
  const met = readings.filter(({ isMet }) => isMet).length
  const spread = 'The median of the rounds, and in brackets from where to where they went.'
  const verdict = isJudged
    ? `${met} of ${readings.length} are met.`
    : 'This run was too short to say what is met.'
  return [
    {
      title: 'To reach',
      note: `${verdict} ${spread}`,
      columns: ['target', 'wanted', 'reads', ...(isJudged ? ['met'] : [])],
      rows: readings.map(({ target, wanted, reads, isMet }) => {
        return [target, wanted, reads, ...(isJudged ? [isMet ? 'yes' : 'no'] : [])]
      }),
    },
  ]
}

interface Duel {
  readonly store: StoreName
  readonly work: string
  readonly inFlight: number
  readonly against: string
  readonly bound: Bound
  readonly figure?: 'p50Ms'
}

const LATENCY = { inFlight: 1, against: 'floor', bound: { atMost: 1.3 }, figure: 'p50Ms' } as const
const LAYOUTS = [', same core', ', other core'] as const

const DUELS: readonly Duel[] = [
  ...(['acquire+release', 'renew'] as const).flatMap((work): readonly Duel[] => [
    { store: 'redis', work, inFlight: 100, against: 'floor', bound: { atLeast: 1 } },
    ...LAYOUTS.map((layout) => ({ ...LATENCY, store: 'redis' as const, work: work + layout })),
  ]),
  ...(
    [
      ['advisory', 1.5],
      ['floor', 4],
      ['verrou', 5],
    ] as const
  ).map(([against, atLeast]) => duel('postgres', against, atLeast)),
  ...LAYOUTS.map((layout) => ({
    ...LATENCY,
    ...{ store: 'postgres' as const, work: `acquire+release${layout}` },
  })),
  ...(
    [
      ['limit', 0.5],
      ['verrou', 10],
      ['proper-lockfile', 5],
    ] as const
  ).map(([against, atLeast]) => duel('sqlite', against, atLeast)),
]

function duel(store: StoreName, against: string, atLeast: number): Duel {
  return { store, work: 'acquire+release', inFlight: 100, against, bound: { atLeast } }
}

function uncontendedReadings(results: readonly Result[]): readonly Reading[] {
  return DUELS.flatMap((one) =>
    TENURES.flatMap((system) => {
      const { store, work, inFlight, against, bound, figure } = one
      const find = (name: string): Result | undefined =>
        results.find(
          (result) =>
            result.store === store &&
            result.work === work &&
            result.inFlight === inFlight &&
            result.system === name,
        )
      const ratio = ratioBetween(find(system), find(against), figure)
      const what = figure === undefined ? 'throughput' : 'p50'
      const target = `${store}, ${work}, ${inFlight} in flight: ${what} of ${system} × ${against}`
      return reading(target, bound, ratio)
    }),
  )
}

function contendedReadings(results: readonly Result[]): readonly Reading[] {
  const own = results.filter(({ contention, rounds }) => contention && rounds.length > 0)
  const ours = own.filter(({ system }) => system === 'tenure')
  return ours.flatMap((result) => {
    const { work, store, contention } = result
    const rounds = contention?.rounds ?? []
    const name = `${store}, ${work}`
    const alike = own.filter((other) => other.work === work)
    const polling = alike.filter(
      ({ store: at, system }) => at === store && !['tenure', 'advisory'].includes(system),
    )
    const advisory = alike.find(({ system }) => system === 'advisory')
    const best = polling.toSorted((a, b) => handoversOf(b) - handoversOf(a))[0]
    const waits = rounds.map(({ waitP99Ms, idealWaitMs }) => waitP99Ms / idealWaitMs)
    return [
      ...plain(
        `${name}: starved workers`,
        { atMost: 0 },
        rounds.map(({ starved }) => starved),
      ),
      ...plain(
        `${name}: turns min/max`,
        { atLeast: 0.9 },
        rounds.map(({ fairness }) => fairness),
      ),
      ...plain(`${name}: p99 wait × the ideal`, { atMost: 1.3 }, waits),
      ...reading(`${name}: handovers × advisory`, { atLeast: 1 }, ratioBetween(result, advisory)),
      ...reading(
        `${name}: handovers × the best that polls (${best?.system})`,
        { atLeast: 4 },
        ratioBetween(result, best),
      ),
      ...plain(
        `${name}: commits per handover`,
        { atMost: 3 },
        [contention?.commitsPerHandover ?? null].filter((count) => count !== null),
      ),
    ]
  })
}

function handoversOf({ rounds }: Result): number {
  return median(rounds.map(({ opsPerSecond }) => opsPerSecond))
}

function growthReadings({ growth, space }: Findings): readonly Reading[] {
  const most = Math.max(0, ...growth.map(({ size }) => size))
  const sizes = most.toLocaleString('en')
  return [
    ...growth
      .filter(({ size, kind, system }) => {
        return size === most && kind === 'acquire' && system === 'tenure-service'
      })
      .flatMap((one) =>
        reading(
          `${one.store}: acquire among ${sizes} × that among 1,000`,
          { atMost: 1.5 },
          growthOf(one),
        ),
      ),
    ...space
      .filter(({ size }) => size === most)
      .flatMap(({ store, space: { diskBytes } }) => {
        const known = diskBytes === null ? [] : [diskBytes]
        return plain(`${store}: bytes on disk per lease`, { atMost: DISK_BYTES_MAX }, known)
      }),
  ]
}

function keepingReadings({ keeping }: Findings): readonly Reading[] {
  return keeping.flatMap(({ store, leases, cpuPart, worstPart }) => [
    {
      target: `${store}: CPU of one core to keep ${leases.toLocaleString('en')} leases`,
      wanted: `< ${percentText(CPU_PART_MAX)}`,
      reads: percentText(cpuPart),
      isMet: cpuPart < CPU_PART_MAX,
    },
    {
      target: `${store}: least time left at renewal`,
      wanted: '> half the TTL',
      reads: percentText(worstPart),
      isMet: worstPart > 0.5,
    },
  ])
}

function startUpReadings(results: readonly Result[]): readonly Reading[] {
  const find = (name: string): Result | undefined =>
    results.find(({ work, system }) => work === START_UP && system === name)
  const [node, ls] = [find(NODE_ALONE), find('tenure ls')]
  if (node === undefined || ls === undefined || ls.rounds.length === 0) return []
  // Both of a round, so that a busy moment weighs on both.
  const beyond = ls.rounds.map(({ p50Ms }, round) => {
    return (p50Ms - START_UP_EXTRA_MS) / (node.rounds[round]?.p50Ms ?? Number.NaN)
  })
  return plain('tenure ls, less 30 ms, × node -e 0', { atMost: 1.5 }, beyond)
}

function plain(target: string, bound: Bound, values: readonly number[]): readonly Reading[] {
  const sound = values.filter((value) => Number.isFinite(value))
  if (sound.length === 0) return []
  const spread = { median: median(sound), min: Math.min(...sound), max: Math.max(...sound) }
  return reading(target, bound, spread)
}

function reading(target: string, bound: Bound, spread: Spread | null): readonly Reading[] {
  if (spread === null) return []
  const [wanted, isMet] =
    'atLeast' in bound
      ? [`≥ ${twoDigits(bound.atLeast)}`, spread.median >= bound.atLeast]
      : [`≤ ${twoDigits(bound.atMost)}`, spread.median <= bound.atMost]
  return [{ target, wanted, reads: ratioText(spread), isMet }]
}
