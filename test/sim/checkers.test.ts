/** The checkers of the simulator ask for what is promised, and for no more. */
import { describe, expect, it } from 'vitest'
import { cycleFreedom } from '../../sim/checkers/cycle-freedom.ts'
import { pessimistic } from '../../sim/checkers/i4-pessimistic.ts'
import { exactlyOnce } from '../../sim/checkers/i8-exactly-once.ts'
import { fair } from '../../sim/checkers/i9-fair.ts'
import { nothingLeft } from '../../sim/checkers/nothing-left.ts'
import type { Complaint, Evidence } from '../../sim/evidence.ts'
import { handleLogs } from '../../sim/holder-views.ts'
import { lastTerm, leaseLives } from '../../sim/lease-life.ts'
import type { Fault, Logged, Observation } from '../../sim/log.ts'
import type { TimedEvent } from '../../sim/store-host.ts'
import type { Command } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import type { Resource } from '../../src/core/resource.ts'
import { NO_SCOPE } from '../../src/core/scope.ts'
import {
  acquire,
  file,
  id,
  nowAt,
  renew,
  revoke,
  transfer,
  TTL_MS,
  view,
  WAITING,
  WORK,
} from '../core/builders.ts'

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
    const slackUs = Math.round(toleranceMs * 1000)
    const now = nowAt(ms, { toleranceUs: slackUs })
    const decision = decide(view(entries), command, now)
    entries = [...decision.entries.values()]
    return decision.events.map((event) => {
      return { event, atUs: ms * 1000, tick: now.tick, slackUs, commit, isEcho: false }
    })
  })
}

