import { describe, expect, it } from 'vitest'
import type { Command } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import { evolve, evolveEntry } from '../../src/core/evolve.ts'
import type { Entry, Lease } from '../../src/core/lease.ts'
import {
  acquire,
  claim,
  id,
  lease,
  nowAt,
  release,
  renew,
  revoke,
  settle,
  tickAt,
  ticket,
  trespass,
  TTL_MS,
  view,
  WALL_MS,
  WINDOW_MS,
  withdraw,
} from './builders.ts'

/** What a command leaves of the last of some entries. */
function lastOf(entries: readonly Entry[], command: Command): Entry | undefined {
  return decide(view(entries), command, nowAt(1)).entries.get(entries.at(-1)?.id ?? '')
}

function until(ms: number): Pick<Lease, 'deadline' | 'expiresAtMs'> {
  return { deadline: tickAt(ms), expiresAtMs: WALL_MS + ms }
}

const [renewed] = decide(view([lease()]), renew(), nowAt(1)).events
const [, offered] = decide(view([lease(), ticket()]), release(), nowAt(1)).events

describe('an event', () => {
  it('changes one entry and leaves the map it was given alone', () => {
    if (renewed === undefined) throw new Error('the renewal has no event')
    const entries = new Map([
      [id(1), lease()],
      [id(9), lease({ id: id(9) })],
    ])
    const after = evolve(entries, renewed)
    expect(after.get(id(1))).toMatchObject({ renewals: 1 })
    expect(after.get(id(9))).toBe(entries.get(id(9)))
    expect(entries.get(id(1))).toEqual(lease())
  })

  it('that ends a wait takes the offer with it', () => {
    const offer = { fence: 7, deadline: tickAt(9_000) }
    const events = decide(view([ticket({ offer })]), withdraw(), nowAt(1)).events
    const failed = events.find((event) => event.type === 'lease.failed')
    if (failed === undefined) throw new Error('the withdrawal has no event')
    expect(evolveEntry(ticket({ offer }), failed)).toEqual(
      ticket({ state: 'failed', failure: 'timed_out' }),
    )
  })

  const sharer = lease({ id: id(7), mode: 'shared', holder: 'bob' })
  const under = { leaseIds: [id(8)], implied: false }
  const facts = [
    ['nothing more', {}],
    ['the name of its token', { tokenName: 'ci' }],
    ['a delegation', { delegation: ROOT_DELEGATION }],
    ['a wait for an upgrade', { upgrading: true }],
    ['a wait for an upgrade under another lease', { upgrading: true, under }],
  ] as const

  it.each(facts)('that renews a lease leaves as it was one that has %s', (_, rare) => {
    const held = lease({ mode: 'shared', ...rare })
    const moved = { renewals: 1, renewedAtMs: WALL_MS + 1, ...until(TTL_MS + 1) }
    expect(lastOf([sharer, held], renew())).toStrictEqual({ ...held, ...moved })
  })

  it.each(facts)(
    'that ends a lease takes no more from one that has %s than its wait',
    (_, rare) => {
      const held = lease({ mode: 'shared', ...rare })
      const { under: _under, ...rest } = { ...held, upgrading: false }
      const releaseReason = 'voluntary'
      expect(lastOf([sharer, held], release())).toStrictEqual({
        ...{ ...rest, state: 'released', terminatedAtMs: WALL_MS + 1, releaseReason },
      })
      expect(lastOf([sharer, held], revoke())).toStrictEqual({
        ...{ ...rest, state: 'revoked', terminatedAtMs: WALL_MS + 1 },
        revoking: { by: 'operator', reason: 'revoked by operator' },
      })
      expect(lastOf([sharer, { ...held, ...until(1) }], settle())).toStrictEqual({
        ...{ ...rest, state: 'expired', terminatedAtMs: WALL_MS + 1, ...until(1) },
      })
    },
  )

  it('that a waiter was heard of says anew whether it stands behind others of its client', () => {
    const deadline = tickAt(WINDOW_MS + 1)
    const before = [lease(), ticket({ behindOwn: true })]
    expect(lastOf(before, claim())).toStrictEqual(ticket({ deadline }))
  })

  it('that ends the lock delay of a lease leaves it without one', () => {
    const over = lease({ state: 'expired', lockedUntil: tickAt(1) })
    expect(lastOf([over], settle())).toStrictEqual({ ...over, lockedUntil: null })
  })

  it('of a write by another than the holder leaves the lease as it was', () => {
    const held = lease()
    expect(lastOf([held], trespass())).toBe(held)
  })

  it('of a refused renewal is in no ledger, and of a refused request leaves a ticket', () => {
    const [refusal] = decide(view([lease()]), acquire(), nowAt(1)).refusals
    if (refusal === undefined) throw new Error('nothing was refused')
    expect(evolveEntry(undefined, refusal)).toBe(refusal.ticket)
    expect(() => evolveEntry(undefined, { ...refusal, ticket: null })).toThrow(
      `the refusal of lease ${id(3)} has no ticket`,
    )
  })

  it.each([
    ['a renewal follows from a lease', renewed, undefined],
    ['a renewal does not follow from a ticket', renewed, ticket()],
    ['an offer follows from a ticket', offered, lease()],
    ['an offer does not come out of nowhere', offered, undefined],
  ])('that does not fit is a mistake, not a guess: %s', (_, event, entry) => {
    if (event === undefined) throw new Error('there is no event to apply')
    const kind = event === renewed ? 'lease' : 'ticket'
    expect(() => evolveEntry(entry, event)).toThrow(
      `${event.type} of ${event.leaseId} does not follow from a ${kind}`,
    )
  })
})
