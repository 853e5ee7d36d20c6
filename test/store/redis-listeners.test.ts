/** Who listens for wake-ups on Redis is heard of by the server, whenever the connection for it comes up. */
import { createClient } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Runtime } from '../../src/runtime/runtime.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { WakeSignal } from '../../src/store-port/store.ts'
import { direct, proxyTo, server, Subject, until } from './redis-subject.ts'
import { sessionDigest } from '../../src/service/session-digest.ts'

/** What was said to listeners: the ids of leases; a call to look for oneself is not kept. */
class Heard {
  readonly leaseIds: string[] = []
  readonly listener = ({ leaseIds }: WakeSignal): void => {
    this.leaseIds.push(...(leaseIds ?? []))
  }
}

/** Gives somebody a lease and takes it away, which wakes their session. */
async function wake(by: Subject, session: string): Promise<string> {
  const answer = await by.acquire({ holder: session }, `of-${session}`)
  if (answer.kind !== 'granted') throw new Error(`acquire came to ${answer.kind}`)
  await by.api.revoke({ id: answer.lease.id, by: 'operator' })
  return answer.lease.id
}

async function listenersOf(url: string, session: string): Promise<number> {
  const [, count] = await direct(url).pubsub('NUMSUB', `tenure:{default}:w:${session}`)
  return Number(count)
}

describe('sessions on Redis that begin to listen', () => {
  it('at the same time are all heard', async () => {
    const { url } = await server()
    const listening = await Subject.open({ url })
    const sessions = ['s1', 's2', 's3']
    await Promise.all(sessions.map((session) => listening.store.subscribe(session, () => {})))
    for (const session of sessions) expect(await listenersOf(url, session)).toBe(1)
  })

  it('beside another listener of the same session do not return before it is heard', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const listening = await Subject.open({ url: proxy.through(url) })
    proxy.delay(200)
    const first = listening.store.subscribe(sessionDigest('ada'), () => {})
    await listening.store.subscribe(sessionDigest('ada'), () => {})
    expect(await listenersOf(url, sessionDigest('ada'))).toBe(1)
    await first
  })

  it('while the server cannot be reached are heard as soon as it can', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const listening = await Subject.open({ url: proxy.through(url) })
    const waking = await Subject.open({ url })
    const heard = new Heard()
    proxy.refuse()
    await listening.store.subscribe(sessionDigest('ada'), heard.listener)
    proxy.clear()
    await until(async () => (await listenersOf(url, sessionDigest('ada'))) === 1)
    const leaseId = await wake(waking, 'ada')
    await until(async () => heard.leaseIds.length > 0)
    expect(heard.leaseIds).toEqual([leaseId])
  })
  it('over a connection that has fallen silent since are heard over another', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    // Nothing is waited for as long as it really is before a silent connection is asked for a sign of life.
    const runtime: Runtime = {
      ...systemRuntime,
      setTimer: (delayMs, callback, options) => {
        return systemRuntime.setTimer(Math.min(delayMs, 1_000), callback, options)
      },
    }
    // Its own client is not told how long a socket may be silent.
    const client = direct(proxy.through(url))
    const listening = await Subject.open({ client, runtime, callMs: 500 })
    const waking = await Subject.open({ url })
    const heard = new Heard()
    await listening.store.subscribe(sessionDigest('ada'), heard.listener)
    proxy.blackHole()
    // The first message that is lost silences the connection that listens, for good.
    for (let times = 0; times < 5; times += 1) await wake(waking, 'ada')
    proxy.clear()
    expect(heard.leaseIds).toEqual([])
    await until(async () => {
      await wake(waking, 'ada')
      return heard.leaseIds.length > 0
    })
  })
})

async function nodeRedis(url: string) {
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.destroy())
  return client
}

describe('a listener on a client of node-redis', () => {
  it('is told once of each wake-up, however often the connection was lost', async () => {
    const { url } = await server()
    const proxy = await proxyTo(url)
    const listening = await Subject.open({ client: await nodeRedis(proxy.through(url)) })
    const waking = await Subject.open({ url })
    const heard = new Heard()
    await listening.store.subscribe(sessionDigest('ada'), heard.listener)
    for (let cuts = 0; cuts < 3; cuts += 1) {
      proxy.resetCounts()
      proxy.cut()
      await until(
        async () => proxy.connections >= 2 && (await listenersOf(url, sessionDigest('ada'))) === 1,
      )
    }
    const woken: string[] = []
    for (let wakes = 0; wakes < 5; wakes += 1) woken.push(await wake(waking, 'ada'))
    await until(async () => heard.leaseIds.includes(woken.at(-1) ?? ''))
    expect(heard.leaseIds).toEqual(woken)
  })

  it('does not keep a store from closing when its connection was closed before', async () => {
    const { url } = await server()
    const client = await nodeRedis(url)
    // As version 5 of the driver does; later ones close twice without a word.
    const duplicate = client.duplicate.bind(client)
    Object.assign(client, {
      duplicate: () => {
        const own = duplicate()
        const destroy = own.destroy.bind(own)
        own.destroy = () => {
          if (!own.isOpen) throw new Error('The client is closed')
          destroy()
        }
        void own.once('ready', () => own.destroy())
        return own
      },
    })
    const subject = await Subject.open({ client })
    await subject.store.subscribe(sessionDigest('ada'), () => {})
    await expect(subject.store.close()).resolves.toBeUndefined()
  })
})
