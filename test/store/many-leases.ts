/**
 * Fills a SQLite store with live leases, by SQL, because a million acquires would only measure patience, and measures
 * what an acquire costs among them.
 */
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

/** Copies the one lease that a real acquire made, with its event, until there are `count` of them. */
export async function fillStore(file: string, count: number): Promise<void> {
  const store = await SqliteStore.open({ path: file })
  const service = new LeaseService({ store, runtime: systemRuntime })
  await service.acquire({
    id: systemRuntime.uuid(),
    resource: parseResource('work:original'),
    holder: 'filler',
    session: 'filler',
    ttlMs: 86_400_000,
    waitMs: 0,
  })
  await service.close()
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.pragma('synchronous = OFF')
  const columns = (table: string): string[] =>
    (database.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name)
  const copy = (table: string, changes: Readonly<Record<string, string>>): string => {
    const chosen = columns(table).map((name) => changes[name] ?? name)
    return `INSERT INTO ${table} SELECT ${chosen.join(', ')} FROM ${table}, copies WHERE copies.n > 0`
  }
  database.exec(`CREATE TEMP TABLE copies AS WITH RECURSIVE c(n) AS (
    SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${count}) SELECT n FROM c`)
  const id = `printf('00000000-0000-4000-8000-%012d', copies.n)`
  const file_path = `'work:' || (copies.n * 7919 % 1000003) || '-' || copies.n`
  const agent_id = `'holder-' || (copies.n % 1000)`
  database.exec('BEGIN')
  database.exec(copy('live_leases', { number: 'NULL', id, file_path, agent_id }))
  const event = { lease_id: id, lease_number: '0', file_path, agent_id }
  database.exec(copy('lease_history', { ...event, seq: 'copies.n + 10' }))
  database.exec(`UPDATE store_state SET last_seq = ${count + 100}`)
  database.exec('COMMIT')
  database.close()
}

/** The median time of one acquire of a free resource, in milliseconds, one at a time. */
export async function medianAcquireMs(store: Store, samples: number): Promise<number> {
  const service = new LeaseService({ store, runtime: systemRuntime })
  const times: number[] = []
  for (let index = 0; index < samples; index += 1) {
    const leaseId = systemRuntime.uuid()
    const resource = parseResource(`work:sample-${index}`)
    const startMs = performance.now()
    await service.acquire({
      id: leaseId,
      resource,
      holder: 's',
      session: 's',
      ttlMs: 60_000,
      waitMs: 0,
    })
    times.push(performance.now() - startMs)
    await service.release({ id: leaseId, resource, holder: 's' })
  }
  return times.toSorted((a, b) => a - b)[Math.floor(samples / 2)] ?? Number.NaN
}

export interface Growth {
  readonly smallMs: number
  readonly largeMs: number
  readonly ratio: number
}

/** How often, and how many acquires each time. The median of the rounds counts. */
export interface Effort {
  readonly rounds: number
  readonly samples: number
  readonly synchronous: 'full' | 'normal'
}

export const THOROUGH: Effort = { rounds: 9, samples: 60, synchronous: 'full' }
/** Without the disk, enough to tell a cost that grows with the number of leases from one that does not. */
export const BRIEF: Effort = { rounds: 3, samples: 20, synchronous: 'normal' }

/** Both stores in one process, in turns, so that both see the same machine. */
export async function measureGrowth(
  files: { readonly small: string; readonly large: string },
  counts: { readonly small: number; readonly large: number },
  { rounds: count, samples, synchronous }: Effort = THOROUGH,
): Promise<Growth> {
  await fillStore(files.small, counts.small)
  await fillStore(files.large, counts.large)
  const small = await SqliteStore.open({ path: files.small, synchronous })
  const large = await SqliteStore.open({ path: files.large, synchronous })
  await medianAcquireMs(small, samples)
  await medianAcquireMs(large, samples)
  const rounds: Growth[] = []
  for (let round = 0; round < count; round += 1) {
    const smallMs = await medianAcquireMs(small, samples)
    const largeMs = await medianAcquireMs(large, samples)
    rounds.push({ smallMs, largeMs, ratio: largeMs / smallMs })
  }
  await small.close()
  await large.close()
  const middle = rounds.toSorted((a, b) => a.ratio - b.ratio)[Math.floor(rounds.length / 2)]
  if (middle === undefined) throw new Error('no round was measured')
  return middle
}
