/** A ledger as commits: which store each of them fits, and what no store can have decided. */
import { describe, expect, it } from 'vitest'
import { eventCommon } from '../../src/core/draft.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { Entry, Lease, Ticket } from '../../src/core/lease.ts'
import { COMMIT_SLACK_MS_MAX, TTL_MS_MAX } from '../../src/core/limits.ts'
import { parseResource } from '../../src/core/resource.ts'
import { restoreSteps, type RestoreStep } from '../../src/core/restore.ts'
import { file, id, lease, nowAt, tickAt, ticket, view, WALL_MS, WORK } from './builders.ts'

const WORKFLOW = parseResource('workflow:w')
const ADAS = lease({ fence: 7 })
const BOBS = ticket({ resource: file('/a/b'), extent: 'subtree' })

function common(entry: Entry, after = entry.state): ReturnType<typeof eventCommon> {
  return eventCommon(entry, nowAt(0), { before: null, after })
}

function issued(held: Lease): LeaseEvent {
  return { type: 'lease.issued', ...common(held), lease: held }
}

function queued(waiting: Ticket): LeaseEvent {
  return { type: 'lease.queued', ...common(waiting), ticket: waiting }
}

function released(held: Lease): LeaseEvent {
  return { type: 'lease.released', ...common(held, 'released'), releaseReason: 'voluntary' }
}

function renewed(held: Lease): LeaseEvent {
  const { ttlMs, deadline, expiresAtMs } = held
  return { type: 'lease.renewed', ...common(held), ttlMs, deadline, expiresAtMs }
}

function offered(waiting: Ticket, fence: number): LeaseEvent {
  return { type: 'lease.offered', ...common(waiting), fence, deadline: tickAt(9_000) }
}

const LEDGER = [issued(ADAS), queued(BOBS), released(ADAS), offered(BOBS, 9)]
const [begun, ended] = restoreSteps(LEDGER, 2)

function firstOf(...events: readonly LeaseEvent[]): RestoreStep {
  const [first] = restoreSteps(events, events.length)
  if (first === undefined) throw new Error('a ledger with events has a first step')
  return first
}

describe('a ledger as steps', () => {
  it.each([
    [0, 2, []],
    [1, 2, [[0, 1]]],
    [2, 2, [[0, 2]]],
    [
      4,
      2,
      [
        [0, 2],
        [2, 4],
      ],
    ],
    [
      4,
      3,
      [
        [0, 3],
        [3, 4],
      ],
    ],
  ])('%i events, %i at a time', (many, stepEvents, places) => {
    const events = LEDGER.slice(0, many)
    const steps = restoreSteps(events, stepEvents)
    expect(steps.map(({ after, upTo }) => [after, upTo])).toEqual(places)
  })
})

describe('the first step', () => {
  it('looks at each realm of the whole ledger once, and for what the first event of it tells of', () => {
    const events = [...LEDGER, issued(lease({ id: id(5) })), issued(lease({ resource: WORKFLOW }))]
    const [first] = restoreSteps(events, 1)
    const rest = { requestId: null, depth: 'claims' }
    expect(first?.readSets).toEqual([
      { resource: WORK, extent: 'exact', leaseId: id(1), ...rest },
      { resource: 'file:/', extent: 'subtree', leaseId: id(2), ...rest },
      { resource: WORKFLOW, extent: 'exact', leaseId: id(1), ...rest },
    ])
  })

  it('puts the entries as its last events leave them, all of them new', () => {
    const commit = firstOf(...LEDGER).commit([view(), view()])
    const offer = { fence: 9, deadline: tickAt(9_000) }
    expect(commit).toMatchObject({
      events: LEDGER,
      changes: [
        { id: id(1), before: undefined, after: { state: 'released' }, renewal: false },
        { id: id(2), before: undefined, after: { ...BOBS, offer }, renewal: false },
      ],
    })
  })

  it.each([
    ['anything', view([ADAS])],
    ['nothing but an epoch', view([], { epoch: 1 })],
  ])('does not fit a store that has %s in one of the realms', (_what, seen) => {
    expect(begun?.commit([view(), view()])).not.toBeNull()
    expect(begun?.commit([view(), seen])).toBeNull()
  })

  const upgraded: LeaseEvent = { type: 'lease.upgraded', ...common(ADAS), fence: 11 }
  it.each<[string, readonly LeaseEvent[], number, number]>([
    ['no fence', [queued(BOBS)], 0, 0],
    ['the fence of a lease', [queued(BOBS), issued(ADAS)], 8, 7],
    ['a higher one that was offered', [issued(ADAS), queued(BOBS), offered(BOBS, 9)], 10, 9],
    ['a higher one of an upgrade', [issued(ADAS), upgraded, renewed(ADAS)], 12, 11],
  ])('begins above %s, also of a later step', (_what, events, firstFence, lastFence) => {
    const [first] = restoreSteps(events, 1)
    expect(first?.commit([view(), view()])).toMatchObject({ firstFence, lastFence })
  })

  const held = lease({ resource: WORKFLOW, epoch: 4 })
  const advanced: LeaseEvent = { type: 'lease.advanced', ...common(held), from: 4, to: 6 }
  const given: LeaseEvent = { type: 'lease.transferred', ...common(held, 'released'), to: '5' }
  it.each<[string, readonly LeaseEvent[], number | null]>([
    ['where its lease began', [issued(held)], 4],
    ['how far its lease has advanced it', [issued(held), advanced, renewed(held)], 6],
    ['nothing of a transfer, whatever its receiver is called', [issued(held), given], 4],
    ['nothing where none was used up', [issued({ ...held, epoch: 0 })], null],
  ])('says of the epoch of a workflow %s', (_what, events, epoch) => {
    const epochs = epoch === null ? [] : [{ resource: WORKFLOW, epoch }]
    expect(firstOf(...events).commit([view()])?.epochs).toEqual(epochs)
  })
})

