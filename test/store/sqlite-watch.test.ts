import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { WatchDirectory } from '../../src/store/sqlite/sqlite-watch.ts'

const SILENT_MS = 60_000

function place(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-watch-directory-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  return path.join(directory, 'leases.db')
}

/** What changes with every call, and with nothing else that these tests do. */
/** Times of files may be so far behind the clock. */
const FILE_TICK_MS = 20

function calledAt(database: string): number {
  return fs.statSync(`${database}-watch`).ctimeMs
}

it('whoever commits where nobody watches leaves no trace', () => {
  const database = place()
  new WatchDirectory(database, systemRuntime).call(Date.now())
  expect(fs.readdirSync(path.dirname(database))).toEqual([])
})

it('all who watch are called', async () => {
  const database = place()
  const directories = [
    new WatchDirectory(database, systemRuntime),
    new WatchDirectory(database, systemRuntime),
  ]
  const called = directories.map(async (directory) => {
    return new Promise<void>((resolve) => directory.join(Date.now(), resolve))
  })
  new WatchDirectory(database, systemRuntime).call(Date.now())
  await Promise.all(called)
  for (const directory of directories) directory.leave(Date.now())
  expect(fs.readdirSync(path.dirname(database))).toEqual([])
})

it('whoever leaves does not take the directory from those who still watch', () => {
  const database = place()
  const [one, other] = [
    new WatchDirectory(database, systemRuntime),
    new WatchDirectory(database, systemRuntime),
  ]
  one.join(Date.now(), () => undefined)
  other.join(Date.now(), () => undefined)
  one.leave(Date.now())
  expect(fs.readdirSync(`${database}-watch`)).toHaveLength(1)
  other.leave(Date.now())
})

it('a watcher that died is called for a minute at most, and then taken away', async () => {
  const database = place()
  const dead = new WatchDirectory(database, systemRuntime)
  const diedMs = Date.now()
  dead.join(diedMs, () => undefined)
  onTestFinished(() => dead.leave(diedMs))
  const committer = new WatchDirectory(database, systemRuntime)
  const beforeMs = calledAt(database)
  await sleep(20)
  committer.call(diedMs + SILENT_MS + FILE_TICK_MS)
  expect(calledAt(database)).toBe(beforeMs)
  committer.call(diedMs + SILENT_MS - FILE_TICK_MS)
  expect(calledAt(database)).toBeGreaterThan(beforeMs)
  committer.removeSilent(diedMs + SILENT_MS - FILE_TICK_MS)
  expect(fs.existsSync(`${database}-watch`)).toBe(true)
  committer.removeSilent(diedMs + SILENT_MS + FILE_TICK_MS)
  expect(fs.existsSync(`${database}-watch`)).toBe(false)
})

it('a watcher that stays is called for as long as it does, and calls do not keep it alive', () => {
  const database = place()
  const watcher = new WatchDirectory(database, systemRuntime)
  const startMs = Date.now()
  watcher.join(startMs, () => undefined)
  const committer = new WatchDirectory(database, systemRuntime)
  committer.call(startMs)
  expect(fs.statSync(`${database}-watch`).mtimeMs).toBeCloseTo(startMs, -1)
  watcher.stay(startMs + 50_000)
  committer.removeSilent(startMs + 100_000)
  expect(fs.existsSync(`${database}-watch`)).toBe(true)
  watcher.leave(startMs + 100_000)
})

it('a watcher whose directory was taken away notices, and can join again', () => {
  const database = place()
  const watcher = new WatchDirectory(database, systemRuntime)
  const startMs = Date.now()
  watcher.join(startMs, () => undefined)
  fs.rmSync(`${database}-watch`, { recursive: true })
  watcher.stay(startMs + 30_000)
  expect(watcher.isJoined).toBe(false)
  watcher.join(startMs + 30_000, () => undefined)
  expect(watcher.isJoined).toBe(true)
  watcher.leave(startMs + 30_000)
})
