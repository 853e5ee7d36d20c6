import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'

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

it('a lease that looks due, as older releases leave what they renew, is not swept before its deadline', async () => {
  const service = await open()
  const leaseId = await acquire(service)
  ticks.pass(20_000)
  await service.renew({ id: leaseId, holder: 'h' })
  database.exec('UPDATE live_leases SET due_us = due_us - 20000000')
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
