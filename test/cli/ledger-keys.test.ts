/** Which keys may seal a ledger: one line of them, in the order of the ledger, whatever the clocks say. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseKeyRing } from '../../src/ledger/key-ring.ts'
import { workshop, type Ended, type RunOptions, type Workshop } from './tenure-process.ts'

const KEYS = ['--keys', 'keys.json']
const STOLEN = ['--keys', 'stolen.json']

/** A command whose clock is wrong by so many milliseconds. */
function clockOff(byMs: number): RunOptions {
  const code = `const now=Date.now;Date.now=()=>now()+(${byMs})`
  return { env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` } }
}

function fileOf(shop: Workshop, name: string): string {
  return path.join(`${shop.storeFile}.ledger`, `${name}.ndjson`)
}

function cut(shop: Workshop, name: string, lines: number): void {
  const kept = fs.readFileSync(fileOf(shop, name), 'utf8').split('\n').slice(0, lines)
  fs.writeFileSync(fileOf(shop, name), kept.map((line) => `${line}\n`).join(''))
}

/** A ledger with one checkpoint of a first key, of which somebody has a copy. */
async function sealedOnce(): Promise<Workshop> {
  const shop = workshop()
  await shop.json(['keys', 'generate', ...KEYS])
  fs.copyFileSync(path.join(shop.directory, 'keys.json'), path.join(shop.directory, 'stolen.json'))
  await shop.json(['acquire', 'work:a', '--holder', 'ada', '--ttl', '1h'])
  await shop.json(['ledger', 'seal', ...KEYS])
  return shop
}

async function expectRefused(shop: Workshop): Promise<void> {
  const found = await shop.tenure(['ledger', 'verify', ...KEYS])
  expect([found.code, found.stdout]).toEqual([1, expect.stringContaining('named its successor')])
  const sealed = await shop.tenure(['ledger', 'seal', ...KEYS])
  expect([sealed.code, sealed.stderr]).toEqual([2, expect.stringContaining('must be whole')])
}

function said({ code, stdout, stderr }: Ended): string {
  return `${code} ${stdout}${stderr}`
}

it('a key that was stolen and rotated since neither seals on nor makes store and ledger anew', async () => {
  const shop = await sealedOnce()
  await shop.json(['keys', 'rotate', ...KEYS])
  await shop.json(['ledger', 'seal', ...KEYS])
  cut(shop, 'events', 1)
  cut(shop, 'checkpoints', 1)
  await shop.json(['ledger', 'seal', ...STOLEN])
  await expectRefused(shop)
  fs.rmSync(shop.storeFile)
  fs.rmSync(`${shop.storeFile}.ledger`, { recursive: true })
  await shop.json(['acquire', 'work:a', '--holder', 'eve', '--ttl', '1h'])
  const forged = await shop.tenure(['ledger', 'seal', ...STOLEN], clockOff(-3_600_000))
  expect(said(forged)).toMatch(/^0 checkpoint/)
  await expectRefused(shop)
})

describe('a rotation', () => {
  it('leaves a ledger whole, although the clock was set back before it', async () => {
    const shop = await sealedOnce()
    await shop.json(['release', 'work:a', '--holder', 'ada'])
    expect((await shop.tenure(['ledger', 'seal', ...KEYS], clockOff(5_000))).code).toBe(0)
    await shop.json(['keys', 'rotate', ...KEYS, '--overlap', '0s'])
    expect(said(await shop.tenure(['ledger', 'verify', ...KEYS]))).toMatch(/^0 2 events are as/)
    await shop.json(['ledger', 'seal', ...KEYS])
    const { stdout } = await shop.tenure(['ledger', 'verify', ...KEYS, '--json'])
    const listed = await shop.json<{ keys: readonly { keyId: string }[] }>(['keys', 'ls', ...KEYS])
    const keys = listed.keys.map(({ keyId }) => keyId)
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, sealed: 3, checkpoints: 3, keys })
  })

  it('says which ledgers it does not vouch for, and is made all the same', async () => {
    const shop = await sealedOnce()
    cut(shop, 'events', 0)
    const { code, stdout, stderr } = await shop.tenure(['keys', 'rotate', ...KEYS])
    expect([code, stdout]).toEqual([0, expect.stringContaining('signs from now on')])
    expect(stderr).toContain(`${shop.storeFile}.ledger`)
    expect(stderr).toContain('line 1 that is missing')
  })
})

it('a key of another registrar does not seal this ledger, although it is known for its grants', async () => {
  const shop = await sealedOnce()
  await shop.json(['keys', 'generate', '--keys', 'other.json'])
  const published = async (name: string): Promise<string> => {
    const { stdout } = await shop.tenure(['keys', 'export', '--keys', `${name}.json`])
    fs.writeFileSync(path.join(shop.directory, `${name}.pub`), stdout)
    return parseKeyRing(stdout)
      .keys.map(({ keyId }) => keyId)
      .join()
  }
  const [own, other] = [await published('keys'), await published('other')]
  await shop.json(['keys', 'import', 'other.pub', ...KEYS])
  // What this registrar hands out are its own keys.
  expect(await published('keys')).toBe(own)
  const whole = await shop.tenure(['ledger', 'verify', ...KEYS])
  expect([whole.code, whole.stdout]).toEqual([0, expect.stringContaining(`sealed by ${own}`)])
  expect(said(await shop.tenure(['ledger', 'verify', ...KEYS, '--key', other]))).toMatch(
    /^1 line 1/,
  )
  fs.rmSync(`${shop.storeFile}.ledger`, { recursive: true })
  await shop.json(['ledger', 'seal', '--keys', 'other.json'])
  expect(said(await shop.tenure(['ledger', 'verify', ...KEYS]))).toMatch(/^1 .*is not known/)
  expect(said(await shop.tenure(['ledger', 'seal', ...KEYS]))).toMatch(/^2 .*must be whole/)
  await shop.json(['keys', 'import', 'keys.pub', '--keys', 'reader.json'])
  await shop.json(['keys', 'import', 'other.pub', '--keys', 'reader.json'])
  for (const [more, answer] of [
    [[], /^2 .*--key must say whose ledger it is/],
    [['--key', own], /^1 line 1/],
    [['--key', other], new RegExp(`^0 .* sealed by ${other}`)],
    [['--key', 'nobody'], /^2 .*key must be one that the file of keys has/],
  ] as const) {
    const words = ['ledger', 'verify', '--keys', 'reader.json', ...more]
    expect(said(await shop.tenure(words))).toMatch(answer)
  }
})
