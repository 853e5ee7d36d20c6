/**
 * What Node 24 is asked to do with its own SQLite, in a folder where better-sqlite3 cannot be found: the conformance
 * suite, and the guards and marks of a program on a database of its own.
 */
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import { loadSqlite, type SqliteLike } from '../../src/drivers/sqlite-driver.ts'
import { guard } from '../../src/guard/index.ts'
import { storeConformance } from '../../src/testing/index.ts'
import { SqliteMarks } from '../../src/workflow/index.ts'
import { sqliteSubject } from './sqlite-subject.ts'

const load = createRequire(import.meta.url)

interface ProgramDatabase {
  readonly isTransaction: boolean
  exec(sql: string): void
  prepare(sql: string): ReturnType<SqliteLike['prepare']>
  close(): void
}

function openDatabase(options: { readonly returnArrays?: boolean } = {}): ProgramDatabase {
  const { DatabaseSync } = load('node:sqlite') as {
    DatabaseSync: new (path: string, options: object) => ProgramDatabase
  }
  const database = new DatabaseSync(':memory:', options)
  database.exec('CREATE TABLE notes (text TEXT NOT NULL)')
  return database
}

function notesIn(database: ProgramDatabase): unknown[] {
  return database
    .prepare('SELECT text FROM notes')
    .all()
    .map((row) => (row as { text: string }).text)
}

function write(database: ProgramDatabase, text: string): void {
  database.prepare('INSERT INTO notes VALUES (?)').run(text)
}

function lease(fence: number): { resource: string; fence: number; id: string } {
  return { resource: 'work:w', fence, id: `0000000${fence}-0000-4000-8000-000000000000` }
}

storeConformance({ describe, it, skip: it.skip }, sqliteSubject)

void describe('the SQLite of Node', () => {
  void it('is what the store works with, better-sqlite3 not being there', async () => {
    assert.throws(() => load('better-sqlite3'), { code: 'MODULE_NOT_FOUND' })
    assert.equal((await loadSqlite()).name, 'NodeSqliteDatabase')
  })

  void it('can be closed twice, and says that it is in no transaction', async () => {
    const database = new (await loadSqlite())(':memory:')
    database.close()
    database.close()
    assert.equal(database.inTransaction, false)
  })

  void it('rounds an integer that no number can hold, as the other driver does', async () => {
    const database = new (await loadSqlite())(':memory:')
    const statement = database.prepare('SELECT 9007199254740993 AS n')
    assert.deepEqual({ ...(statement.get() as object) }, { n: 9007199254740992 })
    assert.deepEqual(statement.raw().all(), [[9007199254740992]])
    database.close()
  })
})

void describe('a database of the program', () => {
  void it('is guarded: a stale holder writes nothing, and a transaction of its own goes on', () => {
    const database = openDatabase()
    const guarded = guard.sqlite(database)
    guarded.init()
    guarded.write(lease(2), () => write(database, 'second'))
    assert.throws(() => guarded.write(lease(1), () => write(database, 'first')), {
      code: 'STALE_FENCE',
    })
    database.exec('BEGIN')
    write(database, 'own')
    assert.throws(() => guarded.check('work:w', 1), { code: 'STALE_FENCE' })
    guarded.write(lease(3), () => write(database, 'third'))
    assert.equal(database.isTransaction, true)
    database.exec('COMMIT')
    assert.deepEqual(notesIn(database), ['second', 'own', 'third'])
    database.close()
  })

  void it('is guarded by the same marks if it gives its rows as arrays', async () => {
    const database = openDatabase({ returnArrays: true })
    const guarded = guard.sqlite(database)
    guarded.init()
    guarded.check('work:w', 2)
    assert.throws(() => guarded.check('work:w', 1), { code: 'STALE_FENCE' })
    const marks = new SqliteMarks(database, 'processor')
    marks.init()
    const ref = { workflowId: 'w', actionId: 'a', resent: true }
    const mark = { leaseId: lease(1).id, fence: 1, revoked: false, epoch: 1 }
    await marks.transact(ref, () => ({ mark, epoch: 1, effect: async () => {} }))
    assert.deepEqual(marks.peek(ref), { mark, seen: true, rememberedFrom: 0 })
    database.close()
  })

  void it('keeps the marks of actions with their effects', async () => {
    const database = openDatabase()
    const marks = new SqliteMarks(database, 'processor')
    marks.init()
    const ref = { workflowId: 'w', actionId: 'a' }
    const mark = { leaseId: lease(1).id, fence: 1, revoked: false, epoch: 1 }
    const effect = async (): Promise<void> => write(database, 'done')
    await marks.transact(ref, () => ({ mark, epoch: 1, effect }))
    assert.deepEqual(marks.peek(ref), { mark, seen: true })
    assert.deepEqual(notesIn(database), ['done'])
    database.close()
  })
})
