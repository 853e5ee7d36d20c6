import { describe, expect, it } from 'vitest'
import { commitOf } from '../../src/core/commit.ts'
import { decide } from '../../src/core/decide.ts'
import { evolve } from '../../src/core/evolve.ts'
import { parseResource } from '../../src/core/resource.ts'
import { file, id, lease, nowAt, told, trespass, TTL_MS, view } from './builders.ts'

const held = lease()

describe('a trespass', () => {
  it('is written down with who wrote, and leaves the lease as it was', () => {
    const decision = decide(view([held]), trespass({ reason: 'sed -i' }), nowAt(1))
    expect(decision.outcome).toEqual({ kind: 'trespassed', lease: held })
    expect(decision.events).toMatchObject([
      {
        ...{ type: 'lease.trespassed', leaseId: id(1), holder: held.holder, by: 'mallory' },
        ...{ target: held.resource, reason: 'sed -i', before: 'active', after: 'active' },
      },
    ])
    const [event] = decision.events
    const before = new Map([[held.id, held]])
    expect(event && evolve(before, event)).toEqual(before)
    expect(commitOf(view([held]), decision).wakes).toEqual([])
  })

  it('below a subtree names what was written to', () => {
    const tree = lease({ resource: file('/repo'), extent: 'subtree' })
    const target = file('/repo/src/a.ts')
    const { resource, extent } = tree
    const decision = decide(view([tree]), trespass({ resource, extent, target }), nowAt(1))
    expect(decision.events).toMatchObject([{ resource, target }])
  })

  it.each([
    ['of the holder itself', { by: held.holder }, 1, 'not_found'],
    ['of what the lease does not cover', { target: parseResource('work:other') }, 1, 'not_found'],
    ['of a lease whose deadline has come', {}, TTL_MS, 'expired'],
    ['of a lease that nobody knows', { leaseId: id(9) }, 1, 'not_found'],
  ])('%s is refused, and nothing is written', (_, change, atMs, kind) => {
    const { outcome, events } = decide(view([held]), trespass(change), nowAt(atMs))
    expect(outcome.kind).toBe(kind)
    expect(events).toEqual([])
  })

  it('that is told twice is written once', () => {
    const prior = { leaseId: id(1), type: 'lease.trespassed' } as const
    const decision = decide(view([held], { prior }), trespass({ requestId: id(8) }), nowAt(1))
    expect(decision.outcome.kind).toBe('trespassed')
    expect(told(decision)).toEqual([])
  })
})
