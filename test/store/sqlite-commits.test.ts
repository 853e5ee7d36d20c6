import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

const IN_FLIGHT = 100

/** Commits in SQLite's write-ahead log: the last frame of each says how large the database is then. */
function commitsIn(file: string): number {
  const log = fs.readFileSync(`${file}-wal`)
  const frameBytes = 24 + log.readUInt32BE(8)
  let commits = 0
  for (let at = 32; at < log.length; at += frameBytes) {
    if (log.readUInt32BE(at + 4) > 0) commits += 1
  }
  return commits
}

it('whatever a process has in flight at the same moment shares one commit', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-commits-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const file = path.join(directory, 'leases.db')
  const store = await SqliteStore.open({ path: file })
  const service = new LeaseService({ store, runtime: systemRuntime })
  onTestFinished(() => service.close())
  const leases = Array.from({ length: IN_FLIGHT }, (_, index) => ({
    ...{ id: systemRuntime.uuid(), resource: parseResource(`work:${index}`), holder: 'ann' },
  }))
  const opened = commitsIn(file)
  const request = { session: 'ann', ttlMs: 30_000, waitMs: 0 }
  const granted = await Promise.all(
    leases.map((lease) => service.acquire({ ...lease, ...request })),
  )
  expect(granted.every(({ kind }) => kind === 'granted')).toBe(true)
  expect(commitsIn(file) - opened).toBe(1)
  const released = await Promise.all(leases.map((lease) => service.release(lease)))
  expect(released.every(({ kind }) => kind === 'released')).toBe(true)
  expect(commitsIn(file) - opened).toBe(2)
})
