/**
 * The part of better-sqlite3 that the store uses, typed by its shape so that the driver is nobody's dependency but
 * the one who opens a `sqlite:` store, and the loading of it.
 */
import nodeModule from 'node:module'
import { LeaseError } from '../../core/errors.ts'
import { ownership } from '../../runtime/file-system.ts'
import type { DriverPackage } from '../driver-fault.ts'

export type SqliteValue = string | number | null
export type SqliteRow = readonly SqliteValue[]

export interface SqliteStatement {
  run(...values: readonly SqliteValue[]): { readonly changes: number }
  get(...values: readonly SqliteValue[]): unknown
  all(...values: readonly SqliteValue[]): unknown[]
  raw(enabled?: boolean): this
}

export interface SqliteDatabase {
  readonly inTransaction: boolean
  prepare(sql: string): SqliteStatement
  exec(sql: string): unknown
  function(name: string, work: (value: unknown) => SqliteValue): unknown
  pragma(text: string, options?: { readonly simple?: boolean }): unknown
  close(): unknown
}

export type SqliteDriver = new (
  path: string,
  options?: { readonly timeout?: number },
) => SqliteDatabase

const PACKAGE: DriverPackage = {
  name: 'better-sqlite3',
  needed: 'sqlite: stores',
  install: 'better-sqlite3@12',
}

/**
 * The driver is CommonJS: importing it would first parse its sources for names to export, which takes 6 ms. It loads its
 * compiled part when the first database is opened, so one is opened here: 0.05 ms, and what was built for another
 * version of Node fails where that can be said. `createRequire` is not imported by its name: a bundle may begin with a
 * line that does so already, to give bundled CommonJS a `require`.
 */
export async function loadDriver(): Promise<SqliteDriver> {
  try {
    const Driver = nodeModule.createRequire(import.meta.url)('better-sqlite3') as SqliteDriver
    new Driver(':memory:').close()
    return Driver
  } catch (cause) {
    // Hardly any start-up needs it, so none should load it.
    const { driverFault } = await import('../driver-fault.ts')
    throw driverFault(PACKAGE, cause)
  }
}

const STATEMENTS_CACHED_MAX = 200

/** Statements, prepared when they are first used; their rows are arrays. */
export class StatementCache {
  readonly #database: SqliteDatabase
  readonly #statements = new Map<string, SqliteStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  get(sql: string): SqliteStatement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    if (this.#statements.size >= STATEMENTS_CACHED_MAX) this.#statements.clear()
    const statement = this.#database.prepare(sql).raw()
    this.#statements.set(sql, statement)
    return statement
  }
}

/** A condition in the making, with its values beside it: names reach SQL as data only. */
export class Where {
  sql: string
  readonly values: SqliteValue[]

  constructor(sql: string, values: SqliteValue[]) {
    this.sql = sql
    this.values = values
  }

  and(condition: string, ...values: readonly SqliteValue[]): void {
    this.sql += ` AND ${condition}`
    this.values.push(...values)
  }
}

/** The driver's code of an error (`SQLITE_BUSY`, …), or null if it is not an error of the database. */
export function sqliteCode(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  return typeof error.code === 'string' && error.code.startsWith('SQLITE_') ? error.code : null
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code !== null && (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED'))
}

const SCHEMA_CODES: ReadonlySet<string> = new Set([
  'SQLITE_NOTADB',
  'SQLITE_ERROR',
  'SQLITE_SCHEMA',
])

/** What SQLite says of a file, or a directory, that this user may not write. */
const ACCESS_CODE_PATTERN = /^SQLITE_(READONLY|CANTOPEN|PERM)/

/**
 * Says what an error of the driver means to a caller. `committing` is true when it came out of COMMIT: an I/O error
 * there leaves open whether the commit will be found after the next recovery; any other error rolled it back.
 */
export function storeError(error: unknown, url: string, committing = false): unknown {
  if (error instanceof LeaseError) return error
  const code = sqliteCode(error)
  if (code === null) return error
  const message = error instanceof Error ? error.message : code
  const options = { cause: error, details: { store: url, reason: code } }
  if (committing && code.startsWith('SQLITE_IOERR')) {
    return new LeaseError('STORE_OUTCOME_UNKNOWN', `${url}: commit failed: ${message}`, options)
  }
  if (SCHEMA_CODES.has(code) || code.startsWith('SQLITE_CORRUPT')) {
    return new LeaseError('STORE_SCHEMA', `${url} is not a Tenure store: ${message}`, options)
  }
  const whose = ACCESS_CODE_PATTERN.test(code) ? ownership(url.replace(/^sqlite:/, '')) : ''
  return new LeaseError('STORE_UNAVAILABLE', `${url} cannot be used: ${message}${whose}`, options)
}
