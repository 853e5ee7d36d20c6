/** Statements of the store's reads: prepared when they are first used, and conditions that are put together. */
import type { SqliteDatabase, SqliteStatement, SqliteValue } from '../../drivers/sqlite-driver.ts'

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
