/** Nothing that fails in the background of a fleet is lost: each place says so, by its name. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import { parseResource } from '../../src/core/resource.ts'
import { openLeaseManager } from '../../src/fleet.ts'
import type { Fault } from '../../src/runtime/diagnostics.ts'
import { onOwnFault } from '../runtime/hear-faults.ts'
import { failWith } from '../client/harness.ts'
import { startRedis } from '../servers/redis-server.ts'
import { fleetWorld, REFRESH_MS, TTL_MS } from './harness.ts'
import { INTERVAL_MS, run, stop } from './running.ts'

/** What is reported from now on. */
function listen(): { readonly faults: readonly Fault[]; of(source: string): readonly Fault[] } {
  const faults: Fault[] = []
  onTestFinished(onOwnFault((fault) => void faults.push(fault)))
  return { faults, of: (wanted) => faults.filter(({ source }) => source === wanted) }
}

function redisAt(url: string): Redis {
  const redis = new Redis(url)
  // Its server ends before it does.
  redis.on('error', () => undefined)
  onTestFinished(() => redis.disconnect())
  return redis
}

const AWAY = failWith('STORE_UNAVAILABLE')
const MINUTE_MS = 60_000

/** A mistake of ours, as a bug in the store's adapter would be. */
const MISTAKE = (): Promise<never> => Promise.reject(new TypeError('x is not a function'))

describe('a loop that fails again and again', () => {
  it.each([
    ['fleet/renewal', 'renew'],
    ['fleet/heartbeat', 'renew'],
    ['fleet/nodes', 'list'],
  ] as const)(
    'says %s at first and then once a minute, until it succeeds',
    async (source, method) => {
      const world = fleetWorld()
      const { manager, faults } = world.instance()
      await manager.start()
      await manager.tryAcquire('s')
      const heard = listen()
      faults.when(method, AWAY)
      await world.runtime.advance(2 * REFRESH_MS)
      expect(heard.of(source)).toMatchObject([{ error: { code: 'STORE_UNAVAILABLE' }, count: 1 }])
      if (source !== 'fleet/renewal') {
        await world.runtime.advance(MINUTE_MS)
        expect(heard.of(source).length).toBe(2)
      }
      faults.heal(method)
      await world.runtime.advance(5 * REFRESH_MS)
      const reported = heard.faults.length
      await world.runtime.advance(MINUTE_MS)
      expect(heard.faults.length).toBe(reported)
      await manager.stop()
    },
  )

  it('looks for nodes less and less often', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance({ heartbeatTtlMs: 60_000, discoverMs: 30_000 })
    await manager.start()
    faults.when('list', AWAY)
    await manager.getLiveNodes().catch(() => undefined)
    const before = faults.count('list')
    await world.runtime.advance(20_000)
    // Each look asks twice. Every half second it would be 80.
    expect(faults.count('list') - before).toBeLessThan(20)
    await manager.stop()
  })

  it('says fleet/watch when the ledger cannot be read, and reads it less and less often', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    const heard = listen()
    // Of all methods the only one that answers with no promise.
    const watch = 'watch' as 'list'
    const broken = { [Symbol.asyncIterator]: () => ({ next: MISTAKE }) }
    faults.when(watch, () => broken as unknown as Promise<unknown>)
    await manager.start()
    await world.runtime.advance(30_000)
    expect(heard.of('fleet/watch')).toMatchObject([{ error: { name: 'TypeError' }, count: 1 }])
    expect(faults.count(watch)).toBeLessThan(15)
    const stopped = manager.stop()
    await world.runtime.settle()
    await stopped
    expect(world.runtime.pendingTimers).toBe(0)
  })
})

describe('a mistake of ours', () => {
  it('is thrown as itself, and is not taken for an answer that was lost', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    faults.when('acquire', MISTAKE)
    await expect(manager.tryAcquire('s')).rejects.toThrow(TypeError)
    faults.heal('acquire')
    await manager.tryAcquire('s')
    faults.when('release', MISTAKE)
    await expect(manager.release('s')).rejects.toThrow(TypeError)
    faults.heal('release')
    await manager.stop()
  })

  it('in a renewal is reported as itself, and the session is not trusted any longer', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    const heard = listen()
    faults.when('renew', MISTAKE)
    await world.runtime.advance(2 * REFRESH_MS)
    expect(heard.of('fleet/renewal')).toMatchObject([{ error: { name: 'TypeError' } }])
    expect(manager.state('s')).toBe('uncertain')
    await world.runtime.advance(TTL_MS)
    expect(manager.isOwned('s')).toBe(false)
    faults.heal('renew')
    await manager.stop()
  })

  it('on the way to Redis is thrown as itself', async () => {
    await using server = await startRedis()
    const client = redisAt(server.url)
    const manager = await openLeaseManager({ redis: client })
    await manager.start()
    const { pipeline } = client
    client.pipeline = () => ({ exec: MISTAKE }) as unknown as ReturnType<typeof pipeline>
    await expect(manager.tryAcquire('00000000-0000-4000-8000-000000000001')).rejects.toThrow(
      TypeError,
    )
    client.pipeline = pipeline
    await manager.stop()
  })
})

