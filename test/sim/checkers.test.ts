/** The checkers of the simulator ask for what is promised, and for no more. */
import { describe, expect, it } from 'vitest'
import { nothingLeft } from '../../sim/checkers/nothing-left.ts'
import type { Complaint } from '../../sim/evidence.ts'
import { lastTerm, leaseLives } from '../../sim/lease-life.ts'
import type { Observation } from '../../sim/log.ts'
import type { TimedEvent } from '../../sim/store-host.ts'
import type { Command } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import { NO_SCOPE } from '../../src/core/scope.ts'
import { acquire, id, nowAt, renew, revoke, TTL_MS, view, WORK } from '../core/builders.ts'

const PARENT = id(1)
const CHILD = id(5)
const PARENTS = new Map([[CHILD, PARENT]])
const WHO = { process: 'ada', session: 'session-of-ada' }

const ASKED = acquire({ leaseId: PARENT, holder: 'ada' })
const derived: Command = {
  ...{ kind: 'derive', leaseId: CHILD, parentId: PARENT, by: 'ada', resource: WORK },
  ...{ holder: 'ada', session: 'session-of-ada', extent: 'exact', mode: 'shared', ttlMs: null },
  ...{ scope: NO_SCOPE, budget: {}, reason: null },
}

/** Commands with the moments at which they are decided and committed, and by how much later they could have been. */
type Course = readonly (readonly [Command, number, number])[]

function ledgerOf(course: Course): readonly TimedEvent[] {
  let entries: readonly Entry[] = []
  return course.flatMap(([command, ms, toleranceMs], commit) => {
    const slackUs = toleranceMs * 1000
    const now = nowAt(ms, { toleranceUs: slackUs })
    const decision = decide(view(entries), command, now)
    entries = [...decision.entries.values()]
    return decision.events.map((event) => {
      return { event, atUs: ms * 1000, tick: now.tick, slackUs, commit, isEcho: false }
    })
  })
}

/** What a lease that is granted on a slow way and renewed on a quick one comes to. */
const SLOW_THEN_QUICK: Course = [
  [ASKED, 0, 140],
  [renew(), 3, 20],
  [derived, 6, 20],
  [renew({ leaseId: CHILD }), 9, 20],
]

describe('the end of a lease as the checkers compute it', () => {
  it.each([
    ['when a renewal allowed for less than the grant', SLOW_THEN_QUICK],
    [
      'when a renewal allowed for more than the grant',
      [
        [ASKED, 0, 20],
        [renew(), 3, 140],
      ],
    ],
    ['after a grace', [...SLOW_THEN_QUICK, [revoke({ graceMs: 50 }), 12, 20]]],
  ] as const)('is that of the store %s', (_, course) => {
    const ledger = ledgerOf(course)
    const lives = leaseLives(ledger, PARENTS, ({ us }) => us)
    expect(ledger.length).toBeGreaterThanOrEqual(course.length)
    expect(lives.map((life) => lastTerm(life).keptUs)).toEqual(
      lives.map((life) => lastTerm(life).deadline.us),
    )
  })

  it('is for its holder no later than a TTL from its commit', () => {
    const lives = leaseLives(ledgerOf(SLOW_THEN_QUICK), PARENTS, ({ us }) => us)
    const [parent] = lives.map((life) => lastTerm(life).endUs)
    expect(parent).toBe((3 + TTL_MS) * 1000)
  })
})

describe('a derived lease that was lost', () => {
  const LOST_US = 20_000
  const slow = (leaseId: string): Observation => {
    return { kind: 'fault', fault: 'slow_request', process: 'ada', leaseId }
  }
  const lost = (reason: string): Observation => {
    return { kind: 'signal', ...WHO, leaseId: CHILD, code: 'LEASE_LOST', reason }
  }

  function complaints(observations: readonly Observation[]): readonly Complaint[] {
    const ledger = ledgerOf(SLOW_THEN_QUICK)
    return nothingLeft.check({
      ...{ store: 'optimistic', ledger, refusals: [], handles: [], entries: [], heard: new Map() },
      log: observations.map((observation) => ({ atUs: LOST_US, ...observation })),
      lives: leaseLives(ledger, PARENTS, ({ us }) => us),
      ...{ parents: PARENTS, clockChanges: [], configured: [], endUs: Infinity },
      ...{ claimWindowMs: 200, trueUs: ({ us }) => us },
    })
  }

  it('is left until the release that missed is heard of', () => {
    const fault = { kind: 'fault', fault: 'answer_lost', process: 'ada', leaseId: CHILD } as const
    expect(complaints([lost('deadline_passed'), fault])).toEqual([])
  })

  it('with its parent is left until the release of that one arrives', () => {
    expect(complaints([lost('parent_ended'), slow(PARENT)])).toEqual([])
  })

  it.each([
    ['with its parent, whose release is on no slow way', [lost('parent_ended')]],
    ['with its parent, however slow its own requests are', [lost('parent_ended'), slow(CHILD)]],
    ['at its own deadline, however slow its parent', [lost('deadline_passed'), slow(PARENT)]],
  ])('is given back %s', (_, observations) => {
    expect(complaints(observations)).toEqual([expect.stringMatching(/left it in the store until/)])
  })
})
