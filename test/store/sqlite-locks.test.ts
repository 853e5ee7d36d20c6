/**
 * What SQLite locks, it locks for the whole process. A process that gives its locks up unnoticed is no user of the database
 * for SQLite in another: that one takes itself for the last, and removes the log under the first one's feet.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

let file: string

beforeEach(() => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-locks-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  file = path.join(directory, 'leases.db')
})

async function open(namespace: string): Promise<SqliteStore> {
  const store = await SqliteStore.open({ path: file, namespace })
  onTestFinished(() => store.close())
  return store
}

/** Whether this process has a lock on the database file, as the kernel lists them. */
function hasLock(): boolean {
  const { ino } = fs.statSync(file)
  const lines = fs.readFileSync('/proc/locks', 'utf8').split('\n')
  return lines.some((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `))
}

// Only Linux lists the locks of a process.
describe.runIf(process.platform === 'linux')('the lock on a database file', () => {
  it('stays when the process opens the file a second time', async () => {
    await open('default')
    expect(hasLock()).toBe(true)
    const second = await open('other')
    expect(hasLock()).toBe(true)
    await second.close()
    expect(hasLock()).toBe(true)
  })

  it('stays when a store is made that another client of the process has just made', async () => {
    await Promise.all(['default', 'first', 'second'].map(open))
    expect(hasLock()).toBe(true)
  })
})
