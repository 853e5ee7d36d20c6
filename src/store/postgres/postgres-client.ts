/**
 * The part of `pg` that the store uses, typed by its shape so that the driver is nobody's dependency but the one who
 * opens a `postgres:` store; the loading of it; and what its errors mean.
 *
 * Every call ends in bounded time. What fails before a statement was sent certainly changed nothing. What fails after
 * that may have, unless the server itself said that it did not.
 */
import { invalid, LeaseError } from '../../core/errors.ts'
import { report } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { driverFault } from '../../drivers/driver-fault.ts'

export interface PostgresQuery {
  readonly text: string
  readonly values?: readonly (string | null)[]
  /** Prepared under this name on first use. */
  readonly name?: string
  readonly rowMode: 'array'
  /** All values stay text: whatever parsers the program has set up elsewhere, rows are read in one way. */
  readonly types: { getTypeParser(): (text: string) => string }
}

export type PostgresRow = readonly (string | null)[]

export interface PostgresNotification {
  readonly channel: string
  readonly payload?: string | undefined
}

export type PostgresHear = (message: PostgresNotification) => void

export interface PostgresClient {
  query(query: PostgresQuery): Promise<{ readonly rows: unknown[] }>
  /** With an error the connection is closed instead of used again. */
  release(error?: Error | boolean): void
  on(event: 'notification', listener: PostgresHear): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
  removeListener(event: 'notification', listener: PostgresHear): unknown
  removeListener(event: 'error', listener: (error: Error) => void): unknown
  /** Whether the connection keeps the process alive. */
  ref?(): void
  unref?(): void
}

/** What a `Pool` of `pg` is to the store. */
export interface PostgresPool {
  /** How many connections it has; a single `Client`, which cannot serve here, has no such number. */
  readonly totalCount: number
  connect(): Promise<PostgresClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
}

export type PostgresDriver = new (config: Readonly<Record<string, unknown>>) => PostgresPool

/** What `pg` exports, as far as it is used. */
export interface PostgresModule<Client = unknown> {
  readonly Pool: PostgresDriver
  readonly Client: Client
}

export async function loadDriver<Client>(): Promise<PostgresModule<Client>> {
  try {
    const module = (await import('pg' as string)) as { readonly default: PostgresModule<Client> }
    return module.default
  } catch (cause) {
    throw driverFault({ name: 'pg', needed: 'postgres: stores', install: 'pg@8' }, cause)
  }
}

/**
 * Whatever else a program passes in fails much later, and sometimes where nobody can catch it; and with one connection,
 * which listens, no call would ever get through.
 */
export function requirePool(pool: unknown): PostgresPool {
  const get = (name: string): unknown => {
    return typeof pool === 'object' && pool !== null ? Reflect.get(pool, name) : undefined
  }
  const does = ['connect', 'query', 'on', 'end'].every((name) => typeof get(name) === 'function')
  if (!does || typeof get('totalCount') !== 'number') {
    throw invalid('postgres', 'must be a Pool of pg', pool)
  }
  const options = get('options')
  const max: unknown = typeof options === 'object' && options && Reflect.get(options, 'max')
  if (max === 1) throw invalid('postgres', 'must be a Pool with a max of at least 2', max)
  return pool as PostgresPool
}

/** Whoever stops in the middle of a transaction must not keep others out for longer than this. */
const BEGIN = 'BEGIN; SET LOCAL idle_in_transaction_session_timeout = 2000'

const AS_TEXT = { getTypeParser: () => (text: string) => text }

/** A connection for the length of several statements. */
export interface PostgresConnection {
  run(text: string, values?: readonly (string | null)[]): Promise<readonly PostgresRow[]>
}

export interface Statement {
  readonly text: string
  readonly values: readonly (string | null)[]
  /** Given to statements that are sent often. */
  readonly name?: string
  /** Whether an answer that is lost leaves open what happened. */
  readonly writes: boolean
}

