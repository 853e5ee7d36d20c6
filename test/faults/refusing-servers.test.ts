/**
 * Servers that are there and refuse: the caller hears so in bounded time, in words, with nothing changed and no secret
 * told; and goes on by itself as soon as the server lets it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import { isLeaseError, openTenure, type LeaseError, type Tenure } from '../../src/index.ts'
import { ownMs } from '../servers/own-time.ts'
import { startPostgres } from '../servers/postgres-server.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { freshDatabase, freshRedis, sharedServer } from '../servers/shared-servers.ts'

/** How long a client tries to connect unless it is told otherwise. */
const CONNECT_MS = 5_000
const leftOpen: (() => Promise<unknown>)[] = []

afterEach(async () => {
  await Promise.all(leftOpen.splice(0).map((close) => close()))
})

async function open(url: string, holder = 'ann'): Promise<Tenure> {
  const tenure = await openTenure(url, { holder })
  leftOpen.push(() => tenure.close())
  return tenure
}

/** Opens the store and acquires something, which must fail in bounded time with one clear error. */
async function refusal(url: string): Promise<LeaseError> {
  return refusalOf(async () => (await open(url)).acquire('work:w', { waitMs: 0 }))
}

async function refusalOf(act: () => Promise<unknown>, connectMs = CONNECT_MS): Promise<LeaseError> {
  let error: unknown = new Error('it was not refused')
  const tookMs = await ownMs(() => act().catch((thrown: unknown) => (error = thrown)))
  expect(tookMs).toBeLessThan(3 * connectMs)
  if (!isLeaseError(error)) throw error
  expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE', effect: 'none' })
  expect(error.message).not.toContain('\n')
  return error
}

/** Goes on as a program does that was told to try again; the test's own timeout ends it. */
async function untilItWorks<Answer>(act: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (!isLeaseError(error) || !error.retryable) throw error
      await sleep(20)
    }
  }
}

describe('a wait whose length was said', () => {
  it.each([
    ['Redis', freshRedis],
    ['PostgreSQL', freshDatabase],
  ])('outlasts an absence of %s', async (_, fresh) => {
    const place = await fresh()
    leftOpen.push(async () => place.remove())
    const proxy = await Proxy.start(place.url)
    leftOpen.push(() => proxy.close())
    const tenure = await open(proxy.through(place.url))
    await (await tenure.acquire('work:w')).release()
    proxy.refuse()
    proxy.resetCounts()
    const waiting = tenure.acquire('work:w', { waitMs: 100_000 })
    while (proxy.connections < 3) await sleep(5)
    proxy.clear()
    expect((await waiting).state).toBe('held')
  })
})

describe('a wrong password', () => {
  it('is refused by Redis in words that do not tell it', async () => {
    await using server = await startRedis({ password: 'right-one' })
    const error = await refusal(server.url.replace('right-one', 'wrong-one'))
    expect(error.message).not.toContain('wrong-one')
    await (await open(server.url)).acquire('work:w')
  })

  it('is refused by PostgreSQL in words that do not tell it', async () => {
    const url = new URL(await sharedServer('postgres'))
    const right = url.password
    url.password = 'wrong-one'
    const error = await refusal(url.href)
    expect(error.message).not.toContain('wrong-one')
    expect(error.message).not.toContain(right)
  })
})

describe.each(['redis', 'postgres'] as const)('a %s that cannot be reached', (name) => {
  it('because nobody listens is refused at once', async () => {
    const url = new URL(await sharedServer(name))
    url.port = '1'
    await refusal(url.href)
  })

  it('because nobody answers is given up in bounded time', async () => {
    await using proxy = await Proxy.start(await sharedServer(name))
    proxy.blackHole()
    const url = proxy.through(await sharedServer(name))
    const connectMs = 1_000
    await refusalOf(() => openTenure(url, { holder: 'ann', connectMs }), connectMs)
  })
})

