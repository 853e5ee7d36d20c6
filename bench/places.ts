/**
 * Where the systems keep what they keep: a Redis and a PostgreSQL of this run alone, on private ports, and a temporary
 * folder for SQLite; and what these stores say about how much they were asked.
 */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import { startPostgres } from '../test/servers/postgres-server.ts'
import { startRedis } from '../test/servers/redis-server.ts'
import type { TestServer } from '../test/servers/test-server.ts'
import type { Place, StoreName } from './system.ts'

/** Since the start of the store. */
export interface StoreCounts {
  /** Reads of Redis from its sockets. SQLite does not count who asked in vain, and PostgreSQL tells too late. */
  readonly operations: number | null
  /** Transactions that wrote; of PostgreSQL those as well that tried to and were refused with an error. */
  readonly commits: number | null
}

export class Places {
  readonly #folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-bench-'))
  readonly #servers = new Map<StoreName, TestServer>()
  readonly #removeFolder = (): void => fs.rmSync(this.#folder, { recursive: true, force: true })
  #made = 0

  private constructor() {
    process.once('exit', this.#removeFolder)
  }

  static async open(stores: readonly StoreName[]): Promise<Places> {
    const places = new Places()
    const start = async (store: StoreName): Promise<void> => {
      if (store === 'redis') places.#servers.set(store, await startRedis())
      if (store === 'postgres') places.#servers.set(store, await startPostgres())
    }
    await Promise.all(stores.map(start))
    return places
  }

  async fresh(store: StoreName): Promise<Place> {
    this.#made += 1
    if (store === 'sqlite') {
      const folder = path.join(this.#folder, String(this.#made))
      fs.mkdirSync(folder)
      return { at: folder }
    }
    const url = new URL(this.#server(store).url)
    if (store === 'postgres') await administer(url.href, `CREATE DATABASE bench_${this.#made}`)
    url.pathname = store === 'redis' ? `/${this.#made}` : `/bench_${this.#made}`
    return { at: url.href }
  }

  /** What is measured later must not share the store with what was measured before. */
  async remove(store: StoreName, place: Place): Promise<void> {
    if (store === 'sqlite') return fs.rmSync(place.at, { recursive: true, force: true })
    if (store === 'redis') return withRedis(place.at, async (redis) => void (await redis.flushdb()))
    const name = new URL(place.at).pathname.slice(1)
    await administer(this.#server(store).url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }

  counts(store: StoreName, place: Place): Promise<StoreCounts | null> {
    if (store === 'sqlite') return Promise.resolve(sqliteCounts(place.at))
    return store === 'redis' ? redisCounts(place.at) : postgresCounts(place.at)
  }

  /** The folder with the data of a server. */
  dataFolder(store: 'redis' | 'postgres'): string {
    return path.join(this.#server(store).folder, 'data')
  }

  /** Every process of the server of a store. */
  processes(store: StoreName): readonly number[] {
    const pid = this.#servers.get(store)?.pid ?? null
    return pid === null ? [] : [pid, ...childrenOf(pid)]
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()))
    process.off('exit', this.#removeFolder)
    this.#removeFolder()
  }

  #server(store: StoreName): TestServer {
    const server = this.#servers.get(store)
    if (server === undefined) throw new Error(`the server of ${store} was not started`)
    return server
  }
}

/**
 * SQLite counts the transactions of a database in the header of its WAL index, for all processes that use it; see
 * "The WAL-Index Header" in its file format.
 */
function sqliteCounts(folder: string): StoreCounts | null {
  const name = fs.readdirSync(folder).find((file) => file.endsWith('.db-shm'))
  if (name === undefined) return null
  const header = fs.readFileSync(path.join(folder, name)).subarray(0, 12)
  const count = os.endianness() === 'LE' ? header.readUInt32LE(8) : header.readUInt32BE(8)
  return { operations: null, commits: count }
}

async function redisCounts(url: string): Promise<StoreCounts> {
  return withRedis(url, async (redis) => {
    const info = await redis.info('stats')
    const count = Number(/total_reads_processed:(\d+)/.exec(info)?.[1])
    return { operations: count, commits: null }
  })
}

async function postgresCounts(url: string): Promise<StoreCounts> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ commits: string }>(
    'SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS commits',
  )
  await client.end()
  return { operations: null, commits: Number(rows[0]?.commits) }
}

async function withRedis<Result>(
  url: string,
  work: (redis: Redis) => Promise<Result>,
): Promise<Result> {
  const redis = new Redis(url)
  try {
    return await work(redis)
  } finally {
    redis.disconnect()
  }
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement)
  await client.end()
}

function childrenOf(pid: number): readonly number[] {
  try {
    const out = execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
    return out
      .split('\n')
      .map(Number)
      .filter((child) => child > 0)
  } catch {
    // No child is a status of 1.
    return []
  }
}
