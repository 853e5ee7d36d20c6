import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireAnswer } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

const RESOURCE = parseResource('work:W-1')
const LEASE_ID = '00000000-0000-4000-8000-000000000001'
const REQUEST_ID = '00000000-0000-4000-8000-00000000000a'
let directory: string
let services: LeaseService[]

async function open(namespace: string): Promise<LeaseService> {
  const store = await SqliteStore.open({ path: path.join(directory, 'leases.db'), namespace })
  const service = new LeaseService({ store, runtime: systemRuntime })
  services.push(service)
  return service
}

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-namespaces-'))
  services = []
})

afterEach(async () => {
  await Promise.all(services.map((service) => service.close()))
  fs.rmSync(directory, { recursive: true, force: true })
})

function acquire(service: LeaseService): Promise<AcquireAnswer> {
  const request = { id: LEASE_ID, resource: RESOURCE, holder: 'h', session: 's', waitMs: 0 }
  return service.acquire(request)
}

it('the same resource, lease id and request id mean different things in two namespaces', async () => {
  const [here, there] = [await open('default'), await open('team-b')]
  expect((await acquire(here)).kind).toBe('granted')
  expect((await acquire(there)).kind).toBe('granted')
  const request = { id: LEASE_ID, holder: 'h', requestId: REQUEST_ID }
  expect((await here.release(request)).kind).toBe('released')
  expect((await there.get({ id: LEASE_ID }))?.state).toBe('active')
  expect((await there.release(request)).kind).toBe('released')
  expect((await there.history({})).map(({ event }) => event.leaseId)).toEqual([LEASE_ID, LEASE_ID])
})

it('what one namespace has forgotten is not known to another', async () => {
  const [here, there] = [await open('team-a'), await open('team-b')]
  await here.configure({ key: 'keep_history', value: 'false', scope: 'global', resourceId: null })
  await acquire(here)
  await here.release({ id: LEASE_ID, holder: 'h', requestId: REQUEST_ID })
  expect((await there.settings({})).keep_history).toBe(true)
  expect((await acquire(there)).kind).toBe('granted')
})

it('a namespace whose making was cut off in the middle is made anew, with its whole configuration', async () => {
  await open('default')
  const Driver = await loadSqlite()
  const database = new Driver(path.join(directory, 'leases.db'))
  database.exec(`CREATE TRIGGER cut BEFORE INSERT ON lease_configs WHEN new.config_key = 'max_renewals'
    BEGIN SELECT raise(ABORT, 'cut off'); END`)
  await expect(open('team-b')).rejects.toThrow('cut off')
  database.exec('DROP TRIGGER cut')
  await open('team-b')
  const keysOf = (namespace: string): readonly unknown[] => {
    const sql = 'SELECT config_key FROM lease_configs WHERE namespace = ? ORDER BY config_key'
    return database.prepare(sql).raw().all(namespace)
  }
  expect(keysOf('team-b')).toEqual(keysOf('default'))
  database.close()
})
