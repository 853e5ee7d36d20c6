/**
 * A number in each kind of place that a guard can guard, and beside it one that nobody guards. Whoever writes reads
 * first and adds one, so that a write that comes too late makes an earlier one disappear.
 */
import fs from 'node:fs'
import path from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import { guard, type GuardedLease } from '../../src/guard/index.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'

export type PlaceKind = 'sqlite' | 'postgres' | 'redis' | 'file'

export interface GuardedPlace {
  /** Once, before anybody writes. */
  create(): Promise<void>
  /** Makes the fence known before anything is read under it. */
  enter(lease: GuardedLease): Promise<unknown>
  read(which: 'guarded' | 'unguarded'): Promise<number>
  /** Throws `STALE_FENCE` when it is too late. */
  write(lease: GuardedLease, value: number): Promise<unknown>
  writeUnguarded(value: number): Promise<unknown>
  close(): Promise<void>
}

export const RESOURCE = 'document:report'

const OPEN: Readonly<Record<PlaceKind, (url: string) => Promise<GuardedPlace>>> = {
  sqlite: sqlitePlace,
  postgres: postgresPlace,
  redis: redisPlace,
  file: filePlace,
}

/** `url`: a directory for what is kept in files, else the URL of a server. */
export function openPlace(kind: PlaceKind, url: string): Promise<GuardedPlace> {
  return OPEN[kind](url)
}

async function sqlitePlace(directory: string): Promise<GuardedPlace> {
  const Driver = await loadSqlite()
  const database = new Driver(path.join(directory, 'app.db'), { timeout: 10_000 })
  const guarded = guard.sqlite(database)
  const put = 'UPDATE numbers SET value = ? WHERE name = ?'
  return {
    create: async () => {
      database.pragma('journal_mode = WAL')
      guarded.init()
      database.exec(`CREATE TABLE numbers (name TEXT PRIMARY KEY, value INTEGER);
        INSERT INTO numbers VALUES ('guarded', 0), ('unguarded', 0)`)
    },
    enter: async (lease) => guarded.check(lease),
    read: async (which) => {
      const row = database.prepare('SELECT value FROM numbers WHERE name = ?').raw().get(which)
      return (row as [number])[0]
    },
    write: async (lease, value) => {
      return guarded.write(lease, (db) => db.prepare(put).run(value, 'guarded'))
    },
    writeUnguarded: async (value) => database.prepare(put).run(value, 'unguarded'),
    close: async () => void database.close(),
  }
}

async function postgresPlace(url: string): Promise<GuardedPlace> {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  const guarded = guard.postgres(pool)
  const put = 'UPDATE numbers SET value = $1 WHERE name = $2'
  return {
    create: async () => {
      await guarded.init()
      await pool.query(`CREATE TABLE numbers (name text PRIMARY KEY, value integer);
        INSERT INTO numbers VALUES ('guarded', 0), ('unguarded', 0)`)
    },
    enter: (lease) => guarded.check(lease),
    read: async (which) => {
      const sql = 'SELECT value FROM numbers WHERE name = $1'
      const { rows } = await pool.query<{ value: number }>(sql, [which])
      return rows[0]?.value ?? -1
    },
    write: (lease, value) => {
      return guarded.write(lease, (client) => client.query(put, [value, 'guarded']))
    },
    writeUnguarded: (value) => pool.query(put, [value, 'unguarded']),
    close: () => pool.end(),
  }
}

async function redisPlace(url: string): Promise<GuardedPlace> {
  const client = new Redis(url)
  const guarded = guard.redis(client)
  return {
    create: async () => void (await client.mset('guarded', 0, 'unguarded', 0)),
    enter: (lease) => guarded.check(lease),
    read: async (which) => Number(await client.get(which)),
    write: (lease, value) => {
      return guarded.write(lease, `redis.call('SET', KEYS[1], ARGV[1])`, ['guarded'], [value])
    },
    writeUnguarded: (value) => client.set('unguarded', value),
    close: async () => client.disconnect(),
  }
}

async function filePlace(directory: string): Promise<GuardedPlace> {
  const Driver = await loadSqlite()
  const database = new Driver(path.join(directory, 'marks.db'), { timeout: 10_000 })
  const guarded = guard.file(database)
  const files = {
    guarded: path.join(directory, 'guarded'),
    unguarded: path.join(directory, 'unguarded'),
  }
  return {
    create: async () => {
      database.pragma('journal_mode = WAL')
      guarded.init()
      for (const file of Object.values(files)) fs.writeFileSync(file, '0')
    },
    enter: async (lease) => guarded.check(lease),
    read: async (which) => Number(fs.readFileSync(files[which], 'utf8')),
    write: async (lease, value) => guarded.write(lease, String(value), { path: files.guarded }),
    writeUnguarded: async (value) => {
      fs.writeFileSync(`${files.unguarded}.${process.pid}`, String(value))
      fs.renameSync(`${files.unguarded}.${process.pid}`, files.unguarded)
    },
    close: async () => void database.close(),
  }
}
