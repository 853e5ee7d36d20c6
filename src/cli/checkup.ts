/** The single checks of `tenure doctor`. Each says what it found, good or bad, and throws nothing. */
import fs from 'node:fs'
import path from 'node:path'
import { isLeaseError } from '../core/errors.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { loadDriver, type SqliteDriver } from '../store/sqlite/sqlite-client.ts'

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
    await loadDriver()
    return 'better-sqlite3 loads'
  })
}

/** The nearest ancestor that exists must be writable: what is missing below it will be created. */
export async function checkDirectory(file: string): Promise<Check> {
  return attempt('directory', async () => {
    let directory = path.dirname(file)
    while (!fs.existsSync(directory)) directory = path.dirname(directory)
    fs.accessSync(directory, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK)
    return `${directory} is writable`
  })
}

interface Row {
  readonly [column: string]: unknown
}

/** What a look at the file itself tells: whether its pages are sound, and which version its tables have. */
export async function checkDatabase(file: string): Promise<readonly Check[]> {
  const Driver = await loadDriver()
  return [
    await attempt('integrity', async () => {
      const rows = query(Driver, file, 'PRAGMA quick_check(5)')
      const found = rows.map((row) => String(row['quick_check'])).join('; ')
      if (found !== 'ok') throw new Error(found)
      return 'quick_check found nothing'
    }),
    await attempt('schema', async () => {
      const sql = "SELECT max(version) AS version FROM migrations WHERE status = 'success'"
      return `version ${String(query(Driver, file, sql)[0]?.['version'])}`
    }),
  ]
}

function query(Driver: SqliteDriver, file: string, sql: string): readonly Row[] {
  const database = new Driver(file, { timeout: 5_000 })
  try {
    return database.prepare(sql).all() as Row[]
  } finally {
    database.close()
  }
}

/** Subscribing needs a place for wake files and a file watch, of which a host has only so many. */
export async function checkWake(api: LeaseApi, session: string): Promise<Check> {
  return attempt('wake-ups', async () => {
    const unsubscribe = await api.onWake(session, () => undefined)
    unsubscribe()
    return 'a session can be woken by other processes'
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
