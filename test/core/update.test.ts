import { describe, expect, it } from 'vitest'
import type { Update } from '../../src/core/command.ts'
import { decide } from '../../src/core/decide.ts'
import { id, lease, nowAt, TTL_MS, view, WORK } from './builders.ts'

const held = lease({ renewals: 3, reason: 'before', metadata: { done: 1 } })
const note = { reason: 'nearly', metadata: { done: 2 } }

function update(change: Partial<Update> = {}): Update {
  const place = { leaseId: id(1), resource: WORK, extent: 'exact' } as const
  return { kind: 'update', ...place, holder: 'ada', note, requestId: id(8), ...change }
}

describe('an update', () => {
  it.each([
    ['replaces the words of the holder', note],
    ['takes away those that it does not say', { reason: null, metadata: null }],
  ])('%s, and nothing else', (_, words) => {
    const now = nowAt(1)
    const { outcome, events, entries } = decide(view([held]), update({ note: words }), now)
    const after = { ...held, ...words, changedAtMs: now.wallMs }
    expect(entries.get(id(1))).toEqual(after)
    expect(outcome).toEqual({ kind: 'updated', lease: after })
    expect(events).toMatchObject([
      {
        ...{ type: 'lease.updated', before: 'active', after: 'active' },
        ...{ renewals: 3, requestId: id(8), ...words },
      },
    ])
  })

  it('that is heard again changes nothing, and tells how the lease is now', () => {
    const prior = { leaseId: id(1), type: 'lease.updated' } as const
    const { outcome, events } = decide(view([held], { prior }), update(), nowAt(1))
    expect(outcome).toEqual({ kind: 'updated', lease: held })
    expect(events).toEqual([])
  })

  it.each([
    ['of another', { holder: 'bob' }, 1, 'not_holder'],
    ['of a lease whose deadline has come', {}, TTL_MS, 'expired'],
    ['of a lease that nobody knows', { leaseId: id(9) }, 1, 'not_found'],
  ])('%s is refused, and nothing is written', (_, change, atMs, kind) => {
    const { outcome, events } = decide(view([held]), update(change), nowAt(atMs))
    expect(outcome.kind).toBe(kind)
    expect(events).toEqual([])
  })
})
