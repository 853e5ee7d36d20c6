/**
 * Opens a store on PostgreSQL: from a URL, with a pool of its own, or on a pool that the program already has.
 */
import { invalid } from '../../core/errors.ts'
import { parseNamespace } from '../../core/resource.ts'
import { reportTo } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Store } from '../../store-port/store.ts'
import { OptimisticStore } from '../optimistic/optimistic-store.ts'
import { PostgresBackend } from './postgres-backend.ts'
import {
  loadPostgres,
  PostgresCaller,
  requirePool,
  type PostgresConnection,
  type PostgresPool,
} from '../../drivers/postgres-driver.ts'
import { listenerOn } from './postgres-listener.ts'
import { isCurrent, migrate, numberOf } from './postgres-schema.ts'
import { readConvert, readPoolSize, readPostgresUrl, readSpanMs } from './postgres-url.ts'

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`; either this or a pool. */
  readonly url?: string
  /** A `Pool` of `pg`. It stays the caller's to close. Whoever listens has a connection beside it, made from its options. */
  readonly pool?: PostgresPool
  readonly namespace?: string
  /** How long a call waits for a connection. Default 5 s. */
  readonly connectMs?: number
  /** How long a call waits for its answer. Default 5 s. */
  readonly callMs?: number
  /** Connections of a pool made from a URL, besides one that listens. Default 4. */
  readonly poolSize?: number
  /** False where connections are shared statement by statement (PgBouncer in transaction mode). Default true. */
  readonly prepare?: boolean
  /** `force`: a store of an older layout is converted although processes may still hold leases in it. */
  readonly convert?: 'force'
  readonly runtime?: Runtime
  /** A clock that stands in for the server's, in microseconds, for tests. */
  readonly nowUs?: () => number
}

const CONNECT_MS_DEFAULT = 5_000
const CALL_MS_DEFAULT = 5_000
const POOL_SIZE_DEFAULT = 4
/** For one statement of a migration: as long as a very large table takes. */
const MIGRATION_STEP_MS_MAX = 3_600_000

interface Settled {
  readonly namespace: string
  readonly connectMs: number
  readonly callMs: number
  readonly poolSize: number
  readonly prepare: boolean
  readonly isForced: boolean
}

/** The pool that a store speaks over, and what must be done when it is closed. */
interface Reached {
  readonly settled: Settled
  readonly pool: PostgresPool
  readonly shown: string
  readonly end: () => Promise<void>
}

export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const backend = await openPostgresBackend(options)
  return OptimisticStore.open(backend, options.runtime ?? systemRuntime)
}

export async function openPostgresBackend(options: PostgresStoreOptions): Promise<PostgresBackend> {
  const { settled, pool, shown: url, end } = await reachPostgres(options)
  const { nowUs, runtime = systemRuntime } = options
  const caller = new PostgresCaller({ ...settled, runtime, url, pool })
  try {
    const { namespace, isForced } = settled
    if (!(await caller.during(isCurrent))) {
      const work = (connection: PostgresConnection) => migrate(connection, { url, isForced })
      await caller.during(work, MIGRATION_STEP_MS_MAX)
    }
    const number = await caller.during((connection) => numberOf(connection, namespace))
    await warmUp(caller, number)
    return new PostgresBackend({
      ...{ caller, runtime, url, namespace, number, end },
      listener: listenerOn(pool, { caller, runtime, callMs: settled.callMs }),
      ...(nowUs === undefined ? {} : { nowUs }),
    })
  } catch (error) {
    await end()
    throw error
  }
}

/** Only for the sake of time: a server that may not be written to can still be read. */
async function warmUp(caller: PostgresCaller, number: number): Promise<void> {
  const text = 'SELECT tenure.warm_up_v9($1::integer)'
  const statement = { text, values: [String(number)], writes: false }
  await caller.call(statement).catch(reportTo('store/postgres/warm-up'))
}

/** The pool for a store, through which nothing has been sent yet. */
export async function reachPostgres(options: PostgresStoreOptions): Promise<Reached> {
  const { url, pool } = options
  if ((url === undefined) === (pool === undefined)) {
    throw invalid('store', 'must be either a url or a pool', url === undefined ? 'neither' : 'both')
  }
  if (pool !== undefined) {
    const end = (): Promise<void> => Promise.resolve()
    return { settled: settle(options), pool: requirePool(pool), shown: 'postgres:', end }
  }
  const { connectionString, parameters, shown } = readPostgresUrl(url)
  const settled = settle({ ...parameters, ...options })
  const Pool = await loadPostgres()
  const own = new Pool({
    connectionString,
    connectionTimeoutMillis: settled.connectMs,
    keepAlive: true,
    // A connection that is merely open does not keep the process alive; every call does, by its timer.
    allowExitOnIdle: true,
    max: settled.poolSize,
    // Abandoned by us, a statement must not go on holding what it has locked.
    ...(settled.prepare ? { statement_timeout: settled.callMs } : {}),
  })
  return { settled, pool: own, shown, end: () => own.end() }
}

function settle(options: PostgresStoreOptions): Settled {
  return {
    namespace: parseNamespace(options.namespace ?? 'default'),
    connectMs: readSpanMs('connectMs', options.connectMs ?? CONNECT_MS_DEFAULT),
    callMs: readSpanMs('callMs', options.callMs ?? CALL_MS_DEFAULT),
    poolSize: readPoolSize(options.poolSize ?? POOL_SIZE_DEFAULT),
    prepare: options.prepare ?? true,
    isForced: options.convert !== undefined && readConvert(options.convert) === 'force',
  }
}
