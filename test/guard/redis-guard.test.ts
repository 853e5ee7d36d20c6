import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { guard, type GuardedLease, type RedisLike } from '../../src/guard/index.ts'
import { startRedis } from '../servers/redis-server.ts'
import { freshRedis, type Place } from '../servers/shared-servers.ts'

let place: Place
let client: Redis

beforeAll(async () => {
  place = await freshRedis()
  client = new Redis(place.url)
})

afterAll(async () => {
  client.disconnect()
  await place.remove()
})

beforeEach(async () => {
  await client.flushdb()
})

function lease(fence: number, resource = 'work:W'): GuardedLease {
  return { id: randomUUID(), resource, fence }
}

describe('a guarded write in Redis', () => {
  it('gives the script its own KEYS and ARGV, and returns what it returns', async () => {
    const guarded = guard.redis(client)
    const echo = 'return {#KEYS, KEYS[1], KEYS[2], #ARGV, ARGV[1], ARGV[2]}'
    expect(await guarded.write(lease(1), echo, ['a', 'b'], ['x', 7])).toEqual([
      2,
      'a',
      'b',
      2,
      'x',
      '7',
    ])
    expect(await guarded.write(lease(2), `redis.call('SET', KEYS[1], 'x')`, ['a'])).toBe(null)
    expect(await guarded.write(lease(3), `return redis.call('GET', KEYS[1])`, ['a'])).toBe('x')
    const counts = 'return {#KEYS, #ARGV}'
    expect(await guarded.write(lease(4), counts)).toEqual([0, 0])
    expect(await guarded.write(lease(5), counts, {})).toEqual([0, 0])
    expect(await guarded.write(lease(6), counts, ['a'])).toEqual([1, 0])
  })

  it('is one round trip for a holder that writes again', async () => {
    const sent: string[] = []
    const counting: RedisLike = {
      call: (name: string, ...args: readonly string[]) => {
        sent.push(name)
        return client.call(name, ...args)
      },
    }
    const guarded = guard.redis(counting)
    const own = lease(1)
    await guarded.write(own, `return 1`)
    sent.length = 0
    await guarded.write(own, `return 1`)
    expect(sent).toEqual(['EVALSHA'])
    await guarded.write(own, `return 1`)
    expect(sent).toEqual(['EVALSHA', 'EVALSHA'])
  })

  it('sends what it saw last, and what it raises, with a check and nothing else', async () => {
    const sent: (readonly string[])[] = []
    const counting: RedisLike = {
      call: (name: string, ...args: readonly string[]) => {
        sent.push(args.slice(1))
        return client.call(name, ...args)
      },
    }
    const guarded = guard.redis(counting)
    await guarded.check('work:W', 10)
    await guarded.check('work:W', 11, { mode: 'shared' })
    const [first] = sent
    expect(first).toEqual([
      ...['1', 'tenure:fences', '1', '1', '1', 'own work:W', '', 'own work:W', '10 - 0 -'],
    ])
    expect(sent.at(-1)).toEqual([
      ...['1', 'tenure:fences', '1', '1', '1', 'own work:W', '10 - 0 -', 'own work:W'],
      '10 - 11 -',
    ])
    await client.del('tenure:fences')
    await expect(guarded.check('work:W', 9)).resolves.toBe(true)
  })

  it('forgets what it saw when that has become much', async () => {
    const seen: unknown[] = []
    const accepting: RedisLike = {
      call: async (_name: string, ...args: readonly string[]) => {
        seen.push(args[7])
        return [1]
      },
    }
    const guarded = guard.redis(accepting)
    const fields = 10_001
    for (let index = 0; index < fields; index += 1) await guarded.check(`work:${index}`, 1)
    await guarded.check('work:0', 1)
    await guarded.check('work:1', 1)
    expect(new Set(seen.slice(0, fields))).toEqual(new Set(['']))
    expect(seen.slice(fields)).toEqual(['1 - 0 -', ''])
  })

  it('gives up when its marks change under it again and again', async () => {
    let calls = 0
    const moving: RedisLike = {
      call: async () => {
        calls += 1
        return [0, `${calls} - 0 -`]
      },
    }
    await expect(guard.redis(moving).check('work:W', 1_000)).rejects.toMatchObject({
      code: 'STORE_CONFLICT',
      message: 'tenure:fences: the marks changed 100 times under one write',
    })
    expect(calls).toBe(100)
  })

  it('judges by what is true, not by what it saw last', async () => {
    const [mine, theirs] = [guard.redis(client), guard.redis(client)]
    const early = lease(10)
    const push = `return redis.call('RPUSH', KEYS[1], ARGV[1])`
    await mine.write(early, push, ['writes'], ['a'])
    await theirs.write(lease(20), push, ['writes'], ['b'])
    await expect(mine.write(early, push, ['writes'], ['stale'])).rejects.toThrow('got 10')
    expect(await client.lrange('writes', 0, -1)).toEqual(['a', 'b'])
    await client.del('tenure:fences')
    expect(await mine.write(lease(5), push, ['writes'], ['after all was deleted'])).toBe(3)
  })

  it('lets the error of a script through, and knows that no answer is no answer', async () => {
    const guarded = guard.redis(client)
    await expect(guarded.write(lease(1), `return redis.call('INCR')`)).rejects.toThrow(
      /^ERR Wrong number of args/,
    )
    await using server = await startRedis()
    const lost = new Redis(server.url, { retryStrategy: () => null, maxRetriesPerRequest: 0 })
    lost.on('error', () => undefined)
    expect(await guard.redis(lost).check('work:W', 1)).toBe(true)
    await server.kill()
    await expect(guard.redis(lost).check('work:W', 1)).rejects.toMatchObject({
      code: 'STORE_OUTCOME_UNKNOWN',
      effect: 'unknown',
    })
    lost.disconnect()
  })

  it('throws what a script answers as an error, whatever its code', async () => {
    const guarded = guard.redis(client)
    const answer = `return redis.error_reply('MY_CODE no')`
    await expect(guarded.write(lease(1), answer)).rejects.toThrow('MY_CODE no')
    const thrown = `redis.call('SET', 'text', 'x') return redis.pcall('INCR', 'text')`
    await expect(guarded.write(lease(2), thrown)).rejects.toThrow('not an integer')
    const custom = `error({ err = 'MY_CODE no' })`
    const error = await guarded.write(lease(3), custom).catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(Error)
    expect(error).not.toHaveProperty('code', 'STORE_OUTCOME_UNKNOWN')
  })

  it('refuses keys and arguments that are none', async () => {
    const guarded = guard.redis(client)
    const write = (keys: unknown, args?: unknown): Promise<unknown> => {
      return guarded.write(lease(1), 'return 1', keys as string[], args as string[])
    }
    await expect(guarded.write(lease(1), 7 as never)).rejects.toThrow('script must be text, got 7')
    await expect(write([null])).rejects.toThrow('keys must be text or numbers, got null')
    await expect(write([], 'x')).rejects.toThrow('args must be a list, got "x"')
    await expect(write([], [{}])).rejects.toThrow('args must be text or numbers')
  })

  it('takes what is written after keys and arguments as well, and ignores nothing', async () => {
    const guarded = guard.redis(client)
    const tree: GuardedLease = { ...lease(10, 'file:/r'), extent: 'subtree' }
    const echo = 'return {KEYS[1], ARGV[1]}'
    const resource = 'file:/r/a'
    // A later holder has written a neighbour, and so the whole may not be written any more.
    await guarded.check('file:/r/b', 20)
    expect(await guarded.write(tree, echo, ['k'], ['v'], { resource })).toEqual(['k', 'v'])
    await expect(guarded.write(tree, echo, ['k'], ['v'])).rejects.toThrow('got 10')
    const write = guarded.write.bind(guarded) as (...input: readonly unknown[]) => Promise<unknown>
    const outside = { resource: 'file:/elsewhere' }
    await expect(write(tree, echo, [], [], outside)).rejects.toThrow('resource must be covered')
    await expect(write(tree, echo, [], [], { keys: ['k'] })).rejects.toThrow(
      'options must be among resource, got "keys"',
    )
    await expect(write(tree, echo, [], [], null)).rejects.toThrow('options must be an object')
    await expect(write(tree, echo, { keys: ['k'] }, ['v'])).rejects.toThrow(
      'args must be among the options where keys are',
    )
  })

  it('keeps its marks under a key of one’s own, for a cluster', async () => {
    await guard.redis(client, { key: '{orders}:fences' }).check('work:W', 10)
    expect(await client.keys('*')).toEqual(['{orders}:fences'])
    expect(() => guard.redis(client, { key: '' })).toThrow('key must be text, got ""')
    expect(() => guard.redis(client, { key: 7 as never })).toThrow('key must be text, got 7')
    const misspelt = { kee: 'x' } as object
    expect(() => guard.redis(client, misspelt)).toThrow('options must be among key, got "kee"')
    expect(() => guard.redis('redis://' as unknown as RedisLike)).toThrow(
      'client must be a client of Redis (ioredis or redis), got "redis://"',
    )
  })
})
