/** How long a holder counts on its lease, and how long it renews it without being asked. */
import { describe, expect, it } from 'vitest'
import {
  beginHolding,
  dueWindow,
  grantedTerm,
  type Holding,
  type HoldingEvent,
} from '../../src/client/holding.ts'
import { ROOT_DELEGATION } from '../../src/core/delegation.ts'
import type { LeaseId, LeaseInfo } from '../../src/core/lease.ts'
import { id } from '../core/builders.ts'
import {
  at,
  begin,
  DUE,
  FENCE,
  GRANTED,
  moment,
  namesOf,
  play,
  renewed,
  SPAN_MS,
  TIME,
  TTL_MS,
} from './holding-play.ts'

describe('a term', () => {
  const asked = { ...at(7_000), first: moment(0), last: moment(6_000) }

  it.each([
    ['granted now, is its ttl', {}, false, 0, 30_000],
    ['granted now, is no longer than what is left', { remainingMs: 5_000 }, false, 0, 5_000],
    ['of a repeated grant, is what is left of the first one', {}, true, 0, 30_000],
    ['of a repeated grant, ends as the store says it does', { remainingMs: 901 }, true, 6_000, 900],
    ['of a repeated grant, ends with maxHoldMs', { maxHoldMs: 20_000 }, true, 0, 20_000],
    ['of a repeated grant, is no longer than its ttl', { maxHoldMs: 90_000 }, true, 0, 30_000],
    [
      'of a repeated grant that was renewed since, is no longer than its ttl',
      { ttlMs: 900, remainingMs: 5_000 },
      ...([true, 0, 900] as const),
    ],
  ] as const)('%s', (_name, lease, isOlder, fromMs, spanMs) => {
    const info = { ...GRANTED, ...lease }
    expect(grantedTerm(info, { isOlder }, asked)).toEqual({ from: moment(fromMs), spanMs })
  })

  it.each([
    ['that nothing cuts short is the ttl', {}, 30_000],
    ['that maxHoldMs cuts short is what is left', { maxHoldMs: 35_000 }, 4_999],
    ['of a root is the ttl', { line: [] }, 30_000],
    ['of a derived lease is what is left', { line: [id(2)] }, 4_999],
    [
      'of a derived lease is no longer than the ttl',
      { line: [id(2)], remainingMs: 40_000 },
      30_000,
    ],
  ] as const)(
    'after a renewal %s',
    (_name, { line, ...change }: Partial<LeaseInfo> & { line?: readonly LeaseId[] }, spanMs) => {
      const delegation = line === undefined ? {} : { delegation: { ...ROOT_DELEGATION, line } }
      const event = renewed(28_000, { remainingMs: 5_000, ...change, ...delegation })
      expect(play(begin(), [29_000, event]).holding.term).toEqual({ from: moment(28_000), spanMs })
    },
  )
})

describe('a holder that obeys a limit of how long it may hold', () => {
  const term = { from: moment(0), spanMs: TTL_MS }
  const granted = { lease: GRANTED, fence: FENCE, term, autoRenew: true, limitsHold: true }
  const began = beginHolding(granted, at(0))
  /** It was read at once, and a renewal was confirmed before it was reached. */
  const limited = (ms: number): Holding => {
    const read = { kind: 'max_hold', ms, askedAtMs: 0 } as const
    return play(began.holding, [10, read], [10_000, DUE], [10_100, renewed(10_000)]).holding
  }
  const reread = (ms: number): HoldingEvent => ({ kind: 'max_hold', ms, askedAtMs: 19_000 })
  /** It was reached and read again, and a renewal was confirmed meanwhile. */
  const readAgain = (before: number, ms: number): Holding => {
    const renewal = [19_100, renewed(19_000)] as const
    return play(limited(before), [19_000, DUE], [19_050, reread(ms)], renewal).holding
  }

  it('reads it at first, and renews before it is reached', () => {
    expect(namesOf(began)).toEqual(['read_max_hold'])
    expect(beginHolding({ ...granted, autoRenew: false }, at(0)).actions).toEqual([])
    const { holding } = play(began.holding, [10, { kind: 'max_hold', ms: 15_000, askedAtMs: 0 }])
    expect(namesOf(play(holding, [10_000, DUE]))).toEqual(['send_renewal'])
  })

  it('reads it once more when it is reached, and renews meanwhile', () => {
    expect(namesOf(play(limited(15_000), [19_000, DUE]))).toEqual(['read_max_hold', 'send_renewal'])
    expect(namesOf(play(limited(19_000), [19_000, DUE]))).toEqual(['read_max_hold', 'send_renewal'])
    expect(namesOf(play(limited(19_001), [19_000, DUE]))).toEqual(['send_renewal'])
  })

  it('reads it with every renewal until it is read', () => {
    const { holding } = play(limited(15_000), [19_000, DUE], [19_100, renewed(19_000)])
    expect(namesOf(play(holding, [28_000, DUE]))).toEqual(['read_max_hold', 'send_renewal'])
  })

  it('renews no further once it was read again, is uncertain, and is lost at the end', () => {
    const holding = readAgain(15_000, 15_000)
    const reached = play(holding, [28_000, DUE])
    expect(reached.actions).toMatchObject([
      {
        kind: 'max_hold_reached',
        error: {
          code: 'RENEWAL_LIMIT',
          details: { leaseId: GRANTED.id, limit: 'the max_hold_seconds of 15' },
        },
      },
      { kind: 'notify', name: 'uncertain', event: { cause: { code: 'RENEWAL_LIMIT' } } },
    ])
    expect(dueWindow(reached.holding, at(28_000)).dueMs).toBe(19_000 + SPAN_MS)
    expect(namesOf(play(reached.holding, [30_000, DUE]))).toEqual([])
    const { holding: lost } = play(reached.holding, [19_000 + SPAN_MS, TIME])
    expect(lost.loss?.message).toContain('it has reached the max_hold_seconds of 15')
  })

  it('counts what was read in the moment in which it was reached', () => {
    const holding = readAgain(19_000, 19_000)
    expect(namesOf(play(holding, [28_000, DUE]))).toEqual(['max_hold_reached', 'uncertain'])
  })

  it('says once that it is reached, also where the holder renews by itself after that', () => {
    const { holding } = play(readAgain(15_000, 15_000), [28_000, DUE], [28_200, renewed(28_100)])
    expect(namesOf(play(holding, [38_000, DUE]))).toEqual([])
    expect(play(holding, [38_000, DUE]).holding.state).toBe('uncertain')
  })

  it('goes on where the limit was raised meanwhile', () => {
    const holding = readAgain(15_000, 60_000)
    expect(namesOf(play(holding, [28_000, DUE]))).toEqual(['send_renewal'])
  })

  it('reads it again after a minute, since it may have been lowered', () => {
    const { holding } = play(
      ...([limited(3_600_000), [25_000, renewed(24_000)], [45_000, renewed(44_000)]] as const),
    )
    expect(namesOf(play(holding, [59_999, DUE]))).toEqual(['send_renewal'])
    const again = play(holding, [60_000, DUE])
    expect(namesOf(again)).toEqual(['read_max_hold', 'send_renewal'])
    expect(namesOf(play(again.holding, [60_100, renewed(60_000)], [70_000, DUE]))).toEqual([
      'send_renewal',
    ])
  })

  it('is the one that asked: what another reads changes nothing', () => {
    const { holding } = play(begin(), [10, { kind: 'max_hold', ms: 1, askedAtMs: 0 }])
    expect(holding.maxHold).toBeNull()
    expect(namesOf(play(holding, [10_000, DUE]))).toEqual(['send_renewal'])
  })
})
