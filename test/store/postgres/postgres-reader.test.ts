/** How much of a large table a question looks at. */
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { findStatement } from '../../../src/store/postgres/postgres-reader.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres-store.ts'
import type { EntryQuery } from '../../../src/store-port/store.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'

const ENTRIES = 20_000
const LIMIT = 10

/** As many live entries as ended ones, a hundred of each holder. */
const FILL = `
  INSERT INTO tenure.live_leases (namespace, id, number, due_us, live_until_us, version, claim,
      resource, holder, session, state, extent, fence, body)
    SELECT 1, gen_random_uuid(), n, 1000 + n, 1000 + n, 1, 1, 'work:' || n, 'holder-' || n / 100,
      's', 'active', 'exact', n, '{"ttlMs": 1, "createdAtMs": 0}'
    FROM generate_series(1, ${ENTRIES}) AS n;
  INSERT INTO tenure.ledger (namespace, seq, at_ms, lease_id, type, ended, ended_at, version,
      resource, holder, session, fence, data)
    SELECT 1, n, n, gen_random_uuid(), CASE WHEN n % 2 = 0 THEN 'released' ELSE 'expired' END,
      CASE WHEN n % 2 = 0 THEN 'released' ELSE 'expired' END, n, 1, 'work:' || n,
      'holder-' || n / 100, 's', n,
      '{"ended": {"body": {"ttlMs": 1, "createdAtMs": 0, "deadline": 1}}}'
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
  await client.query('ANALYZE tenure.live_leases, tenure.ledger')
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
  ['what was released', { states: ['released'] }, LIMIT + 1],
  ['what has ended', { states: ['released', 'expired', 'revoked'] }, 3 * (LIMIT + 1)],
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

it('what has ended and waits for its lock delay is listed apart from what has ended altogether', async () => {
  await client.query('BEGIN')
  try {
    await client.query(`UPDATE tenure.live_leases SET state = 'revoked' WHERE number = 500`)
    await client.query(`UPDATE tenure.ledger SET ended = 'revoked' WHERE seq IN (301, 701)`)
    const query = { states: ['revoked'], limit: LIMIT } as const
    const ask = async (rest: Partial<EntryQuery>): Promise<readonly unknown[]> => {
      const { text, values } = findStatement({ ...query, ...rest }, { namespace: 1, nowUs: 0 })
      const { rows } = await client.query({ text, values: [...values], rowMode: 'array' })
      return rows.map(([, number, position]) => position ?? number)
    }
    expect(await ask({})).toEqual(['301', '701'])
    expect(await ask({ after: '301' })).toEqual(['701'])
    expect(await ask({ after: '701' })).toEqual([null])
    expect(await ask({ delayed: true })).toEqual(['500'])
    expect(await ask({ delayed: true, after: '500' })).toEqual([null])
  } finally {
    await client.query('ROLLBACK')
  }
})
