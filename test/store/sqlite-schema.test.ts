import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isLeaseError, type LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { APPLICATION_ID, SCHEMA_VERSION } from '../../src/store/sqlite/sqlite-schema.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

let directory: string
let file: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-schema-'))
  file = path.join(directory, 'leases.db')
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

async function rawDatabase(): Promise<SqliteDatabase> {
  const Driver = await loadSqlite()
  return new Driver(file)
}

async function createStore(): Promise<void> {
  const store = await SqliteStore.open({ path: file })
  await store.close()
}

async function refusal(opening: Promise<unknown>): Promise<LeaseError> {
  const error: unknown = await opening.then(
    () => null,
    (reason: unknown) => reason,
  )
  if (!isLeaseError(error)) throw new Error(`expected a LeaseError, got ${String(error)}`)
  return error
}

function acquisition(name: string): Parameters<LeaseService['acquire']>[0] {
  const resource = parseResource(`work:${name}`)
  const id = systemRuntime.uuid()
  return { id, resource, holder: 'ada', session: 'ada', ttlMs: 60_000, waitMs: 0 }
}

function columnsOf(database: SqliteDatabase, table: string): readonly string[] {
  const rows = database.pragma(`table_xinfo(${table})`) as { readonly name: string }[]
  return rows.map((row) => row.name)
}

describe('the tables', () => {
  it('carry the columns of the seed', async () => {
    await createStore()
    const database = await rawDatabase()
    expect(columnsOf(database, 'leases').slice(0, 10).join(' ')).toBe(
      'id file_path agent_id created_at expires_at ttl_seconds status renewal_count max_renewals updated_at',
    )
    expect(columnsOf(database, 'lease_history').slice(0, 10).join(' ')).toBe(
      'id lease_id agent_id file_path event_type status_before status_after renewal_count event_at reason',
    )
    expect(columnsOf(database, 'lease_configs').slice(0, 10).join(' ')).toBe(
      'id config_key config_value value_type description scope resource_id requires_restart created_at updated_at',
    )
    expect(columnsOf(database, 'migrations').join(' ')).toBe(
      'version name description applied_at status error_message',
    )
    database.close()
  })

  it('index what is live by what decisions look for, and of the ledger only ids and ends', async () => {
    await createStore()
    const database = await rawDatabase()
    const rows = database
      .prepare(`SELECT tbl_name, name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`)
      .all() as { readonly tbl_name: string; readonly name: string }[]
    const namesOf = (table: string): readonly string[] =>
      rows.filter((row) => row.tbl_name === table).map((row) => row.name)
    expect(namesOf('live_leases').toSorted()).toEqual([
      'idx_live_agent_id',
      'idx_live_due',
      'idx_live_file_path',
      'idx_live_pending',
      'idx_live_session',
      'idx_live_subtree',
    ])
    expect(namesOf('lease_history').toSorted()).toEqual([
      'idx_lease_history_ended_at',
      'idx_lease_history_lease',
      'idx_lease_history_request',
    ])
    database.close()
  })

  it('hold what a person would expect to read', async () => {
    // On a clock that stands still: so short a lease may be over before it is released.
    const store = await SqliteStore.open({ path: file, ticks: new ManualTicks() })
    const service = new LeaseService({ store, runtime: systemRuntime })
    const leaseId = systemRuntime.uuid()
    const resource = parseResource('file:/repo/src/app.ts')
    const holder = 'agent-7'
    await service.acquire({ id: leaseId, resource, holder, session: 's', ttlMs: 1_500, waitMs: 0 })
    await service.release({ id: leaseId, resource, holder, releaseReason: 'completed' })
    await service.close()
    const database = await rawDatabase()
    expect(database.prepare('SELECT * FROM leases').get()).toMatchObject({
      id: leaseId,
      file_path: '/repo/src/app.ts',
      agent_id: 'agent-7',
      ttl_seconds: 2,
      ttl_ms: 1_500,
      status: 'released',
      renewal_count: 0,
      max_renewals: -1,
    })
    const events = database
      .prepare(
        'SELECT event_type, status_before, status_after, reason FROM lease_history ORDER BY seq',
      )
      .all()
    expect(events).toEqual([
      { event_type: 'acquired', status_before: null, status_after: 'active', reason: null },
      {
        event_type: 'released',
        status_before: 'active',
        status_after: 'released',
        reason: 'completed',
      },
    ])
    database.close()
  })
})

