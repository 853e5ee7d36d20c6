import { describe, expect, it } from 'vitest'
import type { Renew } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import { refusalOf, refusalRow, RefusalTable } from '../../src/core/refusal.ts'
import { acquire, id, lease, nowAt, renew, TTL_MS, view } from './builders.ts'

function refusalsOf(entries: readonly Entry[], command: Renew = renew(), at = 1) {
  return decide(view(entries), command, nowAt(at)).refusals
}

describe('a refused renewal', () => {
  it.each([
    ['of another', lease(), renew({ holder: 'bob' }), 1, 'held by ada'],
    ['at a limit', lease({ maxRenewals: 0 }), renew(), 1, 'limited by its 0 renewals'],
    ['that ends sooner', lease(), renew({ ttlMs: 1 }), 1, 'it would not extend the lease'],
    ['after the end', lease(), renew(), TTL_MS, 'the lease has expired'],
    ['of a released one', lease({ state: 'released' }), renew(), 1, 'the lease was released'],
  ] as const)('%s is counted with its reason', (_, held, command, at, why) => {
    expect(refusalsOf([held], command, at)).toMatchObject([
      {
        ...{ type: 'lease.denied', leaseId: id(1), holder: command.holder, ticket: null },
        ...{ before: held.state, after: held.state, reason: `renewal refused: ${why}` },
      },
    ])
  })

  it('of a lease that nobody knows, or that is not recorded, is not counted', () => {
    expect(refusalsOf([])).toEqual([])
    expect(refusalsOf([lease({ maxRenewals: 0, recorded: false })])).toEqual([])
  })

  it('is none when it succeeds', () => {
    expect(refusalsOf([lease()])).toEqual([])
  })
})

describe('rows of refusals', () => {
  const [event] = decide(view([lease()]), acquire(), nowAt(1)).refusals
  if (event === undefined) throw new Error('it was not refused')

  it('come back from what a database keeps of them', () => {
    for (const one of [event, { ...event, ticket: null }]) {
      const kept: unknown = JSON.parse(JSON.stringify(refusalRow({ event: one, count: 3 })))
      expect(refusalOf(kept as ReturnType<typeof refusalRow>)).toEqual({ event: one, count: 3 })
    }
  })

  it('count what was refused for the same reason, and keep the last of it', () => {
    const table = new RefusalTable()
    const later = { ...event, atMs: event.atMs + 5 }
    table.add([{ event: later, count: 2 }])
    table.add([{ event, count: 1 }])
    expect(table.inOrder()).toEqual([{ event: later, count: 3 }])
  })
})
