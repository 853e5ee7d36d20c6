import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import { WakeFiles } from '../../src/store/sqlite/sqlite-listeners.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { FOLLOWERS } from '../../src/store/subscribers.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'

function place(): () => WakeFiles {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-wake-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  const databasePath = path.join(directory, 'leases.db')
  return () => new WakeFiles({ databasePath, runtime: systemRuntime })
}

function called(files: WakeFiles): Promise<void> {
  return new Promise((resolve) => files.listen(FOLLOWERS, resolve))
}

function filesOf(files: WakeFiles): readonly string[] {
  return fs.existsSync(files.directory) ? fs.readdirSync(files.directory) : []
}

it('a process that commits where nobody listens leaves no trace', () => {
  const committer = place()()
  committer.touch(FOLLOWERS)
  expect(fs.existsSync(committer.directory)).toBe(false)
})

it('all who follow the ledger are called', async () => {
  const open = place()
  const followers = [open(), open()]
  const calls = followers.map(called)
  open().touch(FOLLOWERS)
  await Promise.all(calls)
  for (const follower of followers) follower.close()
  expect(followers.map((follower) => fs.existsSync(follower.directory))).toEqual([false, false])
})

it('a follower whose file another one took along notices, and can listen again', async () => {
  const open = place()
  const [one, other] = [open(), open()]
  one.listen(FOLLOWERS, () => undefined)
  const gone = called(other)
  one.close()
  await gone
  expect(other.hears(FOLLOWERS)).toBe(false)
  const call = called(other)
  open().touch(FOLLOWERS)
  await call
  other.close()
})

it('what a follower that was killed has left is taken away by another process', () => {
  const open = place()
  const killed = open()
  killed.listen(FOLLOWERS, () => undefined)
  expect(filesOf(killed)).toHaveLength(1)
  open().silence(FOLLOWERS)
  expect(filesOf(killed)).toEqual([])
  killed.close()
})

it('a session that several processes may have leaves its file, and an old one is taken away', () => {
  const open = place()
  const waiter = open()
  waiter.listen('worker', () => undefined)
  waiter.close()
  expect(filesOf(waiter)).toEqual(['worker'])
  open().removeStale()
  expect(filesOf(waiter)).toEqual(['worker'])
  const longAgo = Date.now() / 1000 - 3 * 86_400
  fs.utimesSync(path.join(waiter.directory, 'worker'), longAgo, longAgo)
  open().removeStale()
  expect(filesOf(waiter)).toEqual([])
})

it('a process that finds the directory made by another in the same moment listens', () => {
  const open = place()
  const [one, other] = [open(), open()]
  one.listen('one', () => undefined)
  vi.spyOn(fs, 'existsSync').mockReturnValueOnce(false)
  onTestFinished(() => void vi.restoreAllMocks())
  other.listen('other', () => undefined)
  expect(other.hears('other')).toBe(true)
  for (const files of [one, other]) files.close()
})

it('a session that listens for days is heard again after its file was taken for one of a killed process', async () => {
  const { directory } = place()()
  const runtime = new FakeRuntime()
  const databasePath = directory.replace(/-wake$/, '')
  const store = await SqliteStore.open({ path: databasePath, runtime, ticks: runtime.ticks })
  onTestFinished(() => store.close())
  let onWake = (): void => undefined
  const woken = (): Promise<void> => new Promise((resolve) => (onWake = resolve))
  await store.subscribe('worker', () => onWake())
  const file = path.join(directory, 'worker')
  const longAgo = Date.now() / 1000 - 3 * 86_400
  const aged = woken()
  fs.utimesSync(file, longAgo, longAgo)
  await aged
  const other = new WakeFiles({ databasePath, runtime: systemRuntime })
  const gone = woken()
  other.removeStale()
  await gone
  await runtime.advance(500)
  expect(fs.existsSync(file)).toBe(true)
  const called = woken()
  other.touch('worker')
  await called
})
