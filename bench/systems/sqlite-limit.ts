/**
 * The limit of SQLite: a bare loop over better-sqlite3, durable (`FULL`), one upsert and one history row for each
 * operation, and a transaction for as many as are in flight elsewhere. It has no callers to answer, so nothing that
 * does can be faster. Contended it is a lock that asks again.
 */
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  isBusy,
  loadSqlite,
  type SqliteDatabase,
  type SqliteStatement,
} from '../../src/drivers/sqlite-driver.ts'
import { pauseAbout, pauseText } from '../measure/pause.ts'
import { NOTHING, type Loop, type OpenSystem, type SystemUnderTest } from '../system.ts'

const TTL_MS = 600_000

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS held (resource TEXT PRIMARY KEY, token TEXT, expires_at INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS history (seq INTEGER PRIMARY KEY, resource TEXT NOT NULL, token TEXT, event TEXT NOT NULL,
    at INTEGER NOT NULL);`

export function sqliteLimit(pauseMs: number): SystemUnderTest<string> {
  return {
    ...{ name: 'limit', store: 'sqlite', role: 'reference', contends: true },
    settings: `bare better-sqlite3, WAL, synchronous FULL; an upsert and a history row per operation, a transaction for all in flight; contended it ${pauseText(pauseMs)}`,
    offers: { ...NOTHING, ttl: true, history: true, durable: true },
    polling: { pauseMs, pausing: sqliteLimit },
    open: async (place) => {
      const Driver = await loadSqlite()
      const database = new Driver(path.join(place.at, 'limit.db'), { timeout: 5_000 })
      database.pragma('journal_mode = WAL')
      database.pragma('synchronous = FULL')
      database.pragma('cache_size = -16000')
      database.pragma('wal_autocheckpoint = 4000')
      database.exec(SCHEMA)
      return new BareLoop(database, pauseMs)
    },
  }
}

class BareLoop implements OpenSystem<string>, Loop {
  readonly #database: SqliteDatabase
  readonly #pauseMs: number
  readonly #take: SqliteStatement
  readonly #free: SqliteStatement
  readonly #extend: SqliteStatement
  readonly #note: SqliteStatement
  readonly #tokens = new Map<string, string>()
  #next = 0
  readonly loop: Loop = this

  constructor(database: SqliteDatabase, pauseMs: number) {
    this.#database = database
    this.#pauseMs = pauseMs
    this.#take = database.prepare(`INSERT INTO held VALUES (?, ?, ?) ON CONFLICT (resource)
      DO UPDATE SET token = excluded.token, expires_at = excluded.expires_at WHERE held.expires_at <= ?`)
    this.#free = database.prepare(
      'UPDATE held SET token = NULL, expires_at = 0 WHERE resource = ? AND token = ?',
    )
    this.#extend = database.prepare(
      'UPDATE held SET expires_at = ? WHERE resource = ? AND token = ?',
    )
    this.#note = database.prepare(
      'INSERT INTO history (resource, token, event, at) VALUES (?, ?, ?, ?)',
    )
  }

  pairs(count: number, resources: number): void {
    const names = Array.from({ length: count }, () => `item-${this.#count() % resources}`)
    this.#atOnce(() => names.forEach((name) => demand(this.#acquireNow(name, TTL_MS))))
    this.#atOnce(() => names.forEach((name) => this.#releaseNow(name)))
  }

  renewals(count: number, resources: number): void {
    const names = Array.from({ length: count }, () => `renewed-${this.#count() % resources}`)
    const unknown = names.filter((name) => !this.#tokens.has(name))
    if (unknown.length > 0)
      this.#atOnce(() => unknown.forEach((name) => this.#acquireNow(name, TTL_MS)))
    this.#atOnce(() => names.forEach((name) => this.#renewNow(name)))
  }

  async acquire(resource: string, ttlMs: number): Promise<string> {
    while (!this.#tryAtOnce(() => this.#acquireNow(resource, ttlMs)))
      await pauseAbout(this.#pauseMs)
    return resource
  }

  async release(resource: string): Promise<void> {
    while (!this.#tryAtOnce(() => this.#releaseNow(resource))) await sleep(1)
  }

  async renew(resource: string): Promise<void> {
    this.#atOnce(() => this.#renewNow(resource))
  }

  async fill(count: number): Promise<void> {
    this.#database
      .exec(`INSERT INTO held WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ${count})
      SELECT 'live-' || hex(randomblob(16)), hex(randomblob(16)), 9e15 FROM c`)
  }

  async close(): Promise<void> {
    this.#database.close()
  }

  #count(): number {
    this.#next += 1
    return this.#next
  }

  #acquireNow(resource: string, ttlMs: number): boolean {
    const nowMs = Date.now()
    const token = randomUUID()
    const { changes } = this.#take.run(resource, token, nowMs + ttlMs, nowMs)
    if (changes !== 1) return false
    this.#tokens.set(resource, token)
    this.#note.run(resource, token, 'acquired', nowMs)
    return true
  }

  #releaseNow(resource: string): boolean {
    const token = this.#tokens.get(resource) ?? ''
    demand(this.#free.run(resource, token).changes === 1)
    this.#note.run(resource, token, 'released', Date.now())
    return true
  }

  #renewNow(resource: string): void {
    const token = this.#tokens.get(resource) ?? ''
    demand(this.#extend.run(Date.now() + TTL_MS + this.#count(), resource, token).changes === 1)
    this.#note.run(resource, token, 'renewed', Date.now())
  }

  #atOnce(work: () => void): void {
    this.#database.exec('BEGIN IMMEDIATE')
    work()
    this.#database.exec('COMMIT')
  }

  /** False when it was refused, or when another process is writing at this moment. */
  #tryAtOnce(work: () => boolean): boolean {
    try {
      this.#database.exec('BEGIN IMMEDIATE')
    } catch (error) {
      if (isBusy(error)) return false
      throw error
    }
    const done = work()
    this.#database.exec('COMMIT')
    return done
  }
}

function demand(done: boolean): void {
  if (!done) throw new Error('the loop lost what it held')
}
