import { describe, expect, it } from 'vitest'
import { decide } from '../../src/core/decide.ts'
import { evolve, evolveEntry } from '../../src/core/evolve.ts'
import { id, lease, nowAt, release, renew, tickAt, ticket, view, withdraw } from './builders.ts'

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
