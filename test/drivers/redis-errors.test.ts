import { describe, expect, it } from 'vitest'
import { RedisCalls, type RedisDriver } from '../../src/drivers/redis-driver.ts'
import { isReply, lostUnlessReply } from '../../src/drivers/redis-errors.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'

it('a mistake of the program is not dressed as a fault of the server', async () => {
  const mistake = new TypeError('undefined is not a function')
  const client = {
    isReady: true,
    send: () => Promise.reject(mistake),
    onLost: () => () => undefined,
  }
  const driver = client as unknown as RedisDriver
  const calls = new RedisCalls(driver, { url: 'redis:', callMs: 1_000, runtime: systemRuntime })
  await expect(calls.send(['GET', 'x'], 'reads')).rejects.toBe(mistake)
  await expect(calls.send(['SET', 'x', '1'], 'writes')).rejects.toBe(mistake)
  expect(lostUnlessReply(mistake)).toBe(mistake)
})

describe('an error of a driver', () => {
  it.each(['NOPERM this user may not', 'ERR no such command', 'OOM command not allowed'])(
    'is the answer of the server: %s',
    (message) => {
      const error = new Error(message)
      expect(isReply(error)).toBe(true)
      expect(lostUnlessReply(error)).toBe(error)
    },
  )

  it.each([
    'ECONNRESET while reading',
    'connect ECONNREFUSED 127.0.0.1:1',
    'Connection is closed.',
  ])('says that there was none: %s', (message) => {
    const error = Object.assign(new Error(message), { command: { args: ['a-secret'] } })
    expect(isReply(error)).toBe(false)
    const lost = lostUnlessReply(error) as Error
    expect(lost).toMatchObject({ code: 'STORE_OUTCOME_UNKNOWN' })
    expect(lost.cause).not.toHaveProperty('command')
  })
})
