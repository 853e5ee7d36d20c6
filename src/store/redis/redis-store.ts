/**
 * Opens a store on a Redis server, by URL or on a client that the caller has: `redis://` and `rediss://`, one server,
 * one behind Sentinel (pass a client), or a Cluster.
 */
import { parseNamespace } from '../../core/resource.ts'
import { report } from '../../runtime/diagnostics.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Store, StoreDescription } from '../../store-port/store.ts'
import type { Backend } from '../optimistic/backend.ts'
import { OptimisticStore } from '../optimistic/optimistic-store.ts'
import { RedisBackend } from './redis-backend.ts'
import {
  CALL_MS_DEFAULT,
  connectRedis,
  type RedisConnectOptions,
} from '../../drivers/redis-connect.ts'
import { pairsOf, RedisCalls } from '../../drivers/redis-driver.ts'
import { RedisNamespace } from './redis-namespace.ts'

export interface RedisStoreOptions extends RedisConnectOptions {
  readonly namespace?: string
  /**
   * Into how many parts the realms of the namespace are divided, each in one slot of a Cluster: 1..1024. Fixed when the
   * namespace is first used. Default 1, or 64 on a Cluster; requests for several resources need 1 there.
   */
  readonly buckets?: number
  /** `force`: a namespace of an older layout is converted although processes may still hold leases in it. */
  readonly convert?: 'force'
  /** For tests that move the clock: microseconds to take for the server's. */
  readonly nowUs?: () => number
}

export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const backend = await openRedisBackend(options)
  return OptimisticStore.open(backend, options.runtime ?? systemRuntime)
}

/** What a store needs of the server, ready to use. */
export async function openRedisBackend(options: RedisStoreOptions): Promise<Backend> {
  const name = parseNamespace(options.namespace ?? 'default')
  const { runtime = systemRuntime, callMs = CALL_MS_DEFAULT } = options
  const { driver, url, close } = await connectRedis(options)
  const calls = new RedisCalls(driver, { url, callMs, runtime })
  try {
    const { buckets, convert, nowUs } = options
    const how = { namespace: name, buckets, runtime, isForced: convert === 'force', nowUs }
    const namespace = await RedisNamespace.open(calls, how)
    await namespace.load()
    const description = await describe(calls, url)
    const backend = new RedisBackend({ namespace, runtime, description, callMs, close })
    await backend.copySettings()
    return backend
  } catch (error) {
    close()
    throw error
  }
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
    const [, sync] = pairsOf(await calls.send(['CONFIG', 'GET', 'appendfsync'], 'reads'))
    return sync === 'always'
      ? 'every answer is on disk (append-only file, appendfsync always)'
      : `the last second may be lost with the server (append-only file, appendfsync ${sync})`
  } catch (error) {
    report('store/redis/durability', error)
    return 'unknown: the server does not tell'
  }
}

/** A server that removes keys when its memory is short forgets leases. */
export const EVICTS_NOTHING = 'noeviction'

/** The server's `maxmemory-policy`; null if the server, or the user's rights, do not tell. */
export async function evictionOf(calls: RedisCalls): Promise<string | null> {
  try {
    const info = String(await calls.send(['INFO', 'memory'], 'reads'))
    return /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? null
  } catch (error) {
    report('store/redis/eviction', error)
    return null
  }
}
