import { once } from 'node:events'
import net from 'node:net'
import path from 'node:path'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { guard, POSTGRES_MARK_TABLE, SQLITE_MARK_TABLE } from '../../src/guard/index.ts'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { freshDatabase } from '../servers/shared-servers.ts'
import { tenure, workshop } from './tenure-process.ts'

describe('tenure guard init', () => {
  it('prints the statement of a dialect', async () => {
    expect(await tenure(['guard', 'init', 'sqlite'])).toEqual({
      code: 0,
      stdout: `${SQLITE_MARK_TABLE};\n`,
      stderr: '',
    })
    const { stdout } = await tenure(['guard', 'init', 'postgres', '--json'])
    expect(JSON.parse(stdout)).toEqual({ sql: `${POSTGRES_MARK_TABLE};` })
  })

  it('creates the table in a SQLite database, however often', async () => {
    const file = path.join(workshop().directory, 'app.db')
    for (let i = 0; i < 2; i += 1) {
      expect(await tenure(['guard', 'init', `sqlite:${file}`])).toEqual({
        code: 0,
        stdout: `sqlite:${file} has the table tenure_fences\n`,
        stderr: '',
      })
    }
    const Driver = await loadSqlite()
    const database = new Driver(file)
    expect(guard.sqlite(database).check('work:W', 1)).toBe(true)
    database.close()
  })

  it('creates the table in a PostgreSQL database, and shows no password', async () => {
    await using place = await freshDatabase()
    const { code, stdout } = await tenure(['guard', 'init', place.url])
    expect(code).toBe(0)
    const { password } = new URL(place.url)
    expect(password === '' || !stdout.includes(password)).toBe(true)
    const client = new pg.Client({ connectionString: place.url })
    await client.connect()
    expect(await guard.postgres(client).check('work:W', 1)).toBe(true)
    await client.end()
  })

  it.each([
    [['guard', 'drop', 'x'], 2, 'ACTION must be init, got "drop"'],
    [
      ['guard', 'init', 'mysql'],
      2,
      'DATABASE must be sqlite, postgres, sqlite:PATH or postgres://…',
    ],
    [['guard', 'init', 'constructor'], 2, 'DATABASE must be sqlite, postgres, sqlite:PATH'],
    [['guard', 'init', 'sqlite:/nowhere/x.db'], 15, 'sqlite:/nowhere/x.db cannot be used'],
    [['guard', 'init', 'postgres://a:b@127.0.0.1:1/x'], 15, 'postgres://a@127.0.0.1:1/x cannot be'],
    [
      ['guard', 'init', 'postgres://a:b@c@127.0.0.1:1/x'],
      15,
      ' postgres://a@127.0.0.1:1/x cannot be',
    ],
    [
      ['guard', 'init', 'postgres://127.0.0.1:1/x?password=b'],
      15,
      ' postgres://127.0.0.1:1/x cannot',
    ],
    [['guard', 'init', 'postgresq://a:b@c/x'], 2, 'got "postgresq://a@c/x"'],
    [['guard', 'init', 'a:b@c/x'], 2, 'got "a:…"'],
  ])('refuses %j', async (args, status, message) => {
    const { code, stdout, stderr } = await tenure(args)
    expect([code, stdout]).toEqual([status, ''])
    expect(stderr).toContain(message)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })

  it('gives up a server that takes the connection and says nothing', async () => {
    const silent = net.createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as net.AddressInfo
    try {
      const { code, stderr } = await tenure(['guard', 'init', `postgres://a:b@127.0.0.1:${port}/x`])
      const [line = '', ...rest] = stderr.trimEnd().split('\n')
      expect([code, rest]).toEqual([15, []])
      expect(line).toMatch(/postgres:\/\/a@127\.0\.0\.1:\d+\/x cannot be used: .*timeout/)
    } finally {
      silent.close()
    }
  })
})
