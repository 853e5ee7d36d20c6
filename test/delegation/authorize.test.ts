import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { generateSigningKey, verifyGrant } from '../../src/delegation/index.ts'
import { writeKeyFile } from '../../src/delegation/key-file.ts'
import { EMPTY_KEY_RING, rotateKeys, withFirstKey } from '../../src/registrar/key-ring.ts'
import { openTenure, type OpenOptions } from '../../src/index.ts'
import { workshop } from '../cli/tenure-process.ts'

async function opened(url: string, options: Omit<OpenOptions, 'holder'>) {
  const tenure = await openTenure(url, { holder: 'boss', ...options })
  onTestFinished(() => tenure.close())
  return tenure
}

describe('a client that was opened with a file of keys', () => {
  it('signs with the active key, also after it was rotated', async () => {
    const { directory } = workshop()
    const keyFile = path.join(directory, 'keys.json')
    const nowMs = Date.now()
    const ring = withFirstKey(EMPTY_KEY_RING, generateSigningKey(), nowMs)
    writeKeyFile(keyFile, ring)
    const tenure = await opened('memory:', { keyFile })
    const lease = await tenure.acquire('work:W-1', { ttlMs: 60_000 })
    const before = lease.grant
    verifyGrant(before, ring.keys, { now: nowMs })
    const rotated = rotateKeys(ring, { next: generateSigningKey(), nowMs, overlapMs: 60_000 })
    writeKeyFile(keyFile, rotated)
    await lease.renew()
    const [, active] = rotated.keys
    if (active === undefined) throw new Error('there is no new key')
    verifyGrant(lease.grant, [active], { now: nowMs })
    expect(() => verifyGrant(before, [active], { now: nowMs })).toThrow('is not known')
    verifyGrant(before, rotated.keys, { now: nowMs })
  })

  it('is refused at once without a key that signs', async () => {
    const { directory } = workshop()
    const keyFile = path.join(directory, 'none.json')
    const signingKey = generateSigningKey()
    for (const [options, said] of [
      [{ keyFile }, 'no key that signs'],
      [{ keyFile: 7 as unknown as string }, 'keyFile must be a path, got 7'],
      [{ signingKey: {} as typeof signingKey }, 'signingKey must be a SigningKey'],
      [{ signingKey, keyFile }, 'keyFile must not be given beside signingKey'],
    ] as const) {
      await expect(openTenure('memory:', { holder: 'boss', ...options })).rejects.toThrow(said)
    }
  })
})

describe('tenure authorize', () => {
  it('allows what is in the grant and refuses the rest, by exit status', async () => {
    const { tenure, directory } = workshop()
    expect((await tenure(['keys', 'generate', '--keys', 'k.json'])).code).toBe(0)
    const client = await opened('memory:', { keyFile: path.join(directory, 'k.json') })
    const root = await client.acquire('work:W-1', { ttlMs: 60_000 })
    const scope = { tools: ['edit'], namespaces: ['src'] }
    const lead = await root.derive({ holder: 'lead', scope, budget: { tokens: 10 } })
    fs.writeFileSync(path.join(directory, 'a.grant'), `${lead.grant}\n`)
    for (const [words, code, said] of [
      [['--tool', 'edit', '--path', 'src/a.ts', '--tokens', '10'], 0, ''],
      [['--tool', 'shell'], 10, 'tool must be within the scope'],
      [['--path', 'src_backup/a'], 10, 'path must be within the scope'],
      [['--tool', 'edit', '--tokens', '11'], 10, 'has 10 tokens in all, got 11'],
      [[], 10, 'act must be within'],
    ] as const) {
      const result = await tenure(['authorize', '--grant', 'a.grant', '--keys', 'k.json', ...words])
      expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(said)])
    }
    const strange = ['authorize', '--grant', 'a.grant', '--keys', 'none', '--tool', 'edit']
    const unknown = await tenure(strange)
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('is not known')])
  })
})
