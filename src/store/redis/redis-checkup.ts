/**
 * What `tenure doctor` looks at on a Redis server beyond opening the store. The key that is written to find out whether
 * it can be is removed, and would end by itself.
 */
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { Checkup } from '../../store-port/store.ts'
import { STORE_CLOCK_BEHIND_US_MAX } from '../../core/limits.ts'
import { tryWake } from '../wake-trial.ts'
import type { RedisCalls } from '../../drivers/redis-driver.ts'
import { withoutCommand } from '../../drivers/redis-errors.ts'
import { KEY_PREFIX } from './redis-layout.ts'
import { RedisNamespace } from './redis-namespace.ts'
import { ACCEPT_CLOCK_SCRIPT } from './redis-scripts.ts'
import { connectRedis } from '../../drivers/redis-connect.ts'
import { evictionOf, EVICTS_NOTHING, type RedisStoreOptions } from './redis-store.ts'

const TRIAL_MS = 10_000

export async function openRedisCheckup(options: RedisStoreOptions): Promise<Checkup> {
  const { namespace = 'default', buckets } = options
  const { calls, close } = await connectRedis(options)
  const how = { namespace, buckets, runtime: systemRuntime }
  return {
    acceptClock: async () => acceptClock(await RedisNamespace.open(calls, how)),
    looks: [
      {
        name: 'last commit',
        look: async () => tellBehind(calls, await RedisNamespace.open(calls, how)),
      },
      { name: 'writing', look: () => tryToWrite(calls, namespace) },
      { name: 'eviction', look: () => tellEviction(calls) },
      { name: 'wake-ups', look: () => tryToWake(calls, namespace) },
      { name: 'pruning', look: () => tryToPrune(calls, namespace) },
    ],
    close: async () => close(),
  }
}

async function acceptClock(namespace: RedisNamespace): Promise<string> {
  const spans = await Promise.all(
    namespace.buckets.map((bucket) => {
      return namespace.run(ACCEPT_CLOCK_SCRIPT, [''], { bucket, effect: 'writes' })
    }),
  )
  const behindMs = Math.max(...spans.map(Number))
  if (behindMs === 0) return 'the clock is not behind the last commit: nothing was changed'
  return `the clock was ${behindMs} ms behind the last commit, and is believed from now on; leases that were granted meanwhile stay until their deadlines`
}

async function tellBehind(calls: RedisCalls, namespace: RedisNamespace): Promise<string> {
  const states = await Promise.all(namespace.buckets.map((bucket) => namespace.stateOf(bucket)))
  const [seconds, rest] = (await calls.send(['TIME'], 'reads')) as readonly string[]
  const nowUs = Number(seconds) * 1_000_000 + Number(rest)
  const behindUs = Math.max(...states.map(({ high }) => Number(high))) - nowUs
  if (behindUs <= STORE_CLOCK_BEHIND_US_MAX) return 'the clock is not behind the last commit'
  throw new Error(
    `the clock is ${Math.ceil(behindUs / 1_000)} ms behind the last commit: commands fail until it has caught up, or tenure doctor --accept-clock says that it is right`,
  )
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
  ['HSCAN', '0'],
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