/** Of a server that other processes decide for. */
function evidenceOf(course: Course, log: readonly Logged[]): Evidence {
  const ledger = ledgerOf(course)
  return {
    ...{ store: 'optimistic', log, ledger, refusals: [], entries: [], heard: new Map() },
    lives: leaseLives(ledger, PARENTS, ({ us }) => us),
    handles: handleLogs(log),
    ...{ parents: PARENTS, clockChanges: [], configured: [], endUs: Infinity },
    ...{ claimWindowMs: 200, trueUs: ({ us }) => us },
  }
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
    [
      'when the end of a parent cuts a renewal, of which the ledger says whole milliseconds',
      [
        [ASKED, 0, 20.3],
        [derived, 6, 20],
        [renew(), 8, 20.4],
        [renew({ leaseId: CHILD, ttlMs: 2 * TTL_MS }), 9, 21],
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

  it('is no sooner for a renewal by less than is left, which a slow way to the server lets extend it', () => {
    const course: Course = [
      [ASKED, 0, 20],
      [renew({ ttlMs: TTL_MS - 400 }), 3, 600],
    ]
    const [life] = leaseLives(ledgerOf(course), PARENTS, ({ us }) => us)
    expect(life?.terms.map(({ dueUs, endUs }) => [dueUs, endUs])).toEqual([
      [TTL_MS * 1000, TTL_MS * 1000],
      [TTL_MS * 1000, TTL_MS * 1000],
    ])
  })

  it('may be just before the end of the longest hold, without being cut by it', () => {
    const course: Course = [
      [acquire({ leaseId: PARENT, holder: 'ada', ttlMs: 58, maxHoldMs: 75 }), 0, 0],
      [renew({ ttlMs: 58 }), 16.003, 0],
    ]
    const [life] = leaseLives(ledgerOf(course), PARENTS, ({ us }) => us)
    expect(life?.terms.map(({ dueUs }) => dueUs)).toEqual([58_000, 74_003])
  })
})

describe('the end that a holder counts on', () => {
  const TTL_US = TTL_MS * 1000
  const SLOW_US = 140_000
  const lease = { leaseId: PARENT, resource: WORK, mode: 'exclusive' } as const
  const view = { extent: 'exact', slots: null, isAsked: false, fence: 1 } as const

  /** By a request that was sent then, to a store that granted the lease at 0. */
  function complaints(sentUs: number, deadlineUs: number): readonly Complaint[] {
    const answer = { method: 'claim', answer: 'granted', requestId: null, givenId: PARENT } as const
    const log: readonly Logged[] = [
      { atUs: 9_000, kind: 'answered', ...WHO, ...answer, leaseId: PARENT, sentUs, renewals: 0 },
      {
        ...{ atUs: 9_000, kind: 'believed', why: 'granted', ...WHO, ...lease, ...view },
        ...{ holder: 'ada', state: 'held', renewals: 0, deadlineUs },
      },
      { atUs: 9_500, kind: 'let_go', ...WHO, leaseId: PARENT },
    ]
    return pessimistic.check(evidenceOf([[ASKED, 0, SLOW_US / 1000]], log))
  }

  it('is a TTL from the commit of its own request at most', () => {
    expect(complaints(-1_000, TTL_US)).toEqual([])
    const [complaint] = complaints(-1_000, TTL_US + 1_000)
    expect(complaint).toMatch(/counted on 10\.001000 s, the store on 10\.000000 s/)
  })

  it('is what the store keeps at most, once it was granted by another and asks', () => {
    expect(complaints(8_000, TTL_US + SLOW_US)).toEqual([])
    const [complaint] = complaints(8_000, TTL_US + SLOW_US + 1_000)
    expect(complaint).toMatch(/counted on 10\.141000 s, the store on 10\.140000 s/)
  })
})

describe('the moment by which a holder must have heard', () => {
  const HANDLE = {
    leaseId: PARENT,
    resource: WORK,
    extent: 'exact',
    mode: 'exclusive',
    holder: 'ada',
    fence: 1,
    renewals: 0,
    slots: null,
    isAsked: false,
    deadlineUs: 200_000,
  } as const

  it.each([
    ['after what had waited while its process was stopped', 20_000, []],
    [
      'soon after its process runs again',
      0,
      [expect.stringMatching(/had not heard of it by 0\.51/)],
    ],
  ])('is %s', (_, busyUs, expected) => {
    const log: readonly Logged[] = [
      { atUs: 0, kind: 'started', ...WHO, holder: 'ada' },
      { atUs: 5_000, kind: 'believed', ...WHO, why: 'granted', ...HANDLE, state: 'held' },
      { atUs: 100_000, kind: 'stopped', process: 'ada', how: 'pause' },
      { atUs: 500_000, kind: 'resumed', process: 'ada', busyUs },
      { atUs: 525_000, kind: 'signal', ...WHO, leaseId: PARENT, code: 'LEASE_LOST', reason: 'x' },
    ]
    expect(pessimistic.check(evidenceOf([[ASKED, 0, 0]], log))).toEqual(expected)
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

  function complaints(
    observations: readonly Observation[],
    before: readonly Logged[] = [],
  ): readonly Complaint[] {
    const log = [...before, ...observations.map((one) => ({ atUs: LOST_US, ...one }))]
    return nothingLeft.check(evidenceOf(SLOW_THEN_QUICK, log))
  }

  it('is left until the release that missed is heard of', () => {
    const fault = { kind: 'fault', fault: 'answer_lost', process: 'ada', leaseId: CHILD } as const
    expect(complaints([lost('deadline_passed'), fault])).toEqual([])
  })

  it('with its parent is left until the release of that one arrives', () => {
    expect(complaints([lost('parent_ended'), slow(PARENT)])).toEqual([])
  })

  it('with its parent, which its holder had let go, is left to the end of that', () => {
    const letGo: Logged = { atUs: LOST_US - 1_000, kind: 'let_go', ...WHO, leaseId: PARENT }
    expect(complaints([lost('parent_ended')], [letGo])).toEqual([])
    expect(complaints([lost('deadline_passed')], [letGo])).toHaveLength(1)
  })

  it('is left while an answer is missing to what was asked before, behind which the release goes', () => {
    const sentUs = LOST_US - 1_000
    const call = { ...WHO, method: 'renew', leaseId: CHILD, requestId: null } as const
    const others = { ttlMs: null, priority: 0, group: null, parentId: null } as const
    const asked: Logged = { atUs: sentUs, kind: 'asked', ...call, ...others }
    const told = { answer: 'renewed', sentUs, renewals: 1, givenId: CHILD } as const
    const answered: Logged = { atUs: sentUs + 500, kind: 'answered', ...call, ...told }
    expect(complaints([lost('deadline_passed')], [asked])).toEqual([])
    expect(complaints([lost('deadline_passed')], [asked, answered])).toHaveLength(1)
  })

  it('is left while a call hangs that keeps others of its process back', () => {
    const hangs = { kind: 'fault', fault: 'call_hangs', process: 'ada', leaseId: PARENT } as const
    expect(complaints([lost('deadline_passed'), hangs])).toEqual([])
    expect(complaints([lost('deadline_passed'), { ...hangs, process: 'bea' }])).toHaveLength(1)
  })

  it.each([
    ['with its parent, whose release is on no slow way', [lost('parent_ended')]],
    ['with its parent, however slow its own requests are', [lost('parent_ended'), slow(CHILD)]],
    ['at its own deadline, however slow its parent', [lost('deadline_passed'), slow(PARENT)]],
  ])('is given back %s', (_, observations) => {
    expect(complaints(observations)).toEqual([expect.stringMatching(/left it in the store until/)])
  })
})

describe('a lease of a request that was refused', () => {
  function complaints(refusedUs: readonly number[]) {
    const call = { ...WHO, operation: 'try_acquire', resource: WORK, leaseId: PARENT } as const
    const log: readonly Logged[] = [
      { atUs: 5_000, kind: 'call', ...call, call: 1, boundMs: 1_000 },
      { atUs: 100_000, kind: 'ended', call: 1, outcome: 'held', effect: 'none' },
    ]
    const course: Course = [[ASKED, 30, 0]]
    // The network kept the first request, and the second was refused: slowly, as its sender sees it.
    const ledger = ledgerOf(course).map((timed) => ({ ...timed, isEcho: true }))
    const lives = leaseLives(ledger, PARENTS, ({ us }) => us)
    const refusals = refusedUs.flatMap((atUs) => ledger.map((timed) => ({ ...timed, atUs })))
    return exactlyOnce.check({ ...evidenceOf(course, log), ledger, lives, refusals })
  }

  it('may be granted by an earlier one that arrives after the refusal', () => {
    expect(complaints([10_000])).toEqual([])
  })

  it('must not live on else', () => {
    const complaint = [expect.stringMatching(/was told held .* lived on$/)]
    expect(complaints([])).toEqual(complaint)
    expect(complaints([50_000])).toEqual(complaint)
  })
})

describe('the ticket of a wait that its caller has given up', () => {
  const [TICKET, OTHER] = [id(2), id(7)]
  const COURSE: Course = [
    [acquire({ leaseId: PARENT, holder: 'bob' }), 0, 0],
    [acquire({ leaseId: TICKET, holder: 'ada', claimWindowMs: 200, ...WAITING }), 10, 0],
  ]

  function complaints(
    store: Evidence['store'],
    resource: string,
    process = 'ada',
    before: readonly Logged[] = [],
  ) {
    const call = { operation: 'acquire', boundMs: 1_000 } as const
    const log: readonly Observation[] = [
      { kind: 'call', ...WHO, ...call, call: 1, resource: 'work:W-1', leaseId: TICKET },
      { kind: 'call', ...WHO, ...call, call: 2, resource, leaseId: OTHER },
      { kind: 'ended', call: 1, outcome: 'WAIT_TIMEOUT', effect: 'none' },
      { kind: 'fault', fault: 'outcome_unknown', process, leaseId: OTHER },
    ]
    const logged = log.map((entry) => ({ atUs: 20_000, ...entry }))
    const heard = new Map([[TICKET, [{ atUs: 10_000, deadline: nowAt(900).tick }]]])
    return nothingLeft.check({ ...evidenceOf(COURSE, [...before, ...logged]), store, heard })
  }

  it('stands while an optimistic store waits for an answer there', () => {
    expect(complaints('optimistic', 'work:W-1')).toEqual([])
  })

  it('stands while an answer is missing to what was asked before', () => {
    const call = { ...WHO, method: 'renew', leaseId: OTHER, requestId: null } as const
    const others = { ttlMs: null, priority: 0, group: null, parentId: null } as const
    const asked: Logged = { atUs: 15_000, kind: 'asked', ...call, ...others }
    expect(complaints('optimistic', 'work:W-2', 'ada', [asked])).toEqual([])
    expect(complaints('memory', 'work:W-2', 'ada', [asked])).toHaveLength(1)
  })

  it('stands too long else', () => {
    const complaint = [expect.stringMatching(/its ticket .* stood until 0\.900000 s$/)]
    expect(complaints('memory', 'work:W-1')).toEqual(complaint)
    expect(complaints('optimistic', 'work:W-2')).toEqual(complaint)
    expect(complaints('optimistic', 'work:W-1', 'bob')).toEqual(complaint)
  })
})

describe('a cycle that a transfer makes of a wait', () => {
  const WAITING_FOR_FILE = acquire({
    ...{ leaseId: id(2), holder: 'bob', resource: file('/s/f'), claimWindowMs: TTL_MS },
    ...WAITING,
  })
  const at = { resource: file('/s'), extent: 'subtree' } as const
  /** What was given to bob blocks what bob waits for, and nobody refuses that for two seconds. */
  const COURSE: Course = [
    [acquire({ leaseId: PARENT, holder: 'ada', ...at }), 0, 20],
    [WAITING_FOR_FILE, 10, 20],
    [transfer({ leaseId: PARENT, to: 'bob', ...at }), 20, 20],
    [acquire({ leaseId: id(8) }), 2_000, 20],
  ]
  const started = (holder: string): Logged => {
    return { atUs: 0, kind: 'started', process: holder, session: `session-of-${holder}`, holder }
  }

  function complaints(faults: readonly Fault[]): readonly Complaint[] {
    const log = faults.map((fault) => ({ atUs: 30_000, ...fault }))
    return cycleFreedom.check(evidenceOf(COURSE, [...['ada', 'bob', 'cyd'].map(started), ...log]))
  }

  const slow = (process: string): Fault => {
    return { kind: 'fault', fault: 'slow_answer', process, leaseId: null }
  }

  it('may last where the one who gave it away hears late, for that one looks', () => {
    expect(complaints([slow('ada')])).toEqual([])
  })

  it('lasts too long else', () => {
    const complaint = /^session-of-bob for file:\/s\/f: in a cycle from 0\.020000 s to 2\.000000 s$/
    expect(complaints([])).toEqual([expect.stringMatching(complaint)])
    expect(complaints([slow('cyd')])).toEqual([expect.stringMatching(complaint)])
  })
})

describe('a wait for what lies free', () => {
  const TICKET = id(2)
  const OTHER = id(7)
  /** The lease runs out after 300 ms, and its waiter is heard of once. */
  const courseAt = (resource: Resource): Course => [
    [acquire({ leaseId: PARENT, resource, holder: 'bob', ttlMs: 300 }), 0, 0],
    [acquire({ leaseId: TICKET, resource, holder: 'ada', claimWindowMs: 200, ...WAITING }), 10, 0],
    [acquire({ leaseId: id(8), resource: file('/f') }), 2_000, 0],
  ]

  function complaints(
    store: Evidence['store'],
    observed: readonly Observation[],
    [waitedFor, other] = [WORK, WORK],
  ) {
    const log: readonly Observation[] = [
      { kind: 'started', ...WHO, holder: 'ada' },
      { kind: 'started', process: 'bob', session: 'session-of-bob', holder: 'bob' },
      ...[TICKET, OTHER, id(8)].map((leaseId) => asked('acquire', leaseId)),
      { kind: 'call', ...WHO, ...CALL, resource: other, leaseId: OTHER },
      ...observed,
    ]
    const logged = log.map((entry) => ({ atUs: 100_000, ...entry }))
    const heard = new Map([[TICKET, [{ atUs: 10_000, deadline: nowAt(1_500).tick }]]])
    return fair.check({ ...evidenceOf(courseAt(waitedFor), logged), store, heard })
  }

  function asked(method: 'acquire' | 'release', leaseId: string): Observation {
    const relations = { group: null, parentId: null }
    const request = { requestId: null, ttlMs: 300, priority: 0, ...relations }
    return { kind: 'asked', ...WHO, ...request, method, leaseId }
  }

  const CALL = { call: 1, operation: 'acquire', boundMs: 1_000 } as const
  const slowRelease = (leaseId: string): readonly Observation[] => [
    asked('release', leaseId),
    { kind: 'fault', fault: 'slow_answer', process: 'ada', leaseId },
  ]
  const slowClaim = (process: string): Observation => {
    return { kind: 'fault', fault: 'slow_request', process, leaseId: OTHER }
  }
  const IN_VAIN = [expect.stringMatching(/^work:W-1 was free from 0\.300000 s to 1\.500000 s/)]

  it('is one in vain', () => {
    expect(complaints('memory', [])).toEqual(IN_VAIN)
    expect(complaints('optimistic', [])).toEqual(IN_VAIN)
  })

  it('is not where a release of its process, which takes its claim along, is slow', () => {
    expect(complaints('memory', slowRelease(OTHER))).toEqual([])
    expect(complaints('memory', slowRelease(id(8)))).toEqual(IN_VAIN)
    expect(complaints('memory', [slowClaim('ada')])).toEqual(IN_VAIN)
  })

  it('is not where an optimistic store waits for what its process asked about the same resource', () => {
    expect(complaints('optimistic', [slowClaim('ada')])).toEqual([])
    expect(complaints('optimistic', [slowClaim('bob')])).toEqual(IN_VAIN)
  })

  it('is not where that is elsewhere in the same tree', () => {
    const slow = [slowClaim('ada')]
    expect(complaints('optimistic', slow, [file('/s'), file('/s/a')])).toEqual([])
    expect(complaints('optimistic', slow, [WORK, file('/s/a')])).toEqual(IN_VAIN)
  })
})
