/** Behind which ticket another is filed, if the filing depends on nothing else. */
import { describe, expect, it } from 'vitest'
import { commitOf, type Commit, type EntryChange } from '../../src/core/commit.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry, Ticket } from '../../src/core/lease.ts'
import { PRIORITY_POINT_MS } from '../../src/core/limits.ts'
import { ticketAhead } from '../../src/core/ticket-ahead.ts'
import { acquire, id, lease, nowAt, ticket, view, WAITING, WORK } from './builders.ts'

const first = ticket({ orderUs: 5 })
const second = ticket({ id: id(4), holder: 'eve', orderUs: 6 })
const seen = view([lease(), first])
const filing = commitOf(seen, decide(seen, acquire(WAITING), nowAt(1)))
const [change] = filing.changes as readonly [EntryChange]
const mine = ticket({ id: id(3), orderUs: 7 })

function aheadOf(commit: Commit, entries: readonly Entry[] = [lease(), first]): string | undefined {
  return ticketAhead(commit, entries)?.id
}

describe('a ticket that is filed', () => {
  it.each<[string, readonly Entry[]]>([
    ['the youngest before it', [lease(), first, second]],
    ['it, wherever a store keeps it', [second, first, lease()]],
    [
      'the one that came last, whatever its priority',
      [first, { ...second, priority: 1, orderUs: 6 - PRIORITY_POINT_MS * 1000 }],
    ],
    ['the youngest of those that wait', [second, { ...first, orderUs: 9, state: 'failed' }]],
  ])('stands behind %s', (_what, entries) => {
    expect(aheadOf(filing, entries)).toBe(second.id)
  })

  it.each<[string, readonly Entry[]]>([
    ['nothing is there', []],
    ['nothing but a lease is there', [lease()]],
    ['the youngest is offered the lease', [first, { ...second, offer: offerOf(7) }]],
    ['the youngest is served with others', [first, { ...second, group: id(900) }]],
  ])('stands behind no ticket where %s', (_what, entries) => {
    expect(aheadOf(filing, entries)).toBeUndefined()
  })

  it('may have failed before', () => {
    const before: Ticket = { ...mine, state: 'failed' }
    expect(aheadOf({ ...filing, changes: [{ ...change, before }] })).toBe(first.id)
  })
})

describe('what a commit does depends on more than the ticket ahead', () => {
  const files = (after: Entry | null): Partial<Commit> => ({ changes: [{ ...change, after }] })

  it.each<[string, Partial<Commit>]>([
    ['does nothing', { changes: [] }],
    ['changes another entry as well', { changes: [change, { ...change, id: id(9) }] }],
    ['keeps a ticket alive', { changes: [{ ...change, before: mine }] }],
    ['leaves nothing behind', files(null)],
    ['grants a lease', files(lease({ id: id(3) }))],
    ['ends a ticket', files({ ...mine, state: 'failed' })],
    ['offers the lease', files({ ...mine, offer: offerOf(8) })],
    ['files one of several that are served together', files({ ...mine, group: id(900) })],
    ['files a request to share', files({ ...mine, mode: 'shared' })],
    [
      'marks a request',
      {
        requests: [{ requestId: 'r', leaseId: id(3), type: 'lease.queued', keepUntilMs: 9 }],
      },
    ],
    ['marks an epoch', { epochs: [{ resource: WORK, epoch: 1 }] }],
    ['wakes a session', { wakes: [{ session: 's', leaseId: id(2) }] }],
    ['gives a fence', { firstFence: 8 }],
  ])('if it %s', (_what, does) => {
    expect(aheadOf({ ...filing, ...does })).toBeUndefined()
  })
})

function offerOf(fence: number): Ticket['offer'] {
  return { fence, deadline: first.deadline }
}
