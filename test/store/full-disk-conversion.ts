/**
 * Converts a store of the older layout in the small file system in which it is run, once with too little room and then
 * with enough, and prints what it saw.
 */
import fs from 'node:fs'
import path from 'node:path'
import { isLeaseError } from '../../src/core/errors.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { ManualTicks } from '../../src/testing/fake-runtime.ts'
import { makeOldStore } from '../fixtures/sqlite-old-layout.ts'

export interface FullDiskConversion {
  readonly refusal: string
  readonly version: number
  readonly eventsLeft: number
  readonly afterwards: number
}

async function main(directory: string): Promise<FullDiskConversion> {
  const file = path.join(directory, 'leases.db')
  const ballast = path.join(directory, 'ballast')
  const ticks = new ManualTicks()
  const Driver = await loadSqlite()
  const made = new Driver(file)
  makeOldStore(made, { live: 20, events: 5_000 }, ticks)
  made.close()
  const { bavail, bsize } = fs.statfsSync(directory)
  fs.writeFileSync(ballast, Buffer.alloc(bavail * bsize - 300_000))
  const convert = (): Promise<SqliteStore> =>
    SqliteStore.open({ path: file, ticks, convert: 'force' })
  const refusal = await convert().then(
    () => 'converted',
    (error: unknown) => (isLeaseError(error) ? `${error.code}/${error.effect}` : String(error)),
  )
  fs.rmSync(ballast)
  const left = new Driver(file)
  const version = left.pragma('user_version', { simple: true }) as number
  const [eventsLeft] = left
    .prepare('SELECT count(*) FROM lease_history WHERE namespace IS NOT NULL')
    .raw()
    .get() as readonly [number]
  left.close()
  const store = await convert()
  const { length: afterwards } = await store.history({ limit: 10_000 })
  await store.close()
  return { refusal, version, eventsLeft, afterwards }
}

process.stdout.write(JSON.stringify(await main(process.argv[2] ?? '')))
