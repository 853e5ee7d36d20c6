import { describe, expect, it } from 'vitest'
import { blockersOf } from '../../src/core/conflict.ts'
import { describeEntry, type Entry, type LeaseInfo } from '../../src/core/lease.ts'
import {
  isServed,
  isTurnOf,
  isUpgradeTurn,
  type Surroundings,
} from '../../src/client/waiter-turn.ts'
import { id, lease, nowAt, tickAt, ticket } from '../core/builders.ts'

const NOW = nowAt(1)
const MINE = ticket({ id: id(9), holder: 'me', orderUs: 50 })

function infoOf(entry: Entry): LeaseInfo {
  return describeEntry(entry, NOW)
}

function surroundings(leases: readonly Entry[], queue: readonly Entry[]): Surroundings {
  const delays = leases.filter((entry) => entry.kind === 'lease' && entry.lockedUntil !== null)
  const live = leases.filter((entry) => !delays.includes(entry))
  const blockers = blockersOf(MINE, delays, NOW)
  return { leases: live.map(infoOf), queue: queue.map(infoOf), blockers }
}

describe('the turn of a ticket', () => {
  const reader = ticket({ ...MINE, mode: 'shared' })
  const slotted = ticket({ ...MINE, mode: 'shared', slots: 3 })
  const shared = lease({ mode: 'shared' })
  const slot = (number: number, slots: number): Entry =>
    lease({ id: id(number), mode: 'shared', slots })

  it.each<[string, boolean, readonly Entry[], readonly Entry[]]>([
    ['comes when nothing is there', true, [], [MINE]],
    ['is not known of a ticket that is gone, so that it asks', true, [lease()], []],
    ['has come with an offer', true, [lease()], [{ ...MINE, offer: offer() }]],
    ['is not while somebody holds', false, [lease()], [MINE]],
    ['is not behind another ticket', false, [], [ticket({ orderUs: 49 }), MINE]],
    ['is before a later ticket', true, [], [MINE, ticket({ orderUs: 51 })]],
    ['is not beside an offer to a later one', false, [], [MINE, ticket({ offer: offer() })]],
    ['is not during a lock delay', false, [locked()], [MINE]],
    ['of a reader comes beside readers', true, [shared], [reader]],
    ['of a reader is not beside a writer', false, [lease()], [reader]],
    ['of a reader is not beside an upgrade', false, [{ ...shared, upgrading: true }], [reader]],
    ['of a slot comes up to the last place', true, [slot(1, 3), slot(2, 3)], [slotted]],
    ['of a slot ends at the smallest number', false, [slot(1, 3), slot(2, 2)], [slotted]],
    ['of a slot is not beside plain sharers', false, [shared], [slotted]],
    ['comes with a transfer to its holder', true, [transferred('me')], [MINE]],
    ['is not with a transfer to another', false, [transferred('you')], [MINE]],
  ])('%s: %s', (_, isTurn, leases, queue) => {
    expect(isTurnOf(MINE.id, surroundings(leases, queue))).toBe(isTurn)
  })

  it('of one that only has to look for its offer has come with it, or when it is gone', () => {
    expect(isServed(infoOf(MINE))).toBe(false)
    expect(isServed(infoOf({ ...MINE, offer: offer() }))).toBe(true)
    expect(isServed(infoOf({ ...MINE, deadline: tickAt(0) }))).toBe(true)
    expect(isServed(null)).toBe(true)
  })
})

describe('the turn of an upgrade', () => {
  const own = lease({ mode: 'shared', upgrading: true })
  const other = lease({ id: id(2), mode: 'shared', holder: 'bob' })

  it.each<[string, boolean, readonly Entry[]]>([
    ['comes when the holder is the last', true, [own]],
    ['is not while others share', false, [own, other]],
    ['is over when it no longer waits', true, [{ ...own, upgrading: false }, other]],
    ['is over when its lease is gone', true, [other]],
  ])('%s: %s', (_, isTurn, leases) => {
    expect(isUpgradeTurn(own.id, leases.map(infoOf))).toBe(isTurn)
  })
})

function offer(): { readonly fence: number; readonly deadline: ReturnType<typeof tickAt> } {
  return { fence: 7, deadline: tickAt(8_000) }
}

function locked(): Entry {
  return lease({ state: 'expired', lockedUntil: tickAt(9) })
}

function transferred(holder: string): Entry {
  return lease({ holder, adopted: false })
}
