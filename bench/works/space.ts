/** How much room a store takes: on disk, in the memory of its server, and in the memory of this process. */
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import type { Places } from '../places.ts'
import type { Place, StoreName } from '../system.ts'

const LOOK_EVERY_MS = 50

export interface Space {
  readonly diskBytes: number | null
  /** Of the server; null where there is none, or it shares its memory with everything else. */
  readonly memoryBytes: number | null
  /** Of this process. */
  readonly heapBytes: number | null
}

export async function spaceOf(places: Places, store: StoreName, place: Place): Promise<Space> {
  switch (store) {
    case 'sqlite':
      return { diskBytes: await sqliteBytes(place.at), memoryBytes: null, heapBytes: null }
    case 'postgres':
      return { diskBytes: await postgresBytes(place.at), memoryBytes: null, heapBytes: null }
    case 'redis':
      return { ...(await redisBytes(places, place.at)), heapBytes: null }
  }
}

/** What is in the WAL is moved into the database first, so that nothing is counted twice. */
async function sqliteBytes(folder: string): Promise<number> {
  const name = fs.readdirSync(folder).find((file) => file.endsWith('.db'))
  if (name === undefined) return 0
  const file = path.join(folder, name)
  const Driver = await loadSqlite()
  const database = new Driver(file)
  database.pragma('wal_checkpoint(TRUNCATE)')
  database.close()
  return fs.statSync(file).size
}

async function postgresBytes(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const size = 'SELECT pg_database_size(current_database()) AS bytes'
  const { rows } = await client.query<{ bytes: string }>(size)
  await client.end()
  return Number(rows[0]?.bytes)
}

async function redisBytes(
  places: Places,
  url: string,
): Promise<{ readonly diskBytes: number; readonly memoryBytes: number }> {
  const redis = new Redis(url)
  try {
    const info = await redis.info('memory')
    await saveBeside(redis)
    const diskBytes = fs.statSync(path.join(places.dataFolder('redis'), 'dump.rdb')).size
    return { diskBytes, memoryBytes: Number(/used_memory:(\d+)/.exec(info)?.[1]) }
  } finally {
    redis.disconnect()
  }
}

/** In a process of its own: a server that saves answers nobody, and its clients would take it for gone. */
async function saveBeside(redis: Redis): Promise<void> {
  await redis.bgsave()
  while (/rdb_bgsave_in_progress:1/.test(await redis.info('persistence')))
    await sleep(LOOK_EVERY_MS)
}
