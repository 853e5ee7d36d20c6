/** What fails in the background of a store on Redis is reported, with its source and without secrets. */
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { RedisDriver } from '../../src/drivers/redis-driver.ts'
import { ChannelListener } from '../../src/store/optimistic/channel-listener.ts'
import { SubscribedConnection } from '../../src/store/redis/redis-store.ts'
import { hearFaults } from './faults-heard.ts'
import { direct, proxyTo, server, Subject, until } from './redis-subject.ts'
import { sessionDigest } from '../../src/service/session-digest.ts'

const PASSWORD = 'a-secret'

/** The URL of a user who may do everything but what the rules take away. */
async function userWithout(url: string, ...rules: readonly string[]): Promise<string> {
  const all = ['on', `>${PASSWORD}`, '~*', '&*', '+@all']
  await direct(url).call('ACL', 'SETUSER', 'ada', ...all, ...rules)
  return url.replace('redis://', `redis://ada:${PASSWORD}@`)
}

describe('a user of Redis', () => {
  it('who may not subscribe is told so, and looks for itself until it may', async () => {
    const { url } = await server()
    const faults = hearFaults()
    const listening = await Subject.open({ url: await userWithout(url, '-subscribe') })
    let looks = 0
    const heard: string[] = []
    await listening.store.subscribe(sessionDigest('bob'), ({ leaseIds }) => {
      if (leaseIds === null) looks += 1
      else heard.push(...leaseIds)
    })
    const fault = await faults.first('store/redis/subscribe')
    expect(String(fault.error)).toContain('NOPERM')
    await until(async () => looks > 1)
    await userWithout(url)
    const waking = await Subject.open({ url })
    await until(async () => {
      const answer = await waking.acquire({ holder: 'bob' }, `of-bob-${systemRuntime.uuid()}`)
      if (answer.kind !== 'granted') return false
      await waking.api.revoke({ id: answer.lease.id, by: 'operator' })
      return heard.length > 0
    })
  })

  it('who may not unsubscribe is told so', async () => {
    const { url } = await server()
    const faults = hearFaults()
    const listening = await Subject.open({ url: await userWithout(url, '-unsubscribe') })
    const leave = await listening.store.subscribe(sessionDigest('bob'), () => undefined)
    leave()
    expect(String((await faults.first('store/redis/unsubscribe')).error)).toContain('NOPERM')
  })

  it('who may not subscribe follows the ledger by looking, and is told so once, however often it is tried', async () => {
    const { url } = await server()
    const faults = hearFaults()
    const following = await Subject.open({ url: await userWithout(url, '-subscribe') })
    let looks = 0
    const leave = following.store.follow(() => {
      looks += 1
    })
    await until(async () => looks > 2)
    leave()
    expect(faults.of('store/redis/subscribe')).toMatchObject([{ count: 1 }])
  })

  it('who may not ask how the server is set up is told so', async () => {
    const { url } = await server()
    const faults = hearFaults()
    const { store } = await Subject.open({ client: direct(await userWithout(url, '-info')) })
    expect(store.description.durability).toBe('unknown: the server does not tell')
    const sources = faults.all.map(({ source }) => source)
    expect(sources.toSorted()).toEqual(['store/redis/durability', 'store/redis/eviction'])
  })
})

it('a connection that cannot be made again is reported without the password', async () => {
  const { url } = await server({ password: PASSWORD })
  const proxy = await proxyTo(url)
  const faults = hearFaults()
  const listening = await Subject.open({ url: proxy.through(url) })
  await listening.store.subscribe(sessionDigest('bob'), () => undefined)
  proxy.refuse()
  proxy.cut()
  await faults.first('store/redis/connection')
  expect(inspect(faults.all, { depth: 10 })).not.toContain(PASSWORD)
})

it('a connection that cannot be closed is reported, but not one that is closed already', async () => {
  const faults = hearFaults()
  const close = async (message: string): Promise<void> => {
    const duplicate = {
      isReady: true,
      connect: () => Promise.resolve(),
      subscribe: () => Promise.resolve(),
      onMessage: () => undefined,
      unsubscribe: () => Promise.resolve(),
      onReady: () => () => undefined,
      onClosed: () => () => undefined,
      disconnect: () => {
        throw new Error(message)
      },
    }
    const driver = { duplicate: () => duplicate } as unknown as RedisDriver
    const listener = new ChannelListener({
      ...{ runtime: systemRuntime, callMs: 1_000, source: 'store/redis/subscribe' },
      connection: (events) => new SubscribedConnection(driver, events),
    })
    const leave = await listener.listen('bob', () => undefined)
    leave()
    await listener.settled()
  }
  await close('The client is closed')
  expect(faults.all).toEqual([])
  await close('no such socket')
  expect(faults.of('store/redis/disconnect')).toHaveLength(1)
})
