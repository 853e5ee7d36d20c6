import { expect, it } from 'vitest'
import { contendedTables, pauseTables } from '../../bench/report/contended-tables.ts'
import type { StoreName } from '../../bench/system.ts'
import { JUDGED_SCENE } from '../../bench/works/contended.ts'
import { contention, FINDINGS, result } from './some-findings.ts'

const HOLDLESS = 'handover, 0 ms hold'
const SCENES = [JUDGED_SCENE, HOLDLESS, `${JUDGED_SCENE}, 4 processes`]

function tablesOn(store: StoreName) {
  const detail = { operationsPerHandover: null, commitsPerHandover: null }
  const results = SCENES.map((work) =>
    result('tenure', 9, { work, store, contention: { rounds: [contention()], ...detail } }),
  )
  return contendedTables({ ...FINDINGS, results })
}

it('what the columns of the contended tables mean is said once', () => {
  const tables = tablesOn('redis')
  expect(tables).toHaveLength(3)
  const [first, ...others] = tables.map(({ note }) => note)
  expect(first).toContain('Gap: from the end of one turn')
  expect(first).toContain('its own gap')
  expect(others).toEqual([undefined, undefined])
  expect(tables.map(({ columns }) => columns[3])).toEqual(SCENES.map(() => '× floor or limit'))
})

it('without a hold it is said that in SQLite hardly anybody waits', () => {
  const notes = tablesOn('sqlite').map(({ note }) => note)
  expect(notes[1]).toContain('`limit` and `verrou`')
  expect(notes[2]).toBeUndefined()
})

it('the pauses are said to be those for one process and a hold', () => {
  const pauses = [{ store: 'redis', system: 'floor', pauseMs: 2, handoversPerSecond: 30 } as const]
  const [table] = pauseTables({ ...FINDINGS, pauses })
  expect(table?.note).toContain('also without a hold and in 4 processes')
})
