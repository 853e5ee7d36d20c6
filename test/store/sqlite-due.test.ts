import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { UPDATE_DUE } from '../../src/store/sqlite/sqlite-live.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/manual-ticks.ts'

const RESOURCE = parseResource('work:W-1')
const TTL_MS = 60_000
let directory: string
let file: string
let ticks: ManualTicks
let database: SqliteDatabase
let services: LeaseService[]
let store: SqliteStore

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-due-'))
  file = path.join(directory, 'leases.db')
  ticks = new ManualTicks()
  services = []
  const Driver = await loadSqlite()
  database = new Driver(file)
})

afterEach(async () => {
  await Promise.all(services.map((service) => service.close()))
  database.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

async function open(): Promise<LeaseService> {
  store = await SqliteStore.open({ path: file, ticks })
  const service = new LeaseService({ store, runtime: systemRuntime })
  services.push(service)
  return service
}

async function acquire(service: LeaseService): Promise<string> {
  const leaseId = systemRuntime.uuid()
  const who = { holder: 'h', session: 's' }
  await service.acquire({ id: leaseId, resource: RESOURCE, ...who, ttlMs: TTL_MS, waitMs: 0 })
  return leaseId
}

function due(): { readonly due_us: number; readonly live_until_us: number } {
  return database.prepare('SELECT due_us, live_until_us FROM live_leases').get() as ReturnType<
    typeof due
  >
}

it('a renewal at each third of the TTL moves what a sweep goes by every third time', async () => {
  const service = await open()
  const leaseId = await acquire(service)
  const first = due()
  expect(first.due_us).toBe(first.live_until_us)
  let last = first
  for (const dueUs of [first.due_us, first.due_us, null]) {
    ticks.pass(20_000)
    await service.renew({ id: leaseId, holder: 'h' })
    expect(due().live_until_us).toBeGreaterThan(last.live_until_us)
    last = due()
    expect(last.due_us).toBe(dueUs ?? last.live_until_us)
  }
})

it('a lease that goes on writes the index of deadlines alone, and everything that it shows', async () => {
  const service = await open()
  const leaseId = await acquire(service)
  for (let renewals = 1; renewals <= 3; renewals += 1) {
    ticks.pass(20_000)
    await service.renew({ id: leaseId, holder: 'h' })
    const stored = (await store.find({ ids: [leaseId], limit: 1 })).entries[0]
    expect(stored).toMatchObject({ renewals, expiresAtMs: ticks.wallMs() + TTL_MS })
    expect(stored?.deadline.us).toBe(due().live_until_us)
  }
  const plan = database.prepare(`EXPLAIN ${UPDATE_DUE}`).all(...new Array(4).fill(1)) as {
    readonly opcode: string
  }[]
  expect(plan.filter(({ opcode }) => opcode === 'IdxInsert')).toHaveLength(1)
})

it('a lease that looks due although it was renewed is not swept before its deadline', async () => {
  const service = await open()
  const leaseId = await acquire(service)
  ticks.pass(20_000)
  await service.renew({ id: leaseId, holder: 'h' })
  ticks.pass(50_000)
  expect(due().due_us).toBeLessThan(due().live_until_us)
  expect((await store.find({ deadline: 'passed', limit: 1 })).entries).toEqual([])
  expect(await service.cleanup()).toMatchObject({ expired: 0 })
  ticks.pass(10_000)
  expect(await service.cleanup()).toMatchObject({ expired: 1 })
})

it('a lease whose deadline comes nearer is swept at the new one', async () => {
  const service = await open()
  const leaseId = await acquire(service)
  const before = due()
  await service.revoke({ id: leaseId, by: 'operator', reason: 'wanted', graceMs: 5_000 })
  expect(due().due_us).toBeLessThan(before.due_us)
  ticks.pass(5_001)
  await service.cleanup()
  expect((await service.get({ id: leaseId }))?.state).toBe('revoked')
})
