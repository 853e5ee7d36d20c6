/**
 * The configuration as users meet it: eight keys with defaults, changed while everything runs, by whichever process,
 * and obeyed at the next call.
 */
import { execFile } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { ClientConfig } from '../../src/client/tenure-client.ts'
import type { TenureConfig } from '../../src/client/contract.ts'
import { FileLeases } from '../../src/files/index.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { LeaseApi } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { granted, refusal, sqliteBench, stillBench, temporaryDirectory } from './harness.ts'

const FILE = '/repo/src/app.ts'
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const DAY_MS = 86_400_000

const DEFAULTS = {
  default_ttl_seconds: 3600,
  max_renewals: -1,
  acquisition_timeout_ms: 30_000,
  cleanup_interval_seconds: 300,
  auto_expire_enabled: true,
  blocking_mode_enabled: true,
  keep_history: true,
  history_retention_days: 30,
}

function configOf(api: LeaseApi): TenureConfig {
  return new ClientConfig(api, systemRuntime, () => undefined)
}

/** `tenure config …` as another process; its standard output. */
async function tenureConfig(databasePath: string, ...words: readonly string[]): Promise<string> {
  const args = [MAIN, 'config', ...words, '--store', `sqlite:${databasePath}`]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return stdout
}

async function withSql<Result>(
  databasePath: string,
  work: (database: SqliteDatabase) => Result,
): Promise<Result> {
  const Driver = await loadSqlite()
  const database = new Driver(databasePath)
  try {
    return work(database)
  } finally {
    database.close()
  }
}

describe('the eight keys', () => {
  it('have the defaults of the design, each of its own type', async () => {
    const { api } = await sqliteBench(path.join(temporaryDirectory(), 'leases.db'))
    const config = configOf(api)
    expect(await config.all()).toMatchObject(DEFAULTS)
    for (const [key, value] of Object.entries(DEFAULTS)) {
      expect(await config.get(key as keyof typeof DEFAULTS)).toBe(value)
    }
  })

  it('stand in lease_configs where a person can read them', async () => {
    const file = path.join(temporaryDirectory(), 'leases.db')
    await sqliteBench(file)
    const rows = await withSql(file, (database) =>
      database
        .prepare('SELECT config_key, config_value, value_type, scope FROM lease_configs')
        .all(),
    )
    for (const [key, value] of Object.entries(DEFAULTS)) {
      expect(rows).toContainEqual({
        config_key: key,
        config_value: String(value),
        value_type: typeof value === 'boolean' ? 'bool' : 'int',
        scope: 'global',
      })
    }
  })

  it('keep their type when they are given as text', async () => {
    const { api } = stillBench()
    const config = configOf(api)
    await config.set('default_ttl_seconds', '60')
    await config.set('keep_history', 'false')
    expect(await config.get('default_ttl_seconds')).toBe(60)
    expect(await config.get('keep_history')).toBe(false)
    await config.unset('default_ttl_seconds')
    expect(await config.get('default_ttl_seconds')).toBe(3600)
  })
})

describe('a change made by another process', () => {
  it('is obeyed at the next call', async () => {
    const directory = temporaryDirectory()
    const file = path.join(directory, 'leases.db')
    const { files } = await sqliteBench(file)
    const filePath = path.join(directory, 'a.txt')
    const before = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    expect(before).toMatchObject({ ttlSeconds: 3600, maxRenewals: -1 })
    await files.releaseLease({ leaseId: before.id, agentId: 'agent-1' })

    await tenureConfig(file, 'set', 'default_ttl_seconds', '7')
    await tenureConfig(file, 'set', 'max_renewals', '0')
    const after = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    expect(after).toMatchObject({ ttlSeconds: 7, maxRenewals: 0 })
    const renewal = await files.renewLease({ leaseId: after.id, agentId: 'agent-1' })
    expect(refusal(renewal).error.code).toBe('RENEWAL_LIMIT')
  })

  it('is obeyed when it was made with SQL', async () => {
    const directory = temporaryDirectory()
    const file = path.join(directory, 'leases.db')
    const { files } = await sqliteBench(file)
    await files.getAllLeases()
    await withSql(file, (database) =>
      database.exec(
        `UPDATE lease_configs SET config_value = '9' WHERE config_key = 'default_ttl_seconds'`,
      ),
    )
    const request = { filePath: path.join(directory, 'a.txt'), agentId: 'agent-1' }
    expect(granted(await files.acquireLease(request)).ttlSeconds).toBe(9)
  })

  it('can be for a kind or for one resource, and the narrowest wins', async () => {
    const directory = temporaryDirectory()
    const file = path.join(directory, 'leases.db')
    const { api, files } = await sqliteBench(file)
    const special = path.join(directory, 'special.txt')
    await tenureConfig(file, 'set', 'default_ttl_seconds', '100')
    await tenureConfig(file, 'set', 'default_ttl_seconds', '200', '--for', 'file')
    await tenureConfig(file, 'set', 'default_ttl_seconds', '300', '--for', `file:${special}`)

    const ttlOf = async (filePath: string): Promise<number> =>
      granted(await files.acquireLease({ filePath, agentId: 'agent-1' })).ttlSeconds
    expect(await ttlOf(path.join(directory, 'plain.txt'))).toBe(200)
    expect(await ttlOf(special)).toBe(300)
    const config = configOf(api)
    expect(await config.get('default_ttl_seconds', { for: 'work' })).toBe(100)
    expect(await config.get('default_ttl_seconds', { for: 'file' })).toBe(200)

    await tenureConfig(file, 'unset', 'default_ttl_seconds', '--for', 'file')
    expect(await ttlOf(path.join(directory, 'other.txt'))).toBe(100)
  })
})

