/** Opening on a pool or a client that the program has already: what is refused, and what is shared. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Tenure } from '../../src/client/contract.ts'
import { parseResource } from '../../src/core/resource.ts'
import { openApi, openTenure } from '../../src/open.ts'
import type { StoreSource } from '../../src/store-address.ts'
import type { Fault } from '../../src/runtime/diagnostics.ts'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'

let database: Place
let redis: Place

beforeAll(async () => {
  database = await freshDatabase()
  redis = await freshRedis()
})

afterAll(async () => {
  await database.remove()
  await redis.remove()
})

function poolOf(max: number): pg.Pool {
  const pool = new pg.Pool({ connectionString: database.url, max })
  onTestFinished(() => pool.end())
  return pool
}

function ioredisClient(): Redis {
  const client = new Redis(redis.url)
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  return client
}

describe('a client that is of no use', () => {
  it('is refused for PostgreSQL unless it is a pool of pg', async () => {
    const disconnected = ioredisClient()
    await disconnected.ping()
    disconnected.disconnect()
    const unconnected = new pg.Client({ connectionString: database.url })
    for (const postgres of [disconnected, unconnected, {}]) {
      const opening = openTenure({ postgres: postgres as never }, { holder: 'a' })
      await expect(opening).rejects.toThrow('postgres must be a Pool of pg, got an object')
      await expect(opening).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    }
  })

  it('is refused for Redis unless it is one of a known driver', async () => {
    const halfOne = { status: 'ready', call: async () => 'OK' }
    const halfOther = { isReady: true, sendCommand: async () => 'OK' }
    for (const client of [poolOf(2), halfOne, halfOther, {}]) {
      const opening = openTenure({ redis: client as never }, { holder: 'a' })
      await expect(opening).rejects.toThrow('redis must be a client of ioredis or of node-redis')
      await expect(opening).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    }
  })

  it('is not what the clients of the known drivers are', async () => {
    const nodeRedis = createClient({ url: redis.url })
    nodeRedis.on('error', () => undefined)
    await nodeRedis.connect()
    onTestFinished(() => nodeRedis.destroy())
    const sources = [{ postgres: poolOf(2) }, { redis: ioredisClient() }, { redis: nodeRedis }]
    for (const source of sources) {
      const tenure = await openTenure(source, { holder: 'a' })
      await (await tenure.acquire('work:W-1')).release()
      await tenure.close()
    }
  })
})

/** How many connections of a server's are listening, or have been told to. */
async function countListening(): Promise<number> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND query ~ '^(UN)?LISTEN'`,
  )
  await client.end()
  return Number(rows[0]?.count)
}

/** Each in a namespace of its own, so that each has a store of its own; each with a lease, so that each listens. */
async function openApart(source: StoreSource, count: number): Promise<readonly Tenure[]> {
  const all = Array.from({ length: count }, async (_, index) => {
    const tenure = await openTenure(source, { holder: 'a', namespace: `apart-${index}` })
    await tenure.acquire('work:W-1', { ttlMs: 60_000 })
    return tenure
  })
  return Promise.all(all)
}

async function warningsDuring(work: () => Promise<void>): Promise<readonly string[]> {
  const warnings: string[] = []
  const note = ({ name, message }: Error): void => void warnings.push(`${name}: ${message}`)
  process.on('warning', note)
  try {
    await work()
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('warning', note)
  }
  return warnings
}

describe('a pool that stores in several namespaces share', () => {
  it('lends none of its connections to those who listen, who have one for all of them', async () => {
    const pool = poolOf(1)
    const tenures = await openApart({ postgres: pool }, 4)
    // It is opened before it is told what to listen for.
    await vi.waitUntil(async () => (await countListening()) > 0, { timeout: 15_000 })
    expect(await countListening()).toBe(1)
    expect(pool.totalCount).toBe(1)
    const [first, ...others] = tenures
    await first?.close()
    expect(await countListening()).toBe(1)
    await Promise.all(others.map((tenure) => tenure.close()))
    await vi.waitUntil(async () => (await countListening()) === 0, { timeout: 15_000 })
    const again = await openTenure({ postgres: pool }, { holder: 'b' })
    const lease = await again.acquire('work:W-2')
    await lease.release()
    await again.close()
  })

  it('still wakes the sessions of one when another was closed', async () => {
    const source = { postgres: poolOf(2) }
    const [closed, open] = [
      await openApi(source, { namespace: 'closed' }),
      await openApi(source, { namespace: 'open' }),
    ]
    const elsewhere = await openApi(database.url, { namespace: 'open' })
    await closed.onWake({ session: 'ada' }, () => undefined)
    let wake = (): void => undefined
    const woken = new Promise<void>((resolve) => (wake = resolve))
    await open.onWake({ session: 'ada' }, () => wake())
    await closed.close()
    const leaseId = randomUUID()
    const request = { holder: 'ada', session: 'ada', ttlMs: 60_000, waitMs: 0 }
    await elsewhere.acquire({ ...request, id: leaseId, resource: parseResource('work:W-1') })
    await elsewhere.revoke({ id: leaseId, by: 'operator' })
    await woken
    await Promise.all([open.close(), elsewhere.close()])
  })

  it('is asked one thing at a time by whoever listens', async () => {
    const warnings = await warningsDuring(async () => {
      const api = await openApi({ postgres: poolOf(2) })
      const stops = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          api.onWake({ session: `session-${index}` }, () => undefined),
        ),
      )
      for (const stop of stops) stop()
      await api.close()
    })
    expect(warnings).toEqual([])
  })

  it('gives no warning, however many there are', async () => {
    const pool = poolOf(3)
    const warnings = await warningsDuring(async () => {
      const tenures = await openApart({ postgres: pool }, 12)
      await Promise.all(tenures.map((tenure) => tenure.close()))
    })
    expect(warnings).toEqual([])
  })
})

describe('clients in one namespace', () => {
  it('on one pool share a store, and two connections are enough for them', async () => {
    const source = { postgres: poolOf(2) }
    const one = await openApi(source, { namespace: 'shared' })
    const two = await openApi(source, { namespace: 'shared' })
    expect(two.store).toBe(one.store)
    const other = await openApi(source, { namespace: 'other' })
    const elsewhere = await openApi({ postgres: poolOf(2) }, { namespace: 'shared' })
    expect(other.store).not.toBe(one.store)
    expect(elsewhere.store).not.toBe(one.store)
    await one.close()
    expect(await two.list({})).toMatchObject({ leases: [] })
    await Promise.all([two, other, elsewhere].map((api) => api.close()))
  })

  it('on one Redis client share its duplicates, which end with the last of them', async () => {
    const connectionName = `shared-${randomUUID()}`
    const client = new Redis(redis.url, { connectionName })
    onTestFinished(() => client.disconnect())
    const count = async (): Promise<number> => {
      const list = String(await client.client('LIST'))
      return list.split('\n').filter((line) => line.includes(`name=${connectionName} `)).length
    }
    const all = await Promise.all(
      Array.from({ length: 12 }, () => openApi({ redis: client }, { namespace: 'shared' })),
    )
    await Promise.all(
      all.map((api, index) => api.onWake({ session: `session-${index}` }, () => undefined)),
    )
    expect(await count()).toBe(2)
    await Promise.all(all.map((api) => api.close()))
    await vi.waitUntil(async () => (await count()) === 1, { timeout: 15_000 })
  })

  it('can be on a pool of one connection, and wait there for each other', async () => {
    const source = { postgres: poolOf(1) }
    const one = await openTenure(source, { holder: 'a', namespace: 'one' })
    const two = await openTenure(source, { holder: 'b', namespace: 'one' })
    const held = await one.acquire('work:W-1')
    const waiting = two.acquire('work:W-1', { waitMs: 60_000 })
    await held.release()
    await (await waiting).release()
    await Promise.all([one.close(), two.close()])
  })
})

describe('a pool that the program ends first', () => {
  it('ends, and so does the client that holds a lease on it', async () => {
    const pool = new pg.Pool({ connectionString: database.url })
    const tenure = await openTenure({ postgres: pool }, { holder: 'a', namespace: 'ended' })
    await tenure.acquire('work:W-1')
    await vi.waitUntil(async () => (await countListening()) === 1, { timeout: 15_000 })
    await pool.end()
    await tenure.close()
    await vi.waitUntil(async () => (await countListening()) === 0, { timeout: 15_000 })
  })

  it('that does not say how it connects is listened to in no way, which is told, and works', async () => {
    const faults: Fault[] = []
    const pool = poolOf(2)
    const wrapped = {
      totalCount: 0,
      connect: () => pool.connect(),
      query: () => undefined,
      on: () => undefined,
      end: () => pool.end(),
    }
    const onDiagnostic = (fault: Fault): void => void faults.push(fault)
    const options = { namespace: 'wrapped', onDiagnostic }
    const one = await openTenure({ postgres: wrapped as never }, { holder: 'a', ...options })
    const two = await openTenure({ postgres: wrapped as never }, { holder: 'b', ...options })
    const held = await one.acquire('work:W-1')
    const waiting = two.acquire('work:W-1', { waitMs: 60_000 })
    await held.release()
    await (await waiting).release()
    await Promise.all([one.close(), two.close()])
    const said = faults.filter(({ source }) => source === 'store/postgres/listen')
    expect(String(said[0]?.error)).toContain('the pool has no Client and options')
  })
})
