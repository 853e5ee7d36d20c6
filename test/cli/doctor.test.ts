/** `tenure doctor` on stores that somebody damaged, and on one that is not there. */
import fs from 'node:fs'
import { describe, expect, it } from 'vitest'
import { loadSqlite } from '../../src/drivers/sqlite-driver.ts'
import { hostTicks } from '../../src/store/embedded-clock.ts'
import { makeOldStore } from '../fixtures/sqlite-old-layout.ts'
import { workshop, type Workshop } from './tenure-process.ts'

interface Report {
  readonly ok: boolean
  readonly checks: readonly {
    readonly name: string
    readonly ok: boolean
    readonly detail: string
  }[]
}

async function usedShop(): Promise<Workshop> {
  const shop = workshop()
  await shop.json(['acquire', 'work:1', '--ttl', '10m', '--holder', 'ann'])
  return shop
}

async function examine(shop: Workshop): Promise<Report & { readonly code: number | null }> {
  const { code, stdout, stderr } = await shop.hosted(['doctor', '--json'])
  expect(stderr).toBe('')
  return { ...(JSON.parse(stdout) as Report), code }
}

function wrongLines({ checks }: Report): readonly string[] {
  return checks.filter(({ ok }) => !ok).map(({ name, detail }) => `${name}: ${detail}`)
}

describe('tenure doctor', () => {
  it.each([
    ["status = 'odd'", 'status must be one of', '"odd"'],
    [
      `body = json_set(body, '$.mode', 'both')`,
      `body ->> '$.mode' must be exclusive or shared`,
      '"both"',
    ],
    ["body = '{'", 'body must be JSON', '"{"'],
    [
      `body = json_set(body, '$.metadata', 'no object')`,
      `body ->> '$.metadata' must be an object`,
      '"no object"',
    ],
    [
      `body = json_set(body, '$.ttlMs', -5)`,
      `body ->> '$.ttlMs' must be an integer 1..2592000000`,
      '-5',
    ],
    ["file_path = 'nowhere'", 'file_path must be an absolute path or kind:name', '"nowhere"'],
    ["fence = 'high'", 'fence must be an integer', '"high"'],
    ['clock = 99', 'clock must be a generation of clock_domains', '99'],
  ])('tells of a lease with %s', async (change, expectation, value) => {
    const shop = await usedShop()
    await shop.sql(`UPDATE live_leases SET ${change}`)
    const report = await examine(shop)
    expect([report.ok, report.code]).toEqual([false, 1])
    const [line, ...others] = wrongLines(report)
    expect(others).toEqual([])
    for (const part of ['rows: live_leases row', expectation, value]) expect(line).toContain(part)
  })

  it('tells of every configuration row that is nonsense, overrides too', async () => {
    const shop = await usedShop()
    await shop.json(['config', 'set', 'max_renewals', '5', '--for', 'work'])
    await shop.sql(`UPDATE lease_configs SET config_value = 'many' WHERE scope = 'kind'`)
    await shop.sql(`UPDATE lease_configs SET config_key = 'colour'
      WHERE config_key = 'keep_history'`)
    const report = await examine(shop)
    expect(report.code).toBe(1)
    const lines = wrongLines(report)
    expect(lines).toHaveLength(2)
    expect(lines.join()).toContain('max_renewals must be an integer -1..2147483647, got "many"')
    expect(lines.join()).toContain('key must be one of')
  })

  it('names who holds leases in a store that is not converted because of them', async () => {
    const shop = workshop()
    fs.rmSync(shop.storeFile, { force: true })
    const Driver = await loadSqlite()
    const database = new Driver(shop.storeFile)
    makeOldStore(database, { live: 1, events: 2 }, hostTicks())
    database.close()
    const report = await examine(shop)
    expect(report.code).toBe(1)
    const [line] = wrongLines(report)
    expect(line).toMatch(
      /^store: sqlite:\S+ has the tables of an older version, whose processes may still hold \/tree\/f2 of agent-2 \(\d+ s\); it is converted when they have ended, or with tenure doctor --convert \(STORE_SCHEMA\)$/,
    )
    const forced = await shop.json(['doctor', '--convert'])
    expect(forced).toMatchObject({ ok: true })
    expect(await shop.json(['ls'])).toMatchObject({ leases: [{ resource: 'file:/tree/f2' }] })
  })

  it('tells of a store that cannot be written to', async () => {
    const shop = await usedShop()
    const Driver = await loadSqlite()
    const writer = new Driver(shop.storeFile)
    writer.exec('BEGIN IMMEDIATE')
    const report = await examine(shop)
    writer.exec('ROLLBACK')
    writer.close()
    expect(report.code).toBe(1)
    expect(wrongLines(report)).toEqual(['writing: database is locked'])
  })

  it('wakes itself up, and tells of a place where no wake file can be made', async () => {
    const shop = await usedShop()
    const sound = await examine(shop)
    const detail = 'a session is woken by other processes'
    expect(sound.checks).toContainEqual({ name: 'wake-ups', ok: true, detail })
    expect(fs.existsSync(`${shop.storeFile}-wake`)).toBe(false)
    fs.writeFileSync(`${shop.storeFile}-wake`, 'in the way')
    const report = await examine(shop)
    expect(report.code).toBe(1)
    expect(wrongLines(report)).toHaveLength(1)
    expect(wrongLines(report)[0]).toMatch(/^wake-ups: ENOTDIR.*only the fence protects$/)
  })

  it('tells of a server that is not there', async () => {
    const { code, stdout } = await workshop().tenure(['doctor', '--store', 'http://127.0.0.1:1'])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^wrong +store +.*ECONNREFUSED.*\(STORE_UNAVAILABLE\)$/m)
  })

  it('changes nothing, and makes no store where there is none', async () => {
    const shop = workshop()
    fs.rmSync(shop.storeFile)
    const { code, checks } = await examine(shop)
    expect(code).toBe(0)
    const detail = `no store yet; tenure acquire and tenure run make ${shop.storeFile}`
    expect(checks.at(-1)).toEqual({ name: 'store', ok: true, detail })
    expect(fs.existsSync(shop.storeFile)).toBe(false)
    const { stdout } = await shop.hosted(['doctor'])
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('Nothing is wrong, but there is no store yet.')
    fs.writeFileSync(shop.storeFile, '')
    expect((await examine(shop)).checks.at(-1)).toEqual({ name: 'store', ok: true, detail })
    expect(fs.statSync(shop.storeFile).size).toBe(0)
    await shop.json(['acquire', 'work:1'])
    const before = fs.readFileSync(shop.storeFile)
    expect((await examine(shop)).ok).toBe(true)
    expect((await shop.hosted(['doctor'])).stdout).toContain('\nAll is well.\n')
    expect(fs.readFileSync(shop.storeFile).equals(before)).toBe(true)
  })
})