describe('waiting', () => {
  it('is refused while blocking_mode_enabled is false', async () => {
    const { api, files, runtime } = stillBench()
    const first = granted(await files.acquireLease({ filePath: FILE, agentId: 'agent-1' }))
    await configOf(api).set('blocking_mode_enabled', false)
    const waiting = { filePath: FILE, agentId: 'agent-2', blocking: true, timeoutMs: 60_000 }
    const { error, holder, waitedMs } = refusal(await files.acquireLease(waiting))
    expect(error.code).toBe('RESOURCE_HELD')
    expect(error.message).toContain('blocking_mode_enabled')
    expect(holder).toMatchObject({ agentId: 'agent-1', leaseId: first.id })
    expect(waitedMs).toBe(0)

    await configOf(api).set('blocking_mode_enabled', true)
    const response = files.acquireLease(waiting)
    await runtime.settle()
    await files.releaseLease({ leaseId: first.id, agentId: 'agent-1' })
    expect(granted(await response).agentId).toBe('agent-2')
  })

  it('lasts acquisition_timeout_ms when the request does not say', async () => {
    const { api, files, runtime } = stillBench()
    await files.acquireLease({ filePath: FILE, agentId: 'agent-1' })
    await configOf(api).set('acquisition_timeout_ms', 1_234)
    const response = files.acquireLease({ filePath: FILE, agentId: 'agent-2', blocking: true })
    let ended = false
    void response.then(() => (ended = true))
    await runtime.advance(1_233)
    expect(ended).toBe(false)
    await runtime.advance(1)
    const { error, waitedMs } = refusal(await response)
    expect(error.code).toBe('WAIT_TIMEOUT')
    expect(waitedMs).toBe(1_234)
  })
})

describe('history', () => {
  it('is not kept while keep_history is false: nothing is left but live leases', async () => {
    const directory = temporaryDirectory()
    const file = path.join(directory, 'leases.db')
    const { api, files } = await sqliteBench(file)
    await configOf(api).set('keep_history', false)
    const take = (name: string): ReturnType<FileLeases['acquireLease']> =>
      files.acquireLease({ filePath: path.join(directory, name), agentId: 'agent-1' })

    const ended = granted(await take('a'))
    const live = granted(await take('b'))
    await files.acquireLease({ filePath: path.join(directory, 'b'), agentId: 'agent-2' })
    await files.releaseLease({ leaseId: ended.id, agentId: 'agent-1' })

    expect(await files.getLease(ended.id)).toBeNull()
    expect(await api.history({})).toEqual([])
    const ids = await withSql(file, (database) => database.prepare('SELECT id FROM leases').all())
    expect(ids).toEqual([{ id: live.id }])
    const again = granted(await take('a'))
    expect(again.fence).toBeGreaterThan(live.fence ?? 0)
  })

  it('is pruned after history_retention_days, together with its leases', async () => {
    const directory = temporaryDirectory()
    const clock = new FakeRuntime()
    const { api, files } = await sqliteBench(path.join(directory, 'leases.db'), clock.ticks)
    const useOnce = async (name: string): Promise<string> => {
      const request = { filePath: path.join(directory, name), agentId: 'agent-1', ttlSeconds: 60 }
      const { id } = granted(await files.acquireLease(request))
      await files.releaseLease({ leaseId: id, agentId: 'agent-1' })
      return id
    }
    const sweepDaily = async (days: number): Promise<void> => {
      for (let day = 0; day < days; day += 1) {
        clock.stall(DAY_MS)
        expect(await api.cleanup()).toMatchObject({ prunedLeases: 0, prunedEvents: 0 })
      }
    }
    const old = await useOnce('old')
    await sweepDaily(2)
    const recent = await useOnce('recent')
    await sweepDaily(2)
    await configOf(api).set('history_retention_days', 3)
    expect(await api.cleanup()).toMatchObject({ prunedLeases: 1, prunedEvents: 2 })
    expect(await files.getLease(old)).toBeNull()
    expect(await files.getLease(recent)).toMatchObject({ status: 'released' })
    expect((await api.history({})).map(({ event }) => event.leaseId)).toEqual([recent, recent])
  })

  it('is not pruned by a guess while history_retention_days is no number', async () => {
    const databasePath = path.join(temporaryDirectory(), 'leases.db')
    const clock = new FakeRuntime()
    const { api, files } = await sqliteBench(databasePath, clock.ticks)
    const set = (value: string): Promise<unknown> => {
      const sql = `UPDATE lease_configs SET config_value = '${value}' WHERE config_key = 'history_retention_days'`
      return withSql(databasePath, (database) => database.exec(sql))
    }
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60 }
    const { id } = granted(await files.acquireLease(request))
    await files.releaseLease({ leaseId: id, agentId: 'agent-1' })
    await set('365 days')
    for (let day = 0; day < 40; day += 1) {
      clock.stall(DAY_MS)
      await expect(api.cleanup()).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    }
    await set('365')
    await api.cleanup()
    expect(await files.getLease(id)).toMatchObject({ status: 'released' })
  })

  it('is kept for a day in any case, because it is the memory of requests', async () => {
    const { api, files, runtime } = stillBench()
    await configOf(api).set('history_retention_days', 0)
    const request = { filePath: FILE, agentId: 'agent-1', ttlSeconds: 60 }
    const { id } = granted(await files.acquireLease(request))
    await files.releaseLease({ leaseId: id, agentId: 'agent-1' })
    runtime.stall(DAY_MS)
    expect(await api.cleanup()).toMatchObject({ prunedLeases: 0 })
    runtime.stall(1)
    expect(await api.cleanup()).toMatchObject({ prunedLeases: 1 })
  })
})

