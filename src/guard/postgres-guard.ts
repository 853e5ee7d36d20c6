/**
 * Guards what is kept in PostgreSQL: the check of the fence and the write are one transaction. Works with the clients
 * and pools of `pg`, and with anything of their shape.
 *
 * A holder that writes again finds its marks raised and takes shared locks on them: writers of different resources do
 * not wait for each other, although all look at the marks of the same directories. Only the first write of a lease
 * locks them for itself.
 *
 * The transaction is of its own on a connection of the pool, of its own on a client that has none open, or a savepoint in the
 * one that the client has open.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { invalid, LeaseError } from '../core/errors.ts'
import {
  readAct,
  readCheck,
  endedError,
  type Act,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import {
  conflictOrUnavailable,
  sqlState,
  commitError,
  unavailable,
} from '../drivers/postgres-errors.ts'
import { report } from '../runtime/diagnostics.ts'
import {
  MARK_TABLE,
  marksOf,
  missingTable,
  POSTGRES_MARK_TABLE,
  valuesOf,
  type MarkRow,
} from './mark-table.ts'
import { judge, measuresOf, type Mark } from './marks.ts'

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
    await createTables(this.#source, POSTGRES_MARK_TABLE)
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
  const raisesBy = async (sql: string): Promise<ReadonlyMap<string, Mark>> => {
    const judgement = judge(act, await read(client, sql, wanted))
    if (judgement.kind === 'stale') throw judgement.error
    return judgement.raises
  }
  // Only a guess at which locks are needed: marks never go back, so an act that needs no raise now needs none later.
  const guess = await raisesBy(READ)
  const raises = await raisesBy(guess.size === 0 ? SHARE : LOCK)
  for (const [key, mark] of raises) await read(client, RAISE, valuesOf(key, mark))
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
    throw sqlState(cause) === UNDEFINED_TABLE ? missingTable(cause) : conflictOrUnavailable(cause)
  }
}

const UNDEFINED_TABLE = '42P01'

/** What is needed of a client; that of `pg` has it. */
export interface PostgresClientLike {
  /** `I`: in no transaction. Newer versions of `pg` say so; an older one is asked by trying. */
  getTransactionStatus?(): string | null
  /** `command`: what PostgreSQL says it has done. */
  query(
    sql: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: unknown[]; readonly command: string }>
}

export interface PostgresPoolLike<Client extends PostgresClientLike = PostgresClientLike> {
  readonly totalCount: number
  connect(): Promise<Client & { release(error?: boolean): void }>
  /** As in `pg`. Never used; TypeScript finds the type of the clients only if both are there. */
  connect(callback: never): void
}

export type PostgresLike<Client extends PostgresClientLike> = Client | PostgresPoolLike<Client>

