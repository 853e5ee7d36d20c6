/**
 * What a test file gets of the servers that the run shares: a PostgreSQL database and a Redis database that nobody
 * else uses. Call them in a `beforeAll` or a test; what they give is removed when that file, or that test, is done.
 */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import pg from 'pg'
import { inject } from 'vitest'
import type { ServerName } from './global-setup.ts'

/** Longer than any run; a run that was killed cannot give its Redis database back. */
const CLAIM_MS = 3_600_000

/** A place on a store's server. Close it when nothing uses it any more. */
export interface Place {
  readonly url: string
  remove(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** The server that the run shares, started now if this is the first file that asks. */
export async function sharedServer(name: ServerName): Promise<string> {
  const response = await fetch(`${inject('testServers')}/${name}`)
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text
}

/** An empty PostgreSQL database of its own, on the shared server unless another is given. */
export async function freshDatabase(server?: string): Promise<Place> {
  const url = new URL(server ?? (await sharedServer('postgres')))
  const name = `tenure_test_${randomUUID().replaceAll('-', '')}`
  await administer(url, `CREATE DATABASE ${name}`)
  const own = new URL(url)
  own.pathname = `/${name}`
  return place(own.href, () => administer(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
}

/**
 * An empty logical database of Redis of its own. Pub/sub channels and `FLUSHALL` know no databases: a test that
 * minds starts a server of its own.
 */
export async function freshRedis(server?: string): Promise<Place> {
  const url = new URL(server ?? (await sharedServer('redis')))
  url.pathname = '/0'
  const admin = administrator(url)
  try {
    const index = await claimEmpty(admin)
    const own = new URL(url)
    own.pathname = `/${index}`
    return place(own.href, () => giveBack(url, index))
  } finally {
    admin.disconnect()
  }
}

async function administer(url: URL, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/**
 * Claims are kept in database 0, which is given to nobody, so that a given database is truly empty. Databases are given in
 * turn: what is left of an earlier test, a connection that is about to close, answers on the channels of its own database,
 * and must not be met by the next one.
 */
async function claimEmpty(admin: Redis): Promise<number> {
  const [, databases] = (await admin.config('GET', 'databases')) as string[]
  const count = Number(databases) - 1
  const turn = await admin.incr('tenure-test:turn')
  for (let step = 0; step < count; step++) {
    const index = 1 + ((turn + step) % count)
    const isOurs = await admin.set(claimOf(index), '1', 'PX', CLAIM_MS, 'NX')
    if (isOurs === null) continue
    await admin.select(index)
    const size = await admin.dbsize()
    await admin.select(0)
    if (size === 0) return index
  }
  throw new Error(`none of the ${databases} databases of the Redis server is free and empty`)
}

async function giveBack(server: URL, index: number): Promise<void> {
  const admin = administrator(server)
  try {
    await admin.select(index)
    await admin.flushdb()
    await admin.select(0)
    await admin.del(claimOf(index))
  } finally {
    admin.disconnect()
  }
}

/** Fails at once where there is no server, instead of trying for ever. */
function administrator(server: URL): Redis {
  const admin = new Redis(server.href, { retryStrategy: () => null })
  return admin.on('error', () => {})
}

function claimOf(index: number): string {
  return `tenure-test:database:${index}`
}

function place(url: string, remove: () => Promise<void>): Place {
  return { url, remove, [Symbol.asyncDispose]: remove }
}
