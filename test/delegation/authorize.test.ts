import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { generateSigningKey, Registrar, verifyGrant } from '../../src/delegation/index.ts'
import { formatKeyRing, withFirstKey, EMPTY_KEY_RING } from '../../src/ledger/key-ring.ts'
import { workshop } from '../cli/tenure-process.ts'
import { verifier } from '../ledger/grants.ts'
import { codeOf, Family } from './family.ts'

const KEY = generateSigningKey()
const KEYS = [verifier(KEY)]

async function registered() {
  const family = new Family()
  const registrar = new Registrar({ api: family.api, key: KEY })
  const root = await family.root('file:/repo', 'subtree')
  const now = root.grantedAtMs ?? 0
  return { family, registrar, root, now }
}

describe('a registrar', () => {
  it('derives leases whose grants anybody can check, down to the root', async () => {
    const { registrar, root, now } = await registered()
    const scope = { tools: ['edit', 'test'], namespaces: ['src'] }
    const lead = await registrar.derive(root, { holder: 'lead', scope, budget: { tokens: 100 } })
    const aide = await lead.derive({
      holder: 'aide',
      scope: { tools: ['edit'], namespaces: ['src/core'] },
      budget: { tokens: 40 },
      audience: 'editor',
    })
    const verified = verifyGrant(aide.grant, KEYS, { now, audience: 'editor' })
    expect(verified).toMatchObject({ id: aide.id, holder: 'aide', depth: 2, parentId: lead.id })
    expect(verified.root).toEqual({ leaseId: root.id, fence: root.fence })
    expect(() => verifyGrant(aide.grant, KEYS, { now })).toThrow(/is for "editor"/)
  })

  it('has grants that do not change when something is spent', async () => {
    const { registrar, root, now } = await registered()
    const lead = await registrar.derive(root, { holder: 'lead', budget: { tokens: 100 } })
    const before = lead.grant
    await lead.spend({ tokens: 99 })
    expect(lead.grant).toBe(before)
    expect(verifyGrant(before, KEYS, { now }).budget).toEqual({ tokens: 100 })
    await expect(lead.spend({ tokens: 2 })).rejects.toMatchObject({ code: 'BUDGET_EXHAUSTED' })
  })

  it('gives back on release, and does not sign what has ended', async () => {
    const { family, registrar, root } = await registered()
    const lead = await registrar.derive(root, { holder: 'lead', budget: { tokens: 100 } })
    const aide = await lead.derive({ holder: 'aide', budget: { tokens: 40 } })
    await aide.spend({ tokens: 1 })
    await aide.release()
    expect(await family.used(lead.info)).toEqual({ tokens: 1 })
    await family.release(root)
    expect(await codeOf(registrar.derive(root, { holder: 'late' }))).toBe('LEASE_TERMINAL')
    expect(await codeOf(lead.spend({ tokens: 1 }))).toBe('LEASE_TERMINAL')
  })
})

describe('tenure authorize', () => {
  it('allows what is in the grant and refuses the rest, by exit status', async () => {
    const { tenure, directory } = workshop()
    const family = new Family()
    const registrar = new Registrar({ api: family.api, key: KEY })
    family.ticks.stepWall(Date.now() - family.ticks.wallMs())
    const root = await family.root()
    const scope = { tools: ['edit'], namespaces: ['src'] }
    const lead = await registrar.derive(root, { holder: 'lead', scope, budget: { tokens: 10 } })
    fs.writeFileSync(path.join(directory, 'a.grant'), `${lead.grant}\n`)
    const ring = formatKeyRing(withFirstKey(EMPTY_KEY_RING, KEY, 0), { secrets: false })
    fs.writeFileSync(path.join(directory, 'k.json'), ring, { mode: 0o600 })
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
    const unknown = await tenure([
      'authorize',
      '--grant',
      'a.grant',
      '--keys',
      'none',
      '--tool',
      'edit',
    ])
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('is not known')])
  })
})
