/** The long form of sqlite-conversion.test.ts: 10,000 live leases and 100,000 events, with the time and the room it takes. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { firstOddLease } from '../../src/cli/ledger-verdict.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
import { makeOldStore } from '../fixtures/sqlite-old-layout.ts'

const SIZE = { live: 10_000, events: 100_000 }
let directory: string

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-conversion-'))
})

afterEach(() => {
  fs.rmSync(directory, { recursive: true, force: true })
})

it('a store of the older layout is converted whole', async () => {
  const file = path.join(directory, 'leases.db')
  const ticks = new ManualTicks()
  const Driver = await loadSqlite()
  const database = new Driver(file)
  makeOldStore(database, SIZE, ticks)
  database.close()
  const before = fs.statSync(file).size
  const startMs = performance.now()
  const store = await SqliteStore.open({ path: file, ticks, convert: 'force' })
  const seconds = (performance.now() - startMs) / 1000
  process.stdout.write(
    `conversion of ${SIZE.live} live leases and ${SIZE.events} events: ${seconds.toFixed(1)} s, from ${before} to ${fs.statSync(file).size} bytes\n`,
  )
  const service = new LeaseService({ store, runtime: systemRuntime })
  expect(await firstOddLease(service)).toBeNull()
  expect((await service.list({ limit: 10_000 })).leases).toHaveLength(SIZE.live)
  expect(await store.end()).toBe(String(SIZE.live + SIZE.events))
  await service.close()
}, 600_000)
