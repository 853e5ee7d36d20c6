/** Processors with connections of their own to one SQLite database, which lets one of them write at a time. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { ActionGuard, SqliteMarks } from '../../src/workflow/index.ts'
import { action, codeOf, OLD } from './mark-stages.ts'

let directory: string
const open: SqliteDatabase[] = []

async function connect(): Promise<SqliteDatabase> {
  const Driver = await loadSqlite()
  const database = new Driver(path.join(directory, 'processor.db'))
  open.push(database)
  return database
}

async function newGuard(processor: string, waitMs = 10_000): Promise<ActionGuard<SqliteDatabase>> {
  const marks = new SqliteMarks(await connect(), processor, { waitMs })
  marks.init()
  const guard = new ActionGuard({ marks })
  await guard.setLease('w', OLD.leaseId, OLD.fence)
  return guard
}

beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-marks-'))
})

afterEach(() => {
  for (const database of open.splice(0)) database.close()
  fs.rmSync(directory, { recursive: true, force: true })
})

describe('two processors on one SQLite database', () => {
  it('take turns with effects that wait, and nothing else stands still meanwhile', async () => {
    const [one, two] = [await newGuard('compute'), await newGuard('effect')]
    const done: string[] = []
    let ticks = 0
    const first = one.process(action(0), async () => {
      done.push('one begins')
      // The second asks for its turn now; timers go on all the same.
      while (ticks < 5) await sleep(1)
      done.push('one ends')
    })
    const second = two.process(action(0), () => done.push('two'))
    while (ticks < 5) {
      await sleep(1)
      ticks += 1
    }
    await Promise.all([first, second])
    expect(done).toEqual(['one begins', 'one ends', 'two'])
  })

  it('try again, without blocking, while another process writes', async () => {
    const guard = await newGuard('compute')
    const database = path.join(directory, 'processor.db')
    const script = path.join(directory, 'writer.mjs')
    const driver = import.meta.resolve('better-sqlite3')
    fs.writeFileSync(
      script,
      `import Database from ${JSON.stringify(driver)}
const database = new Database(${JSON.stringify(database)})
database.exec('BEGIN IMMEDIATE')
process.send('writing')
process.on('message', () => { database.exec('COMMIT'); database.close(); process.disconnect() })`,
    )
    const writer = fork(script, { stdio: 'ignore' })
    // Heard from the start: the writer may be gone before the processor has had its turn.
    const exited = once(writer, 'exit')
    await once(writer, 'message')
    const processed = guard.process(action(0), () => 'done')
    for (let ticks = 0; ticks < 5; ticks += 1) await sleep(1)
    writer.send('commit')
    expect(await processed).toBe('done')
    await exited
  })

  it('say that the database is busy when it stays so, and begin nothing', async () => {
    const guard = await newGuard('compute', 50)
    const other = await connect()
    other.exec('BEGIN IMMEDIATE')
    let began = false
    const busy = guard.process(action(0), () => (began = true))
    await expect(busy).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await expect(busy).rejects.toThrow(/processor\.db is busy: .* within 50 ms/)
    expect(began).toBe(false)
    other.exec('COMMIT')
    expect(await guard.process(action(0), () => 'done')).toBe('done')
  })

  it('say so, too, when a turn of the same process does not come', async () => {
    const [one, two] = [await newGuard('compute'), await newGuard('effect', 50)]
    let end = (): void => undefined
    const ended = new Promise<void>((resolve) => (end = resolve))
    const first = one.process(action(0), () => ended)
    expect(await codeOf(two.process(action(0), () => 'x'))).toBe('STORE_UNAVAILABLE')
    end()
    await first
    expect(await two.process(action(0), () => 'done')).toBe('done')
  })

  it('keep the connection’s own patience with other writers', async () => {
    const database = await connect()
    database.pragma('busy_timeout = 1234')
    const marks = new SqliteMarks(database, 'compute')
    marks.init()
    const guard = new ActionGuard({ marks })
    await guard.setLease('w', OLD.leaseId, OLD.fence)
    const inside = await guard.process(action(0), (_, { transaction }) => {
      return transaction.pragma('busy_timeout', { simple: true })
    })
    expect([inside, database.pragma('busy_timeout', { simple: true })]).toEqual([1234, 1234])
  })
})