describe('what fails once', () => {
  it('says fleet/handover when what was handed over cannot be taken', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    for (const { manager } of [a, b]) await manager.start()
    await a.manager.tryAcquire('s')
    await a.manager.getLiveNodes()
    b.faults.when('acquire', AWAY)
    const heard = listen()
    await a.manager.handOver('s', b.manager.instanceId)
    await world.runtime.advance(1)
    expect(heard.of('fleet/handover')).toMatchObject([{ error: { code: 'STORE_UNAVAILABLE' } }])
    b.faults.heal('acquire')
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('says fleet/handover when nobody can ask what a wake-up is about', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance(), world.instance()]
    for (const { manager } of [a, b]) await manager.start()
    await a.manager.tryAcquire('s')
    await a.manager.getLiveNodes()
    b.faults.when('get', AWAY)
    const heard = listen()
    await a.manager.handOver('s', b.manager.instanceId)
    await world.runtime.settle()
    expect(heard.of('fleet/handover').length).toBeGreaterThan(0)
    b.faults.heal('get')
    await Promise.all([a.manager.stop(), b.manager.stop()])
  })

  it('says fleet/release, fleet/leave when an instance that stops cannot let go', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    await manager.tryAcquire('s')
    faults.when('release', AWAY)
    const heard = listen()
    await manager.stop()
    expect(heard.faults.map(({ source }) => source)).toEqual(['fleet/release', 'fleet/leave'])
  })

  it('says fleet/release when a grant that is not taken cannot be given back', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    faults.when('acquire', async (send) => {
      world.loseData()
      return send()
    })
    faults.when('release', AWAY)
    const heard = listen()
    expect(await manager.tryAcquire('s')).toBe(false)
    await world.runtime.settle()
    expect(heard.of('fleet/release')).toMatchObject([{ error: { code: 'STORE_UNAVAILABLE' } }])
    faults.heal('acquire')
    faults.heal('release')
    await manager.stop()
  })

  it('says fleet/withdrawal when a fleet that stops cannot say so', async () => {
    const world = fleetWorld()
    const a = await run(world, ['s'])
    a.faults.when('acquire', AWAY)
    const heard = listen()
    await stop(world, a)
    expect(heard.of('fleet/withdrawal')).toMatchObject([{ error: { code: 'STORE_UNAVAILABLE' } }])
  })

  it('says fleet/drain when an instance that is drained cannot take its heartbeat back', async () => {
    const world = fleetWorld()
    const { manager, faults } = world.instance()
    await manager.start()
    faults.when('release', AWAY)
    const heard = listen()
    await world.service.acquire({
      ...{ id: world.runtime.uuid(), resource: parseResource(`drain:${manager.instanceId}`) },
      ...{ holder: manager.instanceId, session: 'fleet:drains', ttlMs: MINUTE_MS, waitMs: 0 },
    })
    await world.runtime.advance(REFRESH_MS)
    expect(heard.of('fleet/drain')).toMatchObject([{ error: { code: 'STORE_UNAVAILABLE' } }])
    faults.heal('release')
    await manager.stop()
  })

  it('says fleet/session-source when a source cannot be ended', async () => {
    const world = fleetWorld()
    const lists = [['s']]
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: false, value: lists.pop() ?? (await new Promise(() => null)) }),
        return: () => {
          throw new Error('cannot be ended')
        },
      }),
    }
    const a = await run(world, source as AsyncIterable<readonly string[]>)
    const heard = listen()
    await stop(world, a)
    expect(heard.of('fleet/session-source')).toMatchObject([
      { error: { message: 'cannot be ended' } },
    ])
  })

  it('says fleet/runner when a session cannot be handed over, also to nobody', async () => {
    const world = fleetWorld()
    const a = await run(world, ['s'], { weight: 0.01 })
    a.faults.when('transfer', AWAY)
    const heard = listen()
    const b = await run(world, ['s'], { weight: 100 })
    await world.runtime.advance(REFRESH_MS)
    expect(heard.of('fleet/runner')).toMatchObject([{ error: { code: 'STORE_UNAVAILABLE' } }])
    a.faults.heal('transfer')
    await stop(world, a, b)
  })

  it('says fleet/poll when a poll throws, and not again for each that follows', async () => {
    const world = fleetWorld()
    const heard = listen()
    const poll = (): never => {
      throw new Error('no luck')
    }
    const a = await run(world, ['s'], { poll })
    await world.runtime.advance(10 * INTERVAL_MS)
    expect(a.failures.length).toBeGreaterThan(5)
    expect(heard.of('fleet/poll')).toMatchObject([{ error: { message: 'no luck' }, count: 1 }])
    await stop(world, a)
  })
})

