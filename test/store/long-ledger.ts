/**
 * A SQLite store with a long ledger, made by copying the rows of two pairs that Tenure wrote: one resource is used by
 * every thousandth pair, one was used by the first ten pairs alone and then rests. And how long questions take in it.
 */
import fs from 'node:fs'
import { parseResource } from '../../src/core/resource.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { StatementCache } from '../../src/store/sqlite/sqlite-state.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { HistoryIndex } from '../../src/store/sqlite/sqlite-history.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

export const BUSY = parseResource('work:busy')
export const IDLE = parseResource('work:idle')

/** What is asked, how many are found, and how. */
export const QUESTIONS: readonly (readonly [
  name: string,
  expected: number,
  ask: (api: LeaseService) => Promise<number>,
])[] = [
  [
    'history of a resource',
    100,
    (api) => lengthOf(api.history({ resource: BUSY, newestFirst: true, limit: 100 })),
  ],
  [
    'history of a holder',
    100,
    (api) => lengthOf(api.history({ holder: 'busy', newestFirst: true, limit: 100 })),
  ],
  [
    'history of a resource that rests',
    20,
    (api) => lengthOf(api.history({ resource: IDLE, newestFirst: true, limit: 100 })),
  ],
  ['list by state', 100, (api) => listed(api.list({ state: 'revoked', limit: 100 }))],
  [
    'list by state and resource',
    100,
    (api) => listed(api.list({ state: 'released', resource: BUSY, limit: 100 })),
  ],
  [
    'list by state and holder',
    100,
    (api) => listed(api.list({ state: 'released', holder: 'busy', limit: 100 })),
  ],
]

async function lengthOf(answer: Promise<readonly unknown[]>): Promise<number> {
  return (await answer).length
}

async function listed(answer: Promise<{ readonly leases: readonly unknown[] }>): Promise<number> {
  return (await answer).leases.length
}

/** The store has the events of this many pairs; each 16th was revoked, so that a state is rare as well. */
export async function makeLongLedger(file: string, pairs: number): Promise<void> {
  fs.rmSync(file, { force: true })
  const store = await SqliteStore.open({ path: file })
  const service = new LeaseService({ store, runtime: systemRuntime })
  const wish = { resource: parseResource('work:template'), holder: 'h', session: 's', waitMs: 0 }
  const released = systemRuntime.uuid()
  await service.acquire({ ...wish, id: released })
  await service.release({ id: released, holder: 'h', requestId: systemRuntime.uuid() })
  const revoked = systemRuntime.uuid()
  await service.acquire({ ...wish, id: revoked })
  await service.revoke({ id: revoked, by: 'operator' })
  await service.close()
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.pragma('synchronous = OFF')
  const columns = (database.pragma('table_info(lease_history)') as { name: string }[]).map(
    ({ name }) => name,
  )
  const changes: Readonly<Record<string, string>> = {
    seq: 'copies.n * 2 + 3 + (old.seq - 1) % 2',
    lease_id: `printf('%08x-0000-7000-8000-%012x', copies.n, copies.n)`,
    lease_number: 'copies.n * 268435456',
    file_path: `CASE WHEN copies.n <= 10 THEN 'work:idle' WHEN copies.n % 1000 = 0 THEN 'work:busy'
      ELSE 'work:' || (copies.n * 7919 % 100003) END`,
    agent_id: `CASE WHEN copies.n <= 10 THEN 'idle' WHEN copies.n % 1000 = 0 THEN 'busy'
      ELSE 'holder-' || (copies.n % 1009) END`,
    request_id: `CASE old.request_id WHEN '' THEN ''
      ELSE iif(old.request_id IS NULL, NULL, printf('%08x-0000-7000-9000-%012x', copies.n, copies.n)) END`,
  }
  const chosen = columns.map((name) => changes[name] ?? `old.${name}`)
  database.exec(
    `
    CREATE TEMP TABLE copies AS WITH RECURSIVE c(n) AS (
      SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${pairs}) SELECT n FROM c;
    BEGIN;
    INSERT INTO lease_history (${columns.join(', ')})
      SELECT ${chosen.join(', ')} FROM copies
      CROSS JOIN lease_history AS old ON old.seq IN (iif(n % 16, 1, 3), iif(n % 16, 2, 4))
      ORDER BY 1;
    UPDATE store_state SET last_seq = ${pairs * 2 + 4};`.replace(
      'ORDER BY 1',
      'ORDER BY copies.n, old.seq',
    ),
  )
  const names = { namespace: 'default', namespaceNumber: 0, domainOf: String, generationOf: Number }
  new HistoryIndex(new StatementCache(database), names).build(0, pairs * 2 + 4)
  database.exec('COMMIT')
  database.close()
}

/** Takes the older half of the ledger out, as pruning does. */
export async function pruneHalf(file: string, pairs: number): Promise<void> {
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.exec(`BEGIN;
    DELETE FROM lease_history WHERE seq BETWEEN 25 AND ${pairs};
    COMMIT`)
  database.close()
}

/** The median time of a question, in milliseconds of the processor: what else the machine does is no part of it. */
export async function medianMs(ask: () => Promise<unknown>, samples = 9): Promise<number> {
  const times: number[] = []
  for (let sample = 0; sample < samples; sample += 1) {
    const before = process.cpuUsage()
    await ask()
    const { user, system } = process.cpuUsage(before)
    times.push((user + system) / 1_000)
  }
  return times.toSorted((a, b) => a - b)[Math.floor(samples / 2)] ?? 0
}
