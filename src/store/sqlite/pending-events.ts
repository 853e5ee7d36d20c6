/**
 * Events on their way into the ledger. Those of one transaction are written together at its end, many rows with one
 * statement: each statement opens the table and all its indexes anew. Until then request ids, and what has just
 * ended, are looked up here first.
 */
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { PriorEffect } from '../../core/realm.ts'
import type { RecordedEvent } from '../../core/record.ts'
import type { SqliteValue, StatementCache } from '../../drivers/sqlite-driver.ts'
import { sequenceOf } from './sqlite-columns.ts'
import { EVENT_VALUES_COUNT, eventValues, insertEvents } from './sqlite-event-columns.ts'
import type { HistoryRuns } from './sqlite-history-runs.ts'
import type { SqliteState } from './sqlite-state.ts'

const ROWS_TOGETHER = 10
const VALUES_TOGETHER = ROWS_TOGETHER * EVENT_VALUES_COUNT
const INSERT_ONE = insertEvents(1)
const INSERT_MANY = insertEvents(ROWS_TOGETHER)

export class PendingEvents {
  readonly #state: SqliteState
  readonly #runs: HistoryRuns
  readonly #statements: StatementCache
  readonly #effects = new Map<string, PriorEffect>()
  readonly #ended = new Map<LeaseId, Entry>()
  #values: SqliteValue[] = []

  constructor(statements: StatementCache, state: SqliteState, runs: HistoryRuns) {
    this.#statements = statements
    this.#state = state
    this.#runs = runs
  }

  add(recorded: RecordedEvent, domain: string): void {
    const { event, ended } = recorded
    const { requestId, leaseId, type } = event
    this.#state.lastSequence += 1
    const sequence = sequenceOf(this.#state.lastSequence, this.#state)
    this.#values.push(...eventValues(recorded, { sequence, domain }, this.#state))
    if (requestId !== null) this.#effects.set(requestId, { leaseId, type })
    if (ended !== null) this.#ended.set(leaseId, ended)
    else this.#ended.delete(leaseId)
  }

  effectOf(requestId: string): PriorEffect | undefined {
    return this.#effects.get(requestId)
  }

  endedOf(id: LeaseId): Entry | undefined {
    return this.#ended.get(id)
  }

  write(): void {
    const values = this.#values
    if (values.length === 0) return
    let done = 0
    for (; values.length - done >= VALUES_TOGETHER; done += VALUES_TOGETHER) {
      this.#statements.run(INSERT_MANY, ...values.slice(done, done + VALUES_TOGETHER))
    }
    for (; done < values.length; done += EVENT_VALUES_COUNT) {
      this.#statements.run(INSERT_ONE, ...values.slice(done, done + EVENT_VALUES_COUNT))
    }
    const { lastSequence } = this.#state
    this.#runs.build(lastSequence - values.length / EVENT_VALUES_COUNT, lastSequence)
    this.forget()
  }

  /** After they are written, or after a rollback. */
  forget(): void {
    if (this.#values.length > 0) this.#values = []
    if (this.#effects.size > 0) this.#effects.clear()
    if (this.#ended.size > 0) this.#ended.clear()
  }
}
