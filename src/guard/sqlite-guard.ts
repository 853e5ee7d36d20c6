/**
 * Guards what is kept in a SQLite database: the check of the fence and the write are one transaction. Works with
 * better-sqlite3, with `node:sqlite`, and with anything of their shapes.
 *
 * Inside a transaction of the caller's own it takes part in that one: a refusal undoes what this write did and
 * nothing else.
 */
import {
  isInTransaction,
  prepareNamed,
  requireSqlite,
  rollBack,
  type SqliteLike,
  type SqliteStatementLike,
} from '../drivers/sqlite-driver.ts'
import {
  endedError,
  readAct,
  readCheck,
  requireResult,
  requireSynchronous,
  type Act,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import {
  MARK_TABLE,
  marksOf,
  missingTable,
  SQLITE_MARK_TABLE,
  valuesOf,
  type MarkRow,
} from './mark-table.ts'
import { judge, measuresOf } from './marks.ts'

const SELECT = `SELECT * FROM ${MARK_TABLE} WHERE resource = ? AND place = ?`
const UPSERT = `INSERT OR REPLACE INTO ${MARK_TABLE} VALUES (?, ?, ?, ?, ?, ?)`

export class SqliteGuard<Database extends SqliteLike> {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = requireSqlite(database)
  }

  /** Creates the table of marks unless it is there. */
  init(): void {
    this.#database.exec(SQLITE_MARK_TABLE)
  }

  /**
   * Runs `work` if no later holder has written what it writes, in one transaction with the check. Throws `STALE_FENCE`
   * otherwise, and nothing was written; so too if `work` throws. `work` must be done when it returns: a promise would
   * outlive the transaction, and is refused.
   */
  write<Result>(
    lease: GuardedLease,
    work: (database: Database) => Result,
    options?: WriteOptions,
  ): Result {
    const act = readAct(lease, options)
    requireSynchronous(work)
    return this.carryOut(act, work)
  }

  /** See `CheckArguments`. */
  check(...asked: CheckArguments): true {
    this.carryOut(readCheck(asked), () => undefined)
    return true
  }

  /** As `write`, for guards that read their acts themselves. */
  carryOut<Result>(act: Act, work: (database: Database) => Result): Result {
    return this.#atomically(() => {
      this.#pass(act)
      return requireResult(work(this.#database))
    })
  }

  #pass(act: Act): void {
    const select = this.#prepared(SELECT)
    const rows = measuresOf(act).map(({ resource, place }) => select.get(resource, place))
    const judgement = judge(act, marksOf(rows.filter((row) => row !== undefined) as MarkRow[]))
    if (judgement.kind === 'stale') throw judgement.error
    const upsert = this.#prepared(UPSERT)
    for (const [key, mark] of judgement.raises) upsert.run(...valuesOf(key, mark))
  }

  #prepared(sql: string): SqliteStatementLike {
    try {
      return prepareNamed(this.#database, sql)
    } catch (cause) {
      const isMissing = cause instanceof Error && cause.message.includes('no such table')
      throw isMissing ? missingTable(cause) : cause
    }
  }

  #atomically<Result>(work: () => Result): Result {
    const joined = isInTransaction(this.#database)
    this.#database.exec(joined ? SAVEPOINT : `BEGIN IMMEDIATE; ${SAVEPOINT}`)
    try {
      const result = work()
      releaseSavepoint(this.#database)
      if (!joined) this.#database.exec('COMMIT')
      return result
    } catch (error) {
      const undo = joined ? 'ROLLBACK TO tenure_guard; RELEASE tenure_guard' : 'ROLLBACK'
      rollBack(this.#database, 'guard/sqlite-rollback', undo)
      throw error
    }
  }
}

/** Not in a transaction that takes the place of this one. */
export const SAVEPOINT = 'SAVEPOINT tenure_guard'

/** Throws unless the transaction is still the one in which the savepoint was set. */
export function releaseSavepoint(database: SqliteLike): void {
  try {
    database.exec('RELEASE tenure_guard')
  } catch (error) {
    throw String(error).includes('no such savepoint') ? endedError() : error
  }
}
