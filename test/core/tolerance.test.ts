/** Decisions that are made before they are committed: nobody's time is shortened by the way to the server. */
import { describe, expect, it } from 'vitest'
import type { Entry } from '../../src/core/lease.ts'
import { decide } from '../../src/core/decide.ts'
import {
  acquire,
  claim,
  lease,
  nowAt,
  renew,
  revoke,
  ticket,
  tickAt,
  TTL_MS,
  view,
  WINDOW_MS,
} from './builders.ts'

const LATE = nowAt(1_000, { toleranceUs: 250 })
const endOf = (spanMs: number) => tickAt(1_000 + spanMs, { us: 250 })

function entryAfter(entries: ReadonlyMap<string, Entry>, id: string): Entry {
  const entry = entries.get(id)
  if (entry === undefined) throw new Error('nothing was left')
  return entry
}

describe('what is decided up to 250 µs before it is committed', () => {
  it('grants a whole TTL from the last moment of its commit', () => {
    const asked = acquire()
    const { entries } = decide(view(), asked, LATE)
    expect(entryAfter(entries, asked.leaseId)).toMatchObject({
      deadline: endOf(TTL_MS),
      expiresAtMs: LATE.wallMs + TTL_MS,
    })
  })

  it('grants no more than maxHoldMs from there', () => {
    const asked = acquire({ maxHoldMs: 400 })
    const { entries } = decide(view(), asked, LATE)
    expect(entryAfter(entries, asked.leaseId)).toMatchObject({ deadline: endOf(400) })
  })

  it('renews for a whole TTL', () => {
    const held = lease()
    const { entries } = decide(view([held]), renew(), LATE)
    expect(entryAfter(entries, held.id)).toMatchObject({ deadline: endOf(TTL_MS) })
  })

  it('extends a lease that was granted with more tolerance, but not by a shorter TTL', () => {
    const held = lease({ deadline: tickAt(1_000 + TTL_MS, { us: 900 }) })
    const { outcome, entries } = decide(view([held]), renew(), LATE)
    expect(outcome.kind).toBe('renewed')
    expect(entryAfter(entries, held.id)).toMatchObject({
      deadline: tickAt(1_000 + TTL_MS, { us: 901 }),
    })
    const shorter = decide(view([held]), renew({ ttlMs: TTL_MS - 1 }), LATE)
    expect(shorter.outcome.kind).toBe('does_not_extend')
  })

  it('keeps a place in the queue for a whole window', () => {
    const asked = acquire({ wait: { kind: 'up_to', waitMs: 60_000 }, holder: 'bob', session: 'b' })
    const { entries } = decide(view([lease()]), asked, LATE)
    expect(entryAfter(entries, asked.leaseId)).toMatchObject({ deadline: endOf(WINDOW_MS) })
  })

  it('leaves a whole window to claim an offer', () => {
    const waiting = ticket()
    const { entries } = decide(view([lease(), waiting]), revoke(), LATE)
    expect(entryAfter(entries, waiting.id)).toMatchObject({ offer: { deadline: endOf(WINDOW_MS) } })
  })

  it('hears a waiter for a whole window', () => {
    const waiting = ticket()
    const asked = claim({ leaseId: waiting.id, session: waiting.session })
    const { entries } = decide(view([lease(), waiting]), asked, LATE)
    expect(entryAfter(entries, waiting.id)).toMatchObject({ deadline: endOf(WINDOW_MS) })
  })

  it('leaves the whole grace to a holder who is asked to finish', () => {
    const held = lease()
    const { entries } = decide(view([held]), revoke({ graceMs: 500 }), LATE)
    expect(entryAfter(entries, held.id)).toMatchObject({ deadline: endOf(500) })
  })

  it('delays the next grant for the whole lock delay', () => {
    const held = lease({ lockDelayMs: 300 })
    const { entries } = decide(view([held]), revoke(), LATE)
    expect(entryAfter(entries, held.id)).toMatchObject({ lockedUntil: endOf(300) })
  })
})

describe('a request that arrives by a clock that is behind', () => {
  it('is queued after those who wait already', () => {
    const ahead = ticket({ orderUs: tickAt(1_000, { us: 700 }).us, deadline: tickAt(9_000) })
    const asked = acquire({ wait: { kind: 'up_to', waitMs: 60_000 }, holder: 'cyd', session: 'c' })
    const { entries } = decide(view([lease(), ahead]), asked, nowAt(1_000))
    expect(entryAfter(entries, asked.leaseId)).toMatchObject({ orderUs: ahead.orderUs + 1 })
  })

  it('is not brought behind by the priority of those who wait', () => {
    const arrived = tickAt(900).us
    const urgent = ticket({ priority: 2, orderUs: arrived - 20_000_000, deadline: tickAt(9_000) })
    const asked = acquire({ wait: { kind: 'up_to', waitMs: 60_000 }, holder: 'cyd', session: 'c' })
    const { entries } = decide(view([lease(), urgent]), asked, nowAt(1_000))
    expect(entryAfter(entries, asked.leaseId)).toMatchObject({ orderUs: tickAt(1_000).us })
  })
})
