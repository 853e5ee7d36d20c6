import { describe, expect, it } from 'vitest'
import { authorizeGrant } from '../../src/delegation/index.ts'
import { CHILD, grant } from '../ledger/grants.ts'

describe('a grant', () => {
  it('allows what lies in its scope and could be in its budget', () => {
    authorizeGrant(CHILD, { tool: 'edit', path: 'src/a.ts' }, { tokens: 100 })
    authorizeGrant(grant(), { path: '/anything' }, { tokens: 10 ** 9 })
  })

  it('is asked about an act and nothing else', () => {
    for (const odd of [
      null,
      undefined,
      7,
      'edit',
      { pth: '/etc' },
      { tool: 'edit', pth: '/etc' },
    ]) {
      const ask = () => authorizeGrant(CHILD, odd as { tool: string })
      expect(ask).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
      expect(ask).toThrow(/^act must/)
    }
  })

  it('refuses a tool, a path, or a spending beyond it, naming which', () => {
    for (const [act, field] of [
      [{ tool: 'shell' }, 'tool'],
      [{ tool: 'edit', path: 'src_backup/a' }, 'path'],
      [{ path: 'src/../etc' }, 'path'],
      [{}, 'act'],
    ] as const) {
      expect(() => authorizeGrant(CHILD, act)).toThrow(
        expect.objectContaining({ code: 'SCOPE_VIOLATION', details: { leaseId: 'child', field } }),
      )
    }
    expect(() => authorizeGrant(CHILD, { tool: 'edit' }, { tokens: 101 })).toThrow(
      expect.objectContaining({
        code: 'BUDGET_EXHAUSTED',
        details: { leaseId: 'child', dimension: 'tokens', asked: 101, left: 100 },
      }),
    )
  })
})
