/**
 * A server that loses its data has forgotten who polls what, while everybody who was granted something goes on until
 * it hears of that. What is judged is what the polls wrote down themselves.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { openLeaseManager, runFleet, type Fleet, type LeaseManager } from '../../src/fleet.ts'
import type { OpenManagerOptions } from '../../src/fleet.ts'
import { onOwnFault } from '../runtime/hear-faults.ts'
import { doublePolls, type PollInterval } from '../processes/fleet-check.ts'
import { sessionIds } from '../processes/fleet-stage.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { hang } from '../client/harness.ts'
import { fleetWorld, TTL_MS as FAKE_TTL_MS } from './harness.ts'
import { run, stop } from './running.ts'

const SESSIONS = sessionIds(20)
const [ID = '', OTHER_ID = ''] = SESSIONS
const TTL_MS = 2_000
/** A renewal is due so late that everything else happens first. */
const SPANS = {
  ...{ leaseTtlMs: TTL_MS, heartbeatTtlMs: TTL_MS, refreshMs: 700, callMs: 600 },
  discoverMs: 300,
}
/** Less than what a holder gives away of its term. */
const POLL_MS = 10

interface Instance {
  readonly manager: LeaseManager
  readonly fleet: Fleet
}

/** Instances in one process that write down every poll from its begin to its end. */
class Stage {
  readonly polls: PollInterval[] = []
  readonly #instances: Instance[] = []

  async join(url: string, options: OpenManagerOptions = {}): Promise<Instance> {
    const manager = await openLeaseManager(url, { ...SPANS, ...options })
    const worker = manager.instanceId
    const poll = async (session: string, { fence }: { readonly fence: number }): Promise<void> => {
      const fromUs = performance.now() * 1000
      await sleep(POLL_MS)
      this.polls.push({ worker, session, fence, fromUs, toUs: performance.now() * 1000 })
    }
    const fleet = await runFleet(manager, SESSIONS, { poll, intervalMs: 3 * POLL_MS })
    const instance = { manager, fleet }
    this.#instances.push(instance)
    return instance
  }

  /** Resolves when all are polled by these instances, none of which has more than its bound. */
  async untilSpread(...instances: readonly Instance[]): Promise<void> {
    const bound = Math.ceil((1.2 * SESSIONS.length) / instances.length)
    const isSpread = (): boolean => {
      const counts = instances.map(({ fleet }) => fleet.polling.length)
      const sum = counts.reduce((all, count) => all + count, 0)
      return sum === SESSIONS.length && counts.every((count) => count <= bound)
    }
    while (!isSpread()) await sleep(10)
    // What is polled now was begun by those who have it now.
    const sinceUs = performance.now() * 1000
    const polled = (): number =>
      new Set(this.polls.filter(({ fromUs }) => fromUs > sinceUs).map(({ session }) => session))
        .size
    while (polled() < SESSIONS.length) await sleep(10)
  }

