/** A database of the file-leasing design is taken over into a new store, and stays as it is. */
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { loadSqlite, type SqliteDatabase } from '../../src/drivers/sqlite-driver.ts'
import type { LeaseList } from '../../src/service/lease-api.ts'
import { addSeedLease, makeSeedDatabase } from '../files/seed-database.ts'
import { until, workshop, type Ended, type Workshop } from './tenure-process.ts'

const DRIVER = createRequire(import.meta.url).resolve('better-sqlite3')
const ID = (n: number): string => `0000000${n}-0000-4000-8000-000000000000`
const ANN = '11111111-0000-4000-8000-000000000000'
const BEN = '22222222-0000-4000-8000-000000000000'
/** In seconds, as the design counts. What lives on from here has an hour, which no test takes. */
const NOW = Math.floor(Date.now() / 1000)

let shop: Workshop
let source: string
let target: string

beforeEach(() => {
  shop = workshop()
  source = path.join(shop.directory, 'old.db')
  target = path.join(shop.directory, 'new', 'leases.db')
})

async function makeSource(
  fill: (database: SqliteDatabase) => void,
  journal = 'DELETE',
): Promise<void> {
  const Driver = await loadSqlite()
  const database = new Driver(source)
  database.pragma(`journal_mode = ${journal}`)
  makeSeedDatabase(database)
  fill(database)
  database.close()
}

function takeOver(...more: readonly string[]): Promise<Ended> {
  return shop.hosted(['import', 'seed-c', source, '--store', `sqlite:${target}`, ...more])
}

function ofTarget(words: readonly string[]): Promise<Ended> {
  return shop.hosted([...words, '--store', `sqlite:${target}`])
}

async function jsonOfTarget<Answer = never>(words: readonly string[]): Promise<Answer> {
  return JSON.parse((await ofTarget([...words, '--json'])).stdout) as Answer
}

function filesOfSource(): readonly string[] {
  return fs
    .readdirSync(shop.directory)
    .filter((name) => name.startsWith('old.db'))
    .map((name) => {
      const file = path.join(shop.directory, name)
      const { mtimeNs } = fs.statSync(file, { bigint: true })
      return `${name} ${mtimeNs} ${fs.readFileSync(file).toString('base64')}`
    })
}

/** A live lease that was renewed twice, one that was released before, and one that ran out. */
function usual(database: SqliteDatabase): void {
  const file = { path: '/repo/app.ts' }
  addSeedLease(
    database,
    {
      ...file,
      id: ID(1),
      agent: BEN,
      created: 1_700_000_000,
      expires: 1_700_003_600,
      status: 'released',
    },
    [
      ['acquired', 1_700_000_000],
      ['released', 1_700_000_100],
    ],
  )
  addSeedLease(
    database,
    {
      ...file,
      id: ID(2),
      agent: ANN,
      created: NOW - 300,
      expires: NOW + 3500,
      status: 'active',
      renewals: 2,
      maxRenewals: 5,
    },
    [
      ['acquired', NOW - 300],
      ['renewed', NOW - 200],
      ['renewed', NOW - 100],
    ],
  )
  addSeedLease(
    database,
    {
      id: ID(3),
      path: '/repo/b.ts',
      agent: BEN,
      created: 1_700_000_000,
      expires: 1_700_003_600,
      status: 'active',
    },
    [['acquired', 1_700_000_000]],
  )
  database.exec(`INSERT INTO lease_configs VALUES
    ('c0', 'default_ttl_seconds', '3600', 'int', '', 'global', NULL, 0, 0, 0),
    ('c1', 'max_renewals', '7', 'int', '', 'global', NULL, 0, 0, 0),
    ('c2', 'colour', 'red', 'string', '', 'global', NULL, 0, 0, 0)`)
}

