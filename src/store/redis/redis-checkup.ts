/**
 * What `tenure doctor` looks at on a Redis server beyond opening the store. The key that is written to find out whether
 * it can be is removed, and would end by itself.
 */
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Checkup } from '../../store-port/store.ts'
import { tryWake } from '../wake-trial.ts'
import { RedisCalls } from '../../drivers/redis-driver.ts'
import { withoutCommand } from '../../drivers/redis-errors.ts'
import { KEY_PREFIX } from './redis-layout.ts'
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
      { name: 'wake-ups', look: () => tryToWake(calls, namespace) },
      { name: 'pruning', look: () => tryToPrune(calls, namespace) },
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

/** As a waiting session listens, and as the script of a commit sends. */
function tryToWake(calls: RedisCalls, namespace: string): Promise<string> {
  const channel = `${KEY_PREFIX}:{${namespace}}:w:doctor-${systemRuntime.uuid()}`
  return tryWake({
    runtime: systemRuntime,
    listen: async (heard) => {
      const listener = calls.driver.duplicate()
      try {
        await listener.connect()
        listener.onMessage(heard)
        await listener.subscribe(channel)
      } catch (error) {
        listener.disconnect()
        throw withoutCommand(error)
      }
      return () => listener.disconnect()
    },
    send: () => calls.send(['PUBLISH', channel, 'doctor'], 'writes'),
  })
}

/** What pruning needs besides what every command does; on a key that does not exist none of it changes anything. */
const PRUNING: readonly (readonly [command: string, ...args: string[]])[] = [
  ['XRANGE', '-', '+'],
  ['XDEL', '1-1'],
  ['HDEL', 'none'],
  ['ZREM', 'none'],
  ['SPOP', '1'],
]

async function tryToPrune(calls: RedisCalls, namespace: string): Promise<string> {
  const key = `${KEY_PREFIX}:{${namespace}}:doctor-${systemRuntime.uuid()}`
  for (const [command, ...args] of PRUNING) {
    await calls.send([command, key, ...args], 'writes').catch((error: unknown) => {
      throw new Error(`${command} is refused, so the store grows without bound`, { cause: error })
    })
  }
  return 'what has ended can be pruned'
}
