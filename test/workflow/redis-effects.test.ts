/** The commands of an effect on Redis: what would fail half-way is refused before anything runs. */
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { ActionGuard, RedisMarks, type RedisEffects } from '../../src/workflow/index.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { action, OLD } from './mark-stages.ts'

async function withGuard(
  test: (guard: ActionGuard<RedisEffects>, client: Redis) => Promise<void>,
): Promise<void> {
  await using place = await freshRedis()
  const client = new Redis(place.url)
  try {
    const guard = new ActionGuard({ marks: new RedisMarks(client, 'compute') })
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    await test(guard, client)
  } finally {
    client.disconnect()
  }
}

const values = (count: number): readonly string[] => Array.from({ length: count }, () => 'x')

describe('an effect on Redis', () => {
  it('that is too long for one command is refused when it is asked for, and nothing of it runs', async () => {
    await withGuard(async (guard, client) => {
      const one = action(0)
      const long = guard.process(one, (_, { transaction }) => {
        transaction.command('INCR', 'counted')
        transaction.command('RPUSH', 'list', ...values(8_000))
      })
      await expect(long).rejects.toMatchObject({ code: 'LIMIT_EXCEEDED' })
      await expect(long).rejects.toThrow('a command must have at most 7000 words, got 8002')
      expect(await client.get('counted')).toBeNull()
      await guard.process(one, (_, { transaction }) => {
        transaction.command('INCR', 'counted')
        transaction.command('RPUSH', 'list', ...values(6_998))
      })
      expect(await client.get('counted')).toBe('1')
      expect(await client.llen('list')).toBe(6_998)
    })
  })

  it.each([
    ['too long', 'LIMIT_EXCEEDED', ['RPUSH', 'list', ...values(8_000)]],
    ['none', 'INVALID_INPUT', ['SET', 'key', undefined]],
  ])('does not run at all once a command of it is %s, whoever catches that', async (...row) => {
    const [, code, words] = row
    await withGuard(async (guard, client) => {
      const one = action(0)
      const effect = guard.process(one, (_, { transaction }) => {
        transaction.command('INCR', 'counted')
        const [name, ...args] = words as [string, ...string[]]
        expect(() => transaction.command(name, ...args)).toThrow()
        transaction.command('INCR', 'counted')
      })
      await expect(effect).rejects.toMatchObject({ code })
      expect(await client.get('counted')).toBeNull()
      await guard.process(one, (_, { transaction }) => transaction.command('INCR', 'counted'))
      expect(await client.get('counted')).toBe('1')
    })
  })

  it('has a limit as a whole as well, up to which it runs', async () => {
    await withGuard(async (guard, client) => {
      const push = (count: number) => {
        return guard.process(action(0), (_, { transaction }) => {
          for (let n = 0; n < count; n += 1) transaction.command('RPUSH', 'list', ...values(4_998))
        })
      }
      await expect(push(11)).rejects.toThrow('an effect must have at most 50000 words')
      expect(await client.llen('list')).toBe(0)
      // Each command also says how long it is.
      await push(9)
      expect(await client.llen('list')).toBe(9 * 4_998)
    })
  })

  it.each([
    [[7, 'key'], 'name must be text, got 7'],
    [['SET', 'key', undefined], 'args must be text or numbers, got undefined'],
    [['SET', 'key', {}], 'args must be text or numbers, got an object'],
  ])('of %o is refused', async (words, message) => {
    await withGuard(async (guard) => {
      const effect = guard.process(action(0), (_, { transaction }) => {
        const [name, ...args] = words as [string, ...string[]]
        transaction.command(name, ...args)
      })
      await expect(effect).rejects.toThrow(message)
    })
  })
})