describe('migrations', () => {
  it('are recorded with time and status', async () => {
    await createStore()
    const database = await rawDatabase()
    const rows = database.prepare('SELECT version, status FROM migrations ORDER BY version').all()
    expect(rows).toEqual(
      Array.from({ length: SCHEMA_VERSION }, (_, index) => ({
        version: index + 1,
        status: 'success',
      })),
    )
    database.close()
  })

  it('know of a store that was pruned before what is missing at its beginning', async () => {
    const ticks = new ManualTicks()
    const store = await SqliteStore.open({ path: file, ticks })
    const service = new LeaseService({ store, runtime: systemRuntime })
    for (const name of ['a', 'b']) await service.acquire(acquisition(name))
    await service.close()
    const database = await rawDatabase()
    database.exec(`DELETE FROM lease_history WHERE seq = 1; DELETE FROM migrations WHERE version >= 12;
      ALTER TABLE store_state DROP COLUMN pruned_up_to; PRAGMA user_version = 11`)
    database.close()
    const migrated = await SqliteStore.open({ path: file, ticks, convert: 'force' })
    const where = { unbroken: true, limit: 10 }
    await expect(migrated.history({ ...where, after: '0' })).rejects.toMatchObject({
      details: { field: 'after', prunedUpTo: '1' },
    })
    expect(await migrated.history({ ...where, after: '1' })).toHaveLength(1)
    await migrated.close()
  })

  it('find what was written under coarser numbers, and wait for those who still write them', async () => {
    const ticks = new ManualTicks()
    const open = async (): Promise<LeaseService> => {
      const store = await SqliteStore.open({ path: file, ticks })
      return new LeaseService({ store, runtime: systemRuntime })
    }
    const service = await open()
    const [ended, held] = [acquisition('a'), acquisition('b')]
    await service.acquire(ended)
    await service.release({ id: ended.id, holder: ended.holder })
    await service.acquire(held)
    await service.close()
    const database = await rawDatabase()
    database.exec(`UPDATE lease_history SET lease_number = lease_number / 256;
      DELETE FROM migrations WHERE version = 13; PRAGMA user_version = 12`)
    database.close()
    expect((await refusal(open())).message).toContain('may still hold work:b of')
    ticks.pass(60_001)
    const migrated = await open()
    expect((await migrated.acquire(ended)).kind).toBe('terminal')
    expect(await migrated.history({ id: held.id })).toHaveLength(1)
    await migrated.close()
  })

  it('change nothing, not even the version, while one of them waits for a lease that runs', async () => {
    const ticks = new ManualTicks()
    const store = await SqliteStore.open({ path: file, ticks })
    const service = new LeaseService({ store, runtime: systemRuntime })
    await service.acquire(acquisition('a'))
    await service.close()
    const database = await rawDatabase()
    database.exec(`DROP TABLE refusals; DROP VIEW leases; DELETE FROM migrations WHERE version >= 10;
      ALTER TABLE store_state DROP COLUMN pruned_up_to; PRAGMA user_version = 9`)
    database.close()
    const error = await refusal(SqliteStore.open({ path: file, ticks }))
    expect(error.message).toContain('may still hold work:a of')
    const untouched = await rawDatabase()
    expect(untouched.pragma('user_version', { simple: true })).toBe(9)
    untouched.close()
    ticks.pass(60_001)
    const migrated = await SqliteStore.open({ path: file, ticks })
    await migrated.close()
  })

  it('wait for a lease of another container, which has another host name and the same clock', async () => {
    const store = await SqliteStore.open({ path: file, ticks: new ManualTicks('one/boot-1/0') })
    const service = new LeaseService({ store, runtime: systemRuntime })
    await service.acquire(acquisition('a'))
    await service.close()
    const database = await rawDatabase()
    database.exec('DELETE FROM migrations WHERE version = 13; PRAGMA user_version = 12')
    database.close()
    const openIn = (domain: string): Promise<SqliteStore> => {
      return SqliteStore.open({ path: file, ticks: new ManualTicks(domain) })
    }
    expect((await refusal(openIn('two/boot-1/0'))).message).toContain('may still hold work:a of')
    await (await openIn('two/boot-2/0')).close()
  })

  it('that fail are rolled back, recorded with their error, and tried again', async () => {
    const database = await rawDatabase()
    database.exec(`CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
      description TEXT, applied_at INTEGER NOT NULL, status TEXT, error_message TEXT)`)
    database.exec('CREATE TABLE lease_history (something_else TEXT)')
    database.pragma(`application_id = ${APPLICATION_ID}`)
    const error = await refusal(SqliteStore.open({ path: file }))
    expect(error.code).toBe('STORE_SCHEMA')
    const failed = database.prepare(`SELECT * FROM migrations WHERE status = 'failed'`).get()
    expect(failed).toMatchObject({
      version: 2,
      error_message: expect.stringContaining('already exists'),
    })
    database.exec('DROP TABLE lease_history')
    database.close()
    await createStore()
    const again = await rawDatabase()
    expect(
      again.prepare(`SELECT count(*) AS n FROM migrations WHERE status = 'failed'`).get(),
    ).toEqual({
      n: 0,
    })
    again.close()
  })

  it('from the future are refused with both versions named', async () => {
    await createStore()
    const database = await rawDatabase()
    database.exec(`INSERT INTO migrations VALUES (99, 'future', '', 0, 'success', NULL)`)
    database.close()
    const error = await refusal(SqliteStore.open({ path: file }))
    expect(error.code).toBe('STORE_SCHEMA')
    expect(error.message).toContain(`at most ${SCHEMA_VERSION}`)
    expect(error.message).toContain('got 99')
  })

  it('are made once when ten processes open a new file together', async () => {
    const program = path.resolve(import.meta.dirname, '../../dist/store/sqlite/sqlite-store.js')
    const script = `const { SqliteStore } = await import(${JSON.stringify(program)})
      const store = await SqliteStore.open({ path: ${JSON.stringify(file)} })
      await store.close()`
    const open = (): Promise<unknown> =>
      promisify(execFile)(process.execPath, ['--input-type=module', '-e', script])
    await Promise.all(Array.from({ length: 10 }, open))
    const database = await rawDatabase()
    expect(database.prepare('SELECT count(*) AS n FROM migrations').get()).toEqual({
      n: SCHEMA_VERSION,
    })
    database.close()
  })
})

describe('a path that cannot be a store', () => {
  it('in a missing directory is created', async () => {
    file = path.join(directory, 'not', 'yet', 'leases.db')
    await createStore()
    expect(fs.existsSync(file)).toBe(true)
  })

  it('below a file is unavailable', async () => {
    fs.writeFileSync(path.join(directory, 'plain'), 'text')
    file = path.join(directory, 'plain', 'leases.db')
    const error = await refusal(SqliteStore.open({ path: file }))
    expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
  })

  it('that is a directory is unavailable', async () => {
    const error = await refusal(SqliteStore.open({ path: directory }))
    expect(error.code).toBe('STORE_UNAVAILABLE')
  })

  it('where no directory can be made is unavailable, and does not hang', async () => {
    const error = await refusal(SqliteStore.open({ path: '/proc/nowhere/leases.db' }))
    expect(error.code).toBe('STORE_UNAVAILABLE')
  })
})
