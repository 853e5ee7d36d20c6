/** `@verrou/core` on each store, through the driver that its documentation names. */
import path from 'node:path'
import { Redis } from 'ioredis'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import {
  NOTHING,
  type OpenSystem,
  type Place,
  type StoreName,
  type SystemUnderTest,
} from '../system.ts'
import { loadPeer } from './load-peer.ts'
import { openPool } from './postgres-pool.ts'

interface VerrouLock {
  acquire(options: { readonly retry: { readonly delay: number } }): Promise<boolean>
  release(): Promise<void>
  extend(ttlMs: number): Promise<void>
}

interface Verrou {
  createLock(name: string, ttlMs: number): VerrouLock
}

interface VerrouModule {
  readonly Verrou: new (config: {
    readonly default: 'store'
    readonly stores: { readonly store: { readonly driver: unknown } }
  }) => Verrou
}

interface KyselyModule {
  readonly Kysely: new (config: { readonly dialect: unknown }) => unknown
  readonly SqliteDialect: new (config: { readonly database: unknown }) => unknown
  readonly PostgresDialect: new (config: { readonly pool: unknown }) => unknown
}

/** A driver for verrou, and how its connection is closed. */
interface Connection {
  readonly driver: unknown
  readonly close: () => Promise<void>
}

const POSTGRES_CONNECTIONS = 10

const CONNECT: Readonly<Record<StoreName, (place: Place) => Promise<Connection>>> = {
  sqlite: connectSqlite,
  redis: connectRedis,
  postgres: connectPostgres,
}

const SETTINGS: Readonly<Record<StoreName, string>> = {
  sqlite: 'Kysely on better-sqlite3, WAL, synchronous FULL',
  redis: 'ioredis',
  postgres: `Kysely on pg, ${POSTGRES_CONNECTIONS} connections`,
}

export function verrouSystem(store: StoreName, pauseMs: number): SystemUnderTest<VerrouLock> {
  return {
    ...{ name: 'verrou', store, role: 'peer', contends: true },
    settings: `${SETTINGS[store]}; retry.delay ${pauseMs} ms (default 250)`,
    offers: { ...NOTHING, ttl: true, durable: store !== 'redis' },
    polling: { pauseMs, pausing: (otherMs) => verrouSystem(store, otherMs) },
    open: async (place) => openVerrou(await CONNECT[store](place), pauseMs),
  }
}

async function openVerrou(
  { driver, close }: Connection,
  retryMs: number,
): Promise<OpenSystem<VerrouLock>> {
  const { Verrou } = await loadPeer<VerrouModule>('@verrou/core')
  const verrou = new Verrou({ default: 'store', stores: { store: { driver } } })
  const retry = { delay: retryMs }
  // Its table is made behind the first call; of several processes only one may do that.
  const first = verrou.createLock('first', 1_000)
  await first.acquire({ retry })
  await first.release()
  return {
    acquire: async (resource, ttlMs) => {
      const lock = verrou.createLock(resource, ttlMs)
      if (!(await lock.acquire({ retry }))) throw new Error('verrou gave up')
      return lock
    },
    release: (lock) => lock.release(),
    renew: (lock, ttlMs) => lock.extend(ttlMs),
    close,
  }
}

async function connectSqlite(place: Place): Promise<Connection> {
  const Driver = await loadSqlite()
  const database = new Driver(path.join(place.at, 'verrou.db'))
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = FULL')
  database.pragma('wal_autocheckpoint = 4000')
  const { Kysely, SqliteDialect } = await loadPeer<KyselyModule>('kysely')
  const connection = new Kysely({ dialect: new SqliteDialect({ database }) })
  return { driver: await kyselyDriver(connection), close: async () => void database.close() }
}

async function connectPostgres(place: Place): Promise<Connection> {
  const pool = openPool(place.at, POSTGRES_CONNECTIONS)
  const { Kysely, PostgresDialect } = await loadPeer<KyselyModule>('kysely')
  const connection = new Kysely({ dialect: new PostgresDialect({ pool }) })
  return { driver: await kyselyDriver(connection), close: () => pool.end() }
}

async function connectRedis(place: Place): Promise<Connection> {
  const connection = new Redis(place.at)
  const { redisStore } = await loadPeer<{
    readonly redisStore: (options: { readonly connection: Redis }) => unknown
  }>('@verrou/core/drivers/redis')
  return { driver: redisStore({ connection }), close: async () => connection.disconnect() }
}

async function kyselyDriver(connection: unknown): Promise<unknown> {
  const { kyselyStore } = await loadPeer<{
    readonly kyselyStore: (options: { readonly connection: unknown }) => unknown
  }>('@verrou/core/drivers/kysely')
  return kyselyStore({ connection })
}
