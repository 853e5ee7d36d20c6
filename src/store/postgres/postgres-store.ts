/**
 * Opens a store on PostgreSQL: from a URL, with a pool of its own, or on a pool that the program already has.
 */
import { invalid } from '../../core/errors.ts'
import { parseNamespace } from '../../core/resource.ts'
import { reportTo } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Store } from '../../store-port/store.ts'
import { SpeculatingStore } from '../speculation/speculating-store.ts'
import { PostgresBackend } from './postgres-backend.ts'
import { loadDriver, PostgresCaller, requirePool, type PostgresPool } from './postgres-client.ts'
import {
  listenOn,
  PostgresListener,
  type Listening,
  type ListenerOptions,
} from './postgres-listener.ts'
import { migrate, numberOf } from './postgres-schema.ts'
import { readPoolSize, readPostgresUrl, readSpanMs } from './postgres-url.ts'

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`; either this or a pool. */
  readonly url?: string
  /** A `Pool` of `pg` for two connections or more, of which one listens. It stays the caller's to close. */
  readonly pool?: PostgresPool
  readonly namespace?: string
  /** How long a call waits for a connection. Default 5 s. */
  readonly connectMs?: number
  /** How long a call waits for its answer. Default 5 s. */
  readonly callMs?: number
  /** Connections of a pool made from a URL, besides the one that listens. Default 4. */
  readonly poolSize?: number
  /** False where connections are shared statement by statement (PgBouncer in transaction mode). Default true. */
  readonly prepare?: boolean
  readonly runtime?: Runtime
  /** A clock that stands in for the server's, in microseconds, for tests. */
  readonly nowUs?: () => number
}

const CONNECT_MS_DEFAULT = 5_000
const CALL_MS_DEFAULT = 5_000
const POOL_SIZE_DEFAULT = 4

interface Settled {
  readonly namespace: string
  readonly connectMs: number
  readonly callMs: number
  readonly poolSize: number
  readonly prepare: boolean
}

/** The pools that a store speaks over, and what must be closed with it. */
interface Pools {
  readonly calls: PostgresPool
  readonly listening: PostgresPool
  listen(options: ListenerOptions): Listening
  readonly shown: string
  end(): Promise<void>
}

export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const backend = await openPostgresBackend(options)
  return SpeculatingStore.open(backend, options.runtime ?? systemRuntime)
}

export async function openPostgresBackend(options: PostgresStoreOptions): Promise<PostgresBackend> {
  const { settled, pools } = await reachPostgres(options)
  const runtime = options.runtime ?? systemRuntime
  const { nowUs } = options
  const common = { ...settled, runtime, url: pools.shown }
  const caller = new PostgresCaller({ ...common, pool: pools.calls })
  try {
    const namespace = await caller.during(async (connection) => {
      await migrate(connection)
      return numberOf(connection, settled.namespace)
    })
    await rehearse(caller, namespace)
    const listening = new PostgresCaller({ ...common, pool: pools.listening })
    return new PostgresBackend({
      ...{ caller, runtime, url: pools.shown, namespace, end: () => pools.end() },
      listener: pools.listen({ caller: listening, runtime }),
      ...(nowUs === undefined ? {} : { nowUs }),
    })
  } catch (error) {
    await pools.end()
    throw error
  }
}

/** Only for the sake of time: a server that may not be written to can still be read. */
async function rehearse(caller: PostgresCaller, namespace: number): Promise<void> {
  const text = 'SELECT tenure.rehearse($1::smallint)'
  const statement = { text, values: [String(namespace)], writes: false }
  await caller.call(statement).catch(reportTo('store/postgres/warm-up'))
}

/** The pools for a store, through which nothing has been sent yet. */
export async function reachPostgres(
  options: PostgresStoreOptions,
): Promise<{ readonly settled: Settled; readonly pools: Pools }> {
  const { url, pool } = options
  if ((url === undefined) === (pool === undefined)) {
    throw invalid('store', 'must be either a url or a pool', url === undefined ? 'neither' : 'both')
  }
  if (pool !== undefined) return { settled: settle(options), pools: borrowed(requirePool(pool)) }
  const address = readPostgresUrl(url)
  const settled = settle({ ...address.parameters, ...options })
  const { Pool } = await loadDriver()
  const config = {
    connectionString: address.connectionString,
    connectionTimeoutMillis: settled.connectMs,
    keepAlive: true,
    // A connection that is merely open does not keep the process alive; every call does, by its timer.
    allowExitOnIdle: true,
    // Abandoned by us, a statement must not go on holding what it has locked.
    ...(settled.prepare ? { statement_timeout: settled.callMs } : {}),
  }
  const calls = new Pool({ ...config, max: settled.poolSize })
  const listening = new Pool({ ...config, max: 1 })
  const end = async (): Promise<void> => {
    await Promise.all([calls.end(), listening.end()])
  }
  const listen = (options: ListenerOptions): Listening => new PostgresListener(options)
  return { settled, pools: { calls, listening, listen, shown: address.shown, end } }
}

function settle(options: PostgresStoreOptions): Settled {
  return {
    namespace: parseNamespace(options.namespace ?? 'default'),
    connectMs: readSpanMs('connectMs', options.connectMs ?? CONNECT_MS_DEFAULT),
    callMs: readSpanMs('callMs', options.callMs ?? CALL_MS_DEFAULT),
    poolSize: readPoolSize(options.poolSize ?? POOL_SIZE_DEFAULT),
    prepare: options.prepare ?? true,
  }
}

function borrowed(pool: PostgresPool): Pools {
  const listen = (options: ListenerOptions): Listening => listenOn(pool, options)
  const end = (): Promise<void> => Promise.resolve()
  return { calls: pool, listening: pool, listen, shown: 'postgres:', end }
}
