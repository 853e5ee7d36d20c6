import { describe, expect, it } from 'vitest'
import type { Blocker } from '../../src/core/conflict.ts'
import type { CycleStep, Lease } from '../../src/core/lease.ts'
import type { Held, Refusal } from '../../src/core/outcome.ts'
import { endedOutcome, refusalError } from '../../src/core/outcome.ts'
import { id, lease, TTL_MS, WALL_MS } from './builders.ts'

const held: Held = {
  kind: 'held',
  resource: 'work:W-1',
  retryAfterMs: 5,
  notWaiting: 'not_asked',
  blockers: [
    {
      ...{ kind: 'lease', leaseId: id(1), resource: 'work:W-1', holder: 'ada', session: 's' },
      ...{ mode: 'exclusive', extent: 'exact', slots: null, fence: 7, sinceMs: 1, expiresAtMs: 2 },
      ...{ remainingMs: 1, reason: null, metadata: null },
    },
  ],
}
const leaseId = id(1)

function step(holder: string, resource: string): CycleStep {
  return { holder, session: `session-of-${holder}`, resource }
}

describe('a refusal at the surface', () => {
  it.each<[Refusal, string, string]>([
    [held, 'RESOURCE_HELD', 'work:W-1 is held by "ada"'],
    [{ ...held, blockers: [] }, 'RESOURCE_HELD', 'work:W-1 is held by another'],
    [{ ...held, notWaiting: 'own' }, 'RESOURCE_HELD', 'release it first'],
    [{ ...held, notWaiting: 'waiting_disabled' }, 'RESOURCE_HELD', 'blocking_mode_enabled=false'],
    [
      { ...held, notWaiting: 'own_transfer', difference: 'is shared, not exclusive' },
      'RESOURCE_HELD',
      `: lease ${leaseId}, transferred to it, is shared, not exclusive (adopt it by its id)`,
    ],
    [{ kind: 'not_found', leaseId }, 'LEASE_NOT_FOUND', `no lease has the id "${leaseId}"`],
    [{ kind: 'not_holder', leaseId, holder: 'ada' }, 'NOT_HOLDER', 'is held by "ada"'],
    [{ kind: 'terminal', leaseId, state: 'released' }, 'LEASE_TERMINAL', 'is already released'],
    [
      { kind: 'terminal', leaseId, state: 'released', releaseReason: 'transferred' },
      'LEASE_TERMINAL',
      'is already transferred',
    ],
    [{ kind: 'expired', leaseId, terminatedAtMs: 5 }, 'LEASE_EXPIRED', 'has expired'],
    [{ kind: 'id_taken', leaseId, resource: 'work:x' }, 'LEASE_EXISTS', 'in use for "work:x"'],
    [{ kind: 'request_reused', leaseId }, 'INVALID_INPUT', 'requestId must be new'],
    [
      { kind: 'renewal_limit', leaseId, limit: 'its 3 renewals' },
      'RENEWAL_LIMIT',
      'its 3 renewals',
    ],
    [{ kind: 'does_not_extend', leaseId, expiresAtMs: 5 }, 'RENEWAL_DOES_NOT_EXTEND', 'deadline'],
    [{ kind: 'queue_full', resource: 'work:x', limit: 9 }, 'LIMIT_EXCEEDED', 'at most 9 may wait'],
    [
      { kind: 'malformed_setting', problem: 'x must be y' },
      'INVALID_INPUT',
      'configuration: x must be y',
    ],
    [{ kind: 'nobody_waiting', leaseId }, 'WAIT_TIMEOUT', 'nobody waits for the resource'],
    [{ kind: 'already_adopted', leaseId }, 'LEASE_EXISTS', `lease ${leaseId} was taken over`],
    [{ kind: 'look_further', unseen: [] }, 'STORE_CONFLICT', 'the derived leases kept changing'],
    [
      { kind: 'invalid_derivation', leaseId, problem: 'mode must be shared' },
      'INVALID_DERIVATION',
      `lease ${leaseId}: mode must be shared`,
    ],
    [
      { kind: 'budget_exhausted', leaseId, dimension: 'tokens', asked: 3, left: 2 },
      'BUDGET_EXHAUSTED',
      `lease ${leaseId} has 2 tokens left, got 3`,
    ],
    [
      { kind: 'stale_epoch', leaseId, from: 3, epoch: 5 },
      'STALE_EPOCH',
      'from must be the next epoch, 5, got 3',
    ],
    [
      { kind: 'no_epoch', leaseId, why: 'a workflow' },
      'INVALID_INPUT',
      `leaseId must be of a workflow, got ${leaseId}`,
    ],
    [
      { kind: 'deadlock', leaseId, cycle: [step('ada', 'work:a'), step('bob', 'work:b')] },
      'DEADLOCK',
      'waiting would never end: ada → work:a → bob → work:b → ada',
    ],
    [
      {
        ...{ kind: 'deadlock', leaseId },
        cycle: [step('ada', 'work:a'), { ...step('bob', 'work:b'), implied: true }],
      },
      'DEADLOCK',
      'never end, if those who stand still wait for it: ada → work:a → bob → work:b → ada',
    ],
  ])('%o', (refusal, code, message) => {
    const error = refusalError(refusal)
    expect(error).toMatchObject({ name: 'LeaseError', code, effect: 'none' })
    expect(error.message).toContain(message)
    expect(error.message).not.toContain('\n')
    expect(error.details).not.toHaveProperty('kind')
  })

  it.each<[Partial<Blocker>[], string]>([
    [[{ reason: 'a "b"\nc' }], 'work:W-1 is held by "ada" ("a \\"b\\"\\nc")'],
    [[{ metadata: { done: 3, of: 10 } }], 'is held by "ada" ({"done":3,"of":10})'],
    [[{ reason: 'b', metadata: { at: '\u2028' } }], 'is held by "ada" ("b" {"at":"\\u2028"})'],
    [[{ metadata: { a: 'x'.repeat(99) } }], `is held by "ada" ({"a":"${'x'.repeat(74)}…)`],
    [[{}, { kind: 'ticket', holder: 'bob' }], 'work:W-1 is held by "ada", waited for by "bob"'],
    [[{ kind: 'offer' }], 'work:W-1 is offered to "ada"'],
    [[{ kind: 'lock_delay' }], 'work:W-1 is kept free after "ada"'],
    [[{}, {}, {}], 'is held by "ada", held by "ada", held by "ada"'],
    [[{}, {}, {}, {}], 'is held by "ada", held by "ada", held by "ada", and by others'],
    [[{ resource: 'file:/s' }], 'work:W-1 is held by "ada" through file:/s'],
    [
      [{ resource: 'file:/s', extent: 'subtree', reason: 'moving' }],
      'work:W-1 is held by "ada" through file:/s and what is below it ("moving")',
    ],
  ])('names those in the way, by what and why, in one line: %o', (changes, message) => {
    const blockers = changes.flatMap((change) =>
      held.blockers.map((one) => ({ ...one, ...change })),
    )
    const error = refusalError({ ...held, blockers })
    expect(error.message.endsWith(message)).toBe(true)
    expect(error.message).not.toContain('\n')
  })

  it('tells by its details what a program needs to go on', () => {
    const cycle = [{ ...step('ada', 'work:a'), implied: true as const }]
    expect(refusalError({ kind: 'deadlock', leaseId, cycle }).details).toEqual({
      ...{ leaseId, cycle, implied: true },
    })
    const short = { dimension: 'tokens', asked: 3, left: 2 } as const
    const refusal = { kind: 'invalid_derivation', leaseId, problem: 'p', shortage: short } as const
    expect(refusalError(refusal).details).toEqual({ leaseId, problem: 'p', ...short })
    expect(refusalError({ kind: 'budget_exhausted', leaseId, ...short }).details).toEqual({
      leaseId,
      ...short,
    })
    const reused = refusalError({ kind: 'request_reused', leaseId })
    expect(reused.details).toEqual({ field: 'requestId', leaseId })
    const none = refusalError({ kind: 'no_epoch', leaseId, why: 'a workflow' })
    expect(none.details).toEqual({ field: 'leaseId', leaseId })
    const setting = refusalError({ kind: 'malformed_setting', problem: 'p' })
    expect(setting.details).toEqual({ field: 'config' })
  })

  it('carries who stands in the way', () => {
    expect(refusalError(held).details).toMatchObject({
      ...{ resource: 'work:W-1', retryAfterMs: 5, blockers: [{ holder: 'ada', fence: 7 }] },
    })
  })
})

