import { spawn } from 'node:child_process'
import fs from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { startPostgres } from './postgres-server.ts'
import { DURABLE_REDIS, startRedis } from './redis-server.ts'
import { freshDatabase, freshRedis, sharedServer } from './shared-servers.ts'

async function query(url: string, text: string): Promise<readonly unknown[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query({ text, rowMode: 'array' })).rows.flat()
  } finally {
    await client.end()
  }
}

async function ask(url: string, ...[command = '', ...args]: readonly string[]): Promise<unknown> {
  const options = { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null }
  const client = new Redis(url, options)
  let cause: unknown
  client.on('error', (error) => (cause = error))
  try {
    await client.connect()
    return await client.call(command, ...args)
  } catch (error) {
    throw cause instanceof Error ? cause : error
  } finally {
    client.disconnect()
  }
}

async function isPending(promise: Promise<unknown>, forMs: number): Promise<boolean> {
  const late = Symbol('late')
  return (await Promise.race([promise, sleep(forMs, late)])) === late
}

describe('the servers of the run', () => {
  it('are started once, and give each file a database of its own that goes with it', async () => {
    expect(await sharedServer('postgres')).toBe(await sharedServer('postgres'))
    const place = await freshDatabase()
    const other = await freshDatabase()
    await query(place.url, 'CREATE TABLE thing (id int)')
    await expect(query(other.url, 'SELECT * FROM thing')).rejects.toThrow('does not exist')
    await Promise.all([place.remove(), other.remove()])
    await expect(query(place.url, 'SELECT 1')).rejects.toThrow('does not exist')
  })

  it('give each file an empty Redis database that nobody else is given', async () => {
    await using place = await freshRedis()
    await ask(place.url, 'SET', 'thing', '1')
    await using other = await freshRedis()
    expect(other.url).not.toBe(place.url)
    expect(await ask(other.url, 'DBSIZE')).toBe(0)
    expect(await ask(place.url, 'DBSIZE')).toBe(1)
  })

  it('make PostgreSQL as durable as it is by default', async () => {
    const url = await sharedServer('postgres')
    expect(await query(url, 'SHOW fsync')).toEqual(['on'])
    expect(await query(url, 'SHOW synchronous_commit')).toEqual(['on'])
  })
})

describe('a PostgreSQL server of a test', () => {
  it('keeps what it acknowledged when it is killed, and comes back on its port', async () => {
    await using server = await startPostgres({ settings: { max_connections: '7' } })
    expect(await query(server.url, 'SHOW max_connections')).toEqual(['7'])
    await query(server.url, 'CREATE TABLE thing AS SELECT 1 AS id')
    await server.kill()
    await expect(query(server.url, 'SELECT 1')).rejects.toThrow('ECONNREFUSED')
    await server.restart()
    expect(await query(server.url, 'SELECT id FROM thing')).toEqual([1])
  })

  it('answers nobody while it is paused, on old connections neither', async () => {
    await using server = await startPostgres()
    const client = new pg.Client({ connectionString: server.url })
    client.on('error', () => {})
    await client.connect()
    await server.pause()
    const answer = client.query('SELECT 1 AS one')
    expect(await isPending(answer, 100)).toBe(true)
    await server.resume()
    expect((await answer).rows).toEqual([{ one: 1 }])
    await client.end()
  })
})

describe('a Redis server of a test', () => {
  it('keeps what it acknowledged when it is killed, if it is told to be durable', async () => {
    await using durable = await startRedis({ settings: DURABLE_REDIS })
    await using forgetful = await startRedis()
    for (const server of [durable, forgetful]) {
      await ask(server.url, 'SET', 'thing', '1')
      await server.kill()
      await expect(ask(server.url, 'PING')).rejects.toThrow()
      await server.restart()
    }
    expect(await ask(durable.url, 'GET', 'thing')).toBe('1')
    expect(await ask(forgetful.url, 'GET', 'thing')).toBeNull()
  })

  it('has the password, the limits and the primary that it was started with', async () => {
    await using primary = await startRedis({ password: 'open sesame' })
    expect(await ask(primary.url, 'PING')).toBe('PONG')
    await expect(ask(`redis://127.0.0.1:${primary.port}`, 'PING')).rejects.toThrow('NOAUTH')
    const settings = {
      replicaof: `127.0.0.1 ${primary.port}`,
      masterauth: '"open sesame"',
      maxmemory: '3mb',
    }
    await using replica = await startRedis({ settings })
    expect(await ask(replica.url, 'CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', '3145728'])
    await expect(ask(replica.url, 'SET', 'a', 'b')).rejects.toThrow('READONLY')
  })

  it('is silent while it is paused', async () => {
    await using server = await startRedis()
    await server.pause()
    const answer = ask(server.url, 'PING')
    expect(await isPending(answer, 100)).toBe(true)
    await server.resume()
    expect(await answer).toBe('PONG')
  })

  it('that cannot start says what the server said', async () => {
    await expect(startRedis({ settings: { 'no-such-setting': '1' } })).rejects.toThrow(
      "'no-such-setting",
    )
  })
})

describe('a server outlives nobody', () => {
  const program = fileURLToPath(
    new URL('../../dist-dev/test/servers/abandon-servers.js', import.meta.url),
  )

  it.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
    'when what started it dies of %s, nothing is left, not even of one that is paused',
    async (signal) => {
      const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = new Promise((resolve) => child.once('close', resolve))
      const lines = createInterface({ input: child.stdout })
      const line = await new Promise<string>((resolve) => lines.once('line', resolve))
      const { pids, folders } = JSON.parse(line) as { pids: number[]; folders: string[] }
      expect(pids.filter(isAlive)).toEqual(pids)
      child.kill(signal)
      await ended
      while (pids.some(isAlive) || folders.some((folder) => fs.existsSync(folder))) await sleep(10)
    },
  )
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
