/** How much of a large table a question looks at. */
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { findStatement } from '../../../src/store/postgres/postgres-reader.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import type { EntryQuery } from '../../../src/store-port/store.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'

const ENTRIES = 20_000
const LIMIT = 10

/** Every second entry is live, each hundredth of a holder of its own. */
const FILL = `INSERT INTO tenure.leases (namespace, id, number, due_us, deadline_us, live_until_us,
    ttl_ms, created_at, version, claim, renewals, max_renewals, resource, holder, session, state,
    mode, extent)
  SELECT 1, gen_random_uuid(), n, 1000 + n, 1000 + n, CASE WHEN n % 2 = 0 THEN 1000 + n END, 1, 0, 1,
    1, 0, -1, 'work:' || n, 'holder-' || n / 100, 's',
    CASE WHEN n % 2 = 0 THEN 'active' ELSE 'released' END, 'exclusive', 'exact'
  FROM generate_series(1, ${ENTRIES}) AS n`

let place: Place
let client: pg.Client

beforeAll(async () => {
  place = await freshDatabase()
  const store = await openPostgresStore({ url: place.url })
  await store.close()
  client = new pg.Client({ connectionString: place.url })
  await client.connect()
  await client.query(FILL)
  await client.query('ANALYZE tenure.leases')
})

afterAll(async () => {
  await client.end()
  await place.remove()
})

interface PlanNode {
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

/** The most rows that any step of the plan has touched. */
function rowsOf(node: PlanNode): number {
  const each = node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)
  return Math.max(each * node['Actual Loops'], ...(node.Plans ?? []).map(rowsOf))
}

it.each<[string, Omit<EntryQuery, 'limit'>, number]>([
  ['everything', {}, LIMIT + 1],
  ['what is live', { states: ['active', 'pending'], deadline: 'running' }, LIMIT + 1],
  ['what was released', { states: ['released'] }, 2 * (LIMIT + 1)],
  ['what waits', { states: ['pending'], deadline: 'running' }, LIMIT + 1],
  ['what one holder has', { holder: 'holder-150', deadline: 'running' }, 100],
])('a question for %s looks at few entries', async (_name, query, rowsMax) => {
  const statement = findStatement({ ...query, limit: LIMIT }, { namespace: 1, nowUs: 0 })
  const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
    `EXPLAIN (ANALYZE, FORMAT JSON) ${statement.text}`,
    [...statement.values],
  )
  const plan = rows[0]?.['QUERY PLAN'][0].Plan
  expect(plan === undefined ? Infinity : rowsOf(plan)).toBeLessThanOrEqual(rowsMax)
})

it('what has ended is listed while its lock delay lasts, in its place', async () => {
  const delayed = `UPDATE tenure.leases SET state = 'expired', terminated_at = 1 WHERE number = 500`
  const ended = `UPDATE tenure.leases SET state = 'expired' WHERE number IN (301, 701)`
  await client.query('BEGIN')
  try {
    await client.query(delayed)
    await client.query(ended)
    const query = { states: ['expired'], limit: LIMIT } as const
    const statement = findStatement(query, { namespace: 1, nowUs: 0 })
    const { rows } = await client.query<{ to_jsonb: { number: number } }>(statement.text, [
      ...statement.values,
    ])
    expect(rows.map((row) => row.to_jsonb.number)).toEqual([301, 500, 701])
  } finally {
    await client.query('ROLLBACK')
  }
})
