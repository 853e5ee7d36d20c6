import { describe, expect, it } from 'vitest'
import { authorizeGrant, type Grant, type ScopedAct } from '../../src/delegation/index.ts'
import { CHILD, grant } from '../registrar/grants.ts'

describe('a grant', () => {
  it('allows what lies in its scope and could be in its budget', () => {
    authorizeGrant(CHILD, { tool: 'edit', path: 'src/a.ts' }, { tokens: 100 })
    authorizeGrant(grant(), { path: '/anything' }, { tokens: 10 ** 9 })
  })

  it('refuses an act with a field that it does not know, or that is no text', () => {
    for (const [odd, field] of [
      [{ pth: '/etc' }, 'act'],
      [{ tool: 'edit', pth: '/etc' }, 'act'],
      [null, 'act'],
      [undefined, 'act'],
      [['edit'], 'act'],
      ['edit', 'act'],
      [7, 'act'],
      [{ tool: 5 }, 'tool'],
      [{ workId: null }, 'workId'],
      [{ path: 5 }, 'path'],
    ] as const) {
      for (const checked of [CHILD, grant()]) {
        const act = odd as unknown as ScopedAct
        expect(() => authorizeGrant(checked, act)).toThrow(
          expect.objectContaining({
            code: 'INVALID_INPUT',
            details: expect.objectContaining({ field }),
          }),
        )
      }
    }
  })

  it('refuses what is no grant, as its token is none', () => {
    for (const odd of [undefined, null, 'tenure-grant.1.AAAA'] as unknown as Grant[]) {
      expect(() => authorizeGrant(odd, { tool: 'edit' })).toThrow(
        expect.objectContaining({
          code: 'INVALID_INPUT',
          details: { field: 'grant', expectation: 'must be a grant' },
        }),
      )
    }
  })

  it('refuses a tool, a path, or a spending beyond it, naming which', () => {
    for (const [act, field] of [
      [{ tool: 'shell' }, 'tool'],
      [{ tool: 'edit', path: 'src_backup/a' }, 'path'],
      [{ path: 'src/../etc' }, 'path'],
      [{ path: 'src/%252e%252e/etc' }, 'path'],
      [{ path: 'src/a\0b' }, 'path'],
      [{ path: 'src/\ud800' }, 'path'],
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
