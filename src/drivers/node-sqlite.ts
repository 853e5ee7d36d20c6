/**
 * `node:sqlite` in the shape of better-sqlite3. It is typed by its shape because older versions of Node have none, and
 * imported with this file, so only where `bringsSqlite` says that it can be used. What differs:
 * rows are arrays by a switch, integers beyond 2^53 throw instead of being rounded, a database cannot be closed twice, and
 * a path that looks like a URI is taken for one.
 */
import path from 'node:path'
import { builtinModule } from '../runtime/system-runtime.ts'
import type { SqliteDatabase, SqliteStatement, SqliteValue } from './sqlite-driver.ts'

interface NodeSqlite {
  readonly DatabaseSync: new (path: string, options: { readonly timeout: number }) => Database
}

interface Database {
  readonly isOpen: boolean
  readonly isTransaction: boolean
  prepare(sql: string): NodeSqliteStatement
  exec(sql: string): void
  function(name: string, work: (value: unknown) => SqliteValue): void
  close(): void
}

interface NodeSqliteStatement {
  run(...values: readonly SqliteValue[]): { readonly changes: number | bigint }
  get(...values: readonly SqliteValue[]): unknown
  all(...values: readonly SqliteValue[]): unknown[]
  setReturnArrays(enabled: boolean): void
  setReadBigInts(enabled: boolean): void
}

/** As better-sqlite3 has it by default. */
const BUSY_MS_DEFAULT = 5_000
const IN_MEMORY = ':memory:'

const { DatabaseSync } = builtinModule('node:sqlite') as NodeSqlite

export class NodeSqliteDatabase implements SqliteDatabase {
  readonly #database: Database

  constructor(file: string, { timeout = BUSY_MS_DEFAULT }: { readonly timeout?: number } = {}) {
    this.#database = new DatabaseSync(file === IN_MEMORY ? file : path.resolve(file), { timeout })
  }

  get inTransaction(): boolean {
    return this.#database.isOpen && this.#database.isTransaction
  }

  prepare(sql: string): SqliteStatement {
    return new Statement(this.#database.prepare(sql))
  }

  exec(sql: string): void {
    this.#database.exec(sql)
  }

  function(name: string, work: (value: unknown) => SqliteValue): void {
    this.#database.function(name, work)
  }

  pragma(text: string, { simple = false }: { readonly simple?: boolean } = {}): unknown {
    const rows = this.#database.prepare(`PRAGMA ${text}`).all()
    return simple ? Object.values((rows[0] ?? {}) as object)[0] : rows
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close()
  }
}

class Statement implements SqliteStatement {
  readonly #statement: NodeSqliteStatement

  constructor(statement: NodeSqliteStatement) {
    this.#statement = statement
  }

  run(...values: readonly SqliteValue[]): { readonly changes: number } {
    return this.#statement.run(...values) as { readonly changes: number }
  }

  get(...values: readonly SqliteValue[]): unknown {
    try {
      return this.#statement.get(...values)
    } catch (error) {
      return this.#rounded(error, () => this.#statement.get(...values))
    }
  }

  all(...values: readonly SqliteValue[]): unknown[] {
    try {
      return this.#statement.all(...values)
    } catch (error) {
      return this.#rounded(error, () => this.#statement.all(...values)) as unknown[]
    }
  }

  raw(enabled = true): this {
    this.#statement.setReturnArrays(enabled)
    return this
  }

  /** What a damaged row holds is for its reader to refuse, so integers that no number can hold are rounded. */
  #rounded(error: unknown, read: () => unknown): unknown {
    const isTooLarge =
      error instanceof Error && 'code' in error && error.code === 'ERR_OUT_OF_RANGE'
    if (!isTooLarge) throw error
    this.#statement.setReadBigInts(true)
    try {
      return withNumbers(read())
    } finally {
      this.#statement.setReadBigInts(false)
    }
  }
}

/** Rows, or one of them, with numbers in the place of big integers. */
function withNumbers(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value)
  if (Array.isArray(value)) return value.map(withNumbers)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, withNumbers(one)]))
}
