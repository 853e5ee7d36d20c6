import { describe, expect, it } from 'vitest'
import { describeInspection } from '../../src/cli/commands/why.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import type { Inspection } from '../../src/service/lease-api.ts'

const NOW_MS = 1_000_000
const A = parseResource('work:A')

const ANN: LeaseInfo = {
  ...{ id: '0d7c7a54-5c1f-4a44-9d4c-6a1ce6f0a5c2', resource: A, holder: 'ann', session: 'ann' },
  ...{ mode: 'exclusive', extent: 'exact', state: 'active', fence: 7, ttlMs: 60_000 },
  ...{ createdAtMs: NOW_MS - 5_000, grantedAtMs: NOW_MS - 5_000, renewedAtMs: null },
  ...{ expiresAtMs: NOW_MS + 55_000, terminatedAtMs: null, deadline: null, remainingMs: 55_000 },
  ...{ renewals: 0, maxRenewals: -1, maxHoldMs: null, slots: null, lockDelayMs: 0 },
  ...{ breakable: false, revoking: null, upgrading: false, priority: null, releaseReason: null },
  ...{ reason: 'importing', metadata: null, adopted: true, group: null, epoch: null },
}

const BEN: LeaseInfo = {
  ...ANN,
  ...{ holder: 'ben', session: 'ben', state: 'pending', fence: null, grantedAtMs: null },
  ...{ priority: 0, reason: null },
}

function inspection(part: Partial<Inspection>): Inspection {
  return { resource: A, leases: [], queue: [], blockers: [], cycles: [], ...part }
}

function describeParts(part: Partial<Inspection>): string {
  return describeInspection(inspection(part), NOW_MS)
}

describe('why a resource is not to be had', () => {
  it('says that a lease was transferred and nobody has taken it over', () => {
    const text = describeParts({ leases: [{ ...ANN, adopted: false }] })
    expect(text).toContain('  adopted   not yet: it was transferred to ann\n')
    expect(describeParts({ leases: [ANN] })).not.toContain('adopted')
  })

  it('says of a waiter that it waits for others at the same time', () => {
    const group = '77777777-5c1f-4a44-9d4c-6a1ce6f0a5c2'
    const text = describeParts({ leases: [ANN], queue: [{ ...BEN, group }] })
    expect(text).toContain(`ben, waiting for 5s, one of several at once (group ${group})`)
    expect(describeParts({ leases: [ANN], queue: [BEN] })).not.toContain('several')
  })

  it('is told of a free one in one line', () => {
    expect(describeParts({})).toBe('work:A is free')
  })

  it('is told of a free one too when somebody waits for it', () => {
    const text = describeParts({ queue: [BEN] })
    expect(text).toBe('work:A is free, and waited for\n  queue     1. ben, waiting for 5s')
  })

  it('says who holds it, until when and in whose words', () => {
    const text = describeParts({ leases: [ANN] })
    expect(text).toMatch(/^work:A is held by ann\n {2}since {5}5s ago \(.*\)\n/)
    expect(text).toMatch(/\n {2}until {5}in 55s \(.*\), unless renewed\n {2}reason {4}importing\n/)
    expect(text).toContain('\n  mode      exclusive\n')
    expect(text.endsWith('\n  queue     nobody waits')).toBe(true)
  })

  it('says what is about to happen to a lease', () => {
    const revoking = { by: 'op', reason: 'going down' }
    const lease: LeaseInfo = { ...ANN, mode: 'shared', slots: 3, upgrading: true, revoking }
    const text = describeParts({ leases: [{ ...lease, breakable: true }] })
    expect(text).toContain('work:A is shared by ann\n')
    expect(text).toMatch(/until .*, for good\n/)
    for (const line of [
      '  mode      shared by up to 3\n',
      '  asked     to finish by op: going down\n',
      '  upgrade   waits for the other sharers to leave\n',
      '  yields    when somebody who waits asks for it\n',
    ]) {
      expect(text).toContain(line)
    }
  })

  it('shows the queue in its order, with what makes each place particular', () => {
    const cyd: LeaseInfo = { ...BEN, holder: 'cyd', mode: 'shared', priority: -3, reason: 'tests' }
    expect(describeParts({ queue: [BEN, cyd] })).toBe(
      [
        'work:A is free, and waited for',
        '  queue     1. ben, waiting for 5s',
        '            2. cyd, waiting for 5s, shared, priority -3: tests',
      ].join('\n'),
    )
  })

  it('names every cycle of those who wait for each other', () => {
    const step = (holder: string, resource: string) => ({ holder, session: holder, resource })
    const cycles = [[step('ann', 'work:B'), step('bob', 'work:A')]]
    const text = describeParts({ leases: [ANN], queue: [BEN], cycles })
    expect(text.endsWith('\n  cycle     ann → work:B → bob → work:A → ann')).toBe(true)
  })

  it('shows nothing that could move a cursor', () => {
    expect(describeParts({ leases: [{ ...ANN, reason: 'a\u001b[2J' }] })).toContain('a\\u001b[2J')
  })
})
