/**
 * Events on their way into the ledger. Those of one transaction are written together at its end, many rows with one
 * statement: each statement opens the table and all its indexes anew. Until then request ids are looked up here first.
 */
import type { LeaseEvent } from '../../core/event.ts'
import type {
  SqliteDatabase,
  SqliteRow,
  SqliteStatement,
  SqliteValue,
} from '../../drivers/sqlite-driver.ts'
import { EVENT_COLUMN_COUNT, eventValues, insertEvents, wordOf } from './sqlite-events.ts'
import { keyOf } from './sqlite-rows.ts'
import type { SqliteState } from './sqlite-state.ts'

const ROWS_TOGETHER = 10
const VALUES_TOGETHER = ROWS_TOGETHER * EVENT_COLUMN_COUNT

export class PendingEvents {
  readonly #state: SqliteState
  readonly #insertOne: SqliteStatement
  readonly #insertMany: SqliteStatement
  readonly #requests = new Map<string, SqliteRow>()
  #values: SqliteValue[] = []

  constructor(database: SqliteDatabase, state: SqliteState) {
    this.#state = state
    this.#insertOne = database.prepare(insertEvents(1))
    this.#insertMany = database.prepare(insertEvents(ROWS_TOGETHER))
  }

  add(event: LeaseEvent): void {
    const { requestId, leaseId, type } = event
    this.#state.lastSequence += 1
    this.#values.push(...eventValues(event, this.#state.lastSequence, this.#state))
    if (requestId === null) return
    this.#requests.set(keyOf(requestId, this.#state), [keyOf(leaseId, this.#state), wordOf(type)])
  }

  /** The lease and the kind of event that a request had as its effect, as they would be read from the ledger. */
  effectOf(requestKey: string): SqliteRow | undefined {
    return this.#requests.get(requestKey)
  }

  write(): void {
    const values = this.#values
    let done = 0
    for (; values.length - done >= VALUES_TOGETHER; done += VALUES_TOGETHER) {
      this.#insertMany.run(...values.slice(done, done + VALUES_TOGETHER))
    }
    for (; done < values.length; done += EVENT_COLUMN_COUNT) {
      this.#insertOne.run(...values.slice(done, done + EVENT_COLUMN_COUNT))
    }
    this.forget()
  }

  /** After they are written, or after a rollback. */
  forget(): void {
    if (this.#values.length > 0) this.#values = []
    if (this.#requests.size > 0) this.#requests.clear()
  }
}
