/**
 * Whatever statistics a server has of its tables, or none yet, it must not walk them, however they have grown since it
 * planned.
 */
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { openPostgresBackend } from '../../../src/store/postgres/postgres-store.ts'
import type { Attempt, VersionedEntry } from '../../../src/store/optimistic/backend.ts'
import { freshDatabase } from '../../servers/shared-servers.ts'
import { grantOf, leaseOf, releaseOf } from './hand-made.ts'

const ROUNDS = 25
const TOGETHER = 50
const ROWS_PER_ATTEMPT_MAX = 5
const LIVE = 400

/** The server's clock stands still from round to round: no attempt is late for it. */
async function takeTurns(url: string, rounds: number): Promise<void> {
  let nowUs = Date.now() * 1_000
  const backend = await openPostgresBackend({ url, poolSize: 1, nowUs: () => nowUs })
  const attempt = async (attempts: readonly Attempt[]): Promise<void> => {
    const { replies } = await backend.attempt({ settingsRevision: 1, attempts })
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(['committed']))
  }
  for (let round = 0; round < rounds; round += 1) {
    nowUs = Date.now() * 1_000
    const leases = Array.from({ length: TOGETHER }, (_, n) => leaseOf(`work:p-${n}`, { nowUs }))
    const held = leases.map((entry): VersionedEntry => ({ entry, version: 1, claim: 1 }))
    await attempt(leases.map((lease) => grantOf(lease, nowUs)))
    await attempt(held.map((kept) => releaseOf(kept, nowUs).attempt))
  }
  // Its connection tells what it has read when it ends.
  await backend.close()
}

async function grantMany(url: string): Promise<void> {
  const nowUs = Date.now() * 1_000
  const backend = await openPostgresBackend({ url, poolSize: 1, nowUs: () => nowUs })
  const leases = Array.from({ length: LIVE }, (_, n) => leaseOf(`work:l-${n}`, { nowUs }))
  const attempts = leases.map((lease) => grantOf(lease, nowUs))
  await backend.attempt({ settingsRevision: 1, attempts })
  await backend.close()
}

interface Read {
  readonly read: string
}

async function ask(url: string, text: string): Promise<readonly Read[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<Read>(text)
  await client.end()
  return rows
}

const OTHERS = `SELECT count(*) AS read FROM pg_stat_activity
  WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`

/** How many entries all connections that were closed found through an index, or in another way: they tell before they are gone. */
async function readSoFar(url: string, found = 'idx_tup_fetch'): Promise<number> {
  while (Number((await ask(url, OTHERS))[0]?.read) > 0);
  const text = `SELECT sum(${found}) AS read FROM pg_stat_user_tables WHERE relname IN ('live_leases', 'ledger')`
  const [row] = await ask(url, text)
  return Number(row?.read)
}

describe.each([
  ['has no statistics', 'SELECT 0 AS read'],
  ['has statistics of times when nothing was live', 'ANALYZE tenure.live_leases, tenure.ledger'],
  ['has been vacuumed when nothing was live', 'VACUUM ANALYZE tenure.live_leases, tenure.ledger'],
])('a server that %s', (_, gather) => {
  it('looks at a few entries for each attempt, however many have ended', async () => {
    await using place = await freshDatabase()
    // Connections that are new plan anew, on tables of all sizes.
    for (const rounds of [1, 4, ROUNDS]) {
      await takeTurns(place.url, rounds)
      await ask(place.url, gather)
    }
    const read = await readSoFar(place.url)
    expect(read).toBeGreaterThan(0)
    expect(read).toBeLessThan(ROUNDS * TOGETHER * 2 * ROWS_PER_ATTEMPT_MAX)
  })

  it.each([
    ['the due', { deadline: 'passed', limit: 5 }],
    ['the first', { deadline: 'running', limit: 5 }],
  ] as const)('finds %s among many that came later', async (_what, query) => {
    await using place = await freshDatabase()
    await takeTurns(place.url, 2)
    await ask(place.url, gather)
    await grantMany(place.url)
    const before = await readSoFar(place.url)
    const backend = await openPostgresBackend({ url: place.url, poolSize: 1 })
    const { entries } = await backend.find(query)
    expect(entries.length).toBe(query.deadline === 'passed' ? 0 : query.limit)
    await backend.close()
    expect((await readSoFar(place.url)) - before).toBeLessThan(LIVE / 4)
  })
})

/** Renewals of a lease that is live, which stay for as long as they can be repeated, and after them leases that may go. */
async function manyThatStay(client: pg.Client, gone: number): Promise<void> {
  const columns =
    'at_ms, fence, ended_at, version, namespace, type, ended, resource, holder, session'
  const like = (type: string): string =>
    `(SELECT * FROM tenure.ledger WHERE type = '${type}' LIMIT 1)`
  const insert = `INSERT INTO tenure.ledger (seq, lease_id, request_id, data, ${columns})`
  const rest = columns.replace('type', `'renewed'`)
  await client.query(`${insert} SELECT seq + 1000 + n, lease_id, gen_random_uuid(), data, ${rest}
    FROM generate_series(1, ${20_000}) AS n, ${like('issued')} AS one`)
  await client.query(`${insert} SELECT seq + 50000 + n, gen_random_uuid(), NULL, data, ${columns}
    FROM generate_series(1, ${gone}) AS n, ${like('released')} AS one`)
  await client.query('ANALYZE tenure.ledger')
}

it('a batch of pruning looks at little more than it removes, however much may not go yet', async () => {
  await using place = await freshDatabase()
  const dayMs = 86_400_000
  const nowMs = Date.now()
  const nowUs = (nowMs - 10 * dayMs) * 1_000
  const backend = await openPostgresBackend({ url: place.url, poolSize: 1, nowUs: () => nowUs })
  const leases = ['work:a', 'work:b'].map((name) => leaseOf(name, { nowUs }))
  const attempts = leases.map((lease) => grantOf(lease, nowUs))
  await backend.attempt({ settingsRevision: 1, attempts })
  const ended = leases.slice(1).map((entry) => releaseOf({ entry, version: 1, claim: 1 }, nowUs))
  await backend.attempt({ settingsRevision: 1, attempts: ended.map(({ attempt }) => attempt) })
  await backend.close()
  const client = new pg.Client({ connectionString: place.url })
  await client.connect()
  await manyThatStay(client, 400)
  await client.end()
  const inAnyWay = 'idx_tup_fetch + seq_tup_read'
  const before = await readSoFar(place.url, inAnyWay)
  const prune = `SELECT leases AS read FROM tenure.namespaces,
    tenure.prune_v9(number, ${nowMs - 7 * dayMs}, ${nowMs}, 100, '')`
  const [row] = await ask(place.url, prune)
  expect(Number(row?.read)).toBe(100)
  expect((await readSoFar(place.url, inAnyWay)) - before).toBeLessThan(100 * 20)
})
