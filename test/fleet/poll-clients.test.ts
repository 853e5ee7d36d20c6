/** The layout `poll` on whatever leads to Redis: a URL, a client of ioredis or node-redis, a Cluster. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, it, onTestFinished } from 'vitest'
import { openLeaseManager, runFleet, type LeaseManager } from '../../src/fleet.ts'
import type { StoreSource } from '../../src/store-address.ts'
import { startRedis } from '../servers/redis-server.ts'
import { freshRedis } from '../servers/shared-servers.ts'
import { startCluster } from './redis-cluster.ts'

/** Renews often, and is patient with a busy machine. */
const QUICK = {
  ...{ leaseTtlMs: 9_000, heartbeatTtlMs: 9_000, refreshMs: 400, callMs: 4_000 },
  discoverMs: 8_000,
}
const SESSIONS = Array.from({ length: 40 }, () => randomUUID())

async function untilSo(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(20)
}

function clusterOf(url: string): Cluster {
  const { hostname, port } = new URL(url)
  const cluster = new Cluster([{ host: hostname, port: Number(port) }])
  cluster.on('error', () => undefined)
  onTestFinished(() => cluster.disconnect())
  return cluster
}

async function keysOf(url: string): Promise<ReadonlySet<string>> {
  const client = new Redis(url)
  const keys = await client.keys('*')
  client.disconnect()
  return new Set(keys)
}

/** Two instances: one takes everything, the other joins, they share, and one after the other stops. */
async function expectFleetOn(sources: readonly [StoreSource, StoreSource]): Promise<void> {
  const polls: string[] = []
  const under = new Set<string>()
  const problems: string[] = []
  const join = async (source: StoreSource) => {
    const manager = await openLeaseManager(source, QUICK)
    const poll = async (sessionId: string): Promise<void> => {
      if (under.has(sessionId)) problems.push(`${sessionId} is polled by two`)
      under.add(sessionId)
      polls.push(sessionId)
      await sleep(5)
      under.delete(sessionId)
    }
    return { manager, fleet: await runFleet(manager, SESSIONS, { poll, intervalMs: 50 }) }
  }
  const a = await join(sources[0])
  expect(a.manager.ownedSessions().length).toBe(40)
  const b = await join(sources[1])
  await untilSo(() => b.manager.ownedSessions().length >= 16)
  await untilSo(() => a.manager.ownedSessions().length + b.manager.ownedSessions().length === 40)
  expect(await a.manager.getLiveNodes()).toEqual(
    [a.manager.instanceId, b.manager.instanceId].toSorted(),
  )
  const renewed = new Set<string>()
  b.manager.on('renewed', ({ sessionId }) => renewed.add(sessionId))
  await untilSo(() => b.manager.ownedSessions().every((id) => renewed.has(id)))
  await a.fleet.stop()
  await untilSo(() => b.manager.ownedSessions().length === 40)
  polls.length = 0
  await untilSo(() => new Set(polls).size === 40)
  await b.fleet.stop()
  expect(problems).toEqual([])
}

it('runs on a client of ioredis, which it leaves as it was', async () => {
  await using place = await freshRedis()
  const client = new Redis(place.url)
  onTestFinished(() => client.disconnect())
  await client.ping()
  const listeners = ['ready', 'close', 'end', 'reconnecting'].map((name) =>
    client.listenerCount(name),
  )
  await expectFleetOn([{ redis: client }, place.url])
  expect(await client.ping()).toBe('PONG')
  expect(
    ['ready', 'close', 'end', 'reconnecting'].map((name) => client.listenerCount(name)),
  ).toEqual(listeners)
})

it('runs on a client of node-redis, which it leaves as it was', async () => {
  await using place = await freshRedis()
  const client = createClient({ url: place.url })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.destroy())
  await expectFleetOn([{ redis: client }, { redis: client }])
  expect(await client.ping()).toBe('PONG')
  expect(client.listenerCount('ready')).toBe(0)
})

it('runs on a Cluster, by URL and by a client', async () => {
  await using cluster = await startCluster()
  await expectFleetOn([{ redis: clusterOf(cluster.url) }, cluster.url])
})

