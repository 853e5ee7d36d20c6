/**
 * Marks in PostgreSQL, in the same transaction as the effect. The mark's row is locked before it is read, so that effects
 * of processors with the same name, on any host, run one after the other for each workflow.
 */
import { conflictOrUnavailable } from '../drivers/postgres-errors.ts'
import {
  createTables,
  inTransaction,
  requirePostgres,
  type PostgresClientLike,
  type PostgresLike,
  type PostgresPoolLike,
} from '../guard/postgres-guard.ts'
import { parseName } from './action.ts'
import {
  type ActionMarks,
  type ActionRef,
  ACTIONS_REMEMBERED,
  EffectQueue,
  type MarkDecision,
  SeenMarks,
} from './action-marks.ts'
import type { Known, WorkflowMark } from './action-decision.ts'
import {
  POSTGRES_ACTION_TABLES,
  tablesError,
  workflowMarkOf,
  type WorkflowMarkRow,
} from './mark-tables.ts'

/** A workflow of which nothing is known has no row to lock; two that come at once wait for this instead. */
const LOCK = `SELECT pg_advisory_xact_lock(hashtextextended($1 || chr(10) || $2, 0))`
const KNOWN = `SELECT m.lease_id, m.fence, m.revoked, m.epoch, a.epoch AS action_epoch
  FROM (SELECT $1::text AS processor, $2::text AS workflow_id) AS wanted
  LEFT JOIN tenure_workflow_marks AS m USING (processor, workflow_id)
  LEFT JOIN tenure_workflow_actions AS a ON a.processor = wanted.processor
    AND a.workflow_id = wanted.workflow_id AND a.action_id = $3`
const PUT_MARK = `INSERT INTO tenure_workflow_marks VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (processor, workflow_id) DO UPDATE SET lease_id = $3, fence = $4, revoked = $5,
    epoch = $6`
const PUT_ACTION = 'INSERT INTO tenure_workflow_actions VALUES ($1, $2, $3, $4)'
const REMEMBERED_FROM = `SELECT epoch FROM tenure_workflow_actions
  WHERE processor = $1 AND workflow_id = $2 ORDER BY epoch DESC LIMIT 1 OFFSET ${ACTIONS_REMEMBERED - 1}`
const FORGET = `DELETE FROM tenure_workflow_actions WHERE processor = $1 AND workflow_id = $2
  AND epoch < (${REMEMBERED_FROM})`

interface KnownRow extends WorkflowMarkRow {
  /** Null if the action was not carried out. */
  readonly action_epoch: string | null
}

/** Within a process, effects on one client or pool wait here: a wait at the server would take a connection. */
const queues = new WeakMap<object, EffectQueue>()

export class PostgresMarks<Client extends PostgresClientLike> implements ActionMarks<Client> {
  readonly #source: PostgresLike<Client>
  readonly #processor: string
  readonly #seen = new SeenMarks()
  readonly #effects: EffectQueue

  /** `processor` names whose marks these are: several kinds of processors may share a database. */
  constructor(pool: PostgresPoolLike<Client>, processor: string)
  constructor(client: Client, processor: string)
  constructor(source: PostgresLike<Client>, processor: string) {
    this.#source = requirePostgres(source)
    this.#processor = parseName(processor, 'processor')
    this.#effects = queues.get(source) ?? new EffectQueue()
    queues.set(source, this.#effects)
  }

  /** Creates the tables unless they are there. */
  async init(): Promise<void> {
    await createTables(this.#source, POSTGRES_ACTION_TABLES)
  }

  peek(ref: ActionRef): Known {
    return this.#seen.peek(ref)
  }

  transact<Result>(
    ref: ActionRef,
    decide: (known: Known) => MarkDecision<Client, Result>,
  ): Promise<Result> {
    return this.#effects.run(`${this.#processor}\n${ref.workflowId}`, async () => {
      const { result, mark, epoch } = await inTransaction(this.#source, async (client) => {
        const known = await this.#lock(client, ref)
        const decision = decide(known)
        // Within a transaction of its own: an effect that has ended it, or caught the error of a statement, fails before
        // the mark is raised, which would otherwise stand without the effect.
        const done = { ...decision, result: await inTransaction(this.#source, decision.effect) }
        if (done.mark !== null) await this.#putMark(client, ref, done.mark)
        if (done.epoch !== null) await this.#putAction(client, ref, done.epoch)
        return done
      })
      this.#seen.note(ref, mark, epoch)
      return result
    })
  }

  async #lock(client: Client, ref: ActionRef): Promise<Known> {
    const place = [this.#processor, ref.workflowId]
    await ask(client, LOCK, place)
    const row = (await ask(client, KNOWN, [...place, ref.actionId])) as KnownRow | undefined
    const mark = row === undefined || row.lease_id === null ? null : workflowMarkOf(row)
    const carriedOut = row?.action_epoch ?? null
    this.#seen.note(ref, mark, carriedOut === null ? null : Number(carriedOut))
    const known = { mark, seen: carriedOut !== null }
    if (ref.resent !== true) return known
    const oldest = (await ask(client, REMEMBERED_FROM, place)) as { epoch: string } | undefined
    return { ...known, rememberedFrom: Number(oldest?.epoch ?? 0) }
  }

  async #putMark(client: Client, { workflowId }: ActionRef, mark: WorkflowMark): Promise<void> {
    const { leaseId, fence, revoked, epoch } = mark
    const values = [this.#processor, workflowId, leaseId, fence, revoked ? 1 : 0, epoch]
    await ask(client, PUT_MARK, values)
  }

  async #putAction(
    client: Client,
    { workflowId, actionId }: ActionRef,
    epoch: number,
  ): Promise<void> {
    const place = [this.#processor, workflowId]
    await ask(client, PUT_ACTION, [...place, actionId, epoch])
    await ask(client, FORGET, place)
  }
}

/** One of our own statements: its first row, or what its error means. */
async function ask(
  client: PostgresClientLike,
  sql: string,
  values: readonly unknown[],
): Promise<unknown> {
  try {
    return (await client.query(sql, values)).rows[0]
  } catch (error) {
    const schemaError = tablesError(error)
    throw schemaError === error ? conflictOrUnavailable(error) : schemaError
  }
}
