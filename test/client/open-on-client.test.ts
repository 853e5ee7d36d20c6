/** Opening on a pool or a client that the program has already: what is refused, and what is shared. */
import { Redis } from 'ioredis'
import pg from 'pg'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { openTenure } from '../../src/open.ts'
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