describe('tenure import seed-c', () => {
  it('that is interrupted leaves nothing', async () => {
    await makeSource((database) => {
      database.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
        INSERT INTO leases SELECT lower(hex(randomblob(4))) || printf('-0000-4000-8000-%012d', i), '/repo/' || i, 'ann',
        1700000000, 1700003600, 3600, 'expired', 0, 5, 1700000000 FROM n`)
    })
    const place = path.dirname(target)
    fs.mkdirSync(place)
    const words = ['import', 'seed-c', source, '--store', `sqlite:${target}`]
    const running = shop.start(words)
    await until(async () => fs.readdirSync(place).length > 0)
    running.process.kill('SIGINT')
    expect(await running.ended).toEqual({ code: 130, stdout: '', stderr: '' })
    expect(fs.readdirSync(place)).toEqual([])
  })

  it('fills the namespace that the URL of the store names', async () => {
    await makeSource(usual)
    const named = `sqlite:${target}?namespace=team`
    const words = ['import', 'seed-c', source, '--store', named]
    expect(await shop.hosted(words)).toMatchObject({ code: 0, stderr: '' })
    const lists = [named, `sqlite:${target}`].map(async (store) => {
      const { stdout } = await shop.hosted(['ls', '--all', '--json', '--store', store])
      return (JSON.parse(stdout) as LeaseList).leases.length
    })
    expect(await Promise.all(lists)).toEqual([3, 0])
  })

  it('takes over what is live, what has ended, the history and the configuration', async () => {
    await makeSource(usual)
    const before = filesOfSource()
    const { code, stdout, stderr } = await takeOver()
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.split('\n')).toEqual([
      `took over 3 leases (1 live), 7 events and 2 settings into ${target}`,
      expect.stringMatching(/^left out: setting colour: key must be one of /),
      '',
    ])
    expect(filesOfSource()).toEqual(before)
    expect(fs.readdirSync(path.dirname(target))).toEqual(['leases.db'])
    const { leases } = await jsonOfTarget<{ leases: unknown[] }>(['ls'])
    expect(leases).toMatchObject([
      {
        id: ID(2),
        resource: 'file:/repo/app.ts',
        holder: ANN,
        renewals: 2,
        maxRenewals: 5,
        ttlMs: 3_600_000,
      },
    ])
    expect(await jsonOfTarget(['show', ID(1)])).toMatchObject({
      ...{ state: 'released', holder: BEN, terminatedAtMs: 1_700_000_100_000 },
    })
    expect(await jsonOfTarget(['show', ID(3)])).toMatchObject({
      ...{ state: 'expired', terminatedAtMs: 1_700_003_600_000 },
    })
    expect(await jsonOfTarget(['config', 'get', 'max_renewals'])).toMatchObject({ value: 7 })
    // A default of the design was set by nobody.
    const { overrides } = await jsonOfTarget<{ overrides: { key: string }[] }>(['config', 'ls'])
    expect(overrides.map(({ key }) => key)).toEqual(['max_renewals'])
  })

  it('refuses a database that is written to meanwhile, of which it could lose what it must take over', async () => {
    const Driver = await loadSqlite()
    const database = new Driver(source)
    database.pragma('journal_mode = WAL')
    makeSeedDatabase(database)
    usual(database)
    // What another program does between the copy of the database and that of its log: it moves all that is in the log.
    const meanwhile = path.join(shop.directory, 'meanwhile.cjs')
    fs.writeFileSync(
      meanwhile,
      `const fs = require('node:fs')
       const { copyFileSync } = fs
       fs.copyFileSync = (from, to) => {
         copyFileSync(from, to)
         if (from !== ${JSON.stringify(source)}) return
         const database = new (require(${JSON.stringify(DRIVER)}))(from)
         database.pragma('wal_checkpoint(TRUNCATE)')
         database.close()
       }`,
    )
    const words = ['import', 'seed-c', source, '--store', `sqlite:${target}`]
    const { code, stdout, stderr } = await shop.tenure(words, {
      env: { NODE_OPTIONS: `--require=${meanwhile}` },
    })
    database.close()
    expect([stdout, stderr, code]).toEqual([
      '',
      expect.stringMatching(/old\.db was written to while it was copied: stop the programs/),
      expect.toSatisfy((status: unknown) => status !== 0),
    ])
    expect(fs.readdirSync(path.dirname(target))).toEqual([])
  })

  it('gives the file to its holder alone, who renews and releases it as before', async () => {
    await makeSource(usual)
    await takeOver()
    expect(await ofTarget(['acquire', '/repo/app.ts', '--holder', BEN])).toMatchObject({ code: 10 })
    expect(await ofTarget(['renew', ID(2), '--holder', ANN])).toMatchObject({ code: 0 })
    expect(await ofTarget(['release', ID(2), '--holder', ANN])).toMatchObject({ code: 0 })
    expect(await ofTarget(['acquire', '/repo/app.ts', '--holder', BEN])).toMatchObject({ code: 0 })
    expect(await ofTarget(['acquire', '/repo/b.ts', '--holder', ANN])).toMatchObject({ code: 0 })
  })

  it('leaves a ledger that is whole, and that can be asked about the past', async () => {
    await makeSource(usual)
    await takeOver()
    const { stdout } = await ofTarget(['ledger', 'export'])
    const file = path.join(shop.directory, 'ledger.ndjson')
    fs.writeFileSync(file, stdout)
    const copy = `sqlite:${path.join(shop.directory, 'copy.db')}`
    expect(await shop.hosted(['ledger', 'import', file, '--store', copy])).toMatchObject({
      code: 0,
    })
    expect(await ofTarget(['doctor'])).toMatchObject({ code: 0 })
  })

  it('reads what is in a WAL, and moves nothing out of it', async () => {
    const Driver = await loadSqlite()
    const elsewhere = path.join(shop.directory, 'live.db')
    const database = new Driver(elsewhere)
    database.pragma('journal_mode = WAL')
    makeSeedDatabase(database)
    usual(database)
    for (const end of ['', '-wal']) fs.copyFileSync(`${elsewhere}${end}`, `${source}${end}`)
    database.close()
    const before = filesOfSource()
    expect(before).toHaveLength(2)
    expect((await takeOver()).stdout).toContain('took over 3 leases (1 live)')
    expect(filesOfSource()).toEqual(before)
  })

  it('says in a line each what cannot be taken over', async () => {
    await makeSource((database) => {
      const lease = { path: '/repo/app.ts', agent: ANN, created: NOW, expires: NOW + 3600 }
      addSeedLease(database, { ...lease, id: ID(1), status: 'active' }, [])
      addSeedLease(database, { ...lease, id: ID(2), agent: BEN, status: 'active' }, [])
      addSeedLease(database, { ...lease, id: ID(3), path: '/a', status: 'pending' }, [])
      addSeedLease(database, { ...lease, id: ID(4), path: '/b', status: 'failed' }, [])
      addSeedLease(database, { ...lease, id: 'no-uuid', path: '/c', status: 'active' }, [])
      addSeedLease(database, { ...lease, id: ID(6), path: 'app.ts', status: 'active' }, [])
      addSeedLease(database, { ...lease, id: ID(7), path: '/d', status: 'odd' }, [])
    })
    const { code, stdout } = await takeOver()
    expect(code).toBe(0)
    expect(stdout.trimEnd().split('\n')).toEqual([
      `took over 1 lease (1 live), 1 event and 0 settings into ${target}`,
      `left out: lease ${ID(3)}: pending, which ends with the process that waited`,
      `left out: lease ${ID(4)}: failed, so that it never held its file`,
      expect.stringMatching(/^left out: live lease no-uuid: id must be a UUID/),
      expect.stringMatching(/^left out: live lease 00000006.*must be an absolute path/),
      expect.stringMatching(/^left out: lease 00000007.*status must be one of/),
      `left out: live lease ${ID(2)}: ${BEN} had /repo/app.ts at the same time as ${ID(1)} of ${ANN}`,
      '3 live leases were left out: nobody has what they were about in the new store',
    ])
    fs.rmSync(target)
    expect(JSON.parse((await takeOver('--json')).stdout)).toMatchObject({ live: 1, liveLeft: 3 })
  })

  it('takes over the reasons of the history, and says of each row that it has no place for', async () => {
    const past = { agent: ANN, created: 1_700_000_000, expires: 1_700_003_600 }
    await makeSource((database) => {
      const row = { ...past, id: ID(1), path: '/a', status: 'released', renewals: 1 }
      addSeedLease(database, row, [
        ['acquired', 1_700_000_000],
        ['renewed', 1_700_000_010],
        ['failed', 1_700_000_020],
        ['released', 1_700_000_030],
        ['expired', 1_700_000_040],
      ])
      addSeedLease(database, { ...past, id: ID(2), path: 'b', status: 'released' }, [
        ['acquired', 1_700_000_000],
      ])
      addSeedLease(database, { ...past, id: ID(3), path: '/c', status: 'released' }, [
        ['acquired', 1_700_000_000],
      ])
      database.exec(`DELETE FROM leases WHERE id = '${ID(3)}'`)
      database.exec(`UPDATE lease_history SET reason = 'why it ' || event_type`)
    })
    const { stdout } = await takeOver()
    expect(stdout.trimEnd().split('\n')).toEqual([
      `took over 1 lease (0 live), 3 events and 0 settings into ${target}`,
      expect.stringMatching(/^left out: lease 00000002\S* \(and 1 event of it\): .*absolute path/),
      `left out: event failed of lease ${ID(1)} at 1700000020, reason "why it failed": failed, so that it changed nothing`,
      `left out: event expired of lease ${ID(1)} at 1700000040, reason "why it expired": does not fit its lease, which began once and ended as released`,
      `left out: event acquired of lease ${ID(3)} at 1700000000, reason "why it acquired": leases has no such lease`,
    ])
    const { stdout: history } = await ofTarget(['ledger', 'export'])
    expect(
      history
        .trimEnd()
        .split('\n')
        .map((line) => /"reason":"(.*?)"/.exec(line)?.[1]),
    ).toEqual(['why it acquired', 'why it renewed', 'why it released'])
  })

  it('keeps the order of what happened while the clock was set back', async () => {
    await makeSource((database) => {
      const lease = { agent: ANN, created: NOW - 300, expires: NOW + 3000, status: 'active' }
      addSeedLease(database, { ...lease, id: ID(1), path: '/a', renewals: 1 }, [
        ['acquired', NOW - 300],
        ['renewed', NOW - 400],
      ])
      addSeedLease(database, { ...lease, id: ID(2), path: '/b', renewals: 2 }, [
        ['acquired', NOW - 300],
        ['renewed', NOW - 100],
        ['renewed', NOW - 200],
      ])
    })
    expect((await takeOver()).stdout).toContain('took over 2 leases (2 live), 5 events')
    const { leases } = await jsonOfTarget<{ readonly leases: readonly unknown[] }>(['ls'])
    expect(leases).toMatchObject([{ renewals: 1 }, { renewals: 2 }])
  })

  it('says in a line which number it cannot read, and takes over the rest', async () => {
    await makeSource((database) => {
      const lease = { agent: ANN, created: NOW - 300, expires: NOW + 3000, status: 'active' }
      const events = [['renewed', NOW - 100]] as const
      for (const n of [1, 2, 3])
        addSeedLease(database, { ...lease, id: ID(n), path: `/${n}` }, events)
      addSeedLease(database, { ...lease, id: ID(4), path: '/4', status: 'released' }, [])
      addSeedLease(database, { ...lease, id: ID(5), path: '/5' }, [])
      database.exec(`UPDATE leases SET renewal_count = 'many' WHERE id = '${ID(1)}'`)
      database.exec(`UPDATE leases SET renewal_count = -1 WHERE id = '${ID(2)}'`)
      database.exec(`UPDATE leases SET renewal_count = 1.5 WHERE id = '${ID(3)}'`)
      database.exec(`UPDATE leases SET updated_at = 'soon' WHERE id >= '${ID(4)}'`)
    })
    const { stdout } = await takeOver()
    expect(stdout.trimEnd().split('\n')).toEqual([
      `took over 1 lease (1 live), 1 event and 0 settings into ${target}`,
      ...['"many"', '-1', '1.5'].map((value) =>
        expect.stringMatching(
          `^left out: live lease .*: renewal_count must be an integer .* got ${value}$`,
        ),
      ),
      `left out: lease ${ID(4)}: updated_at must be seconds since 1970, got "soon"`,
      '3 live leases were left out: nobody has what they were about in the new store',
    ])
  })

  it('makes no one lease of two whose ids differ in the case of their letters', async () => {
    const id = 'aaaaaaaa-0000-4000-8000-000000000000'
    await makeSource((database) => {
      const lease = { agent: ANN, created: NOW, expires: NOW + 3600, status: 'active' }
      addSeedLease(database, { ...lease, id, path: '/a' }, [])
      addSeedLease(database, { ...lease, id: id.toUpperCase(), path: '/b' }, [])
    })
    const { stdout } = await takeOver()
    expect(stdout).toContain('took over 1 lease (1 live), 1 event')
    expect(stdout).toContain(`left out: live lease ${id}: another lease has the same id`)
    const { leases } = await jsonOfTarget<{ readonly leases: readonly unknown[] }>(['ls'])
    expect(leases).toMatchObject([{ resource: 'file:/a' }])
  })

  it('is not mixed with the log that a database of the same name has left', async () => {
    await makeSource(usual)
    const Driver = await loadSqlite()
    const removed = new Driver(path.join(shop.directory, 'removed.db'))
    removed.pragma('journal_mode = WAL')
    removed.exec('CREATE TABLE other (value)')
    fs.mkdirSync(path.dirname(target))
    fs.copyFileSync(path.join(shop.directory, 'removed.db-wal'), `${target}-wal`)
    removed.close()
    expect((await takeOver()).stdout).toContain('took over 3 leases (1 live)')
    expect(await ofTarget(['doctor'])).toMatchObject({ code: 0 })
  })

  it('takes over leases whose status is spelt as the enum of the design', async () => {
    await makeSource((database) => {
      const row = { path: '/a', agent: ANN, created: NOW, expires: NOW + 3600 }
      addSeedLease(database, { ...row, id: ID(1), status: 'Active' }, [['Acquired', NOW]])
    })
    expect(JSON.parse((await takeOver('--json')).stdout)).toMatchObject({
      ...{ live: 1, left: [], liveLeft: 0 },
    })
  })

  it('takes over a database that has its leases alone, and doctor says so', async () => {
    await makeSource((database) => {
      usual(database)
      for (const table of ['migrations', 'lease_configs', 'lease_history']) {
        database.exec(`DROP TABLE ${table}`)
      }
      database.exec('VACUUM')
    })
    const { stdout } = await shop.hosted(['doctor', '--store', `sqlite:${source}`])
    expect(stdout).toContain(`tenure import seed-c ${source} --store sqlite:NEW`)
    expect(await takeOver()).toMatchObject({ code: 0 })
  })

  it('says which table it cannot read', async () => {
    await makeSource((database) => {
      usual(database)
      database.exec('ALTER TABLE lease_history RENAME COLUMN reason TO why')
    })
    const { stdout } = await takeOver()
    expect(stdout).toContain('left out: table lease_history: its table lease_history has no reason')
  })
})

describe('nothing is made', () => {
  it.each([
    [
      'a store that exists',
      2,
      async (): Promise<void> => void (await ofTarget(['acquire', 'work:1'])),
    ],
    [
      'a source that is no database',
      15,
      async () => fs.writeFileSync(source, 'a letter, and no database\n'.repeat(50)),
    ],
    [
      'a source of another program',
      15,
      async () => {
        const Driver = await loadSqlite()
        const database = new Driver(source)
        database.exec('CREATE TABLE users (name TEXT)')
        database.close()
      },
    ],
  ] as const)('for %s', async (_name, exitCode, spoil) => {
    if (exitCode === 2) await makeSource(usual)
    await spoil()
    const before = fs.existsSync(target) ? fs.readFileSync(target) : null
    const { code, stderr } = await takeOver()
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(code).toBe(exitCode)
    const after = fs.existsSync(target) ? fs.readFileSync(target) : null
    expect(after).toEqual(before)
  })

  it('for a source that is a Tenure store already', async () => {
    await shop.hosted(['acquire', 'work:1', '--store', `sqlite:${source}`])
    const { code, stderr } = await takeOver()
    expect(code).toBe(15)
    expect(stderr).toContain(`${source} is a Tenure store already`)
    expect(fs.existsSync(target)).toBe(false)
  })

  it('for a source that is not there, or a store that is no file', async () => {
    expect(await takeOver()).toMatchObject({ code: 2 })
    await makeSource(usual)
    const words = ['import', 'seed-c', source, '--store', 'memory:']
    expect(await shop.hosted(words)).toMatchObject({ code: 2 })
    expect(await shop.hosted(['import', 'seed-x', source])).toMatchObject({ code: 2 })
  })

  it('and doctor says how such a database is taken over', async () => {
    await makeSource(usual)
    const before = filesOfSource()
    const { code, stdout } = await shop.hosted(['doctor', '--store', `sqlite:${source}`])
    expect(code).toBe(1)
    expect(stdout).toContain(`tenure import seed-c ${source} --store sqlite:NEW`)
    expect(filesOfSource()).toEqual(before)
  })
})
