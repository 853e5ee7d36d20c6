/**
 * SQLite by `node:sqlite` where Node brings a sound one, else by better-sqlite3; and what their errors mean. Both are typed
 * by their shape, so that neither is a dependency. Databases that a program passes in may be of either.
 */
import nodeModule from 'node:module'
import path from 'node:path'
import { invalid, LeaseError, messageOf } from '../core/errors.ts'
import { report } from '../runtime/diagnostics.ts'
import { existingDirectory, hasCode, ownership } from '../runtime/file-system.ts'
import { nodeVersions, builtinModule } from '../runtime/system-runtime.ts'
import type { DriverPackage } from './driver-fault.ts'

export type SqliteValue = string | number | Uint8Array | null
export type SqliteRow = readonly SqliteValue[]

export interface SqliteStatement extends SqliteStatementLike {
  run(...values: readonly SqliteValue[]): { readonly changes: number }
  /** From now on rows are arrays. */
  raw(): SqliteStatement
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

/** What is needed of a database that a program passes in; better-sqlite3's has it, and that of `node:sqlite`. */
export type SqliteLike = {
  exec(sql: string): unknown
  prepare(sql: string): SqliteStatementLike
} & ({ readonly inTransaction: boolean } | { readonly isTransaction: boolean })

export interface SqliteStatementLike {
  run(...values: readonly SqliteValue[]): unknown
  get(...values: readonly SqliteValue[]): unknown
  all(...values: readonly SqliteValue[]): unknown[]
}

/** Refuses what is no database when it is given, not when it is first used. */
export function requireSqlite<Database extends SqliteLike>(database: Database): Database {
  const isDatabase =
    typeof database?.prepare === 'function' &&
    typeof database.exec === 'function' &&
    ('inTransaction' in database || 'isTransaction' in database)
  if (isDatabase) return database
  throw invalid('database', 'must be an open SQLite database', database)
}

/** Prepares a statement whose rows are objects: a database of `node:sqlite` can be told to give them as arrays. */
export function prepareNamed(database: SqliteLike, sql: string): SqliteStatementLike {
  const statement: SqliteStatementLike & Partial<Pick<NodeSqliteStatement, 'setReturnArrays'>> =
    database.prepare(sql)
  statement.setReturnArrays?.(false)
  return statement
}

export function isInTransaction(database: SqliteLike): boolean {
  return 'inTransaction' in database ? database.inTransaction : database.isTransaction
}

/** Runs `work` in a write transaction of its own: all of it is committed, or after an error nothing. */
export function inWriteTransaction(database: SqliteDatabase, work: () => void): void {
  database.exec('BEGIN IMMEDIATE')
  try {
    work()
    database.exec('COMMIT')
  } catch (error) {
    rollBack(database, 'sqlite/rollback')
    throw error
  }
}

/**
 * After some errors SQLite has rolled back by itself, and then there is nothing left to undo. A rollback that fails is only
 * reported: the error that led to it says more.
 */
export function rollBack(database: SqliteLike, source: string, sql = 'ROLLBACK'): void {
  try {
    if (isInTransaction(database)) database.exec(sql)
  } catch (error) {
    if (isInTransaction(database)) report(source, error)
  }
}

/** Older ones may damage a database in WAL mode that several processes write to. */
const SQLITE_SOUND = [3, 51, 3] as const
/** Before it, importing `node:sqlite` prints a warning; so do early versions of it, whose SQLite is not sound either. */
const NODE_WITH_SQLITE = [24] as const

/** Said before `node:sqlite` is imported, which has its price. */
export function bringsSqlite(versions: {
  readonly node: string
  readonly sqlite?: string
}): boolean {
  const { node, sqlite } = versions
  return (
    isAtLeast(node, NODE_WITH_SQLITE) && sqlite !== undefined && isAtLeast(sqlite, SQLITE_SOUND)
  )
}

function isAtLeast(version: string, needed: readonly number[]): boolean {
  const parts = version.split('.').map(Number)
  const at = needed.findIndex((part, index) => parts[index] !== part)
  return at < 0 || (parts[at] ?? 0) > (needed[at] ?? 0)
}

export function sqliteDriverName(): 'node:sqlite' | 'better-sqlite3' {
  return bringsSqlite(nodeVersions()) ? 'node:sqlite' : 'better-sqlite3'
}

const PACKAGE: DriverPackage = {
  name: 'better-sqlite3',
  needed: 'sqlite: stores before Node 24.15',
  install: 'better-sqlite3@12',
}

/**
 * better-sqlite3 is CommonJS: importing it would first parse its sources for names to export, which takes 6 ms. It loads
 * its compiled part when the first database is opened, so one is opened here: 0.05 ms, and what was built for another
 * version of Node fails where that can be said. `createRequire` is not imported by its name: a bundle may begin with a
 * line that does so already, to give bundled CommonJS a `require`.
 */
export async function loadSqlite(): Promise<SqliteDriver> {
  const name = sqliteDriverName()
  if (name === 'node:sqlite') return (nodeDriver ??= nodeSqlite())
  try {
    const Driver = nodeModule.createRequire(import.meta.url)(name) as SqliteDriver
    new Driver(':memory:').close()
    return Driver
  } catch (cause) {
    // Hardly any start-up needs it, so none should load it.
    const { driverFault } = await import('./driver-fault.ts')
    throw driverFault(PACKAGE, cause)
  }
}

/** SQLite's numbers for what went wrong, by their names; the higher bits of an error's number say more than is needed. */
const CODES: Readonly<Record<number, string>> = {
  1: 'SQLITE_ERROR',
  3: 'SQLITE_PERM',
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  7: 'SQLITE_NOMEM',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  11: 'SQLITE_CORRUPT',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
  17: 'SQLITE_SCHEMA',
  19: 'SQLITE_CONSTRAINT',
  26: 'SQLITE_NOTADB',
}

/** The code of an error of either driver (`SQLITE_BUSY`, …), or null if it is not an error of the database. */
export function sqliteCode(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  if (error.code === 'ERR_SQLITE_ERROR' && 'errcode' in error) {
    return CODES[Number(error.errcode) & 0xff] ?? `SQLITE_${Number(error.errcode)}`
  }
  return typeof error.code === 'string' && error.code.startsWith('SQLITE_') ? error.code : null
}

export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error) ?? '')
}

