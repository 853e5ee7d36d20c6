/** A file that is not ours is read and refused, and nothing of it changes: no byte, no time, no file beside it. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { isLeaseError, type LeaseError } from '../../src/core/errors.ts'
import { openQuestions, openTenure } from '../../src/open.ts'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import { MIGRATIONS } from '../../src/store/sqlite/sqlite-migrations.ts'
import { SCHEMA_VERSION } from '../../src/store/sqlite/sqlite-schema.ts'
import { makeSeedDatabase } from '../files/seed-database.ts'

let directory: string
let file: string

beforeEach(() => {
  directory = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-foreign-')))
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }))
  file = path.join(directory, 'leases.db')
})

async function inDatabase(work: (database: SqliteDatabase) => void, place = file): Promise<void> {
  const Driver = await loadSqlite()
  const database = new Driver(place)
  work(database)
  database.close()
}

/** As a program that was killed leaves it: with a WAL that nobody has moved into the file. */
async function killedWith(sql: string): Promise<void> {
  const Driver = await loadSqlite()
  const place = path.join(directory, 'other', 'its.db')
  fs.mkdirSync(path.dirname(place))
  const database = new Driver(place)
  database.pragma('journal_mode = WAL')
  database.exec(sql)
  for (const suffix of ['', '-wal']) fs.copyFileSync(`${place}${suffix}`, `${file}${suffix}`)
  database.close()
  fs.rmSync(path.dirname(place), { recursive: true })
}

/** All that is in the directory: name, time of the last change, and bytes. */
function snapshot(): readonly unknown[] {
  return fs.readdirSync(directory).map((name) => {
    const place = path.join(directory, name)
    const { mtimeNs, mode } = fs.statSync(place, { bigint: true })
    return [name, String(mtimeNs), String(mode), fs.readFileSync(place).toString('base64')]
  })
}

async function refusal(opening: Promise<{ close(): Promise<void> }>): Promise<LeaseError> {
  const error: unknown = await opening.then(
    (opened) => opened.close(),
    (reason: unknown) => reason,
  )
  if (!isLeaseError(error)) throw new Error(`expected a LeaseError, got ${String(error)}`)
  return error
}

async function expectUntouched(words: RegExp): Promise<void> {
  const before = snapshot()
  const url = `sqlite:${file}`
  for (const opening of [() => openTenure(url, { holder: 'h' }), () => openQuestions(url)]) {
    const error = await refusal(opening())
    expect(error.code).toBe('STORE_SCHEMA')
    expect(error.message).toMatch(words)
    expect(snapshot()).toEqual(before)
  }
}

const ITS_MIGRATIONS = `CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT);
  INSERT INTO migrations VALUES (1, 'users'), (2, 'orders');`

describe('a file that is not ours is refused and stays as it is', () => {
  it('another program’s database', async () => {
    await inDatabase((database) => database.exec('CREATE TABLE users (name TEXT)'))
    await expectUntouched(/tables of another program: users/)
  })

  it('another program’s database that has a table called migrations', async () => {
    await inDatabase((database) => database.exec(ITS_MIGRATIONS))
    await expectUntouched(/tables of another program: migrations/)
  })

  it('one in WAL mode', async () => {
    await inDatabase((database) => {
      database.pragma('journal_mode = WAL')
      database.exec(ITS_MIGRATIONS)
    })
    await expectUntouched(/tables of another program: migrations/)
  })

  it('one in WAL mode that its program has open', async () => {
    const Driver = await loadSqlite()
    const database = new Driver(file)
    onTestFinished(() => void database.close())
    database.pragma('journal_mode = WAL')
    database.exec(ITS_MIGRATIONS)
    await expectUntouched(/tables of another program: migrations/)
  })

  it('one in WAL mode whose program was killed before anything was moved out of its WAL', async () => {
    await killedWith('CREATE TABLE orders (id TEXT)')
    await expectUntouched(/tables of another program: orders/)
  })

  it('one whose schema fills many pages', async () => {
    await inDatabase((database) => {
      const tables = Array.from({ length: 300 }, (_, n) => `CREATE TABLE t${n} (some_column TEXT);`)
      database.exec(`BEGIN; ${tables.join('')} COMMIT`)
    })
    await expectUntouched(/tables of another program: t\d+/)
  })

  it('one that writes text in UTF-16', async () => {
    await inDatabase((database) => {
      database.pragma(`encoding = 'UTF-16'`)
      database.exec('CREATE TABLE users (name TEXT)')
    })
    await expectUntouched(/another program/)
  })

  it('one that has another application_id, and nothing else yet', async () => {
    await inDatabase((database) => database.pragma('application_id = 42'))
    await expectUntouched(/application_id of another program, 42/)
  })

  it('one that has a user_version, and nothing else yet', async () => {
    await inDatabase((database) => database.pragma('user_version = 7'))
    await expectUntouched(/user_version, 7/)
  })

  it('one of the file-leasing design, with how to take it over', async () => {
    await inDatabase((database) => makeSeedDatabase(database))
    await expectUntouched(/tenure import seed-c .*leases\.db/)
  })

  it('one of the file-leasing design in WAL mode', async () => {
    await inDatabase((database) => {
      database.pragma('journal_mode = WAL')
      makeSeedDatabase(database)
    })
    await expectUntouched(/tenure import seed-c .*leases\.db/)
  })

  it.each(['a letter, not a database\n', 'x', 'SQLite format 3\0 and then something else'])(
    'what is no database at all: %j',
    async (text) => {
      fs.writeFileSync(file, text)
      await expectUntouched(/it is no SQLite database/)
    },
  )

  it('one that a newer version of Tenure made', async () => {
    await (await openTenure(`sqlite:${file}`, { holder: 'h' })).close()
    await inDatabase((database) => {
      database.exec(`INSERT INTO migrations VALUES (99, 'future', '', 0, 'success', NULL)`)
      database.pragma('user_version = 99')
    })
    await expectUntouched(
      new RegExp(`at most ${SCHEMA_VERSION} for this version of Tenure, got 99`),
    )
  })

  it('one that a newer version of Tenure has open', async () => {
    const newer = await openTenure(`sqlite:${file}`, { holder: 'h' })
    onTestFinished(() => newer.close())
    await inDatabase((database) => {
      database.pragma('user_version = 99')
      database.pragma('wal_checkpoint(PASSIVE)')
    })
    const before = snapshot()
    const error = await refusal(openQuestions(`sqlite:${file}`))
    expect(error.message).toContain('got 99')
    expect(snapshot()).toEqual(before)
  })
})

