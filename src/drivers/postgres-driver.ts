/**
 * The part of `pg` that is used, typed by its shape so that it is a dependency only of programs that open a `postgres:`
 * store; the loading of it; a pool, by URL or the program's own; and calls over it.
 *
 * Every call ends in bounded time. What fails before a statement was sent certainly changed nothing. What fails after
 * that may have, unless the server itself said that it did not.
 */
import { invalid } from '../core/errors.ts'
import { requireText } from '../core/input.ts'
import { report, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { within } from './bounded-call.ts'
import { driverFault } from './driver-fault.ts'
import { isFatal, isStale, postgresError, sqlState } from './postgres-errors.ts'

interface PostgresQuery {
  readonly text: string
  readonly values?: readonly PostgresValue[]
  /** Prepared under this name on first use. */
  readonly name?: string
  readonly rowMode: 'array'
  /** All values stay text: whatever parsers the program has set up elsewhere, rows are read in one way. */
  readonly types: { getTypeParser(): (text: string) => string }
}

/** The driver sends a number as its text. */
export type PostgresValue = string | number | null
export type PostgresRow = readonly (string | null)[]

interface PostgresNotification {
  readonly channel: string
  readonly payload?: string | undefined
}

export interface PostgresClient {
  query(query: PostgresQuery): Promise<{ readonly rows: unknown[] }>
  /** With an error the connection is closed instead of used again. */
  release(error?: Error | boolean): void
  on(event: 'notification', listener: (message: PostgresNotification) => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  /** From then on the connection does not keep the process alive. */
  unref?(): void
}

/** What a `Pool` of `pg` is to Tenure. */
export interface PostgresPool {
  /** How many connections it has; a single `Client`, which cannot serve here, has no such number. */
  readonly totalCount: number
  connect(): Promise<PostgresClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
}

type PostgresDriver = new (config: Readonly<Record<string, unknown>>) => PostgresPool

export async function loadPostgres(): Promise<PostgresDriver> {
  try {
    const module = (await import('pg' as string)) as { default: { Pool: PostgresDriver } }
    return module.default.Pool
  } catch (cause) {
    throw driverFault({ name: 'pg', needed: 'postgres: stores', install: 'pg@8' }, cause)
  }
}

/** Whatever else a program passes in fails much later, and sometimes where no caller can catch it. */
function requirePool(pool: unknown): PostgresPool {
  const get = (name: string): unknown => {
    return typeof pool === 'object' && pool !== null ? Reflect.get(pool, name) : undefined
  }
  const does = ['connect', 'query', 'on', 'end'].every((name) => typeof get(name) === 'function')
  if (!does || typeof get('totalCount') !== 'number') {
    throw invalid('postgres', 'must be a Pool of pg', pool)
  }
  return pool as PostgresPool
}

export interface PostgresConnectOptions {
  /** `postgres://user:password@host:port/database`; either this or a pool. */
  readonly url?: string
  /** A `Pool` of `pg`. It stays the caller's to close. A store that listens has a connection beside it, made from its options. */
  readonly pool?: PostgresPool
  /** How long a call waits for a connection. Default 5 s. */
  readonly connectMs?: number
  /** How long a call waits for its answer. Default 5 s. */
  readonly callMs?: number
  /** Connections of a pool made from a URL, besides one that listens. Default 4. */
  readonly poolSize?: number
  /** False where connections are shared statement by statement (PgBouncer in transaction mode). Default true. */
  readonly prepare?: boolean
  readonly runtime?: Runtime
}

export const CONNECT_MS_DEFAULT = 5_000
const CALL_MS_DEFAULT = 5_000
const POOL_SIZE_DEFAULT = 4

/** Nothing has been sent yet. */
export async function connectPostgres(options: PostgresConnectOptions): Promise<PostgresCaller> {
  const { url: given, pool: givenPool, runtime = systemRuntime, prepare = true } = options
  const { connectMs = CONNECT_MS_DEFAULT, callMs = CALL_MS_DEFAULT } = options
  if ((given === undefined) === (givenPool === undefined)) {
    const got = given === undefined ? 'neither' : 'both'
    throw invalid('store', 'must be either a url or a pool', got)
  }
  const facts = { runtime, connectMs, callMs, prepare }
  if (givenPool !== undefined) {
    return new PostgresCaller({ ...facts, pool: requirePool(givenPool), url: 'postgres:' })
  }
  const { href: connectionString, shown: url } = readPostgresUrl(given)
  const Pool = await loadPostgres()
  const pool = new Pool({
    connectionString,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    // A connection that is merely open does not keep the process alive; every call does, by its timer.
    allowExitOnIdle: true,
    max: options.poolSize ?? POOL_SIZE_DEFAULT,
    // Abandoned by us, a statement must not go on holding what it has locked.
    ...(prepare ? { statement_timeout: callMs } : {}),
  })
  return new PostgresCaller({ ...facts, pool, url, ownsPool: true })
}

/** Of Tenure, which are read before; and those of the driver that make sense for a store. */
const OWN_PARAMETERS = ['namespace', 'convert', 'connectMs', 'callMs', 'poolSize', 'prepare']
const DRIVER_PARAMETERS: readonly string[] = [
  ...['sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'application_name', 'options', 'host'],
  'uselibpqcompat',
]

/**
 * What the driver gets, and what people see, which has no password. A parameter that is not known is refused: a misspelt one
 * would go unnoticed. Never shows what was given: it may hold a password.
 */
export function readPostgresUrl(text: unknown): { readonly href: string; readonly shown: string } {
  const given = requireText('store', text)
  const url = URL.canParse(given) ? new URL(given) : null
  if (url === null || !/^postgres(ql)?:$/.test(url.protocol)) {
    const expected = 'must be postgres://user@host:port/database'
    throw invalid('store', expected, given.split(/[/@?]/, 1)[0])
  }
  // The driver would look for a host of the user's name, and errors would name the rest as the database.
  if (url.username === '' && url.pathname.includes('@')) {
    throw invalid('store', 'must have its user and password escaped (for / write %2F)', '…')
  }
  const unknown = [...url.searchParams.keys()].find((name) => !DRIVER_PARAMETERS.includes(name))
  if (unknown !== undefined) {
    const known = [...OWN_PARAMETERS, ...DRIVER_PARAMETERS].join(', ')
    // With an @ it may be the rest of a password that has a question mark in it.
    const got = /@|%40/.test(url.search) ? '…' : unknown
    throw invalid('store', `parameters must be among ${known}`, got)
  }
  const { href } = url
  url.password = ''
  url.search = ''
  return { href, shown: url.href }
}

/** A connection that is none of a pool's. */
export interface LoneClient extends PostgresClient {
  connect(): Promise<unknown>
  end(): Promise<void>
}

/** What a pool of `pg` makes its connections from and leaves out of its types. */
interface PoolInside {
  readonly Client?: new (options: object) => LoneClient
  readonly options?: object
}

/** Made as the pool makes its own: a program that ends the pool does not wait for it. */
async function connectBeside(pool: PostgresPool): Promise<LoneClient> {
  const { Client, options } = pool as unknown as PoolInside
  if (typeof Client !== 'function' || typeof options !== 'object') {
    throw new Error('the pool has no Client and options to make a connection that listens from')
  }
  const client = new Client(options)
  hearErrors(client)
  client.release = () => void client.end().catch(reportTo('store/postgres/connection'))
  await client.connect()
  return client
}

/**
 * A process that stops in the middle of a transaction must not keep others out for longer than this. Each statement must see
 * what was committed while it waited for a lock, whatever isolation is the default of the role or the database.
 */
const BEGIN =
  'BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 2000'

const AS_TEXT = { getTypeParser: () => (text: string) => text }

/** A connection for the length of several statements. */
export interface PostgresConnection {
  run(text: string, values?: readonly PostgresValue[]): Promise<readonly PostgresRow[]>
}

export interface Statement {
  readonly text: string
  readonly values: readonly PostgresValue[]
  /** Given to statements that are sent often. */
  readonly name?: string
  /** Whether an answer that is lost leaves open what happened. */
  readonly writes: boolean
}

/** The URL is for messages, and has no password. */
interface CallerOptions extends Required<Omit<PostgresConnectOptions, 'poolSize'>> {
  /** It is closed with the caller. */
  readonly ownsPool?: boolean
}

/** Pools and clients that have a listener for their errors already, of whichever store. */
const heardOf = new WeakSet<PostgresPool | PostgresClient>()

/** Errors of connections that are idle are told twice, by the connection and by its pool. */
const reported = new WeakSet<Error>()

/** A connection that breaks is replaced at its next use; unheard, its error ends the process. */
function hearErrors(source: PostgresPool | PostgresClient): void {
  if (heardOf.has(source)) return
  heardOf.add(source)
  source.on('error', (error) => {
    if (!reported.has(error)) report('store/postgres/connection', error)
    reported.add(error)
  })
}

const YES = (): boolean => true
const NO = (): boolean => false

/** Sends statements over a pool, each within its time, and says what went wrong in Tenure's words. */
export class PostgresCaller {
  readonly options: CallerOptions

  constructor(options: CallerOptions) {
    this.options = options
    hearErrors(options.pool)
  }

  async end(): Promise<void> {
    if (this.options.ownsPool === true) await this.options.pool.end()
  }

  /** A connection that the server itself has answered on goes on; so does one after an ordinary error. */
  call({ text, values, name, writes }: Statement): Promise<readonly PostgresRow[]> {
    const named = this.options.prepare && name !== undefined ? { name } : {}
    return this.#using((client) => this.#rows(client, { text, values, ...named }), {
      isSent: () => writes,
      isOver: (error) => sqlState(error) === null || isFatal(error) || isStale(error),
    })
  }

  /** Gives the connection back, or ends it. `isSent`: whether the error leaves open what happened. */
  async #using<Result>(
    work: (client: PostgresClient) => Promise<Result>,
    { isSent, isOver }: { isSent: () => boolean; isOver: (error: unknown) => boolean },
  ): Promise<Result> {
    const client = await this.#connected(this.#connect())
    try {
      const result = await work(client)
      client.release()
      return result
    } catch (error) {
      client.release(isOver(error))
      throw postgresError(error, { url: this.options.url, sent: isSent() })
    }
  }

  /** Asynchronous also where the pool throws, as for a file with a certificate that is not there. */
  async #connect(): Promise<PostgresClient> {
    return this.options.pool.connect()
  }

  connectBeside(): Promise<LoneClient> {
    return this.#connected(connectBeside(this.options.pool))
  }

  /** Nothing was sent where there is no connection. */
  async #connected<Client extends PostgresClient>(connecting: Promise<Client>): Promise<Client> {
    const { connectMs, url, runtime } = this.options
    try {
      const late = `no connection within ${connectMs} ms`
      const client = await within(runtime, connectMs, connecting, late)
      hearErrors(client)
      return client
    } catch (error) {
      connecting.then(
        (client) => client.release(),
        // No fault: why there is no connection is thrown here; what comes after the time is over is no other reason.
        () => undefined,
      )
      throw postgresError(error, { url, sent: false })
    }
  }

  /** One statement without values on a connection that is kept. */
  ask(client: PostgresClient, text: string): Promise<readonly PostgresRow[]> {
    return this.#rows(client, { text })
  }

  async #rows(
    client: PostgresClient,
    query: Pick<PostgresQuery, 'text' | 'values' | 'name'>,
    callMs = this.options.callMs,
  ): Promise<readonly PostgresRow[]> {
    const sent = client.query({ ...query, rowMode: 'array', types: AS_TEXT })
    const { runtime } = this.options
    const { rows } = await within(runtime, callMs, sent, `no answer within ${callMs} ms`)
    return rows as PostgresRow[]
  }

  /** Several statements on one connection, each within its time; whatever fails, it is not used again. */
  during<Result>(
    work: (connection: PostgresConnection) => Promise<Result>,
    callMs: number = this.options.callMs,
  ): Promise<Result> {
    const ofClient = (client: PostgresClient): PostgresConnection => ({
      run: (text, values = []) => this.#rows(client, { text, values }, callMs),
    })
    return this.#using((client) => work(ofClient(client)), { isSent: NO, isOver: YES })
  }

  /**
   * Several statements in one transaction. Whatever fails, the connection is not used again, and the server takes back
   * what was done; only the answer to the commit itself leaves open what happened. With `planning`, settings of the planner
   * for reading, nothing can be open.
   */
  transaction<Result>(
    work: (send: (statement: Statement) => Promise<readonly PostgresRow[]>) => Promise<Result>,
    planning?: string,
  ): Promise<Result> {
    let isCommitting = false
    const run = async (client: PostgresClient): Promise<Result> => {
      await this.ask(client, planning === undefined ? BEGIN : `BEGIN READ ONLY; ${planning}`)
      const result = await work(({ text, values }) => this.#rows(client, { text, values }))
      isCommitting = planning === undefined
      await this.ask(client, 'COMMIT')
      return result
    }
    return this.#using(run, { isSent: () => isCommitting, isOver: YES })
  }
}
