/**
 * A process whose writes are recorded: it acquires, renews and releases, one after the other, and after each answer writes
 * down how many events the ledger has, in a file of its own. What that file says must survive a loss of power.
 */
import fs from 'node:fs'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { openTenure } from '../../src/index.ts'

export interface RecordedOrder {
  readonly file: string
  readonly synchronous: 'full' | 'normal'
  readonly acknowledged: string
  readonly rounds: number
}

const { file, synchronous, acknowledged, rounds } = JSON.parse(
  process.argv[2] ?? '',
) as RecordedOrder
const log = fs.openSync(acknowledged, 'w')
const tenure = await openTenure(`sqlite:${file}?synchronous=${synchronous}`, { holder: 'ann' })
const Driver = await loadSqlite()
const reader = new Driver(file)
// Often enough that a recording has several checkpoints in it.
reader.pragma('wal_autocheckpoint = 1000000')
const count = reader.prepare('SELECT count(*) FROM lease_history').raw()

function acknowledge(): void {
  const [events] = count.get() as readonly [number]
  fs.writeSync(log, `${events}\n`)
}

for (let round = 0; round < rounds; round += 1) {
  const lease = await tenure.acquire(`work:${round % 7}`, { ttlMs: 600_000 })
  acknowledge()
  await lease.renew()
  acknowledge()
  await lease.release()
  acknowledge()
  if (round % 20 === 19) reader.pragma('wal_checkpoint(PASSIVE)')
}
reader.close()
process.exit(0)
