/** `tenure doctor` on servers, and on those that are set up in a way that loses leases or refuses them. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { startBouncer } from '../servers/bouncer-server.ts'
import { freshDatabase } from '../servers/shared-servers.ts'
import { writeLayout4 } from '../fixtures/redis-layout-4.ts'
import { direct, server, ShiftedClock, Subject } from '../store/redis-subject.ts'
import { tenure } from './tenure-process.ts'

interface Found {
  readonly code: number | null
  readonly lines: readonly string[]
}

interface Check {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

async function examine(store: string, ...options: readonly string[]): Promise<Found> {
  const { code, stdout, stderr } = await tenure(['doctor', '--json', '--store', store, ...options])
  expect(stderr).toBe('')
  const { checks } = JSON.parse(stdout) as { readonly checks: readonly Check[] }
  const lines = checks.map(({ name, ok, detail }) => `${ok ? 'ok' : 'wrong'} ${name}: ${detail}`)
  return { code, lines }
}

describe('tenure doctor on Redis', () => {
  it('tries to write, and leaves nothing of it', async () => {
    const { url } = await server()
    await (await openRedisStore({ url })).close()
    const before = await direct(url).keys('*')
    const { code, lines } = await examine(url)
    expect(code).toBe(0)
    expect(lines).toContain('ok writing: a key can be written and removed')
    expect(lines).toContain('ok eviction: maxmemory-policy is noeviction')
    expect(lines).toContain('ok wake-ups: a session is woken by other processes')
    expect(lines).toContain('ok pruning: what has ended can be pruned')
    expect((await direct(url).keys('*')).toSorted()).toEqual(before.toSorted())
  })

  it('calls a server that evicts keys wrong', async () => {
    const { url } = await server({ settings: { 'maxmemory-policy': 'allkeys-lru' } })
    const { code, lines } = await examine(url)
    expect(code).toBe(1)
    expect(lines).toContain(
      'wrong eviction: maxmemory-policy must be noeviction, got allkeys-lru: a server that evicts keys forgets leases',
    )
    const store = await openRedisStore({ url })
    await store.close()
    expect(store.description.durability).toContain(
      'leases may be evicted (maxmemory-policy allkeys-lru, must be noeviction)',
    )
  })
})

it('tenure doctor --accept-clock believes a clock that was ahead once', async () => {
  const { url } = await server()
  const clock = new ShiftedClock()
  clock.shiftMs = 3_600_000
  await (await Subject.open({ url, nowUs: clock.nowUs })).grant()
  const before = await examine(url)
  expect(before.code).toBe(1)
  expect(before.lines.filter((line) => line.startsWith('wrong')).join()).toMatch(
    /^wrong last commit: the clock is \d+ ms behind the last commit: commands fail until .*--accept-clock/,
  )
  const acquire = ['acquire', 'work:W-2', '--holder', 'ada', '--store', url]
  expect((await tenure(acquire)).code).toBe(15)
  const after = await examine(url, '--accept-clock')
  expect(after.code).toBe(0)
  expect(after.lines.join()).toMatch(/ok accept-clock: the clock was \d+ ms behind/)
  expect((await tenure(acquire)).code).toBe(0)
})

it('tenure doctor --convert converts a namespace of the version before, although leases are live', async () => {
  const { url } = await server()
  const atMs = Math.floor(new ShiftedClock().nowUs() / 1_000)
  const many = { namespace: 'default', live: 2, ended: 2, atMs, ttlMs: 600_000 }
  const ids = await writeLayout4(direct(url), many)
  const before = await examine(url)
  expect(before.code).toBe(1)
  expect(before.lines.join()).toMatch(
    /wrong store: namespace default has 4 live leases .*--convert/,
  )
  const after = await examine(url, '--convert')
  expect(after.lines.join()).toMatch(/ok convert: redis:\S+ is in the layout of this version/)
  expect(after.code).toBe(0)
  const { stdout } = await tenure(['show', ids.live[0] ?? '', '--json', '--store', url])
  expect(JSON.parse(stdout)).toMatchObject({ state: 'active' })
})

it('tenure doctor says that there is nothing to accept or convert on a file', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-doctor-'))
  onTestFinished(() => fs.rmSync(directory, { recursive: true }))
  const store = `sqlite:${directory}/leases.db`
  await tenure(['acquire', 'work:W-1', '--holder', 'ada', '--store', store])
  const { code, lines } = await examine(store, '--accept-clock')
  expect(code).toBe(1)
  expect(lines).toContain(
    'wrong accept-clock: there is nothing to do for --accept-clock on this store',
  )
})

it('tenure doctor says what a user of Redis lacks for pruning', async () => {
  const { url } = await server()
  const rules = ['on', '>secret', '~*', '&*', '+@all', '-xdel']
  await direct(url).call('ACL', 'SETUSER', 'ada', ...rules)
  const { code, lines } = await examine(url.replace('redis://', 'redis://ada:secret@'))
  expect(code).toBe(1)
  expect(lines).toContain('wrong pruning: XDEL is refused, so the store grows without bound')
})

const ONLY_THE_FENCE = /; waiters .* until a holder renews, only the fence protects$/

describe('tenure doctor where no wake-ups arrive', () => {
  it('says so of a user of Redis who may not subscribe', async () => {
    const { url } = await server()
    const rules = ['on', '>secret', '~*', '&*', '+@all', '-subscribe']
    await direct(url).call('ACL', 'SETUSER', 'ada', ...rules)
    const { code, lines } = await examine(url.replace('redis://', 'redis://ada:secret@'))
    expect(code).toBe(1)
    const [wrong, ...others] = lines.filter((line) => line.startsWith('wrong'))
    expect(others).toEqual([])
    expect(wrong).toMatch(/^wrong wake-ups: NOPERM .*subscribe/)
    expect(wrong).toMatch(ONLY_THE_FENCE)
  })

  it('says so behind PgBouncer in transaction mode, which accepts LISTEN and delivers nothing', async () => {
    const place = await freshDatabase()
    onTestFinished(() => place.remove())
    const bouncer = await startBouncer(place.url)
    onTestFinished(() => bouncer.close())
    const { code, lines } = await examine(`${bouncer.url}?prepare=false`)
    expect(code).toBe(1)
    const [wrong, ...others] = lines.filter((line) => line.startsWith('wrong'))
    expect(others).toEqual([])
    expect(wrong).toMatch(/^wrong wake-ups: a wake-up did not arrive within \d+ ms/)
    expect(wrong).toMatch(ONLY_THE_FENCE)
  })
})

describe('tenure doctor on PostgreSQL', () => {
  it('tells the version of the schema, and what the role may not write', async () => {
    const place = await freshDatabase()
    onTestFinished(() => place.remove())
    await (await openPostgresStore({ url: place.url })).close()
    const { code, lines } = await examine(place.url)
    expect(code).toBe(0)
    expect(lines.join('\n')).toMatch(/^ok writing: a transaction .*\nok schema: version \d+$/m)
    expect(lines).toContain('ok wake-ups: a session is woken by other processes')
    expect(lines).toContain('ok pruning: what has ended can be pruned')
    const role = `reader_${new URL(place.url).pathname.slice(-12)}`
    const admin = new pg.Client({ connectionString: place.url })
    await admin.connect()
    onTestFinished(async () => {
      await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
      await admin.end()
    })
    await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'reader'; GRANT USAGE ON SCHEMA tenure TO ${role};
      GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA tenure TO ${role};
      GRANT DELETE ON tenure.realms, tenure.live_leases, tenure.requests, tenure.config TO ${role}`)
    const url = Object.assign(new URL(place.url), { username: role, password: 'reader' })
    const found = await examine(url.href)
    expect(found.code).toBe(1)
    expect(found.lines).toContain(
      'wrong writing: the role lacks DELETE on tenure.ledger, DELETE on tenure.refusals',
    )
    expect(found.lines.join('\n')).toMatch(/^wrong pruning: .*permission denied for table ledger/m)
  })
})
