/** The tables of growth: what an operation takes among many live leases, and what each of them takes. */
import { median } from '../measure/statistics.ts'
import { ratioOf } from '../result.ts'
import type { Findings } from '../run-bench.ts'
import { countText, msText, ratioText } from './figures.ts'
import type { Table } from './table.ts'

export function manyTables({ growth, space }: Findings): readonly Table[] {
  const grown: Table = {
    title: 'Among many live leases',
    note: 'One at a time, each on a name that was never used before and lies anywhere among the others; of Tenure the service is measured. Expire: the acquire that settles a lease that has run out. List: the ten leases of any one holder. The p99 of a round of so few is its longest. The last two columns tell of a store of 1,000 that was measured in the same rounds as the row, and of the ratio to it: the median of the ratios of the rounds, which is not quite that of the two medians. The row of 1,000 is the one beside the largest store.',
    columns: [
      'store',
      'system',
      'work',
      'live leases',
      'p50 ms',
      'p99 ms',
      'p50 ms among 1,000',
      'p50 × that among 1,000',
    ],
    rows: bySize(growth).map(({ store, system, kind, size, rounds, smallRounds }) => [
      ...[store, system, kind, size.toLocaleString('en')],
      msText(median(rounds.map(({ p50Ms }) => p50Ms))),
      msText(median(rounds.map(({ p99Ms }) => p99Ms))),
      msText(median(smallRounds.map(({ p50Ms }) => p50Ms))),
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
