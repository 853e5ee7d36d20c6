/**
 * Marks in a SQLite database, in the same transaction as the effect. The connection must be the processor's own: while
 * an effect is under way, everything that is done on it is part of the transaction, and actions take turns on it.
 */
import { requireSqlite, type SqliteLike } from '../guard/sqlite-guard.ts'
import { parseName } from './action.ts'
import {
  ACTIONS_REMEMBERED,
  type ActionMarks,
  type ActionRef,
  type Verdict,
} from './action-marks.ts'
import type { Known, WorkflowMark } from './judgement.ts'
import {
  SQLITE_ACTION_TABLES,
  tablesError,
  workflowMarkOf,
  type WorkflowMarkRow,
} from './mark-tables.ts'

const MARK = `SELECT lease_id, fence, revoked, epoch FROM tenure_workflow_marks
  WHERE processor = ? AND workflow_id = ?`
const SEEN = `SELECT 1 FROM tenure_workflow_actions
  WHERE processor = ? AND workflow_id = ? AND action_id = ?`
const PUT_MARK = 'INSERT OR REPLACE INTO tenure_workflow_marks VALUES (?, ?, ?, ?, ?, ?)'
const PUT_ACTION = 'INSERT INTO tenure_workflow_actions VALUES (?, ?, ?, ?)'
const FORGET = `DELETE FROM tenure_workflow_actions WHERE processor = ? AND workflow_id = ?
  AND epoch < (SELECT epoch FROM tenure_workflow_actions WHERE processor = ? AND workflow_id = ?
    ORDER BY epoch DESC LIMIT 1 OFFSET ${ACTIONS_REMEMBERED - 1})`

export class SqliteMarks<Database extends SqliteLike> implements ActionMarks<Database> {
  readonly #database: Database
  readonly #processor: string
  #turn: Promise<unknown> = Promise.resolve()

  /** `processor` names whose marks these are: several kinds of processors may share a database. */
  constructor(database: Database, processor: string) {
    this.#database = requireSqlite(database)
    this.#processor = parseName(processor, 'processor')
  }

  /** Creates the tables unless they are there. */
  init(): void {
    this.#database.exec(SQLITE_ACTION_TABLES)
  }

  peek({ workflowId, actionId }: ActionRef): Known {
    try {
      const row = this.#database.prepare(MARK).get(this.#processor, workflowId)
      const seen = this.#database.prepare(SEEN).get(this.#processor, workflowId, actionId)
      return { mark: workflowMarkOf(row as WorkflowMarkRow | undefined), seen: seen !== undefined }
    } catch (error) {
      throw tablesError(error)
    }
  }

  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<Database, Result>,
  ): Promise<Result> {
    const turn = this.#turn.then(() => this.#transact(ref, decide))
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  async #transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => Verdict<Database, Result>,
  ): Promise<Result> {
    this.#database.exec('BEGIN IMMEDIATE')
    try {
      const { mark, epoch, effect } = decide(this.peek(ref))
      const result = await effect(this.#database)
      if (mark !== null) this.#putMark(ref, mark)
      if (epoch !== null) this.#putAction(ref, epoch)
      this.#database.exec('COMMIT')
      return result
    } catch (error) {
      if (this.#database.inTransaction) this.#database.exec('ROLLBACK')
      throw error
    }
  }

  #putMark({ workflowId }: ActionRef, { leaseId, fence, revoked, epoch }: WorkflowMark): void {
    const values = [leaseId, fence, revoked ? 1 : 0, epoch]
    this.#database.prepare(PUT_MARK).run(this.#processor, workflowId, ...values)
  }

  #putAction({ workflowId, actionId }: ActionRef, epoch: number): void {
    const place = [this.#processor, workflowId] as const
    this.#database.prepare(PUT_ACTION).run(...place, actionId, epoch)
    this.#database.prepare(FORGET).run(...place, ...place)
  }
}
