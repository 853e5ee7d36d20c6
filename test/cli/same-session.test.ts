/** One session at the command line, played on every store at the same time: nobody can tell which store it was. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase, freshRedis, type Place } from '../servers/shared-servers.ts'
import { playSession } from './session-script.ts'

let directory: string
let places: readonly Place[]
let onSqlite: readonly string[]
let onPostgres: readonly string[]
let onRedis: readonly string[]

beforeAll(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-session-'))
  const [database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  places = [database, redis]
  const stores = [`sqlite:${path.join(directory, 'leases.db')}`, database.url, redis.url]
  const played = await Promise.all(stores.map((store) => playSession(store)))
  ;[onSqlite = [], onPostgres = [], onRedis = []] = played
}, 180_000)

afterAll(async () => {
  await Promise.all(places.map((place) => place.remove()))
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
