/** When the followers of a ledger on SQLite hear of a commit of their own process: after its answer, and once. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'

async function openStore(): Promise<{ readonly store: SqliteStore; readonly file: string }> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-followers-'))
  const file = path.join(directory, 'leases.db')
  const store = await SqliteStore.open({ path: file })
  onTestFinished(async () => {
    await store.close()
    fs.rmSync(directory, { recursive: true, force: true })
  })
  return { store, file }
}

async function commit(store: SqliteStore): Promise<void> {
  await store.configure({ key: 'max_renewals', value: '5', scope: 'global', resourceId: null })
}

it('a commit is answered before its followers are called', async () => {
  const { store } = await openStore()
  const order: string[] = []
  const followed = new Promise<void>((resolve) => {
    const stop = store.follow(() => {
      order.push('followed')
      resolve()
    })
    onTestFinished(stop)
  })
  await commit(store)
  order.push('answered')
  await followed
  expect(order).toEqual(['answered', 'followed'])
})

it('a follower is not called again when its own process is heard to call the others', async () => {
  const { store, file } = await openStore()
  let calls = 0
  onTestFinished(store.follow(() => void (calls += 1)))
  // Watches the same directory after the store does, and so hears of each call after it.
  const heard = new Promise<void>((resolve) => {
    const watcher = fs.watch(`${file}-wake`, () => resolve())
    onTestFinished(() => watcher.close())
  })
  await commit(store)
  await heard
  await turn()
  expect(calls).toBe(1)
})
