/** A store of the layout before version 9 is converted when it is opened: nothing is lost, and nothing is written by the old. */
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseResource } from '../../../src/core/resource.ts'
import { PostgresCaller, type PostgresConnection } from '../../../src/drivers/postgres-driver.ts'
import { openApi } from '../../../src/open.ts'
import { systemRuntime } from '../../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../../src/service/lease-api.ts'
import { migrate } from '../../../src/store/postgres/postgres-migrations.ts'
import { layout8, oldLeaseId } from '../../fixtures/postgres-layout-8.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'

const ENDED = 3_000
const LIVE = 200
const FIRST_LIVE = ENDED + 1

let place: Place
let client: pg.Client

beforeEach(async () => {
  place = await freshDatabase()
  client = new pg.Client({ connectionString: place.url })
  await client.connect()
  const { rows } = await client.query<{ us: string }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us',
  )
  await client.query(layout8({ live: LIVE, ended: ENDED, startUs: Number(rows[0]?.us) }))
})

afterEach(async () => {
  await client.end()
  await place.remove()
})

async function using<Result>(work: (api: LeaseApi) => Promise<Result>): Promise<Result> {
  const api = await openApi(`${place.url}?convert=force`)
  try {
    return await work(api)
  } finally {
    await api.close()
  }
}

function resourceOf(n: number) {
  return parseResource(`work:W-${n}`)
}

it('keeps what is live, what has ended, the ledger with its positions, and the settings', async () => {
  const positions = await client.query({
    text: 'SELECT seq FROM tenure.ledger ORDER BY seq',
    rowMode: 'array',
  })
  await using(async (api) => {
    expect(await api.get({ id: oldLeaseId(FIRST_LIVE + 1) })).toMatchObject({
      ...{ state: 'active', holder: 'holder-2', renewals: 1, reason: `because ${FIRST_LIVE + 1}` },
    })
    expect(await api.get({ id: oldLeaseId(10) })).toMatchObject({
      ...{ state: 'released', ttlMs: 3_600_000, lockDelayMs: 100, metadata: { a: 'b' } },
      ...{ releaseReason: 'voluntary', holder: 'holder-0' },
    })
    const { leases, more } = await api.list({ limit: LIVE + 1 })
    expect([leases.length, more]).toEqual([LIVE, false])
    const ended = await api.list({ state: 'released', holder: 'holder-3', limit: ENDED })
    expect(ended.leases).toHaveLength(ENDED / 10)
    expect((await api.settings({ resource: resourceOf(1) })).max_renewals).toBe(7)
  })
  const converted = await client.query({
    text: 'SELECT seq FROM tenure.ledger ORDER BY seq',
    rowMode: 'array',
  })
  expect(converted.rows).toEqual(positions.rows)
})

it('goes on where it was: leases are renewed and released, requests known, fences greater', async () => {
  await using(async (api) => {
    const id = oldLeaseId(FIRST_LIVE)
    const resource = resourceOf(FIRST_LIVE)
    const holder = `holder-${FIRST_LIVE % 10}`
    const lease = await api.get({ id })
    expect(await api.renew({ id, resource, holder })).toMatchObject({ kind: 'renewed' })
    expect(await api.release({ id, resource, holder })).toMatchObject({ kind: 'released' })
    const asked = { holder, session: 's', ttlMs: 60_000, waitMs: 0 }
    const again = { id: oldLeaseId(7), resource: resourceOf(7), holder: 'holder-7' }
    const repeated = await api.acquire({ ...asked, ...again, session: 'session-7' })
    expect(repeated).toMatchObject({ kind: 'terminal', state: 'released' })
    const next = await api.acquire({ ...asked, id: systemRuntime.uuid(), resource })
    if (next.kind !== 'granted') throw new Error(`it was ${next.kind}`)
    expect(next.lease.fence).toBeGreaterThan(lease?.fence ?? 0)
  })
})

it('is refused while leases run, with their names, and nothing is changed', async () => {
  await expect(openApi(place.url)).rejects.toMatchObject({
    code: 'STORE_SCHEMA',
    message: expect.stringMatching(/may still hold work:W-\d+ of holder-\d .* and 195 more/),
    details: { held: LIVE },
  })
  const { rows } = await client.query('SELECT max(version) AS version FROM tenure.migrations')
  expect(rows).toEqual([{ version: 8 }])
  await client.query(
    `UPDATE tenure.leases SET live_until_us = live_until_us - 7200000000 WHERE live`,
  )
  const api = await openApi(place.url)
  await api.close()
})

