/**
 * Opens a store on a Redis server, by URL or on a client that the caller has: `redis://` and `rediss://`, one server,
 * one behind Sentinel (pass a client), or a Cluster.
 */
import { invalid } from '../../core/errors.ts'
import { parseNamespace } from '../../core/resource.ts'
import { report } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Store, StoreDescription } from '../../store-port/store.ts'
import type { Backend } from '../speculation/backend.ts'
import { SpeculatingStore } from '../speculation/speculating-store.ts'
import { RedisBackend } from './redis-backend.ts'
import {
  driverOf,
  hearErrors,
  letProcessEnd,
  RedisCalls,
  type IoredisClient,
  type RedisClient,
  type RedisDriver,
} from '../../drivers/redis-driver.ts'
import { evictionOf, EVICTS_NOTHING } from './redis-eviction.ts'
import { RedisNamespace } from './redis-namespace.ts'
import { addressOf, dial, showUrl, type RedisAddress } from '../../drivers/redis-connection.ts'
import { redisError } from '../../drivers/redis-errors.ts'

export interface RedisStoreOptions {
  /** `redis://[user[:password]@]host[:port][/database]`, or `rediss://` for TLS. This or `client`. */
  readonly url?: string
  /** A connected client of ioredis (also a Cluster) or node-redis. It is not closed with the store. */
  readonly client?: RedisClient
  readonly namespace?: string
  /**
   * Into how many parts the realms of the namespace are divided, each in one slot of a Cluster: 1..1024. Fixed when the
   * namespace is first used. Default 1, or 64 on a Cluster; requests for several resources need 1 there.
   */
  readonly buckets?: number
  /** How long one call may take. Default 5 s. */
  readonly callMs?: number
  /** How long connecting may take. Default 5 s. */
  readonly connectMs?: number
  readonly runtime?: Runtime
  /**
   * What becomes of a namespace in the layout before this one: it is converted, unless leases are live there, whose holders
   * could not renew them any more. `force`: then too. Default `refuse`.
   */
  readonly conversion?: 'refuse' | 'force'
  /** For tests that move the clock: microseconds to take for the server's. */
  readonly nowUs?: () => number
}

export const CALL_MS_DEFAULT: number = 5_000
const CONNECT_MS_DEFAULT = 5_000
/** More than the server is ever asked to wait before it answers. */
const SILENCE_MS_MIN = 5_000
const BUCKETS_MAX = 1_024
const RECONNECT_MS_MAX = 2_000

export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const backend = await openRedisBackend(options)
  return SpeculatingStore.open(backend, options.runtime ?? systemRuntime)
}

/** What a store needs of the server, ready to use. */
export async function openRedisBackend(options: RedisStoreOptions): Promise<Backend> {
  const name = parseNamespace(options.namespace ?? 'default')
  const { runtime = systemRuntime, callMs = CALL_MS_DEFAULT } = options
  if (options.buckets !== undefined) requireBuckets(options.buckets)
  const connection = await connectRedis(options)
  const { driver, url, close } = connection
  const calls = new RedisCalls(driver, { url, callMs, runtime })
  try {
    const { buckets, conversion = 'refuse' } = options
    const how = { namespace: name, buckets, runtime, conversion }
    const namespace = await RedisNamespace.open(calls, how)
    await namespace.load()
    const description = await describe(calls, url)
    const { nowUs } = options
    const clock = (): number | undefined => nowUs?.()
    const parts = { namespace, runtime, description, callMs, clock, close }
    const backend = new RedisBackend(parts)
    await backend.copySettings()
    return backend
  } catch (error) {
    close()
    throw error
  }
}

interface Connection {
  readonly driver: RedisDriver
  readonly url: string
  readonly close: () => void
}

export async function connectRedis(options: RedisStoreOptions): Promise<Connection> {
  const { client, url } = options
  if (client !== undefined && url !== undefined) {
    throw invalid('client', 'must not be given together with url', url)
  }
  if (client !== undefined) {
    const driver = driverOf(client)
    if (!driver.isReady) await bounded(driver.connect(), 'redis:', options)
    return { driver, url: 'redis: (a client of the caller)', close: () => undefined }
  }
  const address = addressOf(url)
  const shown = showUrl(address)
  const driver = await connectTo(address, shown, options)
  if (address.db !== 0) await requireDatabase(driver, shown, options)
  return { driver, url: shown, close: () => driver.disconnect() }
}