export interface CallerOptions {
  readonly pool: PostgresPool
  readonly runtime: Runtime
  /** For messages; without a password. */
  readonly url: string
  readonly connectMs: number
  readonly callMs: number
  readonly prepare: boolean
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

/** Sends statements over a pool, each within its time, and says what went wrong in Tenure's words. */
export class PostgresCaller {
  readonly #options: CallerOptions

  constructor(options: CallerOptions) {
    this.#options = options
    hearErrors(options.pool)
  }

  async call(statement: Statement): Promise<readonly PostgresRow[]> {
    const client = await this.connect()
    return this.send(client, statement)
  }

  /** Sends over a connection and gives it back. */
  async send(client: PostgresClient, statement: Statement): Promise<readonly PostgresRow[]> {
    const { callMs, prepare, url } = this.#options
    const { text, values, name, writes } = statement
    const named = prepare && name !== undefined ? { name } : {}
    try {
      const query = { text, values, rowMode: 'array', types: AS_TEXT, ...named } as const
      const sent = client.query(query)
      const { rows } = await this.#within(sent, callMs, `no answer within ${callMs} ms`)
      client.release()
      return rows as PostgresRow[]
    } catch (error) {
      client.release(sqlState(error) === null || isFatal(error))
      throw storeError(error, { url, sent: writes })
    }
  }

  /** A connection of the pool, or `STORE_UNAVAILABLE`; nothing was sent then. */
  async connect(): Promise<PostgresClient> {
    const { pool, connectMs, url } = this.#options
    const connecting = pool.connect()
    try {
      const tooLate = `no connection within ${connectMs} ms`
      const client = await this.#within(connecting, connectMs, tooLate)
      hearErrors(client)
      return client
    } catch (error) {
      connecting.then(
        (client) => client.release(),
        // No fault: why there is no connection is thrown here; what comes after the time is over is no other reason.
        () => undefined,
      )
      throw storeError(error, { url, sent: false })
    }
  }

  /** One statement without values on a connection that is kept. */
  async ask(client: PostgresClient, text: string): Promise<readonly PostgresRow[]> {
    const { callMs } = this.#options
    const sent = client.query({ text, rowMode: 'array', types: AS_TEXT })
    const { rows } = await this.#within(sent, callMs, `no answer within ${callMs} ms`)
    return rows as PostgresRow[]
  }

  /** Several statements on one connection; whatever fails, it is not used again. */
  async during<Result>(work: (connection: PostgresConnection) => Promise<Result>): Promise<Result> {
    const { callMs, url } = this.#options
    const client = await this.connect()
    const run: PostgresConnection['run'] = async (text, values = []) => {
      const sent = client.query({ text, values, rowMode: 'array', types: AS_TEXT })
      const { rows } = await this.#within(sent, callMs, `no answer within ${callMs} ms`)
      return rows as PostgresRow[]
    }
    try {
      const result = await work({ run })
      client.release()
      return result
    } catch (error) {
      client.release(true)
      throw storeError(error, { url, sent: false })
    }
  }

  /**
   * Several statements in one transaction. Whatever fails, the connection is not used again, and the server takes back
   * what was done; only the answer to the commit itself leaves open what happened.
   */
  async transaction<Result>(
    work: (send: (statement: Statement) => Promise<readonly PostgresRow[]>) => Promise<Result>,
  ): Promise<Result> {
    const { callMs, url } = this.#options
    const client = await this.connect()
    let isCommitting = false
    try {
      await this.ask(client, BEGIN)
      const result = await work(async ({ text, values }) => {
        const sent = client.query({ text, values, rowMode: 'array', types: AS_TEXT })
        const { rows } = await this.#within(sent, callMs, `no answer within ${callMs} ms`)
        return rows as PostgresRow[]
      })
      isCommitting = true
      await this.ask(client, 'COMMIT')
      client.release()
      return result
    } catch (error) {
      client.release(true)
      throw storeError(error, { url, sent: isCommitting })
    }
  }

