/** One session at the command line, played on every store at the same time: nobody can tell which store it was. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'
import { startTenureServer } from '../servers/tenure-server.ts'
import type { TestServer } from '../servers/test-server.ts'
import { playSession } from './session-script.ts'

let directory: string
let places: readonly Place[]
let onSqlite: readonly string[]
let onPostgres: readonly string[]
let onRedis: readonly string[]
let onServer: readonly string[]
let server: TestServer

beforeAll(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-session-'))
  const [database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  places = [database, redis]
  server = await startTenureServer(`sqlite:${path.join(directory, 'served.db')}`)
  const sqlite = `sqlite:${path.join(directory, 'leases.db')}`
  const stores = [sqlite, database.url, redis.url, server.url]
  const played = await Promise.all(stores.map((store) => playSession(store)))
  ;[onSqlite = [], onPostgres = [], onRedis = [], onServer = []] = played
}, 180_000)

afterAll(async () => {
  await Promise.all(places.map((place) => place.remove()))
  await server.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

it('a session shows what it is about', () => {
  const text = onSqlite.join('\n')
  for (const status of [0, 2, 3, 10, 11, 12, 13, 14])
    expect(text).toContain(`exit status ${status}`)
  expect(text).not.toContain('exit status 1\n')
  expect(onSqlite.length).toBeGreaterThan(200)
})

it('on PostgreSQL it reads as on SQLite', () => {
  expect(onPostgres).toEqual(onSqlite)
})

it('on Redis it reads as on SQLite', () => {
  expect(onRedis).toEqual(onSqlite)
})

it('through a server it reads as on SQLite', () => {
  expect(onServer).toEqual(onSqlite)
})