describe('a later step', () => {
  it('looks at the entries that it changes', () => {
    const rest = { requestId: null, depth: 'entry' }
    expect(ended?.readSets).toEqual([
      { resource: WORK, extent: 'exact', leaseId: id(1), ...rest },
      { resource: file('/a/b'), extent: 'subtree', leaseId: id(2), ...rest },
    ])
  })

  it('goes on from what the store has made of the entries meanwhile', () => {
    const kept = { ...ADAS, renewals: 3 }
    expect(ended?.commit([view([kept]), view([BOBS])])).toMatchObject({
      ...{ events: LEDGER.slice(2), firstFence: 0, lastFence: 0 },
      changes: [
        { id: id(1), before: kept, after: { state: 'released' } },
        { id: id(2), before: BOBS, after: { state: 'pending' } },
      ],
    })
  })

  it.each<[string, readonly Entry[], readonly Entry[]]>([
    ['the first entry is not there', [], [BOBS]],
    ['the last entry is not there', [ADAS], []],
    ['an entry has another state', [ADAS], [{ ...BOBS, state: 'failed' }]],
    ['an entry is of another holder', [{ ...ADAS, holder: 'eve' }], [BOBS]],
  ])('does not fit where %s', (_what, first, second) => {
    expect(ended?.commit([view(first), view(second)])).toBeNull()
  })

  it('does not fit where an entry that it begins with is there already', () => {
    const [, second] = restoreSteps([issued(ADAS), queued(BOBS)], 1)
    expect(second?.commit([view()])).not.toBeNull()
    expect(second?.commit([view([BOBS])])).toBeNull()
  })
})

describe('what has more time left than it was given', () => {
  const locked = { state: 'expired', terminatedAtMs: WALL_MS } as const
  const revoking = { by: 'operator', reason: null }

  it.each<[string, number, (deadline: Lease['deadline']) => Entry]>([
    ['a lease', 10_000, (deadline) => lease({ deadline })],
    [
      'a lock delay',
      12_000,
      (lockedUntil) => lease({ ...locked, lockedUntil, lockDelayMs: 2_000 }),
    ],
    ['a lease with a grace', TTL_MS_MAX, (deadline) => lease({ deadline, revoking })],
    ['a ticket', 10_000, (deadline) => ticket({ deadline })],
    ['a long window', 20_000, (deadline) => ticket({ deadline, claimWindowMs: 20_000 })],
  ])('%s', (_what, mostMs, withDeadline) => {
    const problemAt = (deadline: Lease['deadline']) => {
      const entry = withDeadline(deadline)
      const event = entry.kind === 'lease' ? issued(entry) : queued(entry)
      return firstOf(event).problem(nowAt(1_000))
    }
    const most = tickAt(1_000 + mostMs + COMMIT_SLACK_MS_MAX)
    expect(problemAt(most)).toBeNull()
    expect(problemAt({ ...most, us: most.us + 1 })).toMatch(
      new RegExp(`^deadline of lease \\S+ must be at most ${most.us}, got ${most.us + 1}$`, 'u'),
    )
    expect(problemAt({ domain: 'another', us: most.us + 1 })).toBeNull()
  })

  it('is nothing that has ended', () => {
    const deadline = tickAt(TTL_MS_MAX)
    expect(firstOf(issued(lease({ state: 'released', deadline }))).problem(nowAt(1))).toBeNull()
  })

  it('is looked for in every step', () => {
    const endless = lease({ id: id(5), deadline: tickAt(TTL_MS_MAX) })
    const steps = restoreSteps([issued(ADAS), issued(endless)], 1)
    const problems = steps.map(({ problem }) => problem(nowAt(1)))
    expect(problems).toEqual([null, expect.stringContaining(`deadline of lease ${id(5)} `)])
  })
})
