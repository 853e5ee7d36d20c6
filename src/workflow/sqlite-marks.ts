/**
 * Marks in a SQLite database, in the same transaction as the effect. The connection must be the processor's own: while
 * an effect runs, every statement on the connection is part of the transaction.
 *
 * SQLite has one writer at a time, and waits for it by blocking the thread. An asynchronous effect could then never end,
 * because the waiting call blocks the event loop. So effects on one database file run one after the other in a process,
 * and while another process writes they retry without waiting inside SQLite.
 */
import { LeaseError } from '../core/errors.ts'
import { parseSpanMs, refuseUnknown } from '../core/input.ts'
import {
  isBusy,
  isDiskAway,
  prepareNamed,
  requireSqlite,
  rollBack,
  type SqliteLike,
} from '../drivers/sqlite-driver.ts'
import { releaseSavepoint, SAVEPOINT } from '../guard/sqlite-guard.ts'
import { pause } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { parseName } from './action.ts'
import {
  type ActionMarks,
  type ActionRef,
  ACTIONS_REMEMBERED,
  EffectQueue,
  type MarkDecision,
} from './action-marks.ts'
import type { Known, WorkflowMark } from './action-decision.ts'
import {
  SQLITE_ACTION_TABLES,
  tablesError,
  workflowMarkOf,
  type WorkflowMarkRow,
} from './mark-tables.ts'

export interface SqliteMarksOptions {
  /** How many milliseconds to wait for other writers of the database. Default 30000. */
  readonly waitMs?: number
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

const MARK = `SELECT lease_id, fence, revoked, epoch FROM tenure_workflow_marks
  WHERE processor = ? AND workflow_id = ?`
const SEEN = `SELECT 1 FROM tenure_workflow_actions
  WHERE processor = ? AND workflow_id = ? AND action_id = ?`
const PUT_MARK = 'INSERT OR REPLACE INTO tenure_workflow_marks VALUES (?, ?, ?, ?, ?, ?)'
const PUT_ACTION = 'INSERT INTO tenure_workflow_actions VALUES (?, ?, ?, ?)'
const REMEMBERED_FROM = `SELECT epoch FROM tenure_workflow_actions
  WHERE processor = ? AND workflow_id = ? ORDER BY epoch DESC LIMIT 1 OFFSET ${ACTIONS_REMEMBERED - 1}`
const FORGET = `DELETE FROM tenure_workflow_actions WHERE processor = ? AND workflow_id = ?
  AND epoch < (${REMEMBERED_FROM})`

const WAIT_MS_DEFAULT = 30_000
const RETRY_MS_MIN = 1
const RETRY_MS_MAX = 50
const effects = new EffectQueue()
const namesOf = new WeakMap<object, string>()
let unnamed = 0

export class SqliteMarks<Database extends SqliteLike> implements ActionMarks<Database> {
  readonly #database: Database
  readonly #processor: string
  readonly #waitMs: number
  readonly #runtime: Runtime

  /** `processor` names whose marks these are: several kinds of processors may share a database. */
  constructor(database: Database, processor: string, options: SqliteMarksOptions = {}) {
    refuseUnknown(options, ['waitMs', 'runtime'])
    const { waitMs = WAIT_MS_DEFAULT, runtime = systemRuntime } = options
    this.#database = requireSqlite(database)
    this.#processor = parseName(processor, 'processor')
    this.#waitMs = parseSpanMs({ field: 'waitMs', min: 1, max: 3_600_000 }, waitMs)
    this.#runtime = runtime
  }

  /** Creates the tables unless they are there. */
  init(): void {
    this.#database.exec(SQLITE_ACTION_TABLES)
  }

  peek({ workflowId, actionId, resent }: ActionRef): Known {
    const place = [this.#processor, workflowId] as const
    try {
      const row = prepareNamed(this.#database, MARK).get(...place)
      const seen = this.#database.prepare(SEEN).get(...place, actionId) !== undefined
      const known = { mark: workflowMarkOf(row as WorkflowMarkRow | undefined), seen }
      if (resent !== true) return known
      const oldest = prepareNamed(this.#database, REMEMBERED_FROM).get(...place)
      return {
        ...known,
        rememberedFrom: Number((oldest as { epoch: number } | undefined)?.epoch ?? 0),
      }
    } catch (error) {
      throw tablesError(error)
    }
  }

  /** Throws `STORE_UNAVAILABLE` when other writers take longer than `waitMs`; then the effect has not begun. */
  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<Database, Result>,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const name = nameOf(this.#database)
      const untilMs = this.#runtime.monotonicMs() + this.#waitMs
      let isLate = false
      const late = (): void => {
        isLate = true
        reject(this.#busy())
      }
      const timer = this.#runtime.setTimer(this.#waitMs, late, { keepAlive: true })
      const turn = effects.run(name, async () => {
        if (isLate) return
        timer.cancel()
        resolve(await this.#transact(ref, decide, untilMs))
      })
      turn.catch((error: unknown) => {
        timer.cancel()
        reject(error)
      })
    })
  }

  async #transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<Database, Result>,
    untilMs: number,
  ): Promise<Result> {
    await this.#retried('BEGIN IMMEDIATE', untilMs)
    try {
      const { mark, epoch, effect } = decide(this.peek(ref))
      this.#database.exec(SAVEPOINT)
      const result = await effect(this.#database)
      // Before the mark is written: a failure here must not leave the mark without the effect.
      releaseSavepoint(this.#database)
      if (mark !== null) this.#putMark(ref, mark)
      if (epoch !== null) this.#putAction(ref, epoch)
      await this.#retried('COMMIT', this.#runtime.monotonicMs() + this.#waitMs)
      return result
    } catch (error) {
      rollBack(this.#database, 'workflow/sqlite-rollback')
      throw error
    }
  }

  /** Retries a statement while another connection has the lock, without blocking the event loop. */
  async #retried(sql: string, untilMs: number): Promise<void> {
    for (let pauseMs = RETRY_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      if (this.#ran(sql)) return
      if (this.#runtime.monotonicMs() >= untilMs) throw this.#busy()
      await pause(this.#runtime, pauseMs, { keepAlive: true })
    }
  }

  /** False when another connection has the lock. Restores the `busy_timeout` of the connection's owner. */
  #ran(sql: string): boolean {
    const read = prepareNamed(this.#database, 'PRAGMA busy_timeout')
    const { timeout } = read.get() as { timeout: number }
    this.#database.exec('PRAGMA busy_timeout = 0')
    try {
      this.#database.exec(sql)
      return true
    } catch (error) {
      if (isBusy(error)) return false
      throw isDiskAway(error) ? unavailable(String(error), { cause: error }) : error
    } finally {
      this.#database.exec(`PRAGMA busy_timeout = ${timeout}`)
    }
  }

  #busy(): LeaseError {
    const name = nameOf(this.#database)
    return unavailable(`${name} is busy: no turn to write within ${this.#waitMs} ms`)
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

/** The file of a database, as SQLite names it; one in memory is its connection's own. */
function nameOf(database: SqliteLike): string {
  const known = namesOf.get(database)
  if (known !== undefined) return known
  const list = prepareNamed(database, 'PRAGMA database_list')
  const files = list.all() as { name: string; file: string }[]
  const file = files.find(({ name }) => name === 'main')?.file ?? ''
  if (file === '') unnamed += 1
  const name = file === '' ? `database ${unnamed} in memory` : file
  namesOf.set(database, name)
  return name
}

function unavailable(why: string, options: { readonly cause?: unknown } = {}): LeaseError {
  return new LeaseError('STORE_UNAVAILABLE', `the marks cannot be written: ${why}`, options)
}