it('on a Cluster sees foreign instances on every server, and leaves what they own', async () => {
  await using servers = await startCluster()
  const cluster = clusterOf(servers.url)
  const manager = await openLeaseManager({ redis: cluster }, QUICK)
  const foreign = Array.from({ length: 12 }, (_, index) => {
    return `api-173659840000000000${index % 10}-${index.toString(16).padStart(8, '0')}`
  })
  for (const id of foreign) await cluster.set(`poll:node:${id}`, '1', 'PX', 60_000)
  for (const id of SESSIONS.slice(0, 12)) {
    await cluster.set(`poll:lease:${id}`, foreign[0] ?? '', 'PX', 60_000, 'NX')
  }
  await manager.start()
  expect((await manager.getLiveNodes()).toSorted()).toEqual(
    [...foreign, manager.instanceId].toSorted(),
  )
  const taken = await Promise.all(SESSIONS.map((id) => manager.tryAcquire(id)))
  expect(taken.filter(Boolean).length).toBe(28)
  expect(manager.leaseInfo(SESSIONS[0] ?? '').ownerId).toBe(foreign[0])
  await manager.stop()
})

it('on a Cluster that has lost a server only what was there is uncertain', async () => {
  await using servers = await startCluster()
  const manager = await openLeaseManager(servers.url, { ...QUICK, leaseTtlMs: 50_000 })
  await manager.start()
  for (const id of SESSIONS) expect(await manager.tryAcquire(id)).toBe(true)
  const lost = servers.servers[2]
  const left = await keysOf(lost?.url ?? '')
  const statesOf = (isThere: boolean): readonly string[] => {
    const ids = SESSIONS.filter((id) => left.has(`poll:lease:${id}`) === isThere)
    return [...new Set(ids.map((id) => manager.state(id)))]
  }
  await lost?.kill()
  // What is elsewhere may be in doubt for as long as it takes to ask there again.
  await expect
    .poll(() => ({ there: statesOf(true), elsewhere: statesOf(false) }))
    .toEqual({ there: ['uncertain'], elsewhere: ['owned'] })
  await manager.stop()
})

it('on a client that was given notices a server that has begun anew', async () => {
  await using server = await startRedis()
  const client = new Redis(server.url, { retryStrategy: () => 50 })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  const other = randomUUID()
  const mine = randomUUID()
  // Others are left alone for the length of a lease, which is longer than any restart takes.
  const spans = { ...QUICK, leaseTtlMs: 60_000 }
  const manager: LeaseManager = await openLeaseManager({ redis: client }, spans)
  await manager.start()
  expect(await manager.tryAcquire(mine)).toBe(true)
  const events: string[] = []
  for (const name of ['uncertain', 'lost'] as const) manager.on(name, () => events.push(name))
  await server.kill()
  await server.restart()
  await untilSo(() => events.includes('lost'))
  // What was its own it may take again; what was not may be another's that has not heard of it.
  expect(await manager.tryAcquire(mine)).toBe(true)
  expect(await manager.tryAcquire(other)).toBe(false)
  expect(events).toEqual(['uncertain', 'lost'])
  await manager.stop()
})

it('says at once when the server does not let it listen', async () => {
  await using server = await startRedis()
  const admin = new Redis(server.url)
  onTestFinished(() => admin.disconnect())
  await admin.call(
    'ACL',
    'SETUSER',
    'deaf',
    'on',
    '>secret',
    'allkeys',
    'allcommands',
    'resetchannels',
  )
  const manager = await openLeaseManager(server.url.replace('//', '//deaf:secret@'))
  await expect(manager.start()).rejects.toThrow(/cannot be reached: .*NOPERM/)
})

it('refuses what is no client, and a client that would change the keys', async () => {
  const client = new Redis({ lazyConnect: true, keyPrefix: 'app:' })
  const cases: readonly (readonly [unknown, string])[] = [
    [{ redis: 5 }, 'redis must be a client of ioredis or of node-redis, got 5'],
    [{ redis: {} }, 'redis must be a client of ioredis or of node-redis, got an object'],
    [{ redis: client }, 'redis must have no keyPrefix (there is prefix), got "app:"'],
    [{ mysql: {} }, 'store must be a URL, { postgres: pool } or { redis: client }, got an object'],
    [null, 'store must be text, got null'],
  ]
  for (const [source, message] of cases) {
    await expect(openLeaseManager(source as StoreSource)).rejects.toThrow(message)
  }
})
