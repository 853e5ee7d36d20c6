/** The tables of those who all want one resource, and of the pauses of those who wait by asking again. */
import { median } from '../measure/statistics.ts'
import { ratioBetween, referenceOf, type Result } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import { countText, msText, perSecondText, ratioText, twoDigits } from './figures.ts'
import { lacksOf, scored } from './scored.ts'
import type { Table } from './table.ts'

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