it('says fleet/poll when a poll goes on after it was told to stop', async () => {
  const world = fleetWorld()
  const heard = listen()
  const a = await run(world, ['s'], { poll: async () => new Promise(() => undefined) })
  await stop(world, a)
  const messages = heard.of('fleet/poll').map(({ error }) => String(error))
  expect(messages).toContain('Error: the poll went on after it was told to stop')
})

describe('on Redis', () => {
  const QUICK = { leaseTtlMs: 3_000, heartbeatTtlMs: 3_000, refreshMs: 500, callMs: 900 }

  async function untilSo(isSo: () => boolean): Promise<void> {
    while (!isSo()) await sleep(10)
  }

  it('says fleet/redis/connection while the server is away', async () => {
    await using server = await startRedis()
    const manager = await openLeaseManager(server.url, QUICK)
    await manager.start()
    onTestFinished(async () => manager.stop())
    const heard = listen()
    await server.kill()
    await untilSo(() => heard.of('fleet/redis/connection').length > 0)
    expect(String(heard.of('fleet/redis/connection')[0]?.error)).toMatch(/ECONN/)
    // The driver tries many times a second.
    await untilSo(() => heard.of('fleet/nodes').length > 0)
    expect(heard.of('fleet/redis/connection').length).toBe(1)
  })

  it('says fleet/redis/meet and fleet/redis/subscribe when it may not ask any more, and tries on', async () => {
    await using server = await startRedis()
    const admin = redisAt(server.url)
    const user = ['ACL', 'SETUSER', 'worker', 'on', '>secret', '~*', '&*', '+@all'] as const
    await admin.call(...user)
    const client = redisAt(server.url.replace('//', '//worker:secret@'))
    const manager = await openLeaseManager({ redis: client }, QUICK)
    await manager.start()
    onTestFinished(async () => manager.stop())
    const heard = listen()
    await admin.call('ACL', 'SETUSER', 'worker', '-info', 'resetchannels')
    await admin.call('CLIENT', 'KILL', 'USER', 'worker')
    await untilSo(() => heard.of('fleet/redis/meet').length > 0)
    await untilSo(() => heard.of('fleet/redis/subscribe').length > 0)
    expect(String(heard.of('fleet/redis/meet')[0]?.error)).toMatch(/NOPERM/)
    expect(String(heard.of('fleet/redis/subscribe')[0]?.error)).toMatch(/NOPERM/)
    // A client that was given stays as it is; that it may ask again is noticed all the same.
    await admin.call(...user)
    const id = '00000000-0000-4000-8000-000000000001'
    const taken = async (): Promise<boolean> =>
      manager.tryAcquire(id).catch((error: unknown) => {
        expect(error).toBeInstanceOf(LeaseError)
        return false
      })
    while (!(await taken())) await sleep(20)
  })

  it('says fleet/redis/meet when the loss that another tells of cannot be looked at', async () => {
    await using server = await startRedis()
    const admin = redisAt(server.url)
    const manager = await openLeaseManager(server.url, QUICK)
    await manager.start()
    onTestFinished(async () => manager.stop())
    const heard = listen()
    await admin.set('poll:lost', 'nonsense')
    await admin.publish('poll:known:0', 'test')
    await untilSo(() => heard.of('fleet/redis/meet').length > 0)
  })

  it('says fleet/handover for a handover that somebody made up', async () => {
    await using server = await startRedis()
    const admin = redisAt(server.url)
    const manager = await openLeaseManager(server.url, QUICK)
    await manager.start()
    onTestFinished(async () => manager.stop())
    const heard = listen()
    for (let time = 0; time < 10; time += 1) {
      await admin.publish(`poll:given:${manager.instanceId}`, 'nonsense')
    }
    await untilSo(() => heard.of('fleet/handover').length > 0)
    await admin.ping()
    expect(heard.of('fleet/handover')).toMatchObject([{ error: { code: 'INVALID_INPUT' } }])
  })
})
