import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireAnswer } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadDriver, type SqliteDatabase } from '../../src/store/sqlite/sqlite-client.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { FullDiskReport } from './full-disk.ts'

let directory: string
let file: string
let service: LeaseService

async function open(busyMs?: number): Promise<LeaseService> {
  const store = await SqliteStore.open({ path: file, ...(busyMs === undefined ? {} : { busyMs }) })
  return new LeaseService({ store, runtime: systemRuntime })
}

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-faults-'))
  file = path.join(directory, 'leases.db')
})

afterEach(async () => {
  await service.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

async function rawDatabase(): Promise<SqliteDatabase> {
  const Driver = await loadDriver()
  return new Driver(file)
}

function acquire(name: string): Promise<AcquireAnswer> {
  return service.acquire({
    leaseId: systemRuntime.uuid(),
    resource: parseResource(`work:${name}`),
    holder: 'h',
    session: 's',
    ttlMs: 60_000,
    waitMs: 0,
  })
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'none'
  } catch (error) {
    return isLeaseError(error) ? `${error.code}/${error.effect}` : String(error)
  }
}

describe('a database that another process keeps busy', () => {
  it('never blocks the event loop, and is tried again until it is free', async () => {
    service = await open()
    const other = await rawDatabase()
    other.exec('BEGIN IMMEDIATE')
    let ticks = 0
    const timer = setInterval(() => (ticks += 1), 5)
    const answer = acquire('a')
    await new Promise((resolve) => setTimeout(resolve, 200))
    const ticksWhileBusy = ticks
    other.exec('COMMIT')
    other.close()
    expect((await answer).kind).toBe('granted')
    clearInterval(timer)
    // 200 ms hold 40 ticks of 5 ms; a blocked loop would show next to none.
    expect(ticksWhileBusy).toBeGreaterThan(20)
  })

  it('is unavailable once the patience is over, and nothing has happened', async () => {
    service = await open(150)
    const other = await rawDatabase()
    other.exec('BEGIN IMMEDIATE')
    const startMs = performance.now()
    expect(await codeOf(acquire('a'))).toBe('STORE_UNAVAILABLE/none')
    expect(performance.now() - startMs).toBeLessThan(1_000)
    other.exec('COMMIT')
    other.close()
    expect((await service.list({})).leases).toEqual([])
  })

  it('can still be read', async () => {
    service = await open()
    await acquire('a')
    const other = await rawDatabase()
    other.exec('BEGIN IMMEDIATE')
    expect((await service.list({})).leases).toHaveLength(1)
    other.exec('COMMIT')
    other.close()
  })
})

describe('a database file that was removed while open', () => {
  it('grants nothing any more, because a new file may grant the same', async () => {
    service = await open()
    expect((await acquire('a')).kind).toBe('granted')
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(`${file}${suffix}`)
    expect(await codeOf(acquire('b'))).toBe('STORE_UNAVAILABLE/none')
    const newcomer = await open()
    const old = service
    service = newcomer
    expect((await acquire('b')).kind).toBe('granted')
    service = old
    expect(await codeOf(acquire('b'))).toBe('STORE_UNAVAILABLE/none')
    await newcomer.close()
  })
})

describe('a disk that is full', () => {
  it('refuses with no effect, keeps what there was, and goes on when there is room again', async () => {
    service = await open()
    const program = path.resolve(import.meta.dirname, '../../dist-dev/test/store/full-disk.js')
    const mount = path.join(directory, 'mount')
    fs.mkdirSync(mount)
    const inNamespace = [
      '-rm',
      'sh',
      '-c',
      'mount -t tmpfs -o size=1000k tmpfs "$1" && exec "$2" "$3" "$1"',
    ]
    const { stdout } = await promisify(execFile)(
      'unshare',
      [...inNamespace, 'sh', mount, process.execPath, program],
      { timeout: 30_000 },
    )
    const report = JSON.parse(stdout) as FullDiskReport
    expect(report.codes).toEqual(['STORE_UNAVAILABLE/none', 'granted'])
    expect(report.leasesKept).toBe(report.granted)
    expect(report.eventsKept).toBe(report.granted)
    expect(report.afterwards).toBe('granted')
  })
})

describe('waiting for a busy database', () => {
  it('keeps one retry at a time', async () => {
    let timers = 0
    const runtime = {
      ...systemRuntime,
      setTimer: (...args: Parameters<typeof systemRuntime.setTimer>) => {
        timers += 1
        return systemRuntime.setTimer(...args)
      },
    }
    const store = await SqliteStore.open({ path: file, runtime })
    service = new LeaseService({ store, runtime: systemRuntime })
    const other = await rawDatabase()
    other.exec('BEGIN IMMEDIATE')
    const answer = acquire('a')
    await new Promise((resolve) => setTimeout(resolve, 500))
    other.exec('COMMIT')
    other.close()
    expect((await answer).kind).toBe('granted')
    // Tries are 4 to 8 ms apart once they have backed off: at most 125 in half a second.
    expect(timers).toBeLessThan(150)
  })
})
