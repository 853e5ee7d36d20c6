/** The tables of a run, from what it found out. */
import { median } from '../measure/statistics.ts'
import { ratioBetween, ratioOf, referenceOf, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import { STORE_NAMES, type StoreName, type SystemUnderTest } from '../system.ts'
import { ALL_SYSTEMS } from '../systems/all-systems.ts'
import { PARTS } from '../measure/processor-time.ts'
import { START_UP } from '../works/start-up.ts'
import { countText, msText, percentText, perSecondText, ratioText, twoDigits } from './figures.ts'
import type { Table } from './table.ts'

const STORE_TITLES: Readonly<Record<StoreName, string>> = {
  sqlite: 'SQLite',
  redis: 'Redis',
  postgres: 'PostgreSQL',
}

const REFERENCE_TITLES: Readonly<Record<StoreName, string>> = {
  sqlite: 'the limit',
  redis: 'the floor',
  postgres: 'the floor',
}

export function uncontendedTables({ results }: Findings): readonly Table[] {
  return STORE_NAMES.flatMap((store) => {
    const own = scored(results).filter(
      (result) => result.store === store && /^(acquire\+release|renew)(,|$)/.test(result.work),
    )
    if (own.length === 0) return []
    const title = `${STORE_TITLES[store]}, uncontended`
    const columns = ['work', 'in flight', 'system', 'per second', 'p50 ms', 'p99 ms']
    const against = REFERENCE_TITLES[store]
    return [
      {
        title,
        note: 'Whoever has no row for renewals does not renew on demand: redis-semaphore and proper-lockfile do it by themselves, and an advisory lock has nothing to renew.',
        columns: [...columns, `throughput × ${against}`, `p50 × ${against}`, 'does not offer'],
        rows: own.map((result) => uncontendedRow(result, results)),
      },
    ]
  })
}

function uncontendedRow(result: Result, all: readonly Result[]): readonly string[] {
  const reference = referenceOf(result, all)
  const figure = (name: 'opsPerSecond' | 'p50Ms' | 'p99Ms'): number =>
    median(result.rounds.map((round) => round[name]))
  return [
    result.work,
    String(result.inFlight),
    result.system,
    perSecondText(figure('opsPerSecond')),
    msText(figure('p50Ms')),
    msText(figure('p99Ms')),
    ratioText(ratioBetween(result, reference)),
    ratioText(ratioBetween(result, reference, 'p50Ms')),
    lacksOf(result),
  ]
}

/** What one would have to do without; shown beside the figures, because it is part of what they cost. */
function lacksOf({ store, system: name }: Result): string {
  const system = ALL_SYSTEMS.find((one) => one.store === store && one.name === name)
  const lacks = Object.entries(system?.offers ?? {}).flatMap(([what, isThere]) =>
    isThere ? [] : [what === 'ttl' ? 'TTL' : what],
  )
  return lacks.length === 0 ? '—' : lacks.join(', ')
}

const CONTENDED_NOTE =
  'Gap: from the end of one turn to the start of the next. Wait: waits that had not ended included; beside it how many times the ideal, workers × (hold + median gap of the same system). Turns min/max and the longest wait: of the worst round. Calls: how often Redis read from its sockets, for all who waited. Commits: transactions that wrote (SQLite), or got a number because they meant to (PostgreSQL). A dash: the store does not tell.'

export function contendedTables({ results }: Findings): readonly Table[] {
  const own = scored(results).filter(({ contention }) => contention !== undefined)
  const works = [...new Set(own.map(({ work }) => work))]
  return works.map((work) => ({
    title: `${work}, ${own.find((result) => result.work === work)?.inFlight} workers`,
    note: CONTENDED_NOTE,
    columns: [
      ...['store', 'system', 'handovers/s', '× reference', 'gap p50 ms', 'gap p99 ms'],
      ...[
        'turns min/max',
        'starved',
        'wait p99 ms',
        '× ideal',
        'longest wait ms',
        'calls/handover',
        'commits/handover',
      ],
      'does not offer',
    ],
    rows: own
      .filter((result) => result.work === work)
      .map((result) => contendedRow(result, results)),
  }))
}

function contendedRow(result: Result, all: readonly Result[]): readonly string[] {
  const rounds = result.contention?.rounds ?? []
  const middle = (figure: (round: (typeof rounds)[number]) => number): number =>
    median(rounds.map(figure))
  const [leastFair] = rounds.toSorted((a, b) => a.fairness - b.fairness)
  return [
    result.store,
    result.system,
    perSecondText(middle(({ handoversPerSecond }) => handoversPerSecond)),
    ratioText(ratioBetween(result, referenceOf(result, all))),
    msText(middle(({ gapP50Ms }) => gapP50Ms)),
    msText(middle(({ gapP99Ms }) => gapP99Ms)),
    `${leastFair?.fewest}/${leastFair?.most} = ${twoDigits(leastFair?.fairness ?? Number.NaN)}`,
    String(Math.max(...rounds.map(({ starved }) => starved))),
    msText(middle(({ waitP99Ms }) => waitP99Ms)),
    twoDigits(middle(({ waitP99Ms, idealWaitMs }) => waitP99Ms / idealWaitMs)),
    msText(Math.max(...rounds.map(({ waitMaxMs }) => waitMaxMs))),
    countText(result.contention?.operationsPerHandover ?? null),
    countText(result.contention?.commitsPerHandover ?? null),
    lacksOf(result),
  ]
}

export function pauseTables({ pauses, systems: measured }: Findings): readonly Table[] {
  if (pauses.length === 0) return []
  const tried = [...new Set(pauses.map(({ pauseMs }) => pauseMs))].toSorted((a, b) => a - b)
  const systems = [...new Set(pauses.map(({ store, system }) => `${store} ${system}`))]
  return [
    {
      title: 'Pauses of those who poll',
      note: 'True handovers per second of 50 workers in one process, 1 ms hold, by the pause between two attempts (those who can add up to as much again by chance). With the one that has a star, its best, each is measured in all other tables.',
      columns: ['store', 'system', ...tried.map((pauseMs) => `${pauseMs} ms`)],
      rows: systems.map((key) => {
        const own = pauses.filter(({ store, system }) => `${store} ${system}` === key)
        const cells = tried.map((pauseMs) => {
          const one = own.find((other) => other.pauseMs === pauseMs)
          const isUsed = measured.some(({ store, name, polling }) => {
            return `${store} ${name}` === key && polling?.pauseMs === pauseMs
          })
          return `${perSecondText(one?.handoversPerSecond ?? null)}${isUsed ? ' *' : ''}`
        })
        return [...key.split(' '), ...cells]
      }),
    },
  ]
}

export function manyTables({ growth, space }: Findings): readonly Table[] {
  const grown: Table = {
    title: 'Among many live leases',
    note: 'One at a time, each on a name that was never used before and lies anywhere among the others; of Tenure the service is measured. Expire: the acquire that settles a lease that has run out. List: the ten leases of any one holder. The p99 of a round of so few is its longest. The last column compares with a store of 1,000 that was measured in the same rounds.',
    columns: [
      'store',
      'system',
      'work',
      'live leases',
      'p50 ms',
      'p99 ms',
      'p50 × that among 1,000',
    ],
    rows: bySize(growth).map(({ store, system, kind, size, rounds, smallRounds }) => [
      ...[store, system, kind, size.toLocaleString('en')],
      msText(median(rounds.map(({ p50Ms }) => p50Ms))),
      msText(median(rounds.map(({ p99Ms }) => p99Ms))),
      ratioText(ratioOf(rounds, smallRounds, 'p50Ms')),
    ]),
  }
  const taken: Table = {
    title: 'Bytes per live lease of Tenure',
    note: 'On disk: with its event in the ledger and all indexes, beyond the names of resource, holder and session; of Redis a snapshot (RDB). Heap: what the process that acquired them all remembers of them, which has a limit.',
    columns: ['store', 'live leases', 'disk', "the server's memory", "this process's heap"],
    rows: space.map(({ store, size, space: each }) => [
      ...[store, size.toLocaleString('en')],
      ...[countText(each.diskBytes), countText(each.memoryBytes), countText(each.heapBytes)],
    ]),
  }
  return [grown, taken].filter(({ rows }) => rows.length > 0)
}

/** Within each store and kind; the store that stays small is measured last. */
function bySize(growth: Findings['growth']): Findings['growth'] {
  const keyOf = ({ store, system, kind }: Findings['growth'][number]): string => {
    return `${store} ${system} ${kind}`
  }
  const keys = [...new Set(growth.map(keyOf))]
  return growth.toSorted((a, b) => {
    return keys.indexOf(keyOf(a)) - keys.indexOf(keyOf(b)) || a.size - b.size
  })
}

export function keepingTables({ keeping }: Findings): readonly Table[] {
  if (keeping.length === 0) return []
  return [
    {
      title: 'Keeping leases alive',
      note: 'One run. The leases were acquired one hundred at a time over a third of the TTL; what the harness spends on looking at them four times a second is taken off. Store calls: transactions that wrote (SQLite, PostgreSQL), or reads from sockets (Redis). Time left: the least that any look found, whenever it was.',
      columns: [
        ...['store', 'leases', 'TTL', 'CPU of one core', 'renewals/s', 'store calls/s'],
        ...['least left at any time', 'lost'],
      ],
      rows: keeping.map((kept) => [
        ...[kept.store, kept.leases.toLocaleString('en'), `${kept.ttlMs / 1_000} s`],
        ...[percentText(kept.cpuPart), countText(kept.renewalsPerSecond)],
        countText(kept.operationsPerSecond),
        ...[`${percentText(kept.worstPart)} of the TTL`, String(kept.lost)],
      ]),
    },
  ]
}

export function startUpTables({ results }: Findings): readonly Table[] {
  const own = scored(results).filter(({ work }) => work === START_UP)
  if (own.length === 0) return []
  return [
    {
      title: 'Start-up of a process',
      note: 'Everybody once before, so that the files are in the cache of the disk.',
      columns: ['program', 'median ms', '× node -e 0'],
      rows: own.map((result) => [
        result.system,
        msText(median(result.rounds.map(({ p50Ms }) => p50Ms))),
        ratioText(ratioBetween(result, referenceOf(result, results), 'p50Ms')),
      ]),
    },
  ]
}

/** What each one is, and what it does not do. */
export function systemTable(
  systems: readonly SystemUnderTest[],
  stores: readonly StoreName[],
): Table {
  const mark = (isThere: boolean): string => (isThere ? 'yes' : 'no')
  return {
    title: 'Who is measured, and what each offers',
    columns: ['system', 'store', 'TTL', 'fence', 'fair', 'history', 'durable', 'settings'],
    rows: systems
      .filter(({ store }) => stores.includes(store))
      .map(({ name, store, offers, settings }) => [
        ...[name, store, mark(offers.ttl), mark(offers.fence), mark(offers.fair)],
        ...[mark(offers.history), mark(offers.durable), settings],
      ]),
  }
}

/** What was not scored, and why. */
export function failureTables({ results }: Findings): readonly Table[] {
  const failed = results.filter(({ error }) => error !== null)
  if (failed.length === 0) return []
  return [
    {
      title: 'Not scored',
      columns: ['system', 'store', 'work', 'in flight', 'why'],
      rows: failed.map(({ system, store, work, inFlight, error }) => {
        return [system, store, work, String(inFlight), error ?? '']
      }),
    },
  ]
}

function scored(results: readonly Result[]): readonly Result[] {
  return results.filter(({ error, rounds }) => error === null && rounds.length > 0)
}

export function profileTables({ profiles }: Findings): readonly Table[] {
  if (profiles.length === 0) return []
  const parts = PARTS.filter((part) => profiles.some(({ shares }) => shares[part] >= 0.005))
  return [
    {
      title: 'Processor time of one operation, 100 in flight',
      note: 'In µs, without what is waited for. The client by its parts: the rules (`core`), the handles (`client`), the stores, the driver, Node with all native code (SQLite too), and the collection of garbage. Client and server run on two cores, so that the slower of them sets the pace at best.',
      columns: ['work', 'store', 'system', 'client µs', 'server µs', ...parts],
      rows: profiles.map(({ work, store, system, clientUs, serverUs, shares }) => [
        ...[work, store, system, countText(clientUs), countText(serverUs)],
        ...parts.map((part) => countText(clientUs * shares[part])),
      ]),
    },
  ]
}
