/**
 * A guard of each kind over something real that can be written: a list of values. The rules of guards are tested over
 * all of them.
 */
import { Redis } from 'ioredis'
import pg from 'pg'
import { createClient } from 'redis'
import {
  guard,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from '../../src/guard/index.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { freshDatabase, freshRedis } from '../servers/shared-servers.ts'

export interface GuardStage {
  write(lease: GuardedLease, value: string, options?: WriteOptions): Promise<unknown>
  check(...asked: CheckArguments): Promise<true>
  /** What was written, in order. */
  values(): Promise<readonly string[]>
  close(): Promise<void>
}

export type StageName = 'memory' | 'sqlite' | 'postgres' | 'ioredis' | 'node-redis'

export const STAGES: Readonly<Record<StageName, () => Promise<GuardStage>>> = {
  memory: memoryStage,
  sqlite: sqliteStage,
  postgres: postgresStage,
  ioredis: ioredisStage,
  'node-redis': nodeRedisStage,
}

async function memoryStage(): Promise<GuardStage> {
  const guarded = guard.memory()
  const values: string[] = []
  return {
    write: async (lease, value, options) => guarded.write(lease, () => values.push(value), options),
    check: async (...asked) => guarded.check(...asked),
    values: async () => values,
    close: async () => undefined,
  }
}

async function sqliteStage(): Promise<GuardStage> {
  const Driver = await loadSqlite()
  const database = new Driver(':memory:')
  database.exec('CREATE TABLE writes (value TEXT)')
  const guarded = guard.sqlite(database)
  guarded.init()
  const insert = database.prepare('INSERT INTO writes VALUES (?)')
  return {
    write: async (lease, value, options) => guarded.write(lease, () => insert.run(value), options),
    check: async (...asked) => guarded.check(...asked),
    values: async () => {
      const rows = database.prepare('SELECT value FROM writes ORDER BY rowid').raw().all()
      return (rows as [string][]).flat()
    },
    close: async () => void database.close(),
  }
}

async function postgresStage(): Promise<GuardStage> {
  const place = await freshDatabase()
  const pool = new pg.Pool({ connectionString: place.url })
  // The database is dropped under connections that are still on their way out.
  pool.on('error', () => undefined)
  await pool.query('CREATE TABLE writes (id serial, value text)')
  const guarded = guard.postgres(pool)
  await guarded.init()
  return {
    write: (lease, value, options) => {
      const insert = 'INSERT INTO writes (value) VALUES ($1)'
      return guarded.write(lease, (client) => client.query(insert, [value]), options)
    },
    check: (...asked) => guarded.check(...asked),
    values: async () => {
      const { rows } = await pool.query<{ value: string }>('SELECT value FROM writes ORDER BY id')
      return rows.map(({ value }) => value)
    },
    close: async () => {
      await pool.end()
      await place.remove()
    },
  }
}

const PUSH = `return redis.call('RPUSH', KEYS[1], ARGV[1])`

async function ioredisStage(): Promise<GuardStage> {
  const place = await freshRedis()
  const client = new Redis(place.url)
  const guarded = guard.redis(client)
  return {
    write: (lease, value, options) => {
      return guarded.write(lease, PUSH, { keys: ['writes'], args: [value], ...options })
    },
    check: (...asked) => guarded.check(...asked),
    values: () => client.lrange('writes', 0, -1),
    close: async () => {
      client.disconnect()
      await place.remove()
    },
  }
}

async function nodeRedisStage(): Promise<GuardStage> {
  const place = await freshRedis()
  const client = createClient({ url: place.url })
  await client.connect()
  const guarded = guard.redis(client)
  return {
    write: (lease, value, options) => {
      return guarded.write(lease, PUSH, { keys: ['writes'], args: [value], ...options })
    },
    check: (...asked) => guarded.check(...asked),
    values: () => client.lRange('writes', 0, -1),
    close: async () => {
      client.destroy()
      await place.remove()
    },
  }
}
