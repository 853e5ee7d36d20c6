/** Deriving and spending from the command line. */
import { describe, expect, it } from 'vitest'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { workshop, type Workshop } from './tenure-process.ts'

const SCOPE = ['--scope', 'tools=edit,read namespaces=src']

async function supervised(): Promise<Workshop & { readonly root: LeaseInfo }> {
  const shop = workshop()
  const words = ['acquire', 'work:W-17', '--holder', 'boss', '--ttl', '1h', ...SCOPE]
  const root: LeaseInfo = await shop.json([...words, '--budget', 'tokens=50000'])
  return { ...shop, root }
}

describe('tenure derive and tenure spend', () => {
  it('give a part of a lease away, account for it, and show all of it', async () => {
    const shop = await supervised()
    const told = await shop.tenure([
      ...['derive', 'work:W-17', '--holder', 'boss', '--to', 'sub', '--scope', 'tools=edit'],
      ...['--budget', 'tokens=10000 toolCalls=20', '--ttl', '30m', '--reason', 'the tests'],
    ])
    expect([told.code, told.stderr]).toEqual([0, ''])
    expect(told.stdout).toMatch(/^derived work:W-17\n/)
    const { leases } = await shop.json<{ leases: LeaseInfo[] }>(['show', 'work:W-17'])
    const child = leases.find(({ holder }) => holder === 'sub')
    const parent = leases.find(({ holder }) => holder === 'boss')
    expect(child).toMatchObject({
      ...{ parentId: shop.root.id, depth: 1, mode: 'shared', reason: 'the tests' },
      scope: { unlimited: false, tools: ['edit'], namespaces: [] },
      ...{ budget: { tokens: 10_000, toolCalls: 20 }, budgetLeft: { tokens: 10_000 } },
    })
    expect(parent).toMatchObject({ parentId: null, depth: 0, budgetLeft: { tokens: 40_000 } })
    const id = child?.id ?? ''
    const spent = await shop.hosted(['spend', id, 'tokens=1200', 'toolCalls=1', '--holder', 'sub'])
    expect(spent.stdout).toBe(
      'spent 1200 tokens, 1 toolCalls of work:W-17: 8800 of 10000 tokens, 19 of 20 toolCalls left\n',
    )
    for (const words of [
      ['show', id],
      ['why', 'work:W-17'],
    ]) {
      const { stdout } = await shop.hosted(words)
      expect(stdout).toMatch(new RegExp(`^ +parent +${shop.root.id} \\(depth 1\\)$`, 'm'))
      expect(stdout).toMatch(/^ +scope +tools edit$/m)
      expect(stdout).toMatch(/^ +budget +8800 of 10000 tokens, 19 of 20 toolCalls left$/m)
    }
    const { stdout: root } = await shop.hosted(['show', shop.root.id])
    expect(root).toMatch(/^ +scope +tools edit, read; namespaces src$/m)
    expect(root).toMatch(/^ +budget +40000 of 50000 tokens left$/m)
    expect(root).toMatch(/^ +children +1 live$/m)
    await shop.json(['release', id, '--holder', 'sub'])
    const after: LeaseInfo = await shop.json(['show', shop.root.id])
    expect(after.budgetLeft).toEqual({ tokens: 48_800 })
  })

  it('spend once under one request id, and derive once under one lease id', async () => {
    const shop = await supervised()
    const once = ['--request-id', '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2']
    const spend = ['spend', 'work:W-17', 'tokens=100', '--holder', 'boss', ...once]
    const answer = { id: shop.root.id, spent: { tokens: 100 }, budgetLeft: { tokens: 49_900 } }
    expect(await shop.json(spend)).toMatchObject(answer)
    expect(await shop.json(spend)).toMatchObject(answer)
    const leaseId = '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c3'
    const derive = [
      'derive',
      shop.root.id,
      '--holder',
      'boss',
      '--to',
      'sub',
      '--lease-id',
      leaseId,
    ]
    for (const words of [derive, derive]) {
      expect(await shop.json([...words, '--budget', '{"tokens":1}'])).toMatchObject({ id: leaseId })
    }
    const { budgetLeft }: LeaseInfo = await shop.json(['show', shop.root.id])
    expect(budgetLeft).toEqual({ tokens: 49_899 })
  })

  it('give a resource below a subtree, alone', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'src/', '--holder', 'boss', '--ttl', '1h'])
    const part = ['--resource', 'src/app.ts', '--scope', 'unlimited']
    const derive = ['derive', 'src', '--holder', 'boss', '--to']
    expect(await shop.json([...derive, 'sub', ...part])).toMatchObject({
      ...{ mode: 'exclusive', extent: 'exact', scope: { unlimited: true }, budget: {} },
    })
    expect((await shop.hosted([...derive, 'other', ...part])).code).toBe(10)
    const outside = ['--resource', 'lib/app.ts']
    const refused = await shop.hosted([...derive, 'other', ...outside])
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining('INVALID_DERIVATION'),
    ])
  })

  it('refuse what is larger, what there is not, and what cannot be read, naming it', async () => {
    const shop = await supervised()
    const derive = ['derive', 'work:W-17', '--holder', 'boss', '--to', 'sub']
    const spend = ['spend', 'work:W-17', '--holder', 'boss']
    for (const [words, message] of [
      [derive, 'INVALID_DERIVATION'],
      [[...derive, '--budget', 'tokens=50001'], 'asked for Infinity|50001'],
      [[...derive, '--budget', 'tokens=1', '--scope', 'tools=run'], 'INVALID_DERIVATION'],
      [
        [...derive, '--scope', 'tool=run'],
        'scope must have workIds, tools, namespaces, got "tool"',
      ],
      [[...derive, '--scope', 'run'], 'scope must be of NAME=VALUE, got "run"'],
      [[...derive, '--scope', '{"tools":'], 'scope must be JSON'],
      [[...derive, '--budget', 'tokens=1 tokens=2'], 'budget must have tokens once'],
      [[...derive, '--budget', 'tokens=many'], 'budget.tokens must be an integer'],
      [derive.slice(0, 4), 'to must be given'],
      [[...derive, '--shared'], 'shared must not be given without --resource'],
      [[...spend, 'tokens=50001'], 'BUDGET_EXHAUSTED'],
      [[...spend, 'tokens=0'], 'amounts must name something to spend'],
      [[...spend, 'tokens'], 'amounts must be of NAME=VALUE'],
      [[...spend, 'gold=1'], 'got "gold"'],
      [spend, 'AMOUNT must be given'],
      [['spend', 'work:W-17', 'tokens=1', '--holder', 'mallory'], 'NOT_HOLDER'],
    ] as const) {
      const { code, stdout, stderr } = await shop.hosted(words)
      expect([words, code === 0, stdout]).toEqual([words, false, ''])
      expect(stderr).toMatch(new RegExp(message.replaceAll(/[()]/g, '\\$&')))
    }
    const { budgetLeft }: LeaseInfo = await shop.json(['show', shop.root.id])
    expect(budgetLeft).toEqual({ tokens: 50_000 })
  })
})
