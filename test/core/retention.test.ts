/** What may be pruned, at every border, and how far a store believes the clock by which it prunes. */
import { describe, expect, it } from 'vitest'
import { LEASE_EVENT_TYPES, type LeaseEvent } from '../../src/core/event.ts'
import type { Lease } from '../../src/core/lease.ts'
import { PRUNE_STEP_MS, TTL_MS_MAX } from '../../src/core/limits.ts'
import {
  boundedCut,
  firstPruneClock,
  isSuperseded,
  mayBePruned,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneClock,
} from '../../src/core/retention.ts'
import { lease, ticket } from './builders.ts'

const NOW = 1_700_000_000_000
const KEEP_MS = 30 * 86_400_000
const CUT = { endedBeforeMs: NOW - KEEP_MS, nowMs: NOW }
const BEFORE = CUT.endedBeforeMs - 1

function ended(terminatedAtMs: number, ttlMs = 1_000): Lease {
  return lease({ state: 'released', terminatedAtMs, ttlMs })
}

describe('an entry', () => {
  it.each([
    ['that ended a millisecond before the cut', ended(BEFORE), BEFORE, true],
    ['that ended at the cut', ended(CUT.endedBeforeMs), CUT.endedBeforeMs, false],
    ['that ended at the cut, of which nothing is recorded', ended(CUT.endedBeforeMs), 0, false],
    ['whose end was noticed a millisecond before the cut', ended(1), BEFORE, true],
    ['whose end was noticed at the cut', ended(1), CUT.endedBeforeMs, false],
    ['whose TTL has passed since by a millisecond', ended(1, NOW - 2), 1, true],
    ['whose TTL has passed since to the tick', ended(1, NOW - 1), 1, false],
    ['that is active, however old', lease({ createdAtMs: 0, grantedAtMs: 0 }), 0, false],
    ['that waits', ticket({ createdAtMs: 0 }), 0, false],
  ])('%s', (_, entry, recordedAtMs, isPruned) => {
    expect(mayBePruned(entry, recordedAtMs, CUT)).toBe(isPruned)
  })
})

describe('an event that a later one of its type follows', () => {
  const at = CUT.endedBeforeMs
  const asked = 'an-id'
  it.each([
    ['renewed, a millisecond before the cut', 'lease.renewed', at - 1, null, 1_000, true],
    ['renewed, at the cut', 'lease.renewed', at, null, 1_000, false],
    ['renewed by request, longest TTL ago', 'lease.renewed', NOW - TTL_MS_MAX, asked, 1_000, false],
    ['renewed by request, longer ago', 'lease.renewed', NOW - TTL_MS_MAX - 1, asked, 1_000, true],
    ['advanced, its TTL ago', 'lease.advanced', NOW - KEEP_MS - 9, asked, KEEP_MS + 9, false],
    ['advanced, longer ago', 'lease.advanced', NOW - KEEP_MS - 10, asked, KEEP_MS + 9, true],
    ['advanced, at the cut', 'lease.advanced', at, null, 1_000, false],
    ['advanced, of no live lease', 'lease.advanced', NOW - TTL_MS_MAX, null, null, false],
    ['advanced, of no live lease, longer ago', 'lease.advanced', at - 1, null, null, true],
    ['issued', 'lease.issued', 0, null, 1_000, false],
    ['released', 'lease.released', 0, null, 1_000, false],
  ] as const)('%s', (_, type, atMs, requestId, ttlMs, isGone) => {
    const event = { type, atMs, requestId } as LeaseEvent
    expect(isSuperseded(event, ttlMs, CUT)).toBe(isGone)
  })
})

describe('where less is kept than the longest TTL, a renewal by request that a later one follows', () => {
  const cut = { endedBeforeMs: NOW - 1, nowMs: NOW }
  it.each([
    ['stays for the longest TTL, since its request may be repeated', NOW - TTL_MS_MAX, false],
    ['goes after that', NOW - TTL_MS_MAX - 1, true],
  ])('%s', (_, atMs, isGone) => {
    const event = { type: 'lease.renewed', atMs, requestId: 'an-id' } as LeaseEvent
    expect(isSuperseded(event, 1_000, cut)).toBe(isGone)
  })
})

it('the types of events that a later one may follow are those that a store looks through', () => {
  const old = LEASE_EVENT_TYPES.filter((type) => {
    return isSuperseded({ type, atMs: 0, requestId: null } as LeaseEvent, null, CUT)
  })
  expect(old.toSorted()).toEqual(SUPERSEDED_TYPES.toSorted())
})

/** By how much the cut is earlier than the one that is asked for. */
function shortBy(clock: PruneClock, nowMs: number): number {
  const cut = boundedCut({ endedBeforeMs: nowMs - KEEP_MS, nowMs }, clock)
  expect(cut.nowMs - cut.endedBeforeMs).toBe(KEEP_MS)
  return nowMs - cut.nowMs
}

describe('a prune', () => {
  const first = firstPruneClock(NOW)

  it.each([
    ['at the time of the last one', 0, 0, 0],
    ['within a step of it', 5_000, 0, 5_000],
    ['a step after it', PRUNE_STEP_MS, 0, PRUNE_STEP_MS],
    ['a millisecond further', PRUNE_STEP_MS + 1, PRUNE_STEP_MS + 1, PRUNE_STEP_MS],
    ['400 days after it', 400 * PRUNE_STEP_MS, 400 * PRUNE_STEP_MS, PRUNE_STEP_MS],
    ['a day before it', -PRUNE_STEP_MS, 0, 0],
  ])('%s', (_, laterMs, shortMs, believedMs) => {
    const clock = nextPruneClock(first, NOW + laterMs)
    expect(shortBy(clock, NOW + laterMs)).toBe(shortMs)
    expect(clock).toEqual({ readingMs: NOW + laterMs, believedMs: NOW + believedMs })
  })

  it('removes by one reading what the reading before allowed, however many batches it takes', () => {
    const wrong = NOW + 400 * PRUNE_STEP_MS
    let clock = nextPruneClock(first, wrong)
    for (let batch = 0; batch < 1_000; batch += 1) {
      clock = nextPruneClock(clock, wrong)
      expect(wrong - shortBy(clock, wrong)).toBe(NOW)
    }
    const right = NOW + 300_000
    expect(shortBy(nextPruneClock(clock, right), right)).toBe(0)
  })

  it('catches up by a step with each reading after a long rest', () => {
    let clock = first
    for (let sweep = 1; sweep <= 10; sweep += 1) {
      const nowMs = NOW + 9.5 * PRUNE_STEP_MS + sweep
      clock = nextPruneClock(clock, nowMs)
      const expected = sweep < 10 ? NOW + (sweep - 1) * PRUNE_STEP_MS : nowMs
      expect(nowMs - shortBy(clock, nowMs)).toBe(expected)
    }
  })
})
