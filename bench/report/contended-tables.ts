/** The tables of those who all want one resource, and of the pauses of those who wait by asking again. */
import { median } from '../measure/statistics.ts'
import { ratioBetween, referenceOf, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import { countText, msText, perSecondText, ratioText, twoDigits } from './figures.ts'
import { lacksOf, scored } from './scored.ts'
import type { Table } from './table.ts'

const NOTE =
  'In this table and the other contended ones. Gap: from the end of one turn to the start of the next. Wait: waits that had not ended included. × ideal: how many times workers × (hold + median gap). Each system is compared with its own gap, so that a slow one can look good there: it says how evenly a system serves, not how fast. Turns min/max and the longest wait: of the worst round. Calls: how often Redis read from its sockets, for all who waited. Commits: transactions that wrote (SQLite), or got a number because they meant to (PostgreSQL). A dash: the store does not tell. Those who poll pause everywhere as served them best with 50 workers in one process and 1 ms hold.'

const HOLDLESS_NOTE =
  'SQLite answers within the call: `limit` and `verrou` have acquired and released again before another worker of the process can ask. Hardly anybody contends with them here, and a × ideal far below 1 says just that.'

const COLUMNS = [
  ...['store', 'system', 'handovers/s', '× floor or limit', 'gap p50 ms', 'gap p99 ms'],
  ...['turns min/max', 'starved', 'wait p99 ms', '× ideal', 'longest wait ms'],
  ...['calls/handover', 'commits/handover', 'does not offer'],
]

export function contendedTables({ results }: Findings): readonly Table[] {
  const all = scored(results).filter(({ contention }) => contention !== undefined)
  const works = [...new Set(all.map(({ work }) => work))]
  return works.map((work, index) => {
    const own = all.filter((result) => result.work === work)
    const notes = [
      ...(index === 0 ? [NOTE] : []),
      ...(isHoldless(work) && own.some(({ store }) => store === 'sqlite') ? [HOLDLESS_NOTE] : []),
    ]
    return {
      title: `${work}, ${own[0]?.inFlight} workers`,
      ...(notes.length === 0 ? {} : { note: notes.join(' ') }),
      columns: COLUMNS,
      rows: own.map((result) => contendedRow(result, results)),
    }
  })
}

function isHoldless(work: string): boolean {
  return work.includes(' 0 ms hold')
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
      note: 'True handovers per second of 50 workers in one process, 1 ms hold, by the pause between two attempts (those who can add up to as much again by chance). With the one that has a star, its best, each is measured in all other tables, also without a hold and in 4 processes, where another might serve it better.',
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
