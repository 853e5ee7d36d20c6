/** What calls lock on the server, in which order, and when they read the clock. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Entry, Lease } from '../../../src/core/lease.ts'
import type { PostgresPool } from '../../../src/drivers/postgres-driver.ts'
import { openPostgresBackend } from '../../../src/store/postgres/postgres-store.ts'
import type { Attempt, Reply } from '../../../src/store/optimistic/backend.ts'
import { freshDatabase, type Place } from '../../servers/shared-servers.ts'
import { advanceOf, grantOf, leaseOf, releaseOf, renewalOf } from './hand-made.ts'
import { freshNamespace } from './postgres-stage.ts'

const START_US = 1_700_000_000_000_000
const ADVISORY = `SELECT count(*)::integer AS held FROM pg_locks
  WHERE locktype = 'advisory' AND pid = pg_backend_pid()`

let place: Place

beforeAll(async () => {
  place = await freshDatabase()
  const backend = await openPostgresBackend({ url: place.url })
  await backend.close()
})

afterAll(() => place.remove())

/** A pool that looks, before each statement is committed, how many advisory locks it holds. */
function countingPool(pool: pg.Pool, counts: number[]): PostgresPool {
  const connect: PostgresPool['connect'] = async () => {
    const client = await pool.connect()
    return {
      on: () => undefined,
      removeListener: () => undefined,
      release: (error) => client.release(error),
      query: async (query) => {
        await client.query('BEGIN')
        const result = await client.query(query as unknown as pg.QueryArrayConfig)
        const { rows } = await client.query<{ held: number }>(ADVISORY)
        counts.push(rows[0]?.held ?? 0)
        await client.query('COMMIT')
        return result
      },
    }
  }
  const query = (): never => {
    throw new Error('nobody asks the pool itself')
  }
  return { ...{ query }, totalCount: 2, connect, end: () => pool.end(), on: () => undefined }
}

function grants(kind: string, count: number): readonly Attempt[] {
  return Array.from({ length: count }, (_, n) => {
    return grantOf(leaseOf(`${kind}${n}`, { nowUs: START_US }), START_US)
  })
}

describe('the advisory locks of a call', () => {
  it.each([
    ['of a tree', grants('file:/f', 20)],
    ['of a tree, beside plain ones', [...grants('work:w', 10), ...grants('file:/f', 10)]],
  ])('are one, however many attempts %s it has', async (_name, attempts) => {
    const pool = new pg.Pool({ connectionString: place.url, max: 3 })
    const counts: number[] = []
    const options = { namespace: freshNamespace(), nowUs: () => START_US }
    const backend = await openPostgresBackend({ pool: countingPool(pool, counts), ...options })
    counts.length = 0
    const { replies } = await backend.attempt({ settingsRevision: 1, attempts })
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(['committed']))
    expect(counts).toEqual([1])
    await backend.close()
    await pool.end()
  })
})

describe('an advance', () => {
  it('waits for its realm before it locks its entry, as a revocation does', async () => {
    // On a clock that stands still: what had to wait is not late for it.
    const nowUs = START_US
    const options = { namespace: freshNamespace(), nowUs: () => nowUs }
    const backend = await openPostgresBackend({ url: place.url, ...options })
    const client = new pg.Client({ connectionString: place.url })
    await client.connect()
    const lease = leaseOf('workflow:order', { nowUs })
    await backend.attempt({ settingsRevision: 1, attempts: [grantOf(lease, nowUs)] })
    await client.query('BEGIN')
    await client.query(`SELECT 1 FROM tenure.realms WHERE realm = 'workflow:order' FOR UPDATE`)
    const { attempt } = advanceOf({ entry: lease, version: 1, claim: 1 }, nowUs)
    const advanced = backend.attempt({ settingsRevision: 1, attempts: [attempt] })
    await untilSomebodyWaits()
    // With the entry in the other's hands this would be refused at once.
    const entry = `SELECT 1 FROM tenure.live_leases WHERE id = '${lease.id}' FOR UPDATE NOWAIT`
    expect((await client.query(entry)).rowCount).toBe(1)
    await client.query('COMMIT')
    expect((await advanced).replies).toEqual([{ kind: 'committed', fencesMovedBy: 0 }])
    await client.end()
    await backend.close()
  })
})

describe('a renewal that had to wait for its entry', () => {
  it('is judged by the clock after the wait, also when nothing was changed meanwhile', async () => {
    const options = { namespace: freshNamespace(), callMs: 15_000 }
    const backend = await openPostgresBackend({ url: place.url, ...options })
    const client = new pg.Client({ connectionString: place.url })
    await client.connect()
    const nowUs = await serverUs(client)
    const lease = leaseOf('work:late', { nowUs, ttlMs: 5_000 })
    const beforeUs = lease.deadline.us
    const granted = { ...grantOf(lease, nowUs), beforeUs }
    await backend.attempt({ settingsRevision: 1, attempts: [granted] })
    await client.query('BEGIN')
    await client.query(`UPDATE tenure.live_leases SET version = 2 WHERE id = '${lease.id}'`)
    const { attempt } = renewalOf({ entry: lease, version: 1, claim: 1 }, nowUs)
    const attempts = [{ ...attempt, beforeUs }]
    const renewed = backend.attempt({ settingsRevision: 1, attempts })
    await untilSomebodyWaits()
    expect(await serverUs(client)).toBeLessThan(beforeUs)
    while ((await serverUs(client)) < beforeUs) await client.query('SELECT pg_sleep(0.02)')
    await client.query('ROLLBACK')
    const { replies, nowUs: readUs } = await renewed
    expect(replies.map(({ kind }) => kind)).toEqual(['missed'])
    expect(readUs).toBeGreaterThanOrEqual(beforeUs)
    await client.end()
    await backend.close()
  })
})

