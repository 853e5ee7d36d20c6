import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

const IN_FLIGHT = 100
const BACKLOG = 1_000

/** However slow the machine is, no time passes while a transaction runs. */
const instantRuntime: Runtime = { ...systemRuntime, monotonicMs: () => 0 }

/** Every look at the clock is a millisecond later than the last. */
function slowRuntime(): Runtime {
  let nowMs = 0
  return { ...systemRuntime, monotonicMs: () => (nowMs += 1) }
}

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
  const store = await SqliteStore.open({ path: file, runtime: instantRuntime })
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

it('a process that has much to write lets another write meanwhile', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-commits-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const file = path.join(directory, 'leases.db')
  const open = async (runtime: Runtime): Promise<LeaseService> => {
    const store = await SqliteStore.open({ path: file, runtime })
    const service = new LeaseService({ store, runtime: systemRuntime })
    onTestFinished(() => service.close())
    return service
  }
  const busy = await open(slowRuntime())
  const other = await open(systemRuntime)
  const acquire = (service: LeaseService, name: string): Promise<unknown> => {
    const resource = parseResource(`work:${name}`)
    const request = { session: 'ann', holder: 'ann', ttlMs: 30_000, waitMs: 0 }
    return service.acquire({ id: systemRuntime.uuid(), resource, ...request })
  }
  let written = 0
  const backlog = Array.from({ length: BACKLOG }, async (_, index) => {
    await acquire(busy, String(index))
    written += 1
  })
  await acquire(other, 'of the other')
  expect(written).toBeLessThan(BACKLOG / 2)
  await Promise.all(backlog)
  expect(written).toBe(BACKLOG)
})

describe('while a process has much to write', () => {
  async function startBacklog(busyMs?: number) {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-commits-'))
    onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
    const file = path.join(directory, 'leases.db')
    const patience = busyMs === undefined ? {} : { busyMs }
    let pauses = 0
    const slow = slowRuntime()
    const setTimer: Runtime['setTimer'] = (...given) => {
      pauses += 1
      return slow.setTimer(...given)
    }
    const store = await SqliteStore.open({
      path: file,
      runtime: { ...slow, setTimer },
      ...patience,
    })
    const service = new LeaseService({ store, runtime: systemRuntime })
    onTestFinished(() => service.close())
    let written = 0
    const acquire = async (name: string) => {
      const own = { id: systemRuntime.uuid(), holder: 'ann' }
      const resource = parseResource(`work:${name}`)
      await service.acquire({ ...own, resource, session: 'ann', ttlMs: 30_000, waitMs: 0 })
      written += 1
      return own
    }
    const held = await acquire('held')
    const place = { resource: parseResource('work:held'), holder: 'bob', session: 'bob' }
    const waiter = { id: systemRuntime.uuid(), ...place }
    await service.acquire({ ...waiter, ttlMs: 30_000, waitMs: 60_000 })
    const backlog = Array.from({ length: BACKLOG }, (_, n) => acquire(String(n)))
    const counts = { written: () => written, pauses: () => pauses }
    return { file, service, held, waiter, backlog, ...counts }
  }

  it('what it holds is renewed before all that waits already', async () => {
    const { service, held, backlog, written } = await startBacklog()
    await backlog[0]
    const { kind } = await service.renew({ ...held, requestId: systemRuntime.uuid() })
    expect(kind).toBe('renewed')
    expect(written()).toBeLessThan(BACKLOG / 2)
    await Promise.all(backlog)
  })

  it('a waiter keeps its place before all that waits already', async () => {
    const { service, waiter, backlog, written } = await startBacklog()
    await backlog[0]
    expect(await service.claim({ ...waiter, expects: 'nothing' })).toMatchObject({
      kind: 'waiting',
    })
    expect(written()).toBeLessThan(BACKLOG / 2)
    await Promise.all(backlog)
  })

  it('none of it fails because another process has the database for a moment', async () => {
    const { file, backlog, pauses } = await startBacklog(300)
    const ended = Promise.allSettled(backlog)
    const Driver = await loadSqlite()
    const other = new Driver(file)
    onTestFinished(() => void other.close())
    await backlog[BACKLOG / 2]
    other.exec('BEGIN IMMEDIATE')
    const before = pauses()
    // One of them may have been begun already; the others say that the store has found the database busy.
    await expect.poll(() => pauses() - before, { interval: 1 }).toBeGreaterThan(2)
    other.exec('COMMIT')
    expect((await ended).filter(({ status }) => status === 'rejected')).toEqual([])
  })
})
