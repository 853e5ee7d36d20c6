/**
 * The floor on Redis: `SET NX PX`, and Lua that compares a token before it deletes or extends. No fence, no queue, no
 * history. Whoever waits asks again. No auto-pipelining: with this driver it takes a fifth more of the client's processor
 * with 100 in flight, and twice as much with one.
 */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { pauseAbout, pauseText } from '../measure/pause.ts'
import { NOTHING, type OpenSystem, type SystemUnderTest } from '../system.ts'

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
const FILL_TOGETHER = 5_000
const FILL_TTL_MS = 86_400_000

interface Scripted extends Redis {
  releaseToken(key: string, token: string): Promise<number>
  renewToken(key: string, token: string, ttlMs: number): Promise<number>
}

interface Token {
  readonly key: string
  readonly token: string
}

export function redisFloor(pauseMs: number): SystemUnderTest<Token> {
  return {
    ...{ name: 'floor', store: 'redis', role: 'reference', contends: true },
    settings: `SET NX PX and Lua by hand, one connection; ${pauseText(pauseMs)}`,
    offers: { ...NOTHING, ttl: true },
    polling: { pauseMs, pausing: redisFloor },
    open: async (place) => {
      const client = new Redis(place.at)
      client.defineCommand('releaseToken', { numberOfKeys: 1, lua: RELEASE })
      client.defineCommand('renewToken', { numberOfKeys: 1, lua: RENEW })
      await client.ping()
      return openFloor(client as Scripted, pauseMs)
    },
  }
}

function openFloor(redis: Scripted, pauseMs: number): OpenSystem<Token> {
  const demand = (answer: number): void => {
    if (answer !== 1) throw new Error('the floor lost what it held')
  }
  return {
    acquire: async (resource, ttlMs) => {
      const key = `floor:${resource}`
      const token = randomUUID()
      while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') await pauseAbout(pauseMs)
      return { key, token }
    },
    release: async ({ key, token }) => demand(await redis.releaseToken(key, token)),
    renew: async ({ key, token }, ttlMs) => demand(await redis.renewToken(key, token, ttlMs)),
    fill: async (count) => {
      for (let done = 0; done < count; done += FILL_TOGETHER) {
        const some = Array.from({ length: Math.min(FILL_TOGETHER, count - done) }, () =>
          redis.set(`floor:live-${randomUUID()}`, randomUUID(), 'PX', FILL_TTL_MS, 'NX'),
        )
        await Promise.all(some)
      }
    },
    close: async () => redis.disconnect(),
  }
}
