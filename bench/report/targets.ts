/** What Tenure means to reach, and what this run read. A target that was not measured is left out, unless somebody failed there. */
import { median } from '../measure/statistics.ts'
import { ratioOf, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import type { StoreName } from '../system.ts'
import { JUDGED_SCENE } from '../works/contended.ts'
import { HOOK, hookName } from '../works/hook.ts'
import { EMBEDDED, ETCD, HTTP_CLIENT, HTTP_HANDOVER, HTTP_PAIRS } from '../works/http.ts'
import { NODE_ALONE, START_UP } from '../works/start-up.ts'
import { percentText, wholeText } from './figures.ts'
import { duelReading, plain, reading, worst, type Bound, type Reading } from './reading.ts'
import type { Table } from './table.ts'

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
    ...httpReadings(findings),
    ...startUpReadings(findings.results),
    ...hookReadings(findings.results),
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
    return { target: `${store}, ${work}: ${system}`, wanted: 'no failure', reads, met: 'no' }
  })
}

export function targetTables(findings: Findings, isJudged: boolean): readonly Table[] {
  const readings = readingsOf(findings)
  if (readings.length === 0) return []
  const met = readings.filter((one) => one.met === 'yes').length
  const spread = 'The median of the rounds, and in brackets from where to where they went.'
  const verdict = isJudged
    ? `${met} of ${readings.length} are met: by the median of the rounds, and by at least three quarters of them.`
    : 'This run was too short to say what is met.'
  return [
    {
      title: 'To reach',
      note: `${verdict} ${spread}`,
      columns: ['target', 'wanted', 'reads', ...(isJudged ? ['met'] : [])],
      rows: readings.map((one) => {
        return [one.target, one.wanted, one.reads, ...(isJudged ? [one.met] : [])]
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
      const alike = results.filter((result) => {
        return result.store === store && result.work === work && result.inFlight === inFlight
      })
      const what = figure === undefined ? 'throughput' : 'p50'
      const target = `${store}, ${work}, ${inFlight} in flight: ${what} of ${system} × ${against}`
      return duelReading(target, bound, {
        ...{ figure, ours: alike.find((result) => result.system === system) },
        theirs: alike.find((result) => result.system === against),
      })
    }),
  )
}

/** Without a hold, and between processes, it is told and not judged. */
function contendedReadings(results: readonly Result[]): readonly Reading[] {
  const own = results.filter(({ work }) => work === JUDGED_SCENE)
  const ours = own.filter(({ system }) => system === 'tenure')
  return ours.flatMap((result) => {
    const { work, store, contention } = result
    const rounds = contention?.rounds ?? []
    const name = `${store}, ${work}`
    const starved = rounds.map((round) => round.starved)
    const fairness = rounds.map((round) => round.fairness)
    const waits = rounds.map(({ waitP99Ms, idealWaitMs }) => waitP99Ms / idealWaitMs)
    // Redis does not count commits; each of them is a call.
    const commits = contention?.commitsPerHandover ?? contention?.operationsPerHandover ?? null
    return [
      ...worst(`${name}: starved workers`, { atMost: 0, written: wholeText }, starved),
      ...worst(`${name}: turns min/max`, { atLeast: 0.9 }, fairness),
      ...plain(`${name}: p99 wait × the ideal`, { atMost: 1.3 }, waits),
      ...handoverReadings(name, result, own),
      ...plain(
        `${name}: commits per handover${store === 'redis' ? ', at most (calls)' : ''}`,
        { atMost: 3 },
        commits === null ? [] : [commits],
      ),
    ]
  })
}

/** What is written by hand polls as well as the peers do: whoever of them is best is compared with. */
function handoverReadings(
  name: string,
  ours: Result,
  results: readonly Result[],
): readonly Reading[] {
  const advisory = results.find(({ system }) => system === 'advisory')
  const [best] = results
    .filter(({ store, system }) => {
      return store === ours.store && !['tenure', 'advisory'].includes(system)
    })
    .toSorted((a, b) => handoversOf(b) - handoversOf(a))
  const target = `${name}: handovers ×`
  const polls = `${target} the best that polls (${best?.system})`
  return [
    ...duelReading(`${target} advisory`, { atLeast: 1 }, { ours, theirs: advisory }),
    ...duelReading(polls, { atLeast: 4 }, { ours, theirs: best }),
  ]
}

/** Less than nothing for whoever was not scored. */
function handoversOf({ rounds }: Result): number {
  return rounds.length === 0 ? -1 : median(rounds.map(({ opsPerSecond }) => opsPerSecond))
}

function growthReadings({ growth, space }: Findings): readonly Reading[] {
  const most = Math.max(0, ...growth.map(({ size }) => size))
  const sizes = most.toLocaleString('en')
  return [
    ...growth
      .filter(({ size, kind, system }) => {
        return size === most && kind === 'acquire' && system === 'tenure-service'
      })
      .flatMap(({ store, rounds, smallRounds }) => {
        const ratio = ratioOf(rounds, smallRounds, 'p50Ms')
        const target = `${store}: acquire among ${sizes} × that among 1,000`
        return ratio === null ? [] : reading(target, { atMost: 1.5 }, ratio)
      }),
    ...space
      .filter(({ size }) => size === most)
      .flatMap(({ store, space: { diskBytes } }) => {
        const known = diskBytes === null ? [] : [diskBytes]
        return plain(
          `${store}: bytes on disk per lease`,
          { atMost: DISK_BYTES_MAX, written: wholeText },
          known,
        )
      }),
  ]
}

function keepingReadings({ keeping }: Findings): readonly Reading[] {
  return keeping.flatMap(({ store, leases, cpuPart, worstPart, lost }) => [
    {
      target: `${store}: CPU of one core to keep ${leases.toLocaleString('en')} leases`,
      wanted: `< ${percentText(CPU_PART_MAX)}`,
      reads: percentText(cpuPart),
      met: cpuPart < CPU_PART_MAX && lost === 0 ? 'yes' : 'no',
    },
    {
      target: `${store}: least time left at any look`,
      wanted: '> half the TTL',
      reads: percentText(worstPart),
      met: worstPart > 0.5 ? 'yes' : 'no',
    },
  ])
}

function httpReadings({ results, http }: Findings): readonly Reading[] {
  const of = (work: string, system: string, inFlight: number): Result | undefined => {
    return results.find((one) => {
      return one.work === work && one.system === system && one.inFlight === inFlight
    })
  }
  const pairs = (system: string, inFlight: number): Result | undefined => {
    return of(HTTP_PAIRS, system, inFlight)
  }
  const [many, one] = [100, 1].map((count) => pairs(HTTP_CLIENT, count))
  const alone = pairs(EMBEDDED, 1)
  const extraMs = one?.rounds.map(({ p50Ms }, round) => {
    return p50Ms - (alone?.rounds[round]?.p50Ms ?? Number.NaN)
  })
  const handover = of(HTTP_HANDOVER, HTTP_CLIENT, 1)?.rounds.map(({ p50Ms }) => p50Ms)
  const target = 'HTTP, pairs, 100 in flight: throughput of the http:// client ×'
  return [
    ...duelReading(
      `${target} embedded`,
      { atLeast: 0.5 },
      { ours: many, theirs: pairs(EMBEDDED, 100) },
    ),
    ...duelReading(`${target} etcd`, { atLeast: 5 }, { ours: many, theirs: pairs(ETCD, 100) }),
    ...plain('HTTP, a pair, 1 in flight: ms more than embedded', { atMost: 1.5 }, extraMs ?? []),
    ...plain('HTTP, handover between two clients: ms', { atMost: 5 }, handover ?? []),
    ...http.flatMap(({ keeping, streams }) => [
      ...plain(
        `HTTP: CPU of one core to keep ${keeping.leases.toLocaleString('en')} leases, both sides`,
        { atMost: 0.1, written: percentText },
        [keeping.clientPart + keeping.serverPart],
      ),
      ...plain(
        `HTTP: CPU of one core for ${streams.count.toLocaleString('en')} idle streams`,
        { atMost: 0.02, written: percentText },
        [streams.cpuPart],
      ),
      ...plain(
        `HTTP: MB for ${streams.count.toLocaleString('en')} idle streams`,
        { atMost: 100, written: wholeText },
        [streams.bytes / 1e6],
      ),
    ]),
  ]
}

function startUpReadings(results: readonly Result[]): readonly Reading[] {
  const beyond = beyondNode(results, START_UP, 'tenure ls')
  return beyond === null ? [] : plain('tenure ls, less 30 ms, × node -e 0', { atMost: 1.5 }, beyond)
}

function hookReadings(results: readonly Result[]): readonly Reading[] {
  return [10, 1_000, 10_000].flatMap((size) => {
    const name = hookName(size)
    const beyond = beyondNode(results, HOOK, name)
    return beyond === null ? [] : plain(`${name}, less 30 ms, × node -e 0`, { atMost: 3 }, beyond)
  })
}

/** How often Node alone goes into a program less 30 ms: both of a round, so that a busy moment weighs on both. */
function beyondNode(
  results: readonly Result[],
  work: string,
  name: string,
): readonly number[] | null {
  const own = results.filter((result) => result.work === work)
  const node = own.find(({ system }) => system === NODE_ALONE)
  const program = own.find(({ system }) => system === name)
  if (node === undefined || program === undefined || program.rounds.length === 0) return null
  return program.rounds.map(({ p50Ms }, round) => {
    return (p50Ms - START_UP_EXTRA_MS) / (node.rounds[round]?.p50Ms ?? Number.NaN)
  })
}
