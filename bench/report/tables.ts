/** The tables of a run, from what it found out. */
import { median, percentile } from '../measure/statistics.ts'
import { ratioBetween, referenceOf, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import { STORE_NAMES, type StoreName, type SystemUnderTest } from '../system.ts'
import { PARTS } from '../measure/processor-time.ts'
import { HOOK } from '../works/hook.ts'
import { HTTP_HANDOVER, HTTP_PAIRS } from '../works/http.ts'
import { START_UP } from '../works/start-up.ts'
import { countText, msText, percentText, perSecondText, ratioText } from './figures.ts'
import { lacksOf, scored } from './scored.ts'
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

export function httpTables({ results, http }: Findings): readonly Table[] {
  const own = scored(results).filter(({ work }) => work === HTTP_PAIRS || work === HTTP_HANDOVER)
  const figure = ({ rounds }: Result, name: 'opsPerSecond' | 'p50Ms' | 'p99Ms'): number =>
    median(rounds.map((round) => round[name]))
  const pairs = {
    title: 'Over HTTP, on SQLite',
    note: 'The server is a process of its own on this machine. `embedded` is the library on a store of its own; `plain calls` are one POST for each acquire and release on 100 connections; `etcd` is its lock service by its JSON gateway. The handover is from before the release until the other client has the lease.',
    columns: [
      ...['work', 'in flight', 'system', 'per second', 'p50 ms', 'p99 ms'],
      ...['throughput × embedded', 'p50 × embedded'],
    ],
    rows: own.map((result) => [
      ...[result.work, String(result.inFlight), result.system],
      perSecondText(figure(result, 'opsPerSecond')),
      ...[msText(figure(result, 'p50Ms')), msText(figure(result, 'p99Ms'))],
      ratioText(ratioBetween(result, referenceOf(result, results))),
      ratioText(ratioBetween(result, referenceOf(result, results), 'p50Ms')),
    ]),
  }
  const costs = {
    title: 'What clients over HTTP cost',
    columns: ['what', 'CPU of one core, server', 'CPU of one core, client', 'memory of the server'],
    rows: http.flatMap(({ keeping, streams }) => [
      [
        `${keeping.leases.toLocaleString('en')} leases kept by one client, ${keeping.lost} lost`,
        ...[percentText(keeping.serverPart), percentText(keeping.clientPart), '-'],
      ],
      [
        `${streams.count.toLocaleString('en')} idle streams`,
        ...[percentText(streams.cpuPart), '-', `${(streams.bytes / 1e6).toFixed(0)} MB`],
      ],
    ]),
  }
  return [...(own.length === 0 ? [] : [pairs]), ...(http.length === 0 ? [] : [costs])]
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

export function hookTables({ results }: Findings): readonly Table[] {
  const own = scored(results).filter(({ work }) => work === HOOK)
  if (own.length === 0) return []
  return [
    {
      title: "The hook of a coding agent's edit",
      note: 'A process each time, of a new session, which takes the lease of a free file on SQLite. Each once before, so that the files are in the cache of the disk.',
      columns: ['program', 'median ms', 'p99 ms', '× node -e 0'],
      rows: own.map((result) => {
        const spans = result.rounds.map(({ p50Ms }) => p50Ms)
        const ratio = ratioBetween(result, referenceOf(result, results), 'p50Ms')
        return [
          ...[result.system, msText(median(spans)), msText(percentile(spans, 0.99))],
          ratioText(ratio),
        ]
      }),
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

export function profileTables({ profiles }: Findings): readonly Table[] {
  if (profiles.length === 0) return []
  const parts = PARTS.filter((part) => profiles.some(({ shares }) => shares[part] >= 0.005))
  return [
    {
      title: 'Processor time of one operation, 100 in flight',
      note: "In µs, without what is waited for. The client by its parts: the rules (`core`), the handles (`client`), what takes commands and gives outcomes (`service`), the stores, the driver, Node with all native code (SQLite too), the collection of garbage, and what measures, with what is written by hand (`other`). Client and server run on two cores, so that the slower of them sets the pace at best. `client KB`: what the client allocates for it, by V8's sampling heap profiler.",
      columns: ['work', 'store', 'system', 'client KB', 'client µs', 'server µs', ...parts],
      rows: profiles.map(({ work, store, system, clientUs, serverUs, shares, clientBytes }) => [
        ...[work, store, system, kilobytes(clientBytes), countText(clientUs), countText(serverUs)],
        ...parts.map((part) => countText(clientUs * shares[part])),
      ]),
    },
  ]
}

function kilobytes(bytes: number): string {
  return (bytes / 1_024).toFixed(1)
}