describe('the background sweep', () => {
  function sweptBench(): { api: LeaseApi; files: FileLeases; runtime: FakeRuntime } {
    const runtime = new FakeRuntime()
    const store = new MemoryStore({ ticks: runtime.ticks })
    const api = new LeaseService({ store, runtime, sweep: true })
    return { api, files: new FileLeases(api, { runtime }), runtime }
  }
  const expiries = async (api: LeaseApi): Promise<number> =>
    (await api.history({ types: ['lease.expired'] })).length

  it('runs every cleanup_interval_seconds, and a new interval needs no restart', async () => {
    const { api, files, runtime } = sweptBench()
    await files.acquireLease({ filePath: FILE, agentId: 'agent-1', ttlSeconds: 1 })
    await runtime.advance(299_000)
    expect(await expiries(api)).toBe(0)
    await runtime.advance(2_000)
    expect(await expiries(api)).toBe(1)

    await configOf(api).set('cleanup_interval_seconds', 10)
    await files.acquireLease({ filePath: FILE, agentId: 'agent-1', ttlSeconds: 1 })
    await runtime.advance(11_000)
    expect(await expiries(api)).toBe(2)
    await api.close()
  })

  it('rests while auto_expire_enabled is false, and what has expired is free all the same', async () => {
    const { api, files, runtime } = sweptBench()
    await configOf(api).set('auto_expire_enabled', false)
    await files.acquireLease({ filePath: FILE, agentId: 'agent-1', ttlSeconds: 1 })
    await runtime.advance(1_000_000)
    expect(await expiries(api)).toBe(0)
    expect(await files.isFileLocked(FILE)).toBe(false)
    expect(await files.acquireLease({ filePath: FILE, agentId: 'agent-2' })).toMatchObject({
      success: true,
    })
    await api.close()
  })
})

describe('a value that is none', () => {
  it.each([
    ['default_ttl_seconds', 0],
    ['default_ttl_seconds', 'soon'],
    ['default_ttl_seconds', 1.5],
    ['default_ttl_seconds', '1e3'],
    ['max_renewals', -2],
    ['acquisition_timeout_ms', -1],
    ['history_retention_days', Number.NaN],
    ['keep_history', 'yes'],
    ['blocking_mode_enabled', 1],
  ] as const)('is refused for %s: %s', async (key, value) => {
    const { api } = stillBench()
    const error = await configOf(api)
      .set(key, value)
      .catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'INVALID_INPUT', details: { field: key } })
    expect(await api.settingRows()).toEqual([])
  })

  it('is refused for a key that does not exist', async () => {
    const { api } = stillBench()
    const attempt = configOf(api).set('default_ttl' as 'max_renewals', 1)
    await expect(attempt).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  })

  it('written with SQL stops new leases by name, and holds up nobody who has one', async () => {
    const directory = temporaryDirectory()
    const file = path.join(directory, 'leases.db')
    const { api, files } = await sqliteBench(file)
    const filePath = path.join(directory, 'a.txt')
    const lease = granted(await files.acquireLease({ filePath, agentId: 'agent-1' }))
    await withSql(file, (database) =>
      database.exec(
        `UPDATE lease_configs SET config_value = 'soon' WHERE config_key = 'default_ttl_seconds'`,
      ),
    )
    const other = { filePath: path.join(directory, 'b.txt'), agentId: 'agent-1' }
    await expect(files.acquireLease(other)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('default_ttl_seconds'),
    })
    const mine = { leaseId: lease.id, agentId: 'agent-1' }
    expect(await files.renewLease(mine)).toMatchObject({ success: true })
    expect(await files.releaseLease(mine)).toMatchObject({ success: true })
    await configOf(api).unset('default_ttl_seconds')
    expect(await files.acquireLease(other)).toMatchObject({ success: true })
  })
})
