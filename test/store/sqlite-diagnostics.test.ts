/** What fails in the background of a store on SQLite is reported, with its source, and nothing that comes and goes is. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  loadSqlite,
  type SqliteDatabase,
  type SqliteStatement,
} from '../../src/drivers/sqlite-driver.ts'
import { SqliteListeners } from '../../src/store/sqlite/sqlite-listeners.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { WakeFiles } from '../../src/store/sqlite/sqlite-wake.ts'
import { WatchDirectory } from '../../src/store/sqlite/sqlite-watch.ts'
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
function inTheWay(what: 'wake' | 'watch'): void {
  fs.writeFileSync(`${databasePath}-${what}`, '')
}

function failing(name: 'chmodSync' | 'utimesSync', code: string): void {
  const refuse = vi.spyOn(fs, name as 'chmodSync').mockImplementation(() => {
    throw Object.assign(new Error(code), { code })
  })
  onTestFinished(() => refuse.mockRestore())
}

it('a session that cannot have a wake file', () => {
  inTheWay('wake')
  new WakeFiles(databasePath, runtime).listen(SESSION, () => undefined)
  expect(faults.of('store/sqlite/wake')).toHaveLength(1)
})

it('a session that cannot be woken, but not one that does not listen', () => {
  const files = new WakeFiles(databasePath, runtime)
  files.touch(SESSION, runtime.wallMs())
  expect(faults.all).toEqual([])
  failing('utimesSync', 'EACCES')
  files.touch(SESSION, runtime.wallMs())
  files.touch(SESSION, runtime.wallMs())
  expect(faults.of('store/sqlite/wake')).toMatchObject([{ count: 1, error: { code: 'EACCES' } }])
})

it('a watcher that cannot be called, at first and then once a minute, with pauses between its tries', async () => {
  inTheWay('watch')
  const directory = new WatchDirectory(databasePath, runtime)
  const opened = vi.spyOn(fs, 'openSync')
  onTestFinished(() => opened.mockRestore())
  for (let tries = 0; tries < 2_000; tries += 1) {
    directory.join(runtime.wallMs(), () => undefined)
    await runtime.advance(50)
  }
  expect(faults.of('store/sqlite/watch').map(({ count }) => count)).toHaveLength(2)
  expect(opened.mock.calls.length).toBeLessThan(20)
})

it('watchers of another user whose files this one may not write', () => {
  const watching = new WatchDirectory(databasePath, runtime)
  watching.join(runtime.wallMs(), () => undefined)
  failing('chmodSync', 'EPERM')
  failing('utimesSync', 'EACCES')
  new WatchDirectory(databasePath, runtime).call(runtime.wallMs())
  expect(faults.of('store/sqlite/call-watchers')).toHaveLength(1)
  watching.leave(runtime.wallMs())
})

it('a directory that cannot be read or removed, but not one that is missing or in use', () => {
  const files = new WakeFiles(databasePath, runtime)
  files.removeStale(runtime.wallMs())
  files.close()
  const [one, other] = [files, new WakeFiles(databasePath, runtime)]
  one.listen(SESSION, () => undefined)
  other.listen(`${SESSION.slice(0, -1)}2`, () => undefined)
  one.close()
  other.close()
  expect(faults.all).toEqual([])
  inTheWay('wake')
  files.removeStale(runtime.wallMs())
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
  const listeners = new SqliteListeners({ databasePath, database, runtime })
  listeners.subscribe(SESSION, () => undefined)
  await runtime.advance(5_000)
  expect(faults.of('store/sqlite/poll')).toMatchObject([{ count: 1 }])
  listeners.close()
})

it('a transaction that cannot be rolled back', async () => {
  const Driver = await loadSqlite()
  const { prepare } = Driver.prototype as SqliteDatabase
  const stubborn = vi.spyOn(Driver.prototype as SqliteDatabase, 'prepare')
  stubborn.mockImplementation(function (this: SqliteDatabase, sql: string) {
    const statement = prepare.call(this, sql)
    if (sql !== 'ROLLBACK') return statement
    const run = (): never => {
      throw new Error('disk I/O error')
    }
    return Object.assign(Object.create(statement) as SqliteStatement, { run })
  })
  const store = await SqliteStore.open({ path: databasePath })
  stubborn.mockRestore()
  const mistake = store.transact([], () => {
    throw Object.assign(new Error('full'), { code: 'SQLITE_FULL' })
  })
  await expect(mistake).rejects.toThrow('full')
  expect(faults.of('store/sqlite/rollback')).toHaveLength(1)
  await store.close()
})
