/** Of a row of tickets all but the first are decided on a part of the queue, as if it were the whole of it. */
import { expect, it } from 'vitest'
import type { Acquire } from '../../src/core/command.ts'
import { commitOf } from '../../src/core/commit.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry, Ticket } from '../../src/core/lease.ts'
import type { RealmView } from '../../src/core/realm.ts'
import { ticketAhead } from '../../src/core/ticket-ahead.ts'
import { withoutMiddle } from '../../src/store/optimistic/attempt-plan.ts'
import { acquire, id, lease, nowAt, tickAt, ticket, view, WAITING } from '../core/builders.ts'
import { fc } from '../fast-check.ts'

const LATER = tickAt(99_000)

const aTicket = fc.record({
  priority: fc.constantFrom(0, 0, 0, 0, 1, -1),
  mode: fc.constantFrom('exclusive' as const, 'exclusive' as const, 'shared' as const),
  group: fc.constantFrom(null, null, null, id(900)),
  holder: fc.constantFrom('bob', 'eve'),
  offered: fc.boolean(),
})
const aQueue = fc.record({
  tickets: fc.array(aTicket, { minLength: 14, maxLength: 40 }),
  lease: fc.constantFrom('exclusive' as const, 'shared' as const, null),
  isTransferred: fc.boolean(),
})
const aWish = fc.record({
  priority: fc.constantFrom(0, 0, 0, -1, 1),
  mode: fc.constantFrom('exclusive' as const, 'exclusive' as const, 'shared' as const),
  holder: fc.constantFrom('bob', 'cyd', 'ada'),
  behindOwn: fc.boolean(),
  under: fc.constantFrom([], [id(1)]),
})

function entriesOf(
  queue: typeof aQueue extends fc.Arbitrary<infer Queue> ? Queue : never,
): readonly Entry[] {
  const tickets = queue.tickets.map(({ priority, offered, ...rest }, n): Ticket => {
    const orderUs = 1_000 + n - priority * 10_000_000
    const offer = offered && n === 0 ? { fence: 2_000, deadline: LATER } : null
    return ticket({ ...rest, id: id(100 + n), priority, orderUs, deadline: LATER, offer })
  })
  if (queue.lease === null) return tickets
  return [lease({ mode: queue.lease, deadline: LATER, adopted: !queue.isTransferred }), ...tickets]
}

function wishOf(wish: Partial<Acquire>, leaseId: string): Acquire {
  return acquire({ ...wish, ...WAITING, leaseId })
}

/** The one ticket that a decision comes to, if it comes to nothing else. */
function filedBy(seen: RealmView, command: Acquire, us: number) {
  const decision = decide(seen, command, nowAt(100, { us }))
  const commit = commitOf(seen, decision)
  const ahead = ticketAhead(commit, seen.entries.values())
  return { ...decision, commit, ahead }
}

it('a ticket behind another that was filed on the whole queue is decided as on the whole', () => {
  const seen = { joined: 0, leftOut: 0 }
  fc.assert(
    fc.property(aQueue, aWish, aWish, (queue, one, two) => {
      const entries = entriesOf(queue)
      const first = filedBy(view(entries), wishOf(one, id(3)), 0)
      const [change, ...others] = first.commit.changes
      const filed = change?.after
      if (filed?.kind !== 'ticket' || change?.before !== undefined || others.length > 0) return
      const part = withoutMiddle(entries.map((entry) => ({ entry, version: 1, claim: 1 })))
      const { leftOut } = part
      const whole = filedBy(view([...entries, filed]), wishOf(two, id(4)), 1)
      const ticketCount = view([...entries, filed]).ticketCount
      const near = view([...part.entries.values(), filed], {
        ticketCount,
        leftOut,
        lastFence: 2_000,
      })
      const found = filedBy(near, wishOf(two, id(4)), 1)
      if (found.ahead?.id !== filed.id || two.priority > 0) return
      expect(found.outcome).toEqual(whole.outcome)
      expect(found.commit).toEqual(whole.commit)
      seen.joined += 1
      if (leftOut > 0) seen.leftOut += 1
    }),
    { numRuns: 2_000 },
  )
  expect(seen.joined).toBeGreaterThan(100)
  expect(seen.leftOut).toBeGreaterThan(50)
})
