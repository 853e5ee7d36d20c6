/** Which keys may seal a ledger: one line of them, in the order of the ledger, whatever the clocks say. */
import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { writeKeyFile } from '../../src/delegation/key-file.ts'
import { generateSigningKey } from '../../src/registrar/ed25519.ts'
import {
  EMPTY_KEY_RING,
  importKeys,
  parseKeyRing,
  signingKeyOf,
  withFirstKey,
  type KeyRing,
} from '../../src/registrar/key-ring.ts'
import { workshop, type Ended, type RunOptions, type Workshop } from './tenure-process.ts'

const KEYS = ['--keys', 'keys.json']
const STOLEN = ['--keys', 'stolen.json']
const READER = ['--keys', 'reader.json']

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

function ringOf(key = generateSigningKey()): KeyRing {
  return withFirstKey(EMPTY_KEY_RING, key, Date.now())
}

/** A ledger with one checkpoint of a first key, of which somebody has a copy. */
async function sealedOnce(ring = ringOf()): Promise<Workshop> {
  const shop = workshop()
  for (const name of ['keys', 'stolen'])
    writeKeyFile(path.join(shop.directory, `${name}.json`), ring)
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

  it('vouches once for a ledger that is named by another path than it was sealed by', async () => {
    const shop = await sealedOnce()
    fs.symlinkSync(`${shop.storeFile}.ledger`, path.join(shop.directory, 'link'))
    await shop.json(['keys', 'rotate', ...KEYS, '--ledger', 'link'])
    const { rotations } = parseKeyRing(
      fs.readFileSync(path.join(shop.directory, 'keys.json'), 'utf8'),
    )
    expect(rotations[0]?.lastCheckpoints).toHaveLength(1)
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
  const [own, other] = [ringOf(), ringOf()]
  const ids = [own, other].map((ring) => signingKeyOf(ring).keyId)
  const shop = await sealedOnce(importKeys(own, other))
  const write = (name: string, ring: KeyRing): void => {
    writeKeyFile(path.join(shop.directory, `${name}.json`), ring)
  }
  write('other', other)
  write('reader', importKeys(importKeys(EMPTY_KEY_RING, own), other))
  const whole = await shop.tenure(['ledger', 'verify', ...KEYS])
  expect(said(whole)).toMatch(new RegExp(`^0 .* sealed by ${ids[0]} `))
  // What this registrar hands out are its own keys.
  const { stdout } = await shop.tenure(['keys', 'export', ...KEYS])
  expect(parseKeyRing(stdout).keys.map(({ keyId }) => keyId)).toEqual(ids.slice(0, 1))
  fs.rmSync(`${shop.storeFile}.ledger`, { recursive: true })
  await shop.json(['ledger', 'seal', '--keys', 'other.json'])
  for (const [words, answer] of [
    [['ledger', 'verify', ...KEYS], /^1 .*is not known/],
    [['ledger', 'seal', ...KEYS], /^2 .*must be whole/],
    [['ledger', 'verify', ...READER], /^2 .*--key must say whose ledger it is/],
    [['ledger', 'verify', ...READER, '--key', ids[0] ?? ''], /^1 line 1/],
    [['ledger', 'verify', ...READER, '--key', ids[1] ?? ''], new RegExp(`^0 .* by ${ids[1]} `)],
    [['ledger', 'verify', ...READER, '--key', 'nobody'], /^2 .*key must be one that the file/],
  ] as const) {
    expect(said(await shop.tenure(words))).toMatch(answer)
  }
})
