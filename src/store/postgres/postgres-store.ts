/**
 * Opens a store on PostgreSQL: from a URL, with a pool of its own, or on a pool that the program already has.
 */
import { invalid } from '../../core/errors.ts'
import { parseNamespace } from '../../core/resource.ts'
import { requireText } from '../../core/text.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Store } from '../../store-port/store.ts'
import { OptimisticStore } from '../optimistic/optimistic-store.ts'
import { PostgresBackend, listenerOn } from './postgres-backend.ts'
import {
  loadPostgres,
  PostgresCaller,
  requirePool,
  type PostgresConnection,
  type PostgresPool,
} from '../../drivers/postgres-driver.ts'
import { isCurrent, migrate, numberOf } from './postgres-schema.ts'

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`; either this or a pool. */
  readonly url?: string
  /** A `Pool` of `pg`. It stays the caller's to close. A store that listens has a connection beside it, made from its options. */
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

type Settled = Required<
  Pick<PostgresStoreOptions, 'namespace' | 'connectMs' | 'callMs' | 'poolSize' | 'prepare'>
>

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
    const { namespace } = settled
    const isForced = options.convert === 'force'
    if (!(await caller.during(isCurrent))) {
      const work = (connection: PostgresConnection) => migrate(connection, { url, isForced })
      await caller.during(work, MIGRATION_STEP_MS_MAX)
    }
    const number = await caller.during((connection) => numberOf(connection, namespace))
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

/** The pool for a store, through which nothing has been sent yet. */
export async function reachPostgres(options: PostgresStoreOptions): Promise<Reached> {
  const { url, pool } = options
  if ((url === undefined) === (pool === undefined)) {
    throw invalid('store', 'must be either a url or a pool', url === undefined ? 'neither' : 'both')
  }
  const settled = {
    namespace: parseNamespace(options.namespace ?? 'default'),
    connectMs: options.connectMs ?? CONNECT_MS_DEFAULT,
    callMs: options.callMs ?? CALL_MS_DEFAULT,
    poolSize: options.poolSize ?? POOL_SIZE_DEFAULT,
    prepare: options.prepare ?? true,
  }
  if (pool !== undefined) {
    const end = (): Promise<void> => Promise.resolve()
    return { settled, pool: requirePool(pool), shown: 'postgres:', end }
  }
  const { href: connectionString, shown } = readPostgresUrl(url)
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
  const unknown = [...url.searchParams.keys()].find((name) => !DRIVER_PARAMETERS.includes(name))
  if (unknown !== undefined) {
    const known = [...OWN_PARAMETERS, ...DRIVER_PARAMETERS].join(', ')
    throw invalid('store', `parameters must be among ${known}`, unknown)
  }
  const { href } = url
  url.password = ''
  url.search = ''
  return { href, shown: url.href }
}