/** The disk, not the statement, and not the state of the connection. */
export function isDiskAway(error: unknown): boolean {
  return /^SQLITE_(IOERR|FULL|CANTOPEN|PROTOCOL|NOMEM)/.test(sqliteCode(error) ?? '')
}

/** A file, or a directory, that this user may not write. */
const IS_ACCESS = /^SQLITE_(READONLY|CANTOPEN|PERM)/
const IS_SCHEMA = /^SQLITE_(NOTADB|ERROR|SCHEMA|CORRUPT.*)$/

/**
 * Says what an error of the driver means to a caller; one that is not the database's is returned as it is. `committing`
 * is true when it came out of COMMIT: an I/O error there leaves open whether the commit will be found after the next
 * recovery; any other error rolled it back.
 */
export function sqliteError(error: unknown, url: string, committing = false): unknown {
  if (error instanceof LeaseError) return error
  const code = sqliteCode(error)
  if (code === null) return error
  const message = error instanceof Error ? error.message : code
  const options = { cause: error, details: { store: url, reason: code } }
  if (committing && code.startsWith('SQLITE_IOERR')) {
    return new LeaseError('STORE_OUTCOME_UNKNOWN', `${url}: commit failed: ${message}`, options)
  }
  if (IS_SCHEMA.test(code)) {
    return new LeaseError('STORE_SCHEMA', `${url} is not a Tenure store: ${message}`, options)
  }
  const whose = IS_ACCESS.test(code) ? whoseStore(url.replace(/^sqlite:/, '')) : ''
  return new LeaseError('STORE_UNAVAILABLE', `${url} cannot be used: ${message}${whose}`, options)
}