describe('a file that is ours to make', () => {
  const open = async (): Promise<void> => {
    const tenure = await openTenure(`sqlite:${file}`, { holder: 'h' })
    await tenure.acquire('work:W-1')
    await tenure.close()
  }

  it.each([
    ['one of no bytes', async () => fs.writeFileSync(file, '')],
    ['a database without anything in it', () => inDatabase((database) => database.exec('VACUUM'))],
    [
      'one in WAL mode without anything in it',
      () => inDatabase((database) => database.pragma('journal_mode = WAL')),
    ],
  ])('%s', async (_name, make) => {
    await make()
    await open()
    await inDatabase((database) => {
      expect(database.pragma('user_version', { simple: true })).toBe(SCHEMA_VERSION)
      expect(database.pragma('application_id', { simple: true })).toBe(0x54_65_6e_75)
    })
  })

  it('says in its first bytes what it is', async () => {
    await open()
    expect(fs.readFileSync(file).toString('latin1', 68, 72)).toBe('Tenu')
  })
})

describe('a file that an older release made', () => {
  const FIRST = MIGRATIONS[3]?.sql ?? ''
  const ALL = MIGRATIONS.slice(0, 5)
    .map(({ version, name, sql }) => {
      return `${sql}; INSERT INTO migrations VALUES (${version}, '${name}', '', 0, 'success', NULL);`
    })
    .join('\n')

  it.each([
    ['is ours', () => inDatabase((database) => database.exec(`${FIRST};${ALL}`))],
    ['is ours when its writer was killed', () => killedWith(`${FIRST};${ALL}`)],
    ['is ours when it was cut short', () => inDatabase((database) => database.exec(FIRST))],
    [
      'is ours although a program has set its user_version',
      () => inDatabase((database) => database.exec(`${FIRST};${ALL}; PRAGMA user_version = 3`)),
    ],
  ])('%s, and is marked when it is brought up to date', async (_name, make) => {
    await make()
    const tenure = await openTenure(`sqlite:${file}`, { holder: 'h' })
    await tenure.acquire('work:W-1')
    await tenure.close()
    expect(fs.readFileSync(file).toString('latin1', 68, 72)).toBe('Tenu')
  })
})

it('a file with two names is opened under neither, until one is taken away', async () => {
  const url = `sqlite:${file}`
  const first = await openTenure(url, { holder: 'ann' })
  onTestFinished(() => first.close())
  await first.acquire('work:1')
  const second = path.join(directory, 'second.db')
  fs.linkSync(file, second)
  const before = fs.readdirSync(directory)
  for (const opening of [
    () => openTenure(`sqlite:${second}`, { holder: 'ben' }),
    () => openQuestions(`sqlite:${second}`),
    () => openQuestions(url),
  ]) {
    const error = await refusal(opening())
    expect(error.code).toBe('STORE_UNAVAILABLE')
    expect(error.message).toContain('the file has 2 names')
  }
  expect(fs.readdirSync(directory)).toEqual(before)
  fs.rmSync(second)
  const ben = await openTenure(url, { holder: 'ben' })
  onTestFinished(() => ben.close())
  expect(await ben.tryAcquire('work:1')).toMatchObject({ kind: 'held' })
})
