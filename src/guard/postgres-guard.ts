/**
 * Guards what is kept in PostgreSQL: the check of the fence and the write are one transaction. Works with the clients
 * and pools of `pg`, and with anything of their shape.
 *
 * A holder that writes again finds its marks raised and takes shared locks on them: writers of different resources do
 * not wait for each other, although all look at the marks of the same directories. Only the first write of a lease
 * locks them for itself.
 */
import { invalid } from '../core/errors.ts'
import {
  readAct,
  readCheck,
  type Act,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import { conflictOrUnavailable, sqlState } from '../drivers/postgres-errors.ts'
import {
  MARK_TABLE,
  marksOf,
  missingTable,
  POSTGRES_MARK_TABLE,
  valuesOf,
  type MarkRow,
} from './mark-table.ts'
import { judge, measuresOf, type Judgement } from './marks.ts'
import {
  inTransaction,
  requirePostgres,
  type PostgresClientLike,
  type PostgresLike,
} from './postgres-transaction.ts'

const WANTED = 'SELECT * FROM unnest($1::text[], $2::text[]) AS wanted (resource, place)'
const READ = `SELECT marks.* FROM ${MARK_TABLE} AS marks JOIN (${WANTED}) AS wanted
  ON marks.resource = wanted.resource AND marks.place = wanted.place`
const SHARE = `${READ} ORDER BY marks.place, marks.resource FOR SHARE OF marks`
/** Locks every mark, those that are not there yet included, in the order in which all guards lock them. */
const LOCK = `INSERT INTO ${MARK_TABLE} AS marks (resource, place)
  SELECT * FROM (${WANTED}) AS wanted ORDER BY place COLLATE "C", resource COLLATE "C"
  ON CONFLICT (place, resource) DO UPDATE SET place = marks.place RETURNING *`
const RAISE = `UPDATE ${MARK_TABLE} SET exclusive_fence = $3, exclusive_lease = $4,
  shared_fence = $5, shared_lease = $6 WHERE resource = $1 AND place = $2`

export class PostgresGuard<Client extends PostgresClientLike> {
  readonly #source: PostgresLike<Client>

  constructor(source: PostgresLike<Client>) {
    this.#source = requirePostgres(source)
  }

  /** Creates the table of marks unless it is there. */
  async init(): Promise<void> {
    await inTransaction(this.#source, (client) => client.query(POSTGRES_MARK_TABLE))
  }

  /**
   * Runs `work` if no later holder has written what it writes, in one transaction with the check. Throws `STALE_FENCE`
   * otherwise, and nothing was written; so too if `work` throws. A client that is in a transaction already stays in it.
   */
  async write<Result>(
    lease: GuardedLease,
    work: (client: Client) => Promise<Result> | Result,
    options?: WriteOptions,
  ): Promise<Result> {
    const act = readAct(lease, options)
    if (typeof work !== 'function') throw invalid('work', 'must be a function', work)
    return inTransaction(this.#source, async (client) => {
      await pass(client, act)
      return work(client)
    })
  }

  /** See `CheckArguments`. */
  async check(...asked: CheckArguments): Promise<true> {
    const act = readCheck(asked)
    await inTransaction(this.#source, (client) => pass(client, act))
    return true
  }
}

async function pass(client: PostgresClientLike, act: Act): Promise<void> {
  const measures = measuresOf(act)
  const wanted = [measures.map(({ resource }) => resource), measures.map(({ place }) => place)]
  const judged = async (sql: string): Promise<Judgement> =>
    judge(act, await read(client, sql, wanted))
  // Only a guess at which locks are needed: marks never go back, so an act that needs no raise now needs none later.
  const guess = accepted(await judged(READ))
  const { raises } = accepted(await judged(guess.raises.size === 0 ? SHARE : LOCK))
  for (const [key, mark] of raises) await read(client, RAISE, valuesOf(key, mark))
}

function accepted(judgement: Judgement): Judgement & { kind: 'current' } {
  if (judgement.kind === 'stale') throw judgement.error
  return judgement
}

async function read(
  client: PostgresClientLike,
  sql: string,
  values: readonly unknown[],
): Promise<ReturnType<typeof marksOf>> {
  try {
    const { rows } = await client.query(sql, values)
    return marksOf(rows as MarkRow[])
  } catch (cause) {
    throw guardError(cause)
  }
}

const UNDEFINED_TABLE = '42P01'

function guardError(cause: unknown): unknown {
  return sqlState(cause) === UNDEFINED_TABLE ? missingTable(cause) : conflictOrUnavailable(cause)
}
