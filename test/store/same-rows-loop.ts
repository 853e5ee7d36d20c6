/**
 * How fast durable acquire + release pairs are on the embedded store, against a bare better-sqlite3 loop that writes the
 * same rows into the same tables, in transactions of as many operations as Tenure has in flight. Rounds are interleaved
 * and the ratio is taken per round, because absolute times on a shared machine say little. (The limit of `npm run bench`
 * is a leaner loop, with tables of its own.)
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { configureConnection } from '../../src/store/sqlite/sqlite-connection.ts'
import { leaseNumberOf } from '../../src/store/sqlite/sqlite-state.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import {
  loadSqlite,
  type SqliteDatabase,
  type SqliteStatement,
} from '../../src/drivers/sqlite-driver.ts'

const IN_FLIGHT = 100
const RESOURCES = 1_000
const TTL_MS = 30_000

export interface Round {
  readonly barePairsPerSecond: number
  readonly tenurePairsPerSecond: number
  readonly ratio: number
}

/** One round of each, one after the other, on fresh files. */
export async function measureRound(pairs: number): Promise<Round> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-bench-'))
  try {
    const barePairsPerSecond = await measureBare(path.join(directory, 'bare.db'), pairs)
    const tenurePairsPerSecond = await measureTenure(path.join(directory, 'tenure.db'), pairs)
    const ratio = tenurePairsPerSecond / barePairsPerSecond
    return { barePairsPerSecond, tenurePairsPerSecond, ratio }
  } finally {
    fs.rmSync(directory, { recursive: true, force: true })
  }
}

async function measureTenure(file: string, pairs: number): Promise<number> {
  const store = await SqliteStore.open({ path: file })
  const api = new LeaseService({ store, runtime: systemRuntime })
  const startMs = performance.now()
  let left = pairs
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await onePair(api, left)
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
  const seconds = (performance.now() - startMs) / 1000
  await api.close()
  return pairs / seconds
}

async function onePair(api: LeaseApi, index: number): Promise<void> {
  const leaseId = systemRuntime.uuid()
  const resource = parseResource(`work:item-${index % RESOURCES}`)
  const holder = 'bench'
  const request = { id: leaseId, resource, holder, session: 'bench', ttlMs: TTL_MS, waitMs: 0 }
  const acquired = await api.acquire(request)
  if (acquired.kind !== 'granted') throw new Error(`acquire came to ${acquired.kind}`)
  const released = await api.release({
    id: leaseId,
    resource,
    holder,
    requestId: systemRuntime.uuid(),
  })
  if (released.kind !== 'released') throw new Error(`release came to ${released.kind}`)
}

/** The same tables, indexes and columns; the values are of the same size, and every id is new. */
async function measureBare(file: string, pairs: number): Promise<number> {
  const made = await SqliteStore.open({ path: file })
  await new LeaseService({ store: made, runtime: systemRuntime }).acquire({
    id: systemRuntime.uuid(),
    resource: parseResource('work:template'),
    holder: 'bench',
    session: 'bench',
    ttlMs: TTL_MS,
    waitMs: 0,
  })
  await made.close()
  const Driver = await loadSqlite()
  const database = new Driver(file)
  configureConnection(database, 'full')
  const startMs = performance.now()
  bareLoop(database, pairs)
  const seconds = (performance.now() - startMs) / 1000
  database.close()
  return pairs / seconds
}

function bareLoop(database: SqliteDatabase, pairs: number): void {
  const copy = new RowCopier(database)
  for (let done = 0; done < pairs; done += IN_FLIGHT) {
    const ids = Array.from({ length: IN_FLIGHT }, () => systemRuntime.uuid())
    database.exec('BEGIN IMMEDIATE')
    ids.forEach((id, offset) => copy.acquire(id, done + offset))
    database.exec('COMMIT')
    database.exec('BEGIN IMMEDIATE')
    ids.forEach((id) => copy.release(id))
    database.exec('COMMIT')
  }
}

/** As long as what Tenure keeps of a lease that was released. */
const ENDED =
  '{"releaseReason":"voluntary","ended":{"body":{"ttlMs":30000,"createdAtMs":1700000000000,"terminatedAtMs":1700000000001,"releaseReason":"voluntary","deadline":123456789012}}}'

type Row = Record<string, string | number | null>

/** Writes rows like the one that Tenure wrote first, with a new id, resource and time each. */
class RowCopier {
  readonly #lease: Row
  readonly #event: Row
  readonly #insertLease: SqliteStatement
  readonly #insertEvent: SqliteStatement
  readonly #endLease: SqliteStatement
  #sequence = 10

  constructor(database: SqliteDatabase) {
    const columns = (table: string): string =>
      (database.pragma(`table_info(${table})`) as { name: string }[])
        .map(({ name }) => name)
        .join(', ')
    // Generated columns are none that a row is written with.
    const first = (table: string): Row =>
      database.prepare(`SELECT ${columns(table)} FROM ${table}`).get() as Row
    this.#lease = { ...first('live_leases'), number: null }
    this.#event = first('lease_history')
    const insert = (table: string, row: object): string =>
      `INSERT INTO ${table} (${Object.keys(row).join(', ')}) VALUES (${Object.keys(row)
        .map(() => '?')
        .join(', ')})`
    this.#insertLease = database.prepare(insert('live_leases', this.#lease))
    this.#insertEvent = database.prepare(insert('lease_history', this.#event))
    this.#endLease = database.prepare('DELETE FROM live_leases WHERE id = ?')
  }

  acquire(id: string, index: number): void {
    const place = { file_path: `work:item-${index % RESOURCES}` }
    this.#insertLease.run(...Object.values({ ...this.#lease, ...place, id }))
    this.#append(id, { ...place, event_type: 'acquired' })
  }

  release(id: string): void {
    this.#endLease.run(id)
    this.#append(id, {
      request_id: systemRuntime.uuid(),
      event_type: 'released',
      ended_at: Date.now(),
      data: ENDED,
    })
  }

  #append(leaseId: string, changes: Record<string, string | number>): void {
    this.#sequence += 1
    const names = { lease_id: leaseId, lease_number: leaseNumberOf(leaseId), seq: this.#sequence }
    const row = { ...this.#event, ...changes, ...names }
    this.#insertEvent.run(...Object.values(row))
  }
}