describe('a lease that is held no more', () => {
  const revoking = { by: 'op', reason: 'stuck' }
  const terminatedAtMs = WALL_MS + 5
  const atExpiry = WALL_MS + TTL_MS
  const revoked = { kind: 'terminal', state: 'revoked', revokedBy: 'op', revokedFor: 'stuck' }

  it.each<[string, Partial<Lease>, object]>([
    ['was revoked', { state: 'revoked', revoking }, { ...revoked, revokedAtMs: terminatedAtMs }],
    [
      'was revoked, by whom is not known any more',
      { state: 'revoked' },
      { kind: 'terminal', state: 'revoked' },
    ],
    [
      'has come to the end of its grace, as no commit has said yet',
      { terminatedAtMs: null, revoking },
      { ...revoked, revokedAtMs: atExpiry },
    ],
    ['was released', { state: 'released' }, { kind: 'terminal', state: 'released' }],
    [
      'was released when it was asked to finish',
      { state: 'released', revoking },
      { kind: 'terminal', state: 'released' },
    ],
    [
      'was given to another',
      { state: 'released', releaseReason: 'transferred' },
      { kind: 'terminal', state: 'released', releaseReason: 'transferred' },
    ],
    ['ran out', { state: 'expired' }, { kind: 'expired', terminatedAtMs }],
    [
      'ran out, as no commit has said yet',
      { terminatedAtMs: null },
      { kind: 'expired', terminatedAtMs: atExpiry },
    ],
  ])('%s, and the refusal says so', (_, change, outcome) => {
    expect(endedOutcome(lease({ terminatedAtMs, ...change }))).toStrictEqual({
      leaseId,
      ...outcome,
    })
  })
})
