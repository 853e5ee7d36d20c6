import { describe, expect, it } from 'vitest'
import type { Renew } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import type { Entry } from '../../src/core/lease.ts'
import { REFUSALS_MAX } from '../../src/core/limits.ts'
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

  it('whose request id is taken is not counted', () => {
    const prior = { leaseId: id(9), type: 'lease.renewed' } as const
    const decision = decide(view([lease()], { prior }), renew({ requestId: 'r1' }), nowAt(1))
    expect(decision.outcome.kind).toBe('request_reused')
    expect(decision.refusals).toEqual([])
  })

  it('is none when it succeeds', () => {
    expect(refusalsOf([lease()])).toEqual([])
  })
})

describe('rows of refusals', () => {
  const [event] = decide(view([lease()]), acquire(), nowAt(1)).refusals
  if (event === undefined) throw new Error('it was not refused')

  it('come back from what a database keeps of them', () => {
    for (const one of [event, { ...event, ticket: null }, { ...event, reason: null }]) {
      const kept: unknown = JSON.parse(JSON.stringify(refusalRow({ event: one, count: 3 })))
      expect(refusalOf(kept as ReturnType<typeof refusalRow>)).toEqual({ event: one, count: 3 })
    }
  })

  it('have the reason as a part of their key, and an empty one where none is known', () => {
    expect(refusalRow({ event, count: 1 }).reason).toBe('held by ada')
    expect(refusalRow({ event: { ...event, reason: null }, count: 1 }).reason).toBe('')
  })

  it('of one moment come in the order of their reasons, those without one first', () => {
    const unsaid = { event: { ...event, reason: null }, count: 1 }
    const said = { event: { ...event, reason: 'A reason' }, count: 1 }
    for (const added of [
      [unsaid, said],
      [said, unsaid],
    ]) {
      const table = new RefusalTable()
      table.add(added)
      expect(table.inOrder()).toEqual([unsaid, said])
    }
  })

  it('are all kept up to the limit, and beyond it those that were refused last', () => {
    const rows = Array.from({ length: REFUSALS_MAX + 1 }, (_, number) => {
      return { event: { ...event, holder: `h${number}`, atMs: number }, count: 1 }
    })
    const table = new RefusalTable()
    expect(table.isEmpty).toBe(true)
    table.add(rows.slice(2))
    expect(table.inOrder()).toEqual(rows.slice(2))
    expect(table.isEmpty).toBe(false)
    table.add(rows.slice(0, 2))
    expect(table.inOrder()).toEqual(rows.slice(1))
  })

  it('count what was refused for the same reason, and keep the last of it', () => {
    const table = new RefusalTable()
    const later = { ...event, atMs: event.atMs + 5 }
    table.add([{ event: later, count: 2 }])
    table.add([{ event, count: 1 }])
    expect(table.inOrder()).toEqual([{ event: later, count: 3 }])
  })
})