  async stop(): Promise<void> {
    await Promise.all(this.#instances.splice(0).map(async ({ fleet }) => fleet.stop()))
  }
}

function stage(): Stage {
  const created = new Stage()
  onTestFinished(async () => created.stop())
  return created
}

function redisAt(url: string): Redis {
  const redis = new Redis(url)
  redis.on('error', () => undefined)
  onTestFinished(() => redis.disconnect())
  return redis
}

it.each(['poll', 'lease'] as const)(
  'FLUSHALL, layout %s: all are polled on, and none by two',
  async (layout) => {
    await using server = await startRedis()
    const fleet = stage()
    const others = [
      await fleet.join(server.url, { layout }),
      await fleet.join(server.url, { layout }),
    ]
    const last = await fleet.join(server.url, { layout, ready: false })
    await fleet.untilSpread(...others)
    const redis = redisAt(server.url)
    for (let time = 0; time < 2; time += 1) {
      await last.manager.setReady(false)
      await redis.flushall()
      // It shows its heartbeat and sees a fleet of one, before the others have renewed anything.
      await last.manager.setReady(true)
      await sleep(200)
    }
    await fleet.untilSpread(...others, last)
    await fleet.stop()
    expect(doublePolls(fleet.polls)).toEqual([])
  },
)

it('an instance that starts right after FLUSHALL takes nothing that others still poll', async () => {
  await using server = await startRedis()
  const fleet = stage()
  const a = await fleet.join(server.url)
  await fleet.untilSpread(a)
  await redisAt(server.url).flushall()
  const b = await fleet.join(server.url)
  await fleet.untilSpread(a, b)
  await fleet.stop()
  expect(doublePolls(fleet.polls)).toEqual([])
})

it.each(['poll', 'lease'] as const)(
  'a restart without data, layout %s: all are polled again, and none by two',
  async (layout) => {
    await using server = await startRedis()
    const fleet = stage()
    const instances = [
      await fleet.join(server.url, { layout }),
      await fleet.join(server.url, { layout }),
    ]
    await fleet.untilSpread(...instances)
    await server.kill()
    await server.restart()
    await fleet.untilSpread(...instances)
    await fleet.stop()
    expect(doublePolls(fleet.polls)).toEqual([])
  },
)

it('two faults in a row: one that was away for both does not count from the first', async () => {
  await using server = await startRedis({ settings: { appendonly: 'yes', appendfsync: 'always' } })
  await using toA = await Proxy.start(server.url)
  await using toB = await Proxy.start(server.url)
  const fleet = stage()
  const a = await fleet.join(toA.through(server.url))
  await fleet.untilSpread(a)
  const manager = await openLeaseManager(toB.through(server.url), SPANS)
  await manager.start()
  onTestFinished(async () => manager.stop())
  // The first fault: B is cut off, A is not, and renews.
  toB.refuse()
  await sleep(TTL_MS)
  const renewed = new Set<string>()
  a.manager.on('renewed', ({ sessionId }) => renewed.add(sessionId))
  while (renewed.size < SESSIONS.length) await sleep(5)
  // The second: the server loses everything, and A, who has just renewed, hears nothing.
  toA.blackHole()
  const redis = redisAt(server.url)
  await redis.flushall()
  await server.kill()
  await server.restart()
  toB.clear()
  const isPolledByA = (): boolean => a.manager.isOwned(ID)
  const taken: boolean[] = []
  while (isPolledByA()) {
    taken.push(await manager.tryAcquire(ID).catch(() => false))
    await sleep(20)
  }
  expect(taken).not.toContain(true)
})

it('nothing is taken for the longest TTL in the fleet, whoever sees the loss first', async () => {
  await using server = await startRedis()
  const redis = redisAt(server.url)
  const slow = await openLeaseManager(server.url, { ...SPANS, leaseTtlMs: 60_000 })
  await slow.start()
  onTestFinished(async () => slow.stop())
  const quick = await openLeaseManager(server.url, SPANS)
  await quick.start()
  onTestFinished(async () => quick.stop())
  await redis.flushall()
  expect(await quick.tryAcquire(ID)).toBe(false)
  expect(await redis.pttl('poll:lost')).toBeGreaterThan(50_000)
  // Nor if the first is one that has only just come and knows nobody.
  await redis.flushall()
  const fresh = await openLeaseManager(server.url, SPANS)
  await fresh.start()
  onTestFinished(async () => fresh.stop())
  expect(await fresh.tryAcquire(ID)).toBe(false)
  while ((await redis.pttl('poll:lost')) < 50_000) await sleep(10)
})

it('what was its own an instance takes again at once, and what it is handed as well', async () => {
  await using server = await startRedis()
  const redis = redisAt(server.url)
  const spans = { ...SPANS, leaseTtlMs: 60_000 }
  const [a, b] = [
    await openLeaseManager(server.url, spans),
    await openLeaseManager(server.url, spans),
  ]
  for (const manager of [a, b]) {
    await manager.start()
    onTestFinished(async () => manager.stop())
  }
  expect(await a.tryAcquire(ID)).toBe(true)
  const lost = new Promise((resolve) => a.on('lost', resolve))
  await redis.flushall()
  await lost
  expect(await b.tryAcquire(ID)).toBe(false)
  expect(b.state(ID)).toBe('unknown')
  expect(await a.tryAcquire(ID)).toBe(true)
  expect(await a.tryAcquire(OTHER_ID)).toBe(false)
  while (!(await a.getLiveNodes()).includes(b.instanceId)) await sleep(10)
  const acquired = new Promise((resolve) => b.on('acquired', resolve))
  expect(await a.handOver(ID, b.instanceId)).toBe(true)
  expect(await acquired).toMatchObject({ sessionId: ID, isGiven: true })
})

it('a loss is reported, and a fleet that begins on an empty server waits for nothing', async () => {
  await using server = await startRedis()
  const faults: string[] = []
  onTestFinished(onOwnFault(({ source, error }) => faults.push(`${source}: ${String(error)}`)))
  const managers = await Promise.all([1, 2, 3].map(async () => openLeaseManager(server.url, SPANS)))
  await Promise.all(managers.map(async (manager) => manager.start()))
  onTestFinished(async () => void (await Promise.all(managers.map(async (each) => each.stop()))))
  const taken = await Promise.all(
    managers.map(async (manager, at) => manager.tryAcquire(SESSIONS[at] ?? '')),
  )
  expect(taken).toEqual([true, true, true])
  expect(faults).toEqual([])
  await redisAt(server.url).flushall()
  await managers[0]?.tryAcquire(SESSIONS[5] ?? '')
  expect(faults.filter((fault) => fault.startsWith('fleet/data-loss: '))).toEqual([
    expect.stringMatching(/lost its data.*for 2000 ms/),
  ])
})

describe('on any store, through ordinary leases,', () => {
  it('nobody takes what was not its own until every other’s view is over', async () => {
    const world = fleetWorld()
    const [a, b] = [world.instance({ leaseTtlMs: 2 * FAKE_TTL_MS }), world.instance()]
    for (const { manager } of [a, b]) await manager.start()
    expect(await a.manager.tryAcquire('s')).toBe(true)
    await b.manager.getLiveNodes()
    world.loseData()
    // A is cut off, and goes on until its own deadline.
    for (const method of ['renew', 'acquire', 'list', 'get'] as const) a.faults.when(method, hang)
    const taken: boolean[] = []
    while (a.manager.state('s') !== 'unknown') {
      taken.push(await b.manager.tryAcquire('s'))
      await world.runtime.advance(100)
    }
    expect(taken.length).toBeGreaterThan(50)
    expect(taken).not.toContain(true)
    await world.runtime.advance(FAKE_TTL_MS / 10)
    expect(await b.manager.tryAcquire('s')).toBe(true)
    const stopped = Promise.all([a.manager.stop(), b.manager.stop()])
    await world.runtime.advance(FAKE_TTL_MS)
    await stopped
  })

  it('what was handed to an instance and on to another is that one’s, though the first heard of it late', async () => {
    const world = fleetWorld()
    const [a, b, c] = [world.instance(), world.instance(), world.instance()]
    let tell = (): void => undefined
    const told = new Promise<void>((resolve) => (tell = resolve))
    // The wake-up does not come, and the ledger is read late.
    b.faults.when('onWake', async () => () => undefined)
    const watch = 'watch' as 'list'
    b.faults.when(watch, (send) => {
      const late = async function* (): AsyncGenerator<unknown> {
        for await (const event of send() as unknown as AsyncIterable<unknown>) {
          await told
          yield event
        }
      }
      return late() as unknown as Promise<unknown>
    })
    for (const { manager } of [a, b, c]) await manager.start()
    await a.manager.getLiveNodes()
    await a.manager.tryAcquire('s')
    expect(await a.manager.handOver('s', b.manager.instanceId)).toBe(true)
    expect(await b.manager.tryAcquire('s')).toBe(true)
    tell()
    await world.runtime.advance(1)
    await b.manager.getLiveNodes()
    expect(await b.manager.handOver('s', c.manager.instanceId)).toBe(true)
    await world.runtime.advance(1)
    expect(c.manager.isOwned('s')).toBe(true)
    world.loseData()
    expect(await b.manager.tryAcquire('s')).toBe(false)
    expect(c.manager.isOwned('s')).toBe(true)
    await Promise.all([a.manager.stop(), b.manager.stop(), c.manager.stop()])
  })

  it('what was granted between the loss and the moment it is seen does not count', async () => {
    const world = fleetWorld()
    const b = world.instance()
    await b.manager.start()
    b.faults.when('acquire', async (send) => {
      world.loseData()
      return send()
    })
    expect(await b.manager.tryAcquire('s')).toBe(false)
    b.faults.heal('acquire')
    expect(await world.service.inspect({ resource: parseResource('session:s') })).toMatchObject({
      leases: [],
    })
    await b.manager.stop()
  })

  it('what was its own an instance takes again at once', async () => {
    const world = fleetWorld()
    const a = await run(world)
    await world.runtime.advance(FAKE_TTL_MS / 2)
    world.loseData()
    await world.runtime.advance(FAKE_TTL_MS / 2)
    expect(a.fleet.polling.length).toBe(20)
    expect(a.events.filter(([name]) => name === 'lost').length).toBe(20)
    await stop(world, a)
  })
})
