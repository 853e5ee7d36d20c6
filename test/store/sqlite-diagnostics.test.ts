/** What fails in the background of a store on SQLite is reported, with its source, and nothing that comes and goes is. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { SqliteListeners, WakeFiles } from '../../src/store/sqlite/sqlite-listeners.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { hearFaults, type HeardFaults } from './faults-heard.ts'

const SESSION = '00000000-0000-4000-8000-000000000001'

let databasePath: string
let runtime: FakeRuntime
let faults: HeardFaults

beforeEach(() => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-diagnostics-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  databasePath = path.join(directory, 'leases.db')
  runtime = new FakeRuntime()
  faults = hearFaults()
})

/** A file stands where the directory should be. */
function inTheWay(): void {
  fs.writeFileSync(`${databasePath}-wake`, '')
}

function wakeFiles(): WakeFiles {
  return new WakeFiles({ databasePath, runtime })
}

function failing(name: 'utimesSync', code: string): void {
  const refuse = vi.spyOn(fs, name).mockImplementation(() => {
    throw Object.assign(new Error(code), { code })
  })
  onTestFinished(() => refuse.mockRestore())
}

it('a session that cannot have a wake file', () => {
  inTheWay()
  wakeFiles().listen(SESSION, () => undefined)
  expect(faults.of('store/sqlite/wake')).toHaveLength(1)
})

it('a session that cannot be woken, but not one that does not listen', () => {
  const files = wakeFiles()
  files.touch(SESSION)
  expect(faults.all).toEqual([])
  files.listen(SESSION, () => undefined)
  failing('utimesSync', 'EACCES')
  files.touch(SESSION)
  files.touch(SESSION)
  expect(faults.of('store/sqlite/wake')).toMatchObject([{ count: 1, error: { code: 'EACCES' } }])
  files.close()
})

it('a follower that cannot be called, at first and then once a minute, with pauses between its tries', async () => {
  inTheWay()
  const opened = vi.spyOn(fs, 'openSync')
  onTestFinished(() => opened.mockRestore())
  const database = { pragma: () => 1 } as unknown as SqliteDatabase
  const listeners = new SqliteListeners({ path: databasePath, database, runtime })
  const leave = listeners.follow(() => undefined)
  await runtime.advance(100_000)
  expect(faults.of('store/sqlite/watch').map(({ count }) => count)).toHaveLength(2)
  expect(opened.mock.calls.length).toBeLessThan(20)
  leave()
  listeners.close()
})

it('a directory that cannot be read or removed, but not one that is missing or in use', () => {
  const files = wakeFiles()
  files.removeStale()
  files.close()
  const [one, other] = [files, wakeFiles()]
  one.listen(SESSION, () => undefined)
  other.listen(`${SESSION.slice(0, -1)}2`, () => undefined)
  one.close()
  other.close()
  expect(faults.all).toEqual([])
  inTheWay()
  files.removeStale()
  files.close()
  expect(faults.of('store/sqlite/directory')).toMatchObject([
    { error: { code: 'ENOTDIR' } },
    { error: { code: 'ENOTDIR' } },
  ])
})

it('a database that cannot be looked at for news', async () => {
  const pragma = (): never => {
    throw new Error('the log is being recovered')
  }
  const database = { pragma } as unknown as SqliteDatabase
  const listeners = new SqliteListeners({ path: databasePath, database, runtime })
  listeners.subscribe(SESSION, () => undefined)
  await runtime.advance(5_000)
  expect(faults.of('store/sqlite/poll')).toMatchObject([{ count: 1 }])
  listeners.close()
})

it('a transaction that cannot be rolled back', async () => {
  const Driver = await loadSqlite()
  const { exec } = Driver.prototype as SqliteDatabase
  const stubborn = vi.spyOn(Driver.prototype as SqliteDatabase, 'exec')
  stubborn.mockImplementation(function (this: SqliteDatabase, sql: string) {
    if (sql === 'ROLLBACK') throw new Error('disk I/O error')
    return exec.call(this, sql)
  })
  const store = await SqliteStore.open({ path: databasePath })
  const mistake = store.transact([], () => {
    throw Object.assign(new Error('full'), { code: 'SQLITE_FULL' })
  })
  await expect(mistake).rejects.toThrow('full')
  stubborn.mockRestore()
  expect(faults.of('store/sqlite/rollback')).toHaveLength(1)
  await store.close()
})