/** The driver asks for the database by itself, but goes on in database 0 when the server refuses. */
async function requireDatabase(
  driver: RedisDriver,
  shown: string,
  options: RedisStoreOptions,
): Promise<void> {
  const db = shown.slice(shown.lastIndexOf('/') + 1)
  try {
    await bounded(driver.send(['SELECT', db]), shown, options)
  } catch (error) {
    driver.disconnect()
    throw error
  }
}

async function connectTo(
  address: RedisAddress,
  shown: string,
  options: RedisStoreOptions,
): Promise<RedisDriver> {
  const { connectMs = CONNECT_MS_DEFAULT, callMs = CALL_MS_DEFAULT } = options
  // While a client opens, only the event tells why a connection was not made; afterwards its errors are reported.
  let lastError: unknown = null
  const open = async (client: IoredisClient): Promise<RedisDriver> => {
    let isOpen = false
    client.on('error', (error: unknown) => {
      lastError = error
    })
    letProcessEnd(client)
    client.on('ready', () => {
      if (!isOpen) hearErrors(client)
      isOpen = true
    })
    const driver = driverOf(client)
    try {
      await bounded(driver.connect(), shown, options)
      return driver
    } catch (error) {
      driver.disconnect()
      throw error
    }
  }
  try {
    return await dial(address, {
      needed: 'redis: stores',
      redisOptions: {
        // A call fails at once while there is no connection, and is never sent a second time behind our back.
        ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false },
        ...{ maxRetriesPerRequest: 0, connectTimeout: connectMs },
        // A connection that has gone silent is given up and opened anew: it may never be heard of again.
        socketTimeout: Math.max(SILENCE_MS_MIN, callMs),
      },
      clusterOptions: { enableOfflineQueue: false },
      clusterRedisOptions: {},
      retryMs: (attempt) => Math.min(RECONNECT_MS_MAX, 25 * 2 ** Math.min(attempt, 8)),
      open,
    })
  } catch (error) {
    throw redisError(lastError ?? error, { url: shown, effect: 'reads' })
  }
}

function bounded(
  work: Promise<unknown>,
  url: string,
  { runtime = systemRuntime, connectMs = CONNECT_MS_DEFAULT }: RedisStoreOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = new Error(`no connection within ${connectMs} ms`)
    const fail = (error: unknown): void => reject(redisError(error, { url, effect: 'reads' }))
    const timer = runtime.setTimer(connectMs, () => fail(late), { keepAlive: true })
    work.then(() => resolve(), fail).finally(() => timer.cancel())
  })
}

function requireBuckets(buckets: unknown): void {
  const isOne = typeof buckets === 'number' && Number.isSafeInteger(buckets)
  if (isOne && buckets >= 1 && buckets <= BUCKETS_MAX) return
  throw invalid('buckets', `must be an integer 1..${BUCKETS_MAX}`, buckets)
}

async function describe(calls: RedisCalls, url: string): Promise<StoreDescription> {
  const clock = 'the clock of the Redis server (TIME)'
  const policy = await evictionOf(calls)
  const durability = await durabilityOf(calls)
  if (policy === null || policy === EVICTS_NOTHING) return { url, clock, durability }
  const evicts = `leases may be evicted (maxmemory-policy ${policy}, must be ${EVICTS_NOTHING})`
  return { url, clock, durability: `${durability}; ${evicts}` }
}

/** As far as the server tells; a user may be kept from asking. */
async function durabilityOf(calls: RedisCalls): Promise<string> {
  try {
    const info = String(await calls.send(['INFO', 'persistence'], 'reads'))
    if (!info.includes('aof_enabled:1')) {
      return 'the last seconds or all may be lost with the server (no append-only file)'
    }
    const [, sync] = pairOf(await calls.send(['CONFIG', 'GET', 'appendfsync'], 'reads'))
    return sync === 'always'
      ? 'every answer is on disk (append-only file, appendfsync always)'
      : `the last second may be lost with the server (append-only file, appendfsync ${sync})`
  } catch (error) {
    report('store/redis/durability', error)
    return 'unknown: the server does not tell'
  }
}

function pairOf(reply: unknown): readonly string[] {
  if (Array.isArray(reply)) return reply as readonly string[]
  return Object.entries(reply as Record<string, string>).flat()
}
