import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { AcquireAnswer } from '../../src/service/lease-api.ts'
import { LeaseService } from '../../src/service/lease-service.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import type { FullDiskReport } from './full-disk.ts'

/** Between two tries of a store that is kept waiting. */
const BACK_OFF_MS_MAX = 8

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
  const Driver = await loadSqlite()
  return new Driver(file)
}

function acquire(name: string): Promise<AcquireAnswer> {
  return service.acquire({
    id: systemRuntime.uuid(),
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
    let isAnswered = false
    const answer = acquire('a').finally(() => (isAnswered = true))
    // A loop that is blocked until the patience of the store is over comes to none of these.
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(isAnswered).toBe(false)
    other.exec('COMMIT')
    other.close()
    expect((await answer).kind).toBe('granted')
  })

  it('is unavailable once the patience is over, and nothing has happened', async () => {
    const runtime = new FakeRuntime()
    const store = await SqliteStore.open({ path: file, busyMs: 150, runtime })
    service = new LeaseService({ store, runtime: systemRuntime })
    const other = await rawDatabase()
    other.exec('BEGIN IMMEDIATE')
    let code = 'none yet'
    void codeOf(acquire('a')).then((told) => (code = told))
    await runtime.advance(150)
    expect(code).toBe('none yet')
    await runtime.advance(BACK_OFF_MS_MAX)
    expect(code).toBe('STORE_UNAVAILABLE/none')
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

  it('grants nothing any more if only its log was, because a process that opens it sees less', async () => {
    service = await open()
    expect((await acquire('a')).kind).toBe('granted')
    for (const suffix of ['-wal', '-shm']) fs.rmSync(`${file}${suffix}`)
    expect(await codeOf(acquire('b'))).toBe('STORE_UNAVAILABLE/none')
  })

  it('tells nothing any more, and who watches it hears that it is away', async () => {
    service = await open()
    await acquire('a')
    const stop = new AbortController()
    const heard: string[] = []
    const observer = {
      onPosition: () => heard.push('position'),
      onAway: ({ code }: { readonly code: string }) => heard.push(code),
      onBack: () => heard.push('back'),
    }
    const events = service.watch({}, { signal: stop.signal, observer })
    const watching = (async () => {
      for await (const { event } of events) throw new Error(`unexpected ${event.type}`)
    })()
    await vi.waitFor(() => expect(heard).toContain('position'))
    for (const suffix of ['', '-wal', '-shm']) fs.rmSync(`${file}${suffix}`)
    await (await open()).close()
    expect(await codeOf(service.list({}))).toBe('STORE_UNAVAILABLE/none')
    await vi.waitFor(() => expect(heard.at(-1)).toBe('STORE_UNAVAILABLE'))
    stop.abort()
    await watching
  })
})

it('a database file that cannot be looked at while open is unavailable until it can', async () => {
  service = await open()
  const aside = `${directory}-aside`
  fs.renameSync(directory, aside)
  fs.symlinkSync(directory, directory)
  try {
    expect(await codeOf(acquire('a'))).toBe('STORE_UNAVAILABLE/none')
  } finally {
    fs.rmSync(directory)
    fs.renameSync(aside, directory)
  }
  expect((await acquire('a')).kind).toBe('granted')
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
    const runtime = new FakeRuntime()
    const store = await SqliteStore.open({ path: file, runtime })
    service = new LeaseService({ store, runtime: systemRuntime })
    const other = await rawDatabase()
    other.exec('BEGIN IMMEDIATE')
    await runtime.settle()
    const before = runtime.pendingTimers
    const answer = acquire('a')
    for (let passedMs = 0; passedMs < 500; passedMs += 1) {
      await runtime.advance(1)
      expect(runtime.pendingTimers).toBe(before + 1)
    }
    other.exec('COMMIT')
    other.close()
    await runtime.advance(BACK_OFF_MS_MAX)
    expect((await answer).kind).toBe('granted')
  })
})
