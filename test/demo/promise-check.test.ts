import { describe, expect, it } from 'vitest'
import type { AgentReport } from '../../src/demo/report.ts'
import { isReport } from '../../src/demo/report.ts'
import {
  brokenPromises,
  overlapsInLedger,
  overlapsReported,
  type PromiseCheck,
} from '../../src/demo/promise-check.ts'
import type { LeaseEvent } from '../../src/core/event.ts'

const KEPT: PromiseCheck = {
  ...{ grants: 9, handovers: 4, expiries: 2, longestWaitMs: 10, events: 30 },
  ...{ overlapsInLedger: 0, overlapsReported: 0, staleWritersRefused: 1, staleLinesWritten: 0 },
  ...{ foldDifferences: 0, leasesLeft: 0, crashed: [] },
}

describe('the verdict', () => {
  it('is good when every promise was kept', () => {
    expect(brokenPromises(KEPT)).toEqual([])
  })

  it.each([
    { overlapsInLedger: 1 },
    { overlapsReported: 1 },
    { staleWritersRefused: 0 },
    { staleLinesWritten: 1 },
    { foldDifferences: 1 },
    { leasesLeft: 1 },
    { grants: 0 },
    { crashed: ['ada: out of memory'] },
  ])('is bad with %j', (fault) => {
    expect(brokenPromises({ ...KEPT, ...fault })).toHaveLength(1)
  })
})

type Change = readonly [type: LeaseEvent['type'], leaseId: string]

function ledger(changes: readonly Change[]): readonly LeaseEvent[] {
  return changes.map(([type, leaseId]) => ({ type, leaseId, resource: 'file:/a' }) as LeaseEvent)
}

describe('overlaps in the ledger', () => {
  it.each([
    [
      'none after a release',
      [
        ['lease.issued', 'a'],
        ['lease.released', 'a'],
        ['lease.issued', 'b'],
      ],
      0,
    ],
    [
      'none after an expiry',
      [
        ['lease.issued', 'a'],
        ['lease.expired', 'a'],
        ['lease.issued', 'b'],
      ],
      0,
    ],
    [
      'one when both are live',
      [
        ['lease.issued', 'a'],
        ['lease.issued', 'b'],
      ],
      1,
    ],
    [
      'one when another lease ended',
      [
        ['lease.issued', 'a'],
        ['lease.released', 'x'],
        ['lease.issued', 'b'],
      ],
      1,
    ],
  ] as const)('are %s', (_case, changes, overlaps) => {
    expect(overlapsInLedger(ledger(changes))).toBe(overlaps)
  })
})

function report(kind: AgentReport['kind'], fence: number, atUs: number, value = 0): AgentReport {
  return { kind, agent: `agent-${fence}`, file: 'notes.md', fence, atUs, value }
}

describe('overlaps by the agents’ own account', () => {
  it('are none when one begins after the other released', () => {
    const reports = [
      ...[report('holds', 1, 0, 100), report('released', 1, 50)],
      ...[report('holds', 2, 50, 150), report('released', 2, 60)],
    ]
    expect(overlapsReported(reports)).toBe(0)
  })

  it('are none when one begins after the other’s own deadline, whatever it did later', () => {
    const reports = [
      report('holds', 1, 0, 100),
      report('holds', 2, 100, 200),
      report('lost', 1, 150),
    ]
    expect(overlapsReported(reports)).toBe(0)
  })

  it('are one when one begins before the other’s deadline', () => {
    expect(overlapsReported([report('holds', 1, 0, 100), report('holds', 2, 99, 200)])).toBe(1)
  })

  it('are one when a renewal reaches into the other’s time', () => {
    const reports = [
      ...[report('holds', 1, 0, 100), report('renewed', 1, 90, 190)],
      report('holds', 2, 120, 220),
    ]
    expect(overlapsReported(reports)).toBe(1)
  })

  it('are one when a later holder has a lower fence', () => {
    expect(overlapsReported([report('holds', 2, 0, 100), report('holds', 1, 200, 300)])).toBe(1)
  })
})

describe('a message from an agent', () => {
  it.each([
    null,
    'finish',
    {},
    { ...report('holds', 1, 2), kind: 'steals' },
    { ...report('holds', 1, 2), atUs: NaN },
  ])('%j is not a report', (message) => {
    expect(isReport(message)).toBe(false)
  })

  it('of the right shape is one', () => {
    expect(isReport(report('holds', 1, 2, 3))).toBe(true)
  })
})
