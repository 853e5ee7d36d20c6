/**
 * What `tenure doctor` looks at on a Redis server beyond opening the store. The key that is written to find out whether
 * it can be is removed, and would end by itself.
 */
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Checkup } from '../../store-port/store.ts'
import { RedisCalls } from './redis-client.ts'
import { KEY_PREFIX } from './redis-scripted.ts'
import { CALL_MS_DEFAULT, connectRedis, type RedisStoreOptions } from './redis-store.ts'
import { evictionOf, EVICTS_NOTHING } from './redis-eviction.ts'

const TRIAL_MS = 10_000

export async function openRedisCheckup(options: RedisStoreOptions): Promise<Checkup> {
  const { callMs = CALL_MS_DEFAULT, namespace = 'default' } = options
  const { driver, url, close } = await connectRedis(options)
  const calls = new RedisCalls(driver, { url, callMs, runtime: systemRuntime })
  return {
    looks: [
      { name: 'writing', look: () => tryToWrite(calls, namespace) },
      { name: 'eviction', look: () => tellEviction(calls) },
    ],
    close: async () => close(),
  }
}

async function tryToWrite(calls: RedisCalls, namespace: string): Promise<string> {
  const key = `${KEY_PREFIX}:{${namespace}}:doctor-${systemRuntime.uuid()}`
  await calls.send(['SET', key, '1', 'PX', String(TRIAL_MS)], 'writes')
  await calls.send(['DEL', key], 'writes')
  return 'a key can be written and removed'
}

async function tellEviction(calls: RedisCalls): Promise<string> {
  const policy = await evictionOf(calls)
  if (policy === null) return 'unknown: the server does not tell'
  if (policy === EVICTS_NOTHING) return `maxmemory-policy is ${policy}`
  throw new Error(
    `maxmemory-policy must be ${EVICTS_NOTHING}, got ${policy}: a server that evicts keys forgets leases`,
  )
}