/** While a transaction of another process is open; it is committed when the attempt waits for it. */
async function besideOpen(
  sql: (namespace: number) => string,
  { lease, attempt }: { readonly lease: Lease; readonly attempt: Attempt },
): Promise<{ readonly reply: Reply | undefined; readonly live: readonly Entry[] }> {
  const options = { namespace: freshNamespace(), nowUs: () => START_US }
  const backend = await openPostgresBackend({ url: place.url, ...options })
  const client = new pg.Client({ connectionString: place.url })
  await client.connect()
  if (attempt.writes[0]?.before !== null) {
    await backend.attempt({ settingsRevision: 1, attempts: [grantOf(lease, START_US)] })
  }
  const { rows } = await client.query<{ number: number }>(
    `SELECT number FROM tenure.namespaces WHERE name = '${options.namespace}'`,
  )
  await client.query('BEGIN')
  await client.query(sql(rows[0]?.number ?? 0))
  const attempted = backend.attempt({ settingsRevision: 1, attempts: [attempt] })
  await untilSomebodyWaits()
  await client.query('COMMIT')
  const [reply] = (await attempted).replies
  const { entries: live } = await backend.find({ states: ['active'], limit: 9 })
  await client.end()
  await backend.close()
  return { reply, live }
}

const WAITING = `SELECT count(*)::integer AS calls FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock'`

/** A pool of which each attempt must wait until another client has changed the realm. */
function disturbedPool(pool: pg.Pool, other: pg.Client): PostgresPool {
  const disturbed = async (sending: () => Promise<pg.QueryResult>): Promise<pg.QueryResult> => {
    await other.query('BEGIN')
    await other.query(`UPDATE tenure.realms SET last_us = last_us WHERE realm = 'work:busy'`)
    const sent = sending()
    for (let calls = 0; calls === 0;) {
      const { rows } = await other.query<{ calls: number }>(WAITING)
      calls = rows[0]?.calls ?? 0
    }
    // It may fail before this session hears that its commit is done.
    const [answer] = await Promise.all([sent, other.query('COMMIT')])
    return answer
  }
  const connect: PostgresPool['connect'] = async () => {
    const client = await pool.connect()
    return {
      on: () => undefined,
      release: (error) => client.release(error),
      query: (query) => {
        const send = () => client.query(query as unknown as pg.QueryArrayConfig)
        return query.values?.[3] === '{"work:busy"}' ? disturbed(send) : send()
      },
    }
  }
  const query = (): never => {
    throw new Error('nobody asks the pool itself')
  }
  return { ...{ query }, totalCount: 2, connect, end: () => pool.end(), on: () => undefined }
}

describe('a call that had to wait', () => {
  it.each(['read committed', 'repeatable read', 'serializable'])(
    'is answered where the default isolation is %s',
    async (isolation) => {
      const options = `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`
      const pool = new pg.Pool({ connectionString: place.url, options })
      const other = new pg.Client({ connectionString: place.url })
      await other.connect()
      const context = { namespace: freshNamespace(), nowUs: () => START_US }
      const grants = [0, 1].map(() => grantOf(leaseOf('work:busy', { nowUs: START_US }), START_US))
      const quiet = await openPostgresBackend({ url: place.url, ...context })
      await quiet.attempt({ settingsRevision: 1, attempts: grants.slice(0, 1) })
      const backend = await openPostgresBackend({ pool: disturbedPool(pool, other), ...context })
      const asked = backend.attempt({ settingsRevision: 1, attempts: grants.slice(1) })
      const [outcome] = await Promise.allSettled([asked])
      await Promise.all([quiet.close(), backend.close()])
      await Promise.all([pool.end(), other.end()])
      expect(outcome).toMatchObject({ value: { replies: [{ kind: 'missed' }] } })
    },
  )
})

describe('what another call changes between the comparison and the write', () => {
  it('of a realm that both make, the later one knows the fence that the first one gave', async () => {
    const lease = leaseOf('work:new', { nowUs: START_US })
    const fence = lease.fence + 6
    const { reply, live } = await besideOpen(
      (namespace) => `INSERT INTO tenure.realms (namespace, realm, last_fence)
        VALUES (${namespace}, 'work:new', ${fence})`,
      { lease, attempt: grantOf(lease, START_US) },
    )
    expect(reply).toEqual({ kind: 'committed', fencesMovedBy: 7 })
    expect(live).toMatchObject([{ fence: fence + 1 }])
  })

  it('a renewal that comes before a release is not undone by it', async () => {
    const lease = leaseOf('work:renewed', { nowUs: START_US })
    const { reply, live } = await besideOpen(
      () => `UPDATE tenure.live_leases SET version = version + 1 WHERE id = '${lease.id}'`,
      { lease, attempt: releaseOf({ entry: lease, version: 1, claim: 1 }, START_US).attempt },
    )
    expect(reply).toMatchObject({ kind: 'missed' })
    expect(live).toMatchObject([{ id: lease.id }])
  })
})

async function serverUs(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ us: string }>(
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us',
  )
  return Number(rows[0]?.us)
}

/** Until a statement in this database waits for a lock. */
async function untilSomebodyWaits(): Promise<void> {
  const client = new pg.Client({ connectionString: place.url })
  await client.connect()
  const waiting = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`
  while ((await client.query(waiting)).rowCount === 0);
  await client.end()
}
