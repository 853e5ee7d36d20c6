import { describe, expect, it } from 'vitest'
import {
  describeEntry,
  endedAtMs,
  holderMetadata,
  isHeld,
  isLive,
  isWaiting,
  liveDeadline,
  type Entry,
} from '../../src/core/lease.ts'
import { id, lease, nowAt, tickAt, ticket, TTL_MS, WALL_MS, WINDOW_MS } from './builders.ts'

const offered = ticket({ offer: { fence: 5, deadline: tickAt(8_000) } })
const delayed = lease({ state: 'expired', lockedUntil: tickAt(20_000), terminatedAtMs: WALL_MS })

describe('an entry is', () => {
  it.each<[string, Entry, number, { held: boolean; waiting: boolean }]>([
    ['a lease before its deadline', lease(), TTL_MS - 1, { held: true, waiting: false }],
    ['a lease at its deadline', lease(), TTL_MS, { held: false, waiting: false }],
    ['a released lease', lease({ state: 'released' }), 1, { held: false, waiting: false }],
    ['a ticket within its window', ticket(), WINDOW_MS - 1, { held: false, waiting: true }],
    ['a ticket at the end of its window', ticket(), WINDOW_MS, { held: false, waiting: false }],
    ['an offer within its own window', offered, 7_999, { held: false, waiting: true }],
    ['an offer at the end of its window', offered, 8_000, { held: false, waiting: false }],
    ['a failed ticket', ticket({ state: 'failed' }), 1, { held: false, waiting: false }],
  ])('%s', (_, entry, at, { held, waiting }) => {
    expect(isHeld(entry, nowAt(at))).toBe(held)
    expect(isWaiting(entry, nowAt(at))).toBe(waiting)
  })

  it.each<[string, Entry, boolean, ReturnType<typeof liveDeadline>, number | null]>([
    ['an active lease', lease(), true, tickAt(TTL_MS), null],
    ['a pending ticket', ticket(), true, tickAt(WINDOW_MS), null],
    ['an offer', offered, true, tickAt(8_000), null],
    ['a lock delay', delayed, true, tickAt(20_000), null],
    ['an expired lease', { ...delayed, lockedUntil: null }, false, null, WALL_MS],
    ['a failed ticket', ticket({ state: 'failed' }), false, null, WALL_MS],
  ])('%s: live %s', (_, entry, live, deadline, ended) => {
    expect(isLive(entry)).toBe(live)
    expect(liveDeadline(entry)).toEqual(deadline)
    expect(endedAtMs(entry)).toBe(ended)
  })
})

describe('a lease as the world is told about it', () => {
  it('has the fields of the contract and none of the bookkeeping', () => {
    const info = describeEntry(lease(), nowAt(1))
    expect(Object.keys(info).toSorted()).toEqual([
      ...['adopted', 'breakable', 'createdAtMs', 'deadline', 'epoch', 'expiresAtMs', 'extent'],
      'fence',
      ...[
        'grantedAtMs',
        'group',
        'holder',
        'id',
        'lockDelayMs',
        'maxHoldMs',
        'maxRenewals',
        'metadata',
        'mode',
      ],
      ...['priority', 'reason', 'releaseReason', 'remainingMs', 'renewals', 'renewedAtMs'],
      ...['resource', 'revoking', 'session', 'slots', 'state', 'terminatedAtMs', 'ttlMs'],
      'upgrading',
    ])
    expect(info).toMatchObject({ adopted: true, group: null })
    expect(describeEntry(lease({ adopted: false }), nowAt(1)).adopted).toBe(false)
    expect(describeEntry(ticket({ group: 'g' }), nowAt(1)).group).toBe('g')
    expect(Object.keys(describeEntry(ticket(), nowAt(1))).toSorted()).toEqual(
      Object.keys(info).toSorted(),
    )
  })

  it.each([
    [TTL_MS - 1, 'active', 1, null],
    [TTL_MS, 'expired', 0, WALL_MS + TTL_MS],
    [TTL_MS + 50_000, 'expired', 0, WALL_MS + TTL_MS],
  ])('at %i ms is %s, settled or not', (at, state, remainingMs, terminatedAtMs) => {
    const info = describeEntry(lease(), nowAt(at))
    expect(info).toMatchObject({ id: id(1), state, remainingMs, terminatedAtMs })
  })

  it('is revoked, not expired, once the grace it was given has passed', () => {
    const asked = lease({ revoking: { by: 'operator', reason: null }, deadline: tickAt(50) })
    expect(describeEntry(asked, nowAt(49))).toMatchObject({ state: 'active', remainingMs: 1 })
    expect(describeEntry(asked, nowAt(50))).toMatchObject({ state: 'revoked', remainingMs: 0 })
  })

  it('that has ended did so when it was settled, however long its deadline has passed since', () => {
    const released = lease({ state: 'released', terminatedAtMs: WALL_MS + 3 })
    const info = describeEntry(released, nowAt(TTL_MS + 1))
    expect(info).toMatchObject({ state: 'released', terminatedAtMs: WALL_MS + 3 })
  })

  it.each([lease, ticket])('has the name of the token that it was asked for with', (entry) => {
    expect(describeEntry(entry({ tokenName: 'ci' }), nowAt(1)).tokenName).toBe('ci')
    expect(describeEntry(entry(), nowAt(1))).not.toHaveProperty('tokenName')
  })

  it('tells when it was last changed, if it was', () => {
    const changed = describeEntry(lease({ changedAtMs: WALL_MS + 7 }), nowAt(8))
    expect(changed.changedAtMs).toBe(WALL_MS + 7)
    expect(describeEntry(lease(), nowAt(8))).not.toHaveProperty('changedAtMs')
  })

  it('did not end in the future when the wall was set back', () => {
    const info = describeEntry(lease(), nowAt(TTL_MS, { wallShiftMs: -4_000 }))
    expect(info.terminatedAtMs).toBe(WALL_MS + TTL_MS - 4_000)
  })

  it('has no time left after its end', () => {
    expect(describeEntry(lease({ state: 'released' }), nowAt(1)).remainingMs).toBe(0)
  })

  it('is pending while it waits and failed once its window has passed', () => {
    expect(describeEntry(ticket(), nowAt(WINDOW_MS - 1))).toMatchObject({
      ...{ state: 'pending', fence: null, expiresAtMs: null, grantedAtMs: null },
      ...{ deadline: tickAt(WINDOW_MS), adopted: true },
    })
    expect(describeEntry(ticket(), nowAt(WINDOW_MS))).toMatchObject({ state: 'failed' })
  })
})

describe("a holder's own metadata", () => {
  it.each([
    [null, null],
    [{}, null],
    [{ 'tenure.tool': 'hook' }, null],
    [
      { 'tenure.tool': 'hook', done: 3, 'not.tenure.': 'x' },
      { done: 3, 'not.tenure.': 'x' },
    ],
  ])('%o are told as %o', (metadata, told) => {
    expect(holderMetadata(metadata)).toEqual(told)
  })
})