/** SQLite writes beside the file too, so it may be the directory that is closed. */
function whoseStore(file: string): string {
  return ownership([file, `${file}-wal`, `${file}-shm`, existingDirectory(file)])
}

/** What the work comes to; where the system does not let this process use the file, an error that says whose it is. */
export function withAccess<Result>(file: string, work: () => Result): Result {
  try {
    return work()
  } catch (cause) {
    throw cause instanceof LeaseError ? cause : accessError(file, cause)
  }
}

export function accessError(file: string, cause: unknown): LeaseError {
  const store = `sqlite:${file}`
  const message = `${store} cannot be used: ${messageOf(cause)}${whoseStore(file)}`
  return new LeaseError('STORE_UNAVAILABLE', message, { cause, details: { store } })
}

interface NodeDatabase extends Pick<SqliteDatabase, 'exec' | 'function'> {
  readonly isOpen: boolean
  readonly isTransaction: boolean
  prepare(sql: string): SqliteStatementLike
  close(): void
}

interface NodeSqliteStatement extends SqliteStatementLike {
  setReturnArrays(enabled: boolean): void
  setReadBigInts(enabled: boolean): void
}

/** As better-sqlite3 has it by default. */
const BUSY_MS_DEFAULT = 5_000
const IN_MEMORY = ':memory:'

let nodeDriver: SqliteDriver | null = null

/**
 * `node:sqlite` in the shape of better-sqlite3. It is loaded when it is used, because older versions of Node have none and
 * early ones print a warning. What differs: rows are arrays by a switch, integers beyond 2^53 throw instead of being
 * rounded, a database cannot be closed twice, and a path that looks like a URI is taken for one.
 */
function nodeSqlite(): SqliteDriver {
  const { DatabaseSync } = builtinModule('node:sqlite') as {
    readonly DatabaseSync: new (path: string, options: { readonly timeout: number }) => NodeDatabase
  }
  return class NodeSqliteDatabase extends DatabaseSync {
    constructor(file: string, { timeout = BUSY_MS_DEFAULT }: { readonly timeout?: number } = {}) {
      super(file === IN_MEMORY ? file : path.resolve(file), { timeout })
    }

    get inTransaction(): boolean {
      return this.isOpen && this.isTransaction
    }

    override prepare(sql: string): SqliteStatement {
      return statementOf(super.prepare(sql) as NodeSqliteStatement)
    }

    pragma(text: string, { simple = false }: { readonly simple?: boolean } = {}): unknown {
      const rows = super.prepare(`PRAGMA ${text}`).all()
      return simple ? Object.values((rows[0] ?? {}) as object)[0] : rows
    }

    override close(): void {
      if (this.isOpen) super.close()
    }
  }
}

function statementOf(statement: NodeSqliteStatement): SqliteStatement {
  const made: SqliteStatement = {
    run: (...values) => statement.run(...values) as { readonly changes: number },
    get: (...values) => withoutBigInts(statement, () => statement.get(...values)),
    all: (...values) => withoutBigInts(statement, () => statement.all(...values)) as unknown[],
    raw: () => {
      statement.setReturnArrays(true)
      return made
    },
  }
  return made
}

/** What a damaged row holds is for its reader to refuse, so integers that no number can hold are rounded. */
function withoutBigInts(statement: NodeSqliteStatement, read: () => unknown): unknown {
  try {
    return read()
  } catch (error) {
    if (!hasCode(error, 'ERR_OUT_OF_RANGE')) throw error
  }
  statement.setReadBigInts(true)
  try {
    return withNumbers(read())
  } finally {
    statement.setReadBigInts(false)
  }
}

/** Rows, or one of them, with numbers in the place of big integers. */
function withNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(withNumbers)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withNumbers(one)]))
}
