import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  guard,
  type GuardedLease,
  type SqliteGuard,
  type SqliteLike,
} from '../../src/guard/index.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'

let directory: string
let database: SqliteDatabase
let guarded: SqliteGuard<SqliteDatabase>

beforeEach(async () => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-guard-'))
  const Driver = await loadSqlite()
  database = new Driver(path.join(directory, 'app.db'))
  database.exec('CREATE TABLE writes (value TEXT)')
  guarded = guard.sqlite(database)
})

afterEach(() => {
  database.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

function lease(fence: number, resource = 'work:W'): GuardedLease {
  return { id: randomUUID(), resource, fence }
}

function insert(value: string): (db: SqliteDatabase) => number {
  return (db) => db.prepare('INSERT INTO writes VALUES (?)').run(value).changes
}

function values(): readonly string[] {
  return (database.prepare('SELECT value FROM writes').raw().all() as [string][]).flat()
}

describe('a guarded write in SQLite', () => {
  it('says which table is missing, and how to get it', () => {
    expect(() => guarded.write(lease(1), insert('a'))).toThrow(
      expect.objectContaining({
        code: 'STORE_SCHEMA',
        message: 'the database has no table tenure_fences; create it with "tenure guard init"',
        details: { table: 'tenure_fences' },
        cause: expect.objectContaining({ message: 'no such table: tenure_fences' }),
      }),
    )
    expect(database.inTransaction).toBe(false)
    guarded.init()
    guarded.init()
    expect(guarded.write(lease(1), insert('a'))).toBe(1)
  })

  it.each(['ROLLBACK', 'ROLLBACK; BEGIN', 'COMMIT; BEGIN'])(
    'does not return when its work ends the transaction by %s',
    (statements) => {
      guarded.init()
      const ending = (db: SqliteDatabase): void => {
        db.exec(statements)
        insert('unguarded')(db)
      }
      const refusal = expect.objectContaining({
        code: 'INVALID_INPUT',
        effect: 'unknown',
        message: 'work must not end the transaction, got one that did: what it wrote may stand',
        details: { field: 'work' },
      })
      expect(() => guarded.write(lease(20), ending)).toThrow(refusal)
      expect(database.inTransaction).toBe(false)
      database.exec('BEGIN')
      expect(() => guarded.write(lease(30), ending)).toThrow(refusal)
    },
  )

  it('is undone with its mark when the work throws', () => {
    guarded.init()
    const failing = (): never => {
      insert('half')(database)
      throw new Error('no')
    }
    expect(() => guarded.write(lease(20), failing)).toThrow('no')
    expect(values()).toEqual([])
    expect(guarded.write(lease(10), insert('a'))).toBe(1)
  })

  it('refuses work that is not done when it returns, and undoes what it began', () => {
    guarded.init()
    const late = async (): Promise<void> => void insert('late')(database)
    expect(() => guarded.write(lease(1), late)).toThrow('work must not be asynchronous')
    expect(values()).toEqual([])
  })

  it('does not let the second half of such work write later, nor bring the process down', async () => {
    guarded.init()
    const late = async (): Promise<void> => {
      await Promise.resolve()
      insert('late')(database)
    }
    expect(() => guarded.write(lease(1), late)).toThrow('got "an async function"')
    const failing = (): unknown => Promise.reject(new Error('later'))
    expect(() => guarded.write(lease(1), failing)).toThrow('got "a promise"')
    expect(() => guard.memory().write(lease(1), late)).toThrow('got "an async function"')
    expect(() => guard.memory().write(lease(1), failing)).toThrow('got "a promise"')
    await new Promise((resolve) => setImmediate(resolve))
    expect(values()).toEqual([])
  })

  it('takes part in a transaction of the caller, and undoes only its own part', () => {
    guarded.init()
    guarded.write(lease(20), insert('a'))
    database.exec('BEGIN')
    insert('mine')(database)
    expect(() => guarded.write(lease(10), insert('stale'))).toThrow('fence must be at least 20')
    guarded.write(lease(30), insert('b'))
    expect(database.inTransaction).toBe(true)
    database.exec('COMMIT')
    expect(values()).toEqual(['a', 'mine', 'b'])
    database.exec('BEGIN')
    guarded.write(lease(40), insert('undone'))
    database.exec('ROLLBACK')
    expect(guarded.check('work:W', 35)).toBe(true)
  })

  it('leaves no savepoint in the transaction of the caller', () => {
    guarded.init()
    guarded.check('work:W', 20)
    database.exec('BEGIN')
    expect(() => guarded.check('work:W', 10)).toThrow('got 10')
    expect(() => database.exec('RELEASE tenure_guard')).toThrow('no such savepoint')
    expect(guarded.check('work:W', 20)).toBe(true)
    expect(() => database.exec('RELEASE tenure_guard')).toThrow('no such savepoint')
    database.exec('ROLLBACK')
  })

  it('throws the error of SQLite as it is when that fails before the work or after it', () => {
    const failing = (part: 'prepare' | 'exec', start: string): SqliteLike => ({
      get inTransaction() {
        return database.inTransaction
      },
      prepare: (sql) => database.prepare(sql),
      exec: (sql) => database.exec(sql),
      [part]: (sql: string) => {
        if (sql.startsWith(start)) throw new Error('disk I/O error')
        return part === 'exec' ? database.exec(sql) : database.prepare(sql)
      },
    })
    guarded.init()
    for (const odd of [failing('prepare', 'SELECT'), failing('exec', 'RELEASE')]) {
      expect(() => guard.sqlite(odd).check('work:W', 20)).toThrow(/^disk I\/O error$/)
    }
    expect(guarded.check('work:W', 10)).toBe(true)
  })

  it('remembers its marks when the database is opened again', async () => {
    guarded.init()
    guarded.write(lease(20), insert('a'))
    const Driver = await loadSqlite()
    const again = new Driver(path.join(directory, 'app.db'))
    expect(() => guard.sqlite(again).write(lease(10), insert('stale'))).toThrow('got 10')
    again.close()
  })

  it('needs a database', () => {
    expect(() => guard.sqlite('app.db' as unknown as SqliteDatabase)).toThrow(
      'database must be an open SQLite database, got "app.db"',
    )
  })
})
