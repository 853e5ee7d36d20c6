/**
 * A transaction on PostgreSQL for whoever has a pool or a client: of its own on a connection of the pool, of its own
 * on a client that has none open, or a savepoint in the one that the client has open.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { invalid, LeaseError } from '../core/errors.ts'

/** What is needed of a client; that of `pg` has it. */
export interface PostgresClientLike {
  /** `I`: in no transaction. Newer versions of `pg` say so; an older one is asked by trying. */
  getTransactionStatus?(): string | null
  query(sql: string, values?: readonly unknown[]): Promise<{ readonly rows: unknown[] }>
}

export interface PostgresPoolLike<Client extends PostgresClientLike = PostgresClientLike> {
  readonly totalCount: number
  connect(): Promise<Client & { release(error?: boolean): void }>
  /** As in `pg`. Never used; TypeScript finds the type of the clients only if both are there. */
  connect(callback: never): void
}

export type PostgresLike<Client extends PostgresClientLike> = Client | PostgresPoolLike<Client>

/** Runs `work` in one transaction. Whatever it throws undoes all of it and nothing else. */
export async function inTransaction<Client extends PostgresClientLike, Result>(
  source: PostgresLike<Client>,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  if (isPool(source)) return onPool(source, work)
  return inTurn(source, async () => carryOut(source, work, { joined: await join(source) }))
}

async function onPool<Client extends PostgresClientLike, Result>(
  pool: PostgresPoolLike<Client>,
  work: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect().catch((cause: unknown) => {
    throw unavailable(cause)
  })
  let broken = true
  try {
    const joined = await open(client)
    const result = await inTurn(client, () => {
      return carryOut<Client, Result>(client, work, { joined, onUndone: () => (broken = false) })
    })
    broken = false
    return result
  } finally {
    // A connection on which something failed may still be in the transaction, and nobody else should get it so.
    client.release(broken)
  }
}

/** Whose turn it is on a client: of all its callers, and of those within the transaction that is open on it. */
interface Turns {
  last: Promise<unknown>
}

const turnsOf = new WeakMap<object, Turns>()
const within = new AsyncLocalStorage<ReadonlyMap<object, Turns>>()

/**
 * A client has one transaction at a time: of two writes at once, the second would find itself in the transaction of the
 * first, and be committed or undone with it. So they take turns. Whoever is called from within a transaction takes its
 * turn among those within, and does not wait for the one it is part of.
 */
function inTurn<Result>(client: object, run: () => Promise<Result>): Promise<Result> {
  const outer = within.getStore()
  const turns = outer?.get(client) ?? turnsOf.get(client) ?? { last: Promise.resolve() }
  if (outer?.has(client) !== true) turnsOf.set(client, turns)
  const inner = new Map(outer).set(client, { last: Promise.resolve() })
  const turn = turns.last.then(() => within.run(inner, run))
  turns.last = turn.catch(() => undefined)
  return turn
}

interface Undoing {
  readonly joined: boolean
  readonly onUndone?: () => void
}

async function carryOut<Client extends PostgresClientLike, Result>(
  client: Client,
  work: (client: Client) => Promise<Result>,
  { joined, onUndone }: Undoing,
): Promise<Result> {
  let result: Result
  try {
    result = await work(client)
  } catch (error) {
    if (await undo(client, joined)) onUndone?.()
    throw error
  }
  await commit(client, joined)
  return result
}

const NO_TRANSACTION = '25P01'

/** Begins a transaction, in none of which the client is. */
async function open(client: PostgresClientLike): Promise<false> {
  await run(client, 'BEGIN ISOLATION LEVEL READ COMMITTED')
  return false
}

/** True if the client was in a transaction already, and is in a savepoint of it now. */
async function join(client: PostgresClientLike): Promise<boolean> {
  if (client.getTransactionStatus?.() === 'I') return open(client)
  try {
    await client.query('SAVEPOINT tenure_guard')
    return true
  } catch (error) {
    if (codeOf(error) !== NO_TRANSACTION) throw unavailable(error)
  }
  return open(client)
}

async function commit(client: PostgresClientLike, joined: boolean): Promise<void> {
  if (joined) return run(client, 'RELEASE SAVEPOINT tenure_guard')
  try {
    await client.query('COMMIT')
  } catch (cause) {
    throw commitError(cause)
  }
}

/** With an answer from PostgreSQL nothing was committed; without one nobody knows. */
function commitError(cause: unknown): LeaseError {
  if (codeOf(cause)?.length === 5) return conflictOrUnavailable(cause)
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LeaseError('STORE_OUTCOME_UNKNOWN', `the answer to COMMIT was lost: ${why}`, { cause })
}

/** False when nobody knows whether it was: the connection is of no more use. */
async function undo(client: PostgresClientLike, joined: boolean): Promise<boolean> {
  try {
    await client.query(joined ? 'ROLLBACK TO SAVEPOINT tenure_guard' : 'ROLLBACK')
    if (joined) await client.query('RELEASE SAVEPOINT tenure_guard')
    return true
  } catch {
    // What `work` threw says more than this.
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

/** The SQLSTATE of an error of PostgreSQL; codes of the network are shorter or longer. */
export function codeOf(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error)) return null
  return typeof error.code === 'string' ? error.code : null
}

const CONFLICTS: ReadonlySet<string> = new Set(['40001', '40P01', '55P03'])

/** What an error of one of our own statements means; errors of the caller's statements are the caller's. */
export function conflictOrUnavailable(cause: unknown): LeaseError {
  const code = codeOf(cause)
  if (code === null || !CONFLICTS.has(code)) return unavailable(cause)
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LeaseError('STORE_CONFLICT', `PostgreSQL refused: ${why}`, { cause })
}

function unavailable(cause: unknown): LeaseError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LeaseError('STORE_UNAVAILABLE', `PostgreSQL cannot be used: ${why}`, { cause })
}
