/** A store of version 8 of the tables is taken over whole or not at all, and by nobody while others may still use it. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { isLeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
import {
  makeOldStore,
  OLD_TTL_MS,
  OLD_VERSION,
  oldLeaseId,
  oldRequestId,
} from '../fixtures/sqlite-old-layout.ts'
import type { FullDiskConversion } from './full-disk-conversion.ts'

const SIZE = { live: 20, events: 5_000 }
const LAST_EVENT = SIZE.live + SIZE.events
let directory: string
let file: string
let ticks: ManualTicks
let services: LeaseService[]

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-conversion-'))
  file = path.join(directory, 'leases.db')
  ticks = new ManualTicks()
  services = []
  await withSql((database) => makeOldStore(database, SIZE, ticks))
})

afterEach(async () => {
  await Promise.all(services.map((service) => service.close()))
  fs.rmSync(directory, { recursive: true, force: true })
})

async function withSql<Result>(work: (database: SqliteDatabase) => Result): Promise<Result> {
  const Driver = await loadSqlite()
  const database = new Driver(file)
  try {
    return work(database)
  } finally {
    database.close()
  }
}

async function open(convert?: 'force'): Promise<LeaseService> {
  const store = await SqliteStore.open({ path: file, ticks, ...(convert && { convert }) })
  const service = new LeaseService({ store, runtime: systemRuntime })
  services.push(service)
  return service
}

/** What the older version would find. */
function oldRows(database: SqliteDatabase): unknown {
  const count = (table: string): unknown =>
    database.prepare(`SELECT count(*) AS n FROM ${table}`).get()
  return {
    version: database.pragma('user_version', { simple: true }),
    leases: count('leases WHERE live_clock IS NOT NULL'),
    ended: count('leases WHERE ended_at IS NOT NULL'),
    events: count('lease_history WHERE namespace IS NOT NULL'),
    integrity: database.pragma('integrity_check', { simple: true }),
  }
}

const UNTOUCHED = {
  version: OLD_VERSION,
  leases: { n: SIZE.live },
  ended: { n: SIZE.events / 2 },
  events: { n: LAST_EVENT },
  integrity: 'ok',
}

async function expectWhole(service: LeaseService): Promise<void> {
  expect(await firstOddLease(service)).toBeNull()
  expect((await service.list({})).leases).toHaveLength(SIZE.live)
  const released = await service.list({ state: 'released', limit: 10_000 })
  expect(released.leases).toHaveLength(SIZE.events / 2)
  const events = await service.history({ limit: 10_000 })
  expect(events.map(({ position }) => Number(position))).toEqual(
    Array.from({ length: LAST_EVENT }, (_, index) => index + 1),
  )
}

describe('a store with the tables of an older version', () => {
  it('keeps its leases, its history, its positions and the ids of its requests', async () => {
    const service = await open('force')
    await expectWhole(service)
    const first = SIZE.events / 2 + 1
    expect(await service.get({ id: oldLeaseId(first) })).toMatchObject({
      state: 'active',
      resource: `file:/tree/f${first}`,
      fence: first,
    })
    expect(await service.get({ id: oldLeaseId(7) })).toMatchObject({ state: 'released', fence: 7 })
    const again = { resource: parseResource('file:/tree/f7'), holder: 'agent-7', session: 's' }
    const wish = { ...again, id: oldLeaseId(7), waitMs: 0 }
    expect((await service.acquire(wish)).kind).toBe('terminal')
    const requestId = oldRequestId(7)
    const repeated = await service.release({ id: oldLeaseId(7), holder: 'agent-7', requestId })
    expect(repeated.kind).toBe('released')
    const mine = { ...wish, id: systemRuntime.uuid() }
    const granted = await service.acquire(mine)
    expect(granted).toMatchObject({ kind: 'granted' })
    expect((await service.history({ id: mine.id }))[0]?.position).toBe(String(LAST_EVENT + 1))
  })

  it('is refused while leases run in it, which are named, and is then as it was', async () => {
    const error: unknown = await open().catch((refusal: unknown) => refusal)
    if (!isLeaseError(error)) throw error
    expect([error.code, error.effect]).toEqual(['STORE_SCHEMA', 'none'])
    const [one, two] = [SIZE.events / 2 + 1, SIZE.events / 2 + 2]
    expect(error.message).toContain(
      `may still hold /tree/f${one} of agent-1 (60 s), /tree/f${two} of agent-2 (60 s), `,
    )
    expect(error.message).toContain(` and ${SIZE.live - 5} more; `)
    expect(await withSql(oldRows)).toEqual(UNTOUCHED)
    ticks.pass(OLD_TTL_MS)
    expect((await (await open()).list({})).leases).toEqual([])
  })

  it('is refused to nobody when its leases are of an earlier boot', async () => {
    ticks = new ManualTicks('manual-host/boot-2/0')
    await open()
  })

  it('lets a process that knew the old tables write nothing more', async () => {
    const Driver = await loadSqlite()
    const old = new Driver(file)
    const statements = [
      `UPDATE leases SET renewal_count = 1, live_until_us = 2, deadline_us = 2 WHERE id = 'x'`,
      `DELETE FROM leases WHERE id = 'x'`,
      `INSERT INTO leases (id, granted_at) VALUES ('x', 1)`,
      `INSERT INTO lease_history (id, namespace) VALUES ('x', 'default')`,
      `SELECT granted_at FROM leases`,
    ].map((sql) => old.prepare(sql))
    const service = await open('force')
    for (const statement of statements) expect(() => statement.run()).toThrow(/leases|column/)
    old.close()
    await expectWhole(service)
  })

  it('is as it was after its conversion was killed, and is then converted', async () => {
    const program = path.resolve(
      import.meta.dirname,
      '../../dist-dev/test/store/killed-conversion.js',
    )
    for (const written of [1, LAST_EVENT / 2, LAST_EVENT]) {
      const child = spawn(process.execPath, [program, file, String(written)], { stdio: 'inherit' })
      expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
      expect(await withSql(oldRows)).toEqual(UNTOUCHED)
    }
    await expectWhole(await open('force'))
  })

  it('is as it was when the disk was full, and is converted when there is room', async () => {
    const program = path.resolve(
      import.meta.dirname,
      '../../dist-dev/test/store/full-disk-conversion.js',
    )
    const mount = path.join(directory, 'mount')
    fs.mkdirSync(mount)
    const mounted = 'mount -t tmpfs -o size=16m tmpfs "$1" && exec "$2" "$3" "$1"'
    const { stdout } = await promisify(execFile)(
      'unshare',
      ['-rm', 'sh', '-c', mounted, 'sh', mount, process.execPath, program],
      { timeout: 60_000 },
    )
    const report = JSON.parse(stdout) as FullDiskConversion
    expect(report).toEqual({
      refusal: 'STORE_UNAVAILABLE/none',
      version: OLD_VERSION,
      eventsLeft: 5_020,
      afterwards: 5_020,
    })
  })
})

describe('a store that a later version has converted meanwhile', () => {
  it('is written to no more by a process that has it open', async () => {
    const service = await open('force')
    await withSql((database) => database.pragma('user_version = 99'))
    const wish = { resource: parseResource('work:new'), holder: 'h', session: 's', waitMs: 0 }
    for (const call of [
      () => service.acquire({ ...wish, id: systemRuntime.uuid() }),
      () => service.list({}),
    ]) {
      await expect(call()).rejects.toMatchObject({ code: 'STORE_SCHEMA', effect: 'none' })
    }
  })
})
