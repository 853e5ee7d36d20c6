/** Entries and events come back from the texts that Redis keeps as they were. */
import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { placedEventText } from '../../src/store/redis/redis-conversion.ts'
import {
  CLOCK_DOMAIN,
  entryText,
  eventOf,
  eventText,
  placedRecord,
} from '../../src/store/redis/redis-records.ts'
import { id, lease } from '../core/builders.ts'

const US = 1_700_000_060_123_456
const ours = { domain: CLOCK_DOMAIN, us: US }

/** Leases whose expiry is the wall time of their deadline, and others. */
const LEASES: readonly (readonly [string, Partial<Lease>])[] = [
  ['that expires with its deadline', { deadline: ours, expiresAtMs: 1_700_000_060_123 }],
  ['that expires otherwise', { deadline: ours, expiresAtMs: 1_700_000_060_124 }],
  [
    'of another clock',
    { deadline: { domain: 'elsewhere', us: 5 }, expiresAtMs: 1_700_000_000_000 },
  ],
  [
    'with a lock delay',
    { state: 'expired', lockedUntil: ours, deadline: { ...ours, us: 7_000 }, expiresAtMs: 7 },
  ],
  [
    'on a subtree, with words',
    { deadline: ours, extent: 'subtree', reason: 'ü"\\', metadata: { body: { b: 1 } } as never },
  ],
]

describe('a lease on Redis', () => {
  it.each(LEASES)('%s comes back from its text', (_what, change) => {
    const held = lease({ ...change })
    const { fence, untilUs, text } = entryText(held)
    const words = [7, 8, fence, untilUs, 9, text].join(' ')
    expect([placedRecord([held.id, 0, words])]).toEqual([
      { entry: held, version: 7, claim: 8, place: 9 },
    ])
  })

  it.each(LEASES)('%s comes back from the event that ended it', (_what, change) => {
    const ended = lease({
      ...change,
      state: 'released',
      lockedUntil: null,
      terminatedAtMs: 5,
      releaseReason: 'aborted',
    })
    const event = {
      type: 'lease.released' as const,
      ...{
        leaseId: ended.id,
        resource: ended.resource,
        holder: ended.holder,
        session: ended.session,
      },
      ...{ atMs: 5, before: 'active' as const, after: 'released' as const, renewals: 0 },
      ...{ reason: 'completed', requestId: id(3), releaseReason: 'completed' as const },
    }
    const words = { ...eventText({ event, ended }), version: '4' }
    expect(eventOf(placedEventText(ended.id, US, words), US)).toEqual({ event, ended, version: 4 })
  })
})
