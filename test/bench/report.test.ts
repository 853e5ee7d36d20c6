import { describe, expect, it } from 'vitest'
import { spreadOf } from '../../bench/measure/statistics.ts'
import { amountTable } from '../../bench/report/amounts.ts'
import { pauseTables } from '../../bench/report/contended-tables.ts'
import { ratioText } from '../../bench/report/figures.ts'
import { pageOf } from '../../bench/report/page.ts'
import { hookTables } from '../../bench/report/tables.ts'
import { markdownText, terminalText } from '../../bench/report/table.ts'
import { readingsOf, targetTables } from '../../bench/report/targets.ts'
import { QUICK } from '../../bench/plan.ts'
import { redisFloor } from '../../bench/systems/redis-floor.ts'
import { redlockSystem } from '../../bench/systems/redis-peers.ts'
import { HOOK, hookName } from '../../bench/works/hook.ts'
import { withBestPauses } from '../../bench/works/pauses.ts'
import { NODE_ALONE } from '../../bench/works/start-up.ts'
import { FINDINGS, result } from './some-findings.ts'

const TABLE = {
  title: 'A title',
  columns: ['who', 'per second'],
  rows: [
    ['a|b', '1,000'],
    ['long name', '5'],
  ],
}

describe('a table', () => {
  it('has words to the left and figures to the right', () => {
    expect(terminalText(TABLE)).toBe(
      'A title\nwho        per second\na|b             1,000\nlong name           5\n',
    )
  })

  it('on a page keeps a bar within its cell', () => {
    expect(markdownText(TABLE)).toBe(
      '### A title\n\n| who | per second |\n| --- | --: |\n| a\\|b | 1,000 |\n| long name | 5 |\n',
    )
  })
})

it('a target that was measured is read, one that was not is left out', () => {
  expect(readingsOf(FINDINGS)).toEqual([
    {
      target: 'redis, acquire+release, 100 in flight: throughput of tenure × floor',
      ...{ wanted: '≥ 1.00', reads: '1.10', met: 'yes' },
    },
  ])
})

it('the page shows what was scored with what it does not offer, and what was not with the reason', () => {
  const plan = { ...QUICK, works: [], stores: ['redis'] as const }
  const page = pageOf(
    { plan, missing: [], machine: { facts: [['date', 'today']] }, findings: FINDINGS },
    [],
  )
  expect(page).toMatch(/\| acquire\+release \| 100 \| floor .* \| fence, fair, history, durable \|/)
  expect(page).toMatch(/\| acquire\+release \| 100 \| tenure \| 110 .* \| 1\.10 \|/)
  expect(page).toContain('| verrou | redis | acquire+release | 100 | does not exclude: <& more |')
})

it('a ratio shows from where to where its rounds went', () => {
  expect(ratioText(spreadOf([1, 1.5, 1.2]))).toBe('1.20 (1.00–1.50)')
})

it('a target does not go away because the other one failed', () => {
  const floor = result('floor', 0, { rounds: [], error: 'no server' })
  expect(readingsOf({ ...FINDINGS, results: [floor, result('tenure', 110)] })).toMatchObject([
    { reads: 'not measured: no server', met: 'no' },
  ])
})

it.each([
  [true, ['target', 'wanted', 'reads', 'met'], /^1 of 1 are met: /],
  [false, ['target', 'wanted', 'reads'], /^This run was too short to say what is met\. /],
])('targets are judged by a run that is long enough: %s', (isJudged, columns, note) => {
  const [table] = targetTables(FINDINGS, isJudged)
  expect(table?.columns).toEqual(columns)
  expect(table?.rows[0]).toHaveLength(columns.length)
  expect(table?.note).toMatch(note)
})

it('of the pauses that were tried, the best is used and has a star', () => {
  const tried = { store: 'redis', system: 'floor' } as const
  const pauses = [
    { ...tried, pauseMs: 2, handoversPerSecond: 30 },
    { ...tried, pauseMs: 5, handoversPerSecond: 200.4 },
  ]
  const systems = withBestPauses([redisFloor(1), redlockSystem(2)], pauses)
  expect(systems.map(({ name, polling }) => [name, polling?.pauseMs])).toEqual([
    ['floor', 5],
    ['redlock', 2],
  ])
  const [table] = pauseTables({ ...FINDINGS, systems, pauses })
  expect(table?.rows).toEqual([['redis', 'floor', '30.0', '200 *']])
})

it('one round is a round', () => {
  const amountsOf = (rounds: number) => {
    const plan = { ...QUICK, works: ['start-up'] as const, stores: [], startUp: { rounds } }
    return amountTable(plan, []).rows[0]?.[1]
  }
  expect([amountsOf(1), amountsOf(2)]).toEqual(['1 round', '2 rounds'])
})

it('the hook of an edit is told by its median, its 99th percentile, and how often Node alone goes into it', () => {
  const rounds = (spans: readonly number[]) => {
    return spans.map((ms) => ({ opsPerSecond: 1_000 / ms, p50Ms: ms, p99Ms: ms }))
  }
  const own = { work: HOOK, store: 'process', inFlight: 1 } as const
  const results = [
    result(NODE_ALONE, 1, { ...own, isReference: true, rounds: rounds([40, 40, 40]) }),
    result(hookName(1_000), 1, { ...own, rounds: rounds([100, 110, 140]) }),
  ]
  const [table] = hookTables({ ...FINDINGS, results })
  expect(table?.rows[1]?.slice(0, 3)).toEqual(['tenure hook, 1,000 leases', '110', '140'])
  const reading = readingsOf({ ...FINDINGS, results }).find(({ target }) => target.includes('hook'))
  expect(reading).toMatchObject({ wanted: '≤ 3.00', met: 'yes' })
})