it('lets no process of the version before write anything, from the first step on', async () => {
  const old = `SELECT tenure.attempt_change(ROW ('${oldLeaseId(FIRST_LIVE)}')::tenure.change) AS found`
  expect((await client.query(old)).rows).toEqual([{ found: '1' }])
  const before = await client.query('SELECT max(last_fence) AS fence FROM tenure.realms')
  await expect(migrating((text) => text.includes('old_leases AS l'))).rejects.toThrow('killed')
  await expect(client.query(old)).rejects.toThrow(/"tenure.leases" does not exist/)
  await using(async (api) => {
    await expect(client.query(old)).rejects.toThrow(/does not exist/)
    expect(await api.get({ id: oldLeaseId(FIRST_LIVE) })).toMatchObject({ state: 'active' })
  })
  const after = await client.query('SELECT max(last_fence) AS fence FROM tenure.realms')
  expect(after.rows).toEqual(before.rows)
})

it('goes on where another process was killed in the middle', async () => {
  let batches = 0
  const isSecond = (text: string): boolean => {
    if (text.startsWith('INSERT INTO tenure.ledger')) batches += 1
    return batches === 2
  }
  await expect(migrating(isSecond)).rejects.toThrow('killed')
  const { rows } = await client.query(`SELECT count(*)::integer AS converted,
    (SELECT max(version) FROM tenure.migrations) AS version FROM tenure.ledger`)
  expect(rows).toEqual([{ converted: 5_000, version: 9 }])
  const { leases } = await using((api) => api.list({ state: 'released', limit: ENDED + 1 }))
  expect(leases).toHaveLength(ENDED)
  const left = await client.query(
    `SELECT relname FROM pg_class WHERE relnamespace = 'tenure'::regnamespace AND relname ~ '^old_'`,
  )
  expect(left.rows).toEqual([])
})

it('gives a role on the new tables what it had on the old ones', async () => {
  const role = `old_worker_${place.url.slice(-8)}`
  await client.query(`CREATE ROLE ${role};
    GRANT SELECT, DELETE ON tenure.leases TO ${role}; GRANT INSERT ON tenure.ledger TO ${role}`)
  try {
    await using((api) => api.list({ limit: 1 }))
    const { rows } = await client.query(`SELECT table_name, privilege_type
      FROM information_schema.role_table_grants WHERE grantee = '${role}' ORDER BY 1, 2`)
    expect(rows).toEqual([
      { table_name: 'ledger', privilege_type: 'INSERT' },
      { table_name: 'live_leases', privilege_type: 'DELETE' },
      { table_name: 'live_leases', privilege_type: 'SELECT' },
      { table_name: 'refusals', privilege_type: 'INSERT' },
    ])
  } finally {
    await client.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  }
})

it('waits for a table that another transaction uses, and keeps nobody else waiting for long', async () => {
  const reader = new pg.Client({ connectionString: place.url })
  await reader.connect()
  await reader.query('BEGIN; SELECT count(*) FROM tenure.leases')
  const opening = using((api) => api.list({ limit: 1 }))
  const waiting = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'old_leases'`
  while ((await client.query(waiting)).rowCount === 0);
  expect((await client.query('SELECT count(*)::integer AS held FROM tenure.leases')).rows).toEqual([
    { held: ENDED + LIVE },
  ])
  await reader.query('COMMIT')
  await reader.end()
  expect((await opening).leases).toHaveLength(1)
})

/** Migrates over a connection that ends before a statement. */
async function migrating(endsBefore: (text: string) => boolean): Promise<void> {
  const pool = new pg.Pool({ connectionString: place.url, max: 1 })
  const options = { pool, runtime: systemRuntime, url: place.url }
  const caller = new PostgresCaller({ ...options, connectMs: 5_000, callMs: 60_000, prepare: true })
  try {
    await caller.during((connection) => {
      const run: PostgresConnection['run'] = (text, values) => {
        if (endsBefore(text)) throw new Error('killed')
        return connection.run(text, values)
      }
      return migrate({ run }, { url: place.url, isForced: true })
    })
  } finally {
    await pool.end()
  }
}
