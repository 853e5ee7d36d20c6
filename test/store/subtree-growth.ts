/**
 * Fills a store with live leases of files, a hundred to a directory, and measures what an acquire of a file and of a
 * small directory costs among them. SQLite is filled by SQL, because so many acquires would only measure patience.
 */
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { TickSource } from '../../src/runtime/tick-source.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import type { Store } from '../../src/store-port/store.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
import { THOROUGH, type Effort, type Growth } from './many-leases.ts'

const FILES_PER_DIRECTORY = 100

function fileOf(number: number): string {
  return `file:/tree/d${Math.floor(number / FILES_PER_DIRECTORY)}/f${number}`
}

async function acquireFile(service: LeaseService, resource: string): Promise<void> {
  await service.acquire({
    id: systemRuntime.uuid(),
    resource: parseResource(resource),
    ...{ holder: 'filler', session: 'filler', ttlMs: 86_400_000, waitMs: 0 },
  })
}

export async function filledMemory(count: number): Promise<Store> {
  const ticks: TickSource = new ManualTicks()
  const store = new MemoryStore({ ticks })
  const service = new LeaseService({ store, runtime: systemRuntime })
  for (let number = 0; number < count; number += 1) await acquireFile(service, fileOf(number))
  return store
}

/** Copies the one lease that a real acquire made until there are `count` of them. */
export async function filledSqlite(
  file: string,
  count: number,
  { synchronous }: Effort = THOROUGH,
): Promise<Store> {
  const first = await SqliteStore.open({ path: file })
  const service = new LeaseService({ store: first, runtime: systemRuntime })
  await acquireFile(service, 'file:/original')
  await service.close()
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.pragma('synchronous = OFF')
  const columns = (database.pragma('table_info(live_leases)') as { name: string }[]).map(
    ({ name }) => name,
  )
  const changes: Readonly<Record<string, string>> = {
    number: 'NULL',
    id: `printf('00000000-0000-4000-8000-%012d', n)`,
    file_path: `'/tree/d' || (n / ${FILES_PER_DIRECTORY}) || '/f' || n`,
  }
  const chosen = columns.map((name) => changes[name] ?? name)
  database.exec(`
    CREATE TEMP TABLE copies AS WITH RECURSIVE c(n) AS (
      SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < ${count - 1}) SELECT n FROM c;
    BEGIN;
    INSERT INTO live_leases SELECT ${chosen.join(', ')} FROM live_leases, copies;
    COMMIT`)
  database.close()
  return SqliteStore.open({ path: file, synchronous })
}

const PLACES = {
  file: { resource: parseResource('file:/tree/d3/new'), extent: 'exact' },
  // Nobody has anything in it, but there are as many directories beside it as there are.
  directory: { resource: parseResource('file:/tree/small'), extent: 'subtree' },
} as const

export type Asked = keyof typeof PLACES

/** The median time of one acquire, in milliseconds, one at a time. */
async function medianAcquireMs(store: Store, asked: Asked, samples: number): Promise<number> {
  const service = new LeaseService({ store, runtime: systemRuntime })
  const times: number[] = []
  for (let index = 0; index < samples; index += 1) {
    const place = { ...PLACES[asked], id: systemRuntime.uuid(), holder: 's' }
    const startMs = performance.now()
    const answer = await service.acquire({ ...place, session: 's', ttlMs: 60_000, waitMs: 0 })
    times.push(performance.now() - startMs)
    if (answer.kind !== 'granted') throw new Error(`${asked} was not granted: ${answer.kind}`)
    await service.release(place)
  }
  return times.toSorted((a, b) => a - b)[Math.floor(samples / 2)] ?? Number.NaN
}

/** Both stores in one process, in turns, so that both see the same machine. */
export async function growthOf(
  stores: { readonly small: Store; readonly large: Store },
  asked: Asked,
  { rounds: count, samples }: Effort = THOROUGH,
): Promise<Growth> {
  const { small, large } = stores
  await medianAcquireMs(small, asked, samples)
  await medianAcquireMs(large, asked, samples)
  const rounds: Growth[] = []
  for (let round = 0; round < count; round += 1) {
    const smallMs = await medianAcquireMs(small, asked, samples)
    const largeMs = await medianAcquireMs(large, asked, samples)
    rounds.push({ smallMs, largeMs, ratio: largeMs / smallMs })
  }
  const middle = rounds.toSorted((a, b) => a.ratio - b.ratio)[Math.floor(rounds.length / 2)]
  if (middle === undefined) throw new Error('no round was measured')
  return middle
}
