/** The single checks of `tenure doctor`. Each says what it found, good or bad, and throws nothing. */
import fs from 'node:fs'
import { isLeaseError } from '../core/errors.ts'
import { existingDirectory, hasCode } from '../runtime/file-system.ts'
import type { Checkup } from '../store-port/store.ts'
import { findBrokenRows, tryWakeFiles } from '../store/sqlite/sqlite-checkup.ts'
import {
  accessError,
  loadSqlite,
  sqliteDriverName,
  type SqliteDatabase,
  type SqliteRow,
} from '../drivers/sqlite-driver.ts'

export interface Check {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

const NODE_MINIMUM = [20, 19] as const

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [neededMajor, neededMinor] = NODE_MINIMUM
  const ok = major > neededMajor || (major === neededMajor && minor >= neededMinor)
  const detail = ok ? version : `${version}, but ${NODE_MINIMUM.join('.')} or later is needed`
  return { name: 'node', ok, detail }
}

export async function checkDriver(): Promise<Check> {
  return attempt('driver', async () => {
    await loadSqlite()
    return `${sqliteDriverName()} loads`
  })
}

/** The nearest ancestor that exists must be writable: what is missing below it will be created. */
export async function checkDirectory(file: string): Promise<Check> {
  return attempt('directory', async () => {
    const directory = existingDirectory(file)
    try {
      fs.accessSync(directory, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK)
    } catch (error) {
      throw hasCode(error, 'EACCES', 'EROFS') ? accessError(file, error) : error
    }
    return `${directory} is writable`
  })
}

/** Long enough for any honest writer to finish, short enough for a person who waits for the answer. */
const BUSY_MS = 1_000

/**
 * What a look at the file itself tells: whether it can be written to, whether its pages are sound, which version its
 * tables have, and whether every row can be read. Nothing is changed: the one write is rolled back.
 */
export async function checkDatabase(file: string): Promise<readonly Check[]> {
  const Driver = await loadSqlite()
  const database = new Driver(file, { timeout: BUSY_MS })
  try {
    return [
      await attempt('writing', async () => {
        tryToWrite(database)
        return 'a transaction can be begun and written to'
      }),
      await attempt('integrity', async () => {
        const found = firstColumn(database, 'PRAGMA quick_check(5)').join('; ')
        if (found !== 'ok') throw new Error(found)
        return 'quick_check found nothing'
      }),
      await attempt('schema', async () => {
        const sql = "SELECT max(version) FROM migrations WHERE status = 'success'"
        return `version ${firstColumn(database, sql).join()}`
      }),
      await attempt('wake-ups', () => tryWakeFiles(file)),
      ...(await checkRows(database)),
    ]
  } finally {
    database.close()
  }
}

function tryToWrite(database: SqliteDatabase): void {
  database.exec('BEGIN IMMEDIATE')
  try {
    database.exec('UPDATE store_state SET last_seq = last_seq')
  } finally {
    if (database.inTransaction) database.exec('ROLLBACK')
  }
}

async function checkRows(database: SqliteDatabase): Promise<readonly Check[]> {
  const broken: string[] = []
  const looked = await attempt('rows', async () => {
    broken.push(...findBrokenRows(database))
    return 'every row can be read'
  })
  if (broken.length === 0) return [looked]
  return broken.map((detail) => ({ name: 'rows', ok: false, detail }))
}

function firstColumn(database: SqliteDatabase, sql: string): readonly string[] {
  const rows = database.prepare(sql).raw().all() as SqliteRow[]
  return rows.map(([value]) => String(value))
}

/** What a server's own checkup tells; nothing where there is none. */
export async function checkServer(open: (() => Promise<Checkup>) | undefined): Promise<Check[]> {
  if (open === undefined) return []
  const checks: Check[] = []
  const opened = await attempt('checkup', async () => {
    const checkup = await open()
    for (const one of checkup.looks) checks.push(await attempt(one.name, () => one.look()))
    await checkup.close()
    return 'done'
  })
  return opened.ok ? checks : [...checks, opened]
}

/** What an operator may ask of a store, each by the name of its option. */
export async function acceptClock(open: (() => Promise<Checkup>) | undefined): Promise<Check> {
  return attempt('accept-clock', async () => {
    const checkup = await open?.()
    try {
      const done = await checkup?.acceptClock?.()
      if (done === undefined) {
        throw new Error('there is nothing to do for --accept-clock on this store')
      }
      return done
    } finally {
      await checkup?.close()
    }
  })
}

export async function attempt(name: string, work: () => Promise<string>): Promise<Check> {
  try {
    return { name, ok: true, detail: await work() }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { name, ok: false, detail: isLeaseError(error) ? `${message} (${error.code})` : message }
  }
}