describe('Redis', () => {
  it('that is a read-only replica is refused, and used once it is the primary', async () => {
    await using primary = await startRedis()
    await using replica = await startRedis({
      settings: { replicaof: `127.0.0.1 ${primary.port}` },
    })
    const admin = await redisAdmin(replica.url)
    while (!(await admin.info('replication')).includes('master_link_status:up')) await sleep(10)
    const error = await refusal(replica.url)
    expect(error.message).toMatch(/replica|read.?only/i)
    await admin.replicaof('NO', 'ONE')
    const tenure = await untilItWorks(() => open(replica.url))
    await untilItWorks(() => tenure.acquire('work:w'))
  })

  it('that becomes a replica under its clients serves them again when it is promoted', async () => {
    await using primary = await startRedis()
    await using other = await startRedis()
    const tenure = await open(primary.url)
    const first = await tenure.acquire('work:w')
    await first.release()
    const admin = await redisAdmin(primary.url)
    await admin.replicaof('127.0.0.1', String(other.port))
    await refusalOf(() => tenure.acquire('work:w', { waitMs: 0 }))
    await admin.replicaof('NO', 'ONE')
    const second = await untilItWorks(() => tenure.acquire('work:w'))
    expect(second.fence).toBeGreaterThan(first.fence)
  })

  it('that is out of memory refuses what would be written and harms nothing', async () => {
    await using server = await startRedis()
    const admin = await redisAdmin(server.url)
    const tenure = await open(server.url)
    const lease = await tenure.acquire('work:held', { ttlMs: 60_000 })
    await admin.config('SET', 'maxmemory', '1mb')
    const error = await refusalOf(() => tenure.acquire('work:w', { waitMs: 0 }))
    expect(error.message).toMatch(/memory/i)
    await admin.config('SET', 'maxmemory', '0')
    expect(await tenure.isHeld('work:held')).toBe(true)
    expect(await tenure.isHeld('work:w')).toBe(false)
    await untilItWorks(() => tenure.acquire('work:w'))
    await lease.release()
    const events = await tenure.history({ resource: 'work:held' })
    expect(events.map(({ event }) => event.type)).toEqual(['lease.issued', 'lease.released'])
  })

  it('whose scripts are flushed over and over costs nobody an error', async () => {
    // A server of its own: others count what their calls cost where scripts are known.
    await using server = await startRedis()
    const admin = await redisAdmin(server.url)
    const tenure = await open(server.url)
    let flushes = 0
    const work = async (): Promise<void> => {
      for (let round = 0; round < 30 || flushes <= 30; round += 1) {
        const lease = await tenure.acquire(`work:${round % 3}`, { ttlMs: 30_000 })
        await tenure.inspect(lease.resource)
        await lease.release()
      }
    }
    let isDone = false
    const working = work().finally(() => (isDone = true))
    for (; !isDone; flushes += 1) await admin.script('FLUSH')
    await working
  })

  async function redisAdmin(url: string): Promise<Redis> {
    const admin = new Redis(url).on('error', () => {})
    leftOpen.push(async () => admin.disconnect())
    await admin.ping()
    return admin
  }
})

describe('PostgreSQL', () => {
  it('that is out of connections is refused, and used when there are some again', async () => {
    await using server = await startPostgres({ settings: { max_connections: '4' } })
    const taken = await takeConnections(server.url, 4)
    const error = await refusal(server.url)
    expect(error.message).toMatch(/connection|clients/i)
    await taken()
    const tenure = await untilItWorks(() => open(server.url))
    await untilItWorks(() => tenure.acquire('work:w'))
  })

  it('that has only the connections a client already has goes on serving it', async () => {
    await using server = await startPostgres({ settings: { max_connections: '8' } })
    const tenure = await open(server.url)
    await (await tenure.acquire('work:w')).release()
    const taken = await takeConnections(server.url, Infinity)
    const resources = Array.from({ length: 40 }, (_, index) => `work:${index}`)
    await Promise.all(
      resources.map(async (resource) => {
        const lease = await untilItWorks(() => tenure.acquire(resource, { ttlMs: 60_000 }))
        await untilItWorks(() => lease.release())
      }),
    )
    await taken()
  })

  it('that ends every connection under its clients costs them nothing that lasts', async () => {
    await using place = await freshDatabase()
    const tenure = await open(place.url)
    const lease = await tenure.acquire('work:w', { ttlMs: 60_000 })
    const admin = await postgresAdmin(place.url)
    await admin.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    )
    await untilItWorks(() => lease.renew())
    expect(lease.state).toBe('held')
    await lease.release()
  })

  async function postgresAdmin(url: string): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    leftOpen.push(() => client.end())
    return client
  }

  /** Takes so many connections, or all there are; gives a function that frees them. */
  async function takeConnections(url: string, count: number): Promise<() => Promise<void>> {
    const clients: pg.Client[] = []
    while (clients.length < count) {
      const client = new pg.Client({ connectionString: url })
      client.on('error', () => {})
      try {
        await client.connect()
      } catch {
        break
      }
      clients.push(client)
    }
    return async () => void (await Promise.all(clients.map((client) => client.end())))
  }
})
