/** What fails at a guard beside what the caller is told: it is reported, with its source. */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { guard, type GuardedLease, type RedisLike, type SqliteLike } from '../../src/guard/index.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { temporaryDirectory } from '../files/harness.ts'
import { hearFaults } from '../runtime/hear-faults.ts'

function lease(resource = 'work:W'): GuardedLease {
  return { id: randomUUID(), resource, fence: 10 }
}

async function database(): Promise<SqliteDatabase> {
  const Driver = await loadSqlite()
  const opened = new Driver(':memory:')
  onTestFinished(() => void opened.close())
  guard.sqlite(opened).init()
  return opened
}

it('reports what becomes of work that was refused because it would have gone on later', async () => {
  const faults = hearFaults()
  const failing = (): unknown => Promise.reject(new Error('later'))
  expect(() => guard.memory().write(lease(), failing)).toThrow('must not be asynchronous')
  await expect.poll(faults).toEqual([['guard/refused-work', 'later']])
})

it('throws what the work threw when SQLite cannot undo it, and reports that', async () => {
  const [faults, real] = [hearFaults(), await database()]
  const failing: SqliteLike = {
    get inTransaction() {
      return real.inTransaction
    },
    prepare: (sql) => real.prepare(sql),
    exec: (sql) => {
      if (sql === 'ROLLBACK') throw new Error('disk I/O error')
      return real.exec(sql)
    },
  }
  const work = (): never => {
    throw new Error('no')
  }
  expect(() => guard.sqlite(failing).write(lease(), work)).toThrow('no')
  expect(faults()).toEqual([['guard/sqlite-rollback', 'disk I/O error']])
  real.exec('ROLLBACK')
})

it('throws why a file was not written when its draft cannot be removed, and reports that', async () => {
  const [faults, files] = [hearFaults(), guard.file(await database())]
  const file = path.join(temporaryDirectory(), 'a')
  const { rmSync } = fs
  let removals = 0
  vi.spyOn(fs, 'renameSync').mockImplementation(() => {
    throw new Error('EXDEV')
  })
  vi.spyOn(fs, 'rmSync').mockImplementation((...input) => {
    removals += 1
    if (removals === 2) throw new Error('EROFS')
    rmSync(...input)
  })
  onTestFinished(() => void vi.restoreAllMocks())
  expect(() => files.write(lease(`file:${file}`), 'x')).toThrow('EXDEV')
  expect(faults()).toEqual([['guard/file-draft', 'EROFS']])
})

it('does not call a mistake in a program an unknown outcome', async () => {
  const mistaken = (): Promise<never> => Promise.reject(new TypeError('x is not a function'))
  const redis: RedisLike = { call: mistaken }
  await expect(guard.redis(redis).check(lease())).rejects.toThrow(TypeError)
  const postgres = { query: mistaken }
  await expect(guard.postgres(postgres).check(lease())).rejects.toThrow(TypeError)
  const lost = { call: () => Promise.reject(new Error('Connection is closed.')) }
  await expect(guard.redis(lost).check(lease())).rejects.toMatchObject({
    code: 'STORE_OUTCOME_UNKNOWN',
  })
})