  #within<Result>(work: Promise<Result>, spanMs: number, tooLate: string): Promise<Result> {
    return new Promise((resolve, reject) => {
      const expire = (): void => reject(new Error(tooLate))
      const timer = this.#options.runtime.setTimer(spanMs, expire, { keepAlive: true })
      work.then(resolve, reject).finally(() => timer.cancel())
    })
  }
}

/** The SQLSTATE of an error that the server sent, or null if it came from anywhere else. */
export function sqlState(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || !('severity' in error)) return null
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : null
}

/** What can end a connection, or the server in the middle of a commit: connections, resources, operators, defects. */
const MAY_BE_FATAL = /^(08|25P0[34]|53|57P|58|F0|XX)/

/**
 * Whether an error proves nothing about what was committed. The driver passes on the severity in the language of the
 * server (`lc_messages`) alone; in one other than English the SQLSTATE has to tell, and in doubt it is fatal.
 */
function isFatal(error: unknown): boolean {
  if (!(error instanceof Error) || !('severity' in error)) return false
  if (error.severity === 'ERROR') return false
  if (error.severity === 'FATAL' || error.severity === 'PANIC') return true
  return MAY_BE_FATAL.test(sqlState(error) ?? '')
}

/**
 * Two calls that waited for each other, and an id that another call has just taken: nothing was written, and the same
 * call sent again is answered properly.
 */
const TRY_AGAIN: ReadonlySet<string> = new Set(['40P01', '40001', '23505'])

export function isTransient(error: unknown): boolean {
  const cause = error instanceof LeaseError ? error.cause : error
  const code = sqlState(cause)
  return code !== null && TRY_AGAIN.has(code)
}

/** Node gives those of its errors a code that a program can do nothing about; without one it is a mistake of ours. */
function isOwnMistake(error: unknown): boolean {
  return (error instanceof TypeError || error instanceof ReferenceError) && !('code' in error)
}

/** What the server says about a schema that is not there, or not what it should be. */
const SCHEMA_STATES = /^(42P01|42883|42703|3F000|42P0[67]|42723)$/

/** Reasons in plain words; for anything else the server's own message is the best there is. */
const PLAIN_WORDS: Readonly<Record<string, string>> = {
  '28P01': 'the server refused the password',
  '28000': 'the server refused the role',
  '3D000': 'there is no such database',
  '53300': 'the server has no connection left',
  '25006': 'the server is read-only (a standby?)',
  '42501': 'the role lacks a permission (see docs/stores/postgres.md)',
  '57P03': 'the server is starting up or shutting down',
}

/**
 * Says what an error means to a caller. `sent` is true for a statement that may have been carried out: then only an
 * answer of the server that names an ordinary error proves that it was not.
 */
function storeError(error: unknown, context: { url: string; sent: boolean }): unknown {
  if (error instanceof LeaseError || isOwnMistake(error)) return error
  const { url, sent } = context
  const state = sqlState(error)
  const message = error instanceof Error ? error.message || error.name : String(error)
  const reason = state ?? codeOf(error) ?? message
  const options = { cause: error, details: { store: url, reason } }
  if (state !== null && SCHEMA_STATES.test(state)) {
    return new LeaseError('STORE_SCHEMA', `${url} is not a Tenure store: ${message}`, options)
  }
  if (sent && (state === null || isFatal(error))) {
    return new LeaseError(
      'STORE_OUTCOME_UNKNOWN',
      `${url}: the answer was lost: ${message}`,
      options,
    )
  }
  const words = state === null ? undefined : PLAIN_WORDS[state]
  const why = words === undefined ? message : `${words}: ${message}`
  return new LeaseError('STORE_UNAVAILABLE', `${url} cannot be used: ${why}`, options)
}

function codeOf(error: unknown): string | null {
  return error instanceof Error && 'code' in error ? String(error.code) : null
}
