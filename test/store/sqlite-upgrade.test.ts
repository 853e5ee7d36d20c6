import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { MIGRATIONS } from '../../src/store/sqlite/sqlite-migrations.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

const LEASE_ID = 'e1234567-89ab-4cde-8f01-23456789abcd'
const REQUEST_ID = 'e7654321-89ab-4cde-8f01-23456789abcd'
const RESOURCE = parseResource('work:W-1')
const TTL_US = 60_000_000
let directory: string
let file: string
let ticks: ManualTicks
let services: LeaseService[]

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-upgrade-'))
  file = path.join(directory, 'leases.db')
  ticks = new ManualTicks()
  services = []
  const Driver = await loadSqlite()
  const database = new Driver(file)
  makeVersion5(database)
  database.close()
})

afterEach(async () => {
  await Promise.all(services.map((service) => service.close()))
  fs.rmSync(directory, { recursive: true, force: true })
})

/** A lease that was renewed once, as the version wrote it before sweeps and events had numbers of their own. */
function makeVersion5(database: SqliteDatabase): void {
  for (const { version, name, sql } of MIGRATIONS.slice(0, 5)) {
    database.exec(MIGRATIONS[3]?.sql ?? '')
    database.exec(sql)
    database
      .prepare(`INSERT INTO migrations VALUES (?, ?, '', 0, 'success', NULL)`)
      .run(version, name)
  }
  const untilUs = ticks.tickUs() + TTL_US
  const wallMs = ticks.wallMs()
  database
    .prepare(`INSERT INTO store_state VALUES ('default', 7, 2, 1, ?, ?, 0)`)
    .run(ticks.tickUs(), wallMs)
  database.exec(`INSERT INTO clock_domains VALUES ('default', 1, 'manual-host/boot-1/0', 0, 0)`)
  database
    .prepare(
      `INSERT INTO leases (id, file_path, agent_id, created_at, expires_at, ttl_seconds, status,
         renewal_count, updated_at, namespace, session, mode, extent, fence, ttl_ms, granted_at,
         renewed_at, clock, deadline_us, live_clock, live_until_us)
       VALUES (?, 'work:W-1', 'h', ?, ?, 60, 'active', 1, ?, 'default', 's', 'exclusive', 'exact',
         7, 60000, ?, ?, 1, ?, 1, ?)`,
    )
    .run(LEASE_ID, wallMs, wallMs + 60_000, wallMs, wallMs, wallMs, untilUs, untilUs)
  const insert = database.prepare(
    `INSERT INTO lease_history VALUES (?, ?, 'h', 'work:W-1', ?, 'active', 'active', ?, ?, NULL, ?,
       'default', 's', ?)`,
  )
  const deadline = [1, untilUs]
  const issued = { type: 'lease.issued', ttlMs: 60_000, fence: 7, deadline }
  const renewed = { type: 'lease.renewed', ttlMs: 60_000, expiresAtMs: wallMs + 60_000, deadline }
  insert.run('e1', LEASE_ID, 'acquired', 0, wallMs, 1, JSON.stringify(issued))
  insert.run(REQUEST_ID, LEASE_ID, 'renewed', 1, wallMs, 2, JSON.stringify(renewed))
}

async function open(): Promise<LeaseService> {
  const store = await SqliteStore.open({ path: file, ticks, convert: 'force' })
  const service = new LeaseService({ store, runtime: systemRuntime })
  services.push(service)
  return service
}

describe('what an older version wrote', () => {
  it('is held as before, and swept when its deadline has passed', async () => {
    const service = await open()
    const wish = { id: systemRuntime.uuid(), resource: RESOURCE, holder: 'x', session: 'x' }
    expect((await service.acquire({ ...wish, waitMs: 0 })).kind).toBe('held')
    expect(await service.cleanup()).toMatchObject({ expired: 0 })
    ticks.pass(60_001)
    expect(await service.cleanup()).toMatchObject({ expired: 1 })
  })

  it('is in the history of its lease, and goes on', async () => {
    const service = await open()
    await service.release({ id: LEASE_ID, holder: 'h' })
    const events = await service.history({ id: LEASE_ID })
    expect(events.map(({ position, event }) => [position, event.type])).toEqual([
      ['1', 'lease.issued'],
      ['2', 'lease.renewed'],
      ['3', 'lease.released'],
    ])
  })

  it('is not done again when its request comes again', async () => {
    const service = await open()
    const again = await service.renew({ id: LEASE_ID, holder: 'h', requestId: REQUEST_ID })
    expect(again).toMatchObject({ kind: 'renewed', lease: { renewals: 1 } })
  })

  it('is pruned with its lease', async () => {
    const service = await open()
    await service.release({ id: LEASE_ID, holder: 'h' })
    for (let day = 0; day < 30; day += 1) {
      ticks.pass(86_400_000)
      expect(await service.cleanup()).toMatchObject({ prunedLeases: 0, prunedEvents: 0 })
    }
    ticks.pass(1)
    expect(await service.cleanup()).toMatchObject({ prunedLeases: 1, prunedEvents: 3 })
  })
})
