/** A store on SQLite as the conformance suite opens it: under whichever test runner, on whichever driver. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { StoreHarness } from '../../src/testing/index.ts'

export const sqliteSubject: StoreHarness = {
  name: 'sqlite',
  open: async (ticks) => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-sqlite-'))
    const opened: SqliteStore[] = []
    const open = async (): Promise<SqliteStore> => {
      const store = await SqliteStore.open({ path: path.join(directory, 'leases.db'), ticks })
      opened.push(store)
      return store
    }
    const store = await open()
    const closeAll = async (): Promise<void> => {
      await Promise.all(opened.map((one) => one.close()))
    }
    return {
      store,
      clock: ticks,
      reopen: async () => {
        await closeAll()
        return open()
      },
      openAnother: open,
      close: async () => {
        await closeAll()
        fs.rmSync(directory, { recursive: true, force: true })
      },
    }
  },
}