const CREATE_LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('tenure_guard', 0))`

/** Creates tables unless they are there. In turns: of two that create a table at once PostgreSQL fails one. */
export async function createTables<Client extends PostgresClientLike>(
  source: PostgresLike<Client>,
  sql: string,
): Promise<void> {
  await inTransaction(source, async (client) => {
    await client.query(CREATE_LOCK)
    await client.query(sql)
  })
}

/**
 * Runs `work` in one transaction. Whatever it throws undoes all of it and nothing else. Called from within such work, on
 * the same pool or client, it takes part in that transaction as a savepoint.
 */
export async function inTransaction<Client extends PostgresClientLike, Result>(
  source: PostgresLike<Client>,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const outer = openTransactionOn(source)
  if (outer !== null) {
    const client = outer.client as Client
    return inTurn(outer, async () => {
      await run(client, SAVEPOINT)
      return carryOut({ client, source, joined: true }, work)
    })
  }
  if (isPool(source)) return onPool(source, work)
  return inTurn(turnsOf(source), async () => {
    return carryOut({ client: source, source, joined: await join(source) }, work)
  })
}

async function onPool<Client extends PostgresClientLike, Result>(
  pool: PostgresPoolLike<Client>,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect().catch((cause: unknown) => {
    throw unavailable(cause)
  })
  let broken = true
  const onEnded = (): void => void (broken = false)
  try {
    return await inTurn(turnsOf(client), async () => {
      await run(client, BEGIN)
      return carryOut({ client, source: pool, joined: false, onEnded }, work)
    })
  } finally {
    // A connection on which something failed may still be in the transaction, and no other caller should get it so.
    client.release(broken)
  }
}

/** Calls that run one after another: all those of a client, or those within one transaction of it. */
interface Turns {
  last: Promise<unknown>
}

/** A transaction that is open, for whatever its work calls. */
interface OpenTransaction extends Turns {
  readonly client: PostgresClientLike
  /** What the caller gave: the client itself or its pool. */
  readonly source: object
  /** The one from within which this was called. */
  readonly outer: OpenTransaction | null
  /** A timer that its work has started keeps this context, and must not fall into whatever comes after it. */
  isOver: boolean
}

const turnsByClient = new WeakMap<object, Turns>()
const within = new AsyncLocalStorage<OpenTransaction>()

function turnsOf(client: object): Turns {
  const known = turnsByClient.get(client) ?? { last: Promise.resolve() }
  turnsByClient.set(client, known)
  return known
}

/**
 * The innermost transaction from within which this is called, if it is on this pool or client. On a pool a connection of
 * one's own would wait for the marks that this transaction has locked, or for its connection, and so for itself.
 */
function openTransactionOn(source: object): OpenTransaction | null {
  let open = within.getStore() ?? null
  while (open !== null && (open.isOver || (open.client !== source && open.source !== source))) {
    open = open.outer
  }
  return open
}

/**
 * A client has one transaction at a time: of two writes at once, the second would find itself in the transaction of the
 * first, and be committed or undone with it. So they take turns. A call from within a transaction takes its
 * turn among those within, and does not wait for the one it is part of.
 */
function inTurn<Result>(turns: Turns, run: () => Promise<Result>): Promise<Result> {
  const turn = turns.last.then(run)
  // The caller hears of a failure; the next only waits for the end.
  turns.last = turn.then(ended, ended)
  return turn
}

function ended(): void {}

interface Begun<Client> {
  readonly client: Client
  readonly source: object
  /** In a savepoint of a transaction that was open already. */
  readonly joined: boolean
  /** It is certain that the connection is in no transaction any more. */
  readonly onEnded?: () => void
}

async function carryOut<Client extends PostgresClientLike, Result>(
  { client, source, joined, onEnded }: Begun<Client>,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const outer = within.getStore() ?? null
  const own: OpenTransaction = { client, source, outer, isOver: false, last: Promise.resolve() }
  try {
    const result = await within.run(own, async () => runToEnd(own, async () => work(client)))
    await commit(client, joined)
    onEnded?.()
    return result
  } catch (error) {
    if (await undo(client, joined)) onEnded?.()
    throw error
  }
}

/** What the work has begun within its transaction and not waited for is part of it, and ends before it. */
async function runToEnd<Result>(
  own: OpenTransaction,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work()
  } finally {
    for (let last: Promise<unknown> | null = null; last !== own.last;) {
      last = own.last
      await last
    }
    own.isOver = true
  }
}

const NO_TRANSACTION = '25P01'
const NO_SAVEPOINT = '3B001'
const ABORTED_TRANSACTION = '25P02'

const SAVEPOINT = 'SAVEPOINT tenure_guard'
/** Its savepoint is not in a transaction that takes its place. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED; ${SAVEPOINT}`

/** True if the client was in a transaction already, and is in a savepoint of it now. */
async function join(client: PostgresClientLike): Promise<boolean> {
  if (client.getTransactionStatus?.() !== 'I') {
    try {
      await client.query(SAVEPOINT)
      return true
    } catch (error) {
      if (sqlState(error) !== NO_TRANSACTION) throw unavailable(error)
    }
  }
  await run(client, BEGIN)
  return false
}

/** Throws unless everything since the beginning stands. */
async function commit(client: PostgresClientLike, joined: boolean): Promise<void> {
  await release(client)
  if (joined) return
  const { command } = await client.query('COMMIT').catch((cause: unknown) => {
    throw commitError(cause)
  })
  // A statement that the work did not wait for may have failed since the release: PostgreSQL then answers COMMIT by
  // undoing everything, and does not call that an error.
  if (command !== 'COMMIT') throw abortedError()
}

/** Throws unless the transaction is still the one that was begun, and no statement in it has failed. */
async function release(client: PostgresClientLike): Promise<void> {
  try {
    await client.query('RELEASE SAVEPOINT tenure_guard')
  } catch (cause) {
    const code = sqlState(cause)
    if (code === ABORTED_TRANSACTION) throw abortedError()
    throw code === NO_SAVEPOINT || code === NO_TRANSACTION ? endedError() : unavailable(cause)
  }
}

function abortedError(): LeaseError {
  const message =
    'work must not go on after a statement that failed, got one that caught the error: nothing was written'
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'work' } })
}

/** False when that is unknown: the connection is of no more use. */
async function undo(client: PostgresClientLike, joined: boolean): Promise<boolean> {
  try {
    await client.query(joined ? 'ROLLBACK TO SAVEPOINT tenure_guard' : 'ROLLBACK')
    if (joined) await client.query('RELEASE SAVEPOINT tenure_guard')
    return true
  } catch (error) {
    // What `work` threw says more than this to the caller.
    report('guard/postgres-rollback', error)
    return false
  }
}

async function run(client: PostgresClientLike, sql: string): Promise<void> {
  try {
    await client.query(sql)
  } catch (cause) {
    throw unavailable(cause)
  }
}

function isPool<Client extends PostgresClientLike>(
  source: PostgresLike<Client>,
): source is PostgresPoolLike<Client> {
  return 'totalCount' in source && 'connect' in source
}

/** Refuses what is neither a client nor a pool when it is given, not when it is first used. */
export function requirePostgres<Source>(source: Source): Source {
  if (typeof source === 'object' && source !== null && 'query' in source) return source
  throw invalid('client', 'must be a client or pool of PostgreSQL', source)
}
