/** The registrar's contract, id by id: every INV- and CTR- of the design that the reducer keeps. */
import { describe, expect, it } from 'vitest'
import { LeaseError } from '../../src/core/errors.ts'
import {
  isExpiredAt,
  isExpiredAtTick,
  isTerminal,
  leaseConflictPayload,
  leaseReleasedPayload,
  LeaseReducer,
  parseLeaseState,
  parseReleaseReason,
  summary,
  ticksRemaining,
  timeRemaining,
  RegisteredLease,
} from '../../src/ledger/index.ts'
import { LeaseTable } from '../../src/registrar/lease-table.ts'
import { reduceRenewed } from '../../src/registrar/reduce-registrar-event.ts'
import { leaseRenewedPayload } from '../../src/registrar/payloads.ts'
import {
  applied,
  expired,
  issued,
  refusal,
  refusalError,
  released,
  renewed,
  SIGNATURE,
  tick,
} from './registrar-events.ts'

const fresh = (): LeaseReducer => new LeaseReducer()

function leaseOf(reducer: LeaseReducer, leaseId = 'lease-001'): RegisteredLease {
  const lease = reducer.state.get(leaseId)
  if (lease === undefined) throw new Error(`no lease ${leaseId}`)
  return lease
}

function codeOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof LeaseError) return error.code
  }
  return 'none'
}

const withTicks = { issuedAtTick: tick(1_000), expiresAtTick: tick(2_000) }

describe('states and reasons', () => {
  it('INV-0101: no event leads out of a terminal state', () => {
    for (const end of [released(), expired()]) {
      const reducer = applied(fresh(), issued(), end)
      const { state } = leaseOf(reducer)
      for (const event of [renewed(), released(), expired()]) refusal(reducer, event)
      expect(codeOf(() => reducer.apply(issued()))).toBe('LEASE_EXISTS')
      expect(leaseOf(reducer).state).toBe(state)
    }
  })

  it('INV-0102: released, expired and revoked are terminal, active is not', () => {
    expect(
      ['ACTIVE', 'RELEASED', 'EXPIRED', 'REVOKED'].map(parseLeaseState).map(isTerminal),
    ).toEqual([false, true, true, true])
  })

  it('CTR-0101: a state is read in any case, and an unknown one refused', () => {
    expect(['active', 'Released', 'eXPIRED'].map(parseLeaseState)).toEqual([
      'ACTIVE',
      'RELEASED',
      'EXPIRED',
    ])
    for (const bad of ['', 'ACTIVE ', 'unknown', null, 7]) {
      expect(codeOf(() => parseLeaseState(bad))).toBe('INVALID_STATE')
    }
  })

  it('CTR-0102: the canonical word is in upper case', () => {
    expect(leaseOf(applied(fresh(), issued())).state).toBe('ACTIVE')
    expect(leaseOf(applied(fresh(), issued(), released())).state).toBe('RELEASED')
    expect(leaseOf(applied(fresh(), issued(), expired())).state).toBe('EXPIRED')
  })

  it('CTR-0201: a reason is read in any case, and an unknown one refused', () => {
    expect(['completed', 'Aborted', 'VOLUNTARY'].map(parseReleaseReason)).toEqual([
      'COMPLETED',
      'ABORTED',
      'VOLUNTARY',
    ])
    for (const bad of ['', 'done', 'transferred', undefined]) {
      expect(codeOf(() => parseReleaseReason(bad))).toBe('INVALID_REASON')
    }
    const reducer = applied(fresh(), issued())
    expect(refusal(reducer, released({ releaseReason: 'done' }))).toBe('INVALID_REASON')
  })

  it('CTR-0202: the reason is recorded and changes nothing else', () => {
    const ends = ['completed', 'ABORTED', 'Voluntary'].map((releaseReason) => {
      return leaseOf(applied(fresh(), issued(), released({ releaseReason })))
    })
    expect(ends.map((lease) => lease.releaseReason)).toEqual(['COMPLETED', 'ABORTED', 'VOLUNTARY'])
    expect(ends.map(({ state, terminatedAt }) => [state, terminatedAt])).toEqual(
      ends.map(() => ['RELEASED', 1_600]),
    )
  })
})

describe('a lease', () => {
  it('INV-0301: has an id that no other has, whatever the work, and whatever became of it', () => {
    const reducer = applied(fresh(), issued())
    expect(refusal(reducer, issued({ workId: 'work-002' }))).toBe('LEASE_EXISTS')
    applied(reducer, released())
    expect(refusal(reducer, issued({ workId: 'work-002' }))).toBe('LEASE_EXISTS')
  })

  it('INV-0302: ends after it begins, in wall time and in ticks', () => {
    const reducer = fresh()
    for (const expiresAt of [1_000, 999, 0]) {
      expect(refusal(reducer, issued({ expiresAt }))).toBe('INVALID_EXPIRATION')
    }
    const backwards = { issuedAtTick: tick(5), expiresAtTick: tick(5) }
    expect(refusal(reducer, issued(backwards))).toBe('INVALID_EXPIRATION')
    applied(reducer, issued({ expiresAt: 1_001 }))
  })

  it('INV-0303: counts renewals up to 2^32-1 and stays there', () => {
    const table = new LeaseTable()
    const reducer = applied(fresh(), issued())
    const lease = leaseOf(reducer)
    const entry = { ...lease.entry, renewals: 2 ** 32 - 2 }
    table.put(new RegisteredLease(entry, lease.origin, lease.term), undefined)
    for (const newExpiresAt of [3_000, 4_000, 5_000]) {
      const event = renewed({ newExpiresAt })
      const facts = { leaseId: 'lease-001', newExpiresAt, registrarSignature: SIGNATURE }
      reduceRenewed(table, event, leaseRenewedPayload(facts))
      expect(table.leases.get('lease-001')?.renewalCount).toBe(2 ** 32 - 1)
    }
  })

  it('INV-0304: ended when it was to end, not when that was noticed', () => {
    const lease = leaseOf(applied(fresh(), issued(), expired({ expiredAt: 99_000 }, 99_000)))
    expect(lease.terminatedAt).toBe(2_000)
    const reducer = applied(fresh(), issued(), expired({ expiredAt: 99_000 }, 99_000))
    expect(reducer.state.pruneTerminalLeasesBefore(2_001)).toBe(1)
  })

  it('INV-0305: is judged by its ticks, wherever the wall clock was set', () => {
    const reducer = applied(fresh(), issued(withTicks))
    expect(isExpiredAtTick(leaseOf(reducer), tick(1_999))).toBe(false)
    // By the wall the lease is long over; its clock says that it is not.
    const late = { actorId: 'agent-001', atMs: 8_000_000 }
    applied(reducer, renewed({ newExpiresAtTick: tick(3_000) }, late))
    const early = expired({ expiredAt: 9_000_000, expiredAtTick: tick(2_999) })
    expect(refusal(reducer, early)).toBe('INVALID_EXPIRATION')
    applied(reducer, expired({ expiredAt: 9_000_000, expiredAtTick: tick(3_000) }))
  })

  it('CTR-0301: is over at the tick of its end, and where ticks are missing or of another clock', () => {
    const reducer = applied(fresh(), issued(withTicks), issued({ leaseId: 'b', workId: 'b' }))
    const lease = leaseOf(reducer)
    expect([1_999, 2_000, 2_001].map((now) => isExpiredAtTick(lease, tick(now)))).toEqual([
      false,
      true,
      true,
    ])
    expect(isExpiredAtTick(lease, tick(2_000n))).toBe(true)
    expect(isExpiredAtTick(leaseOf(reducer, 'b'), tick(0))).toBe(true)
    expect(isExpiredAtTick(lease, tick(1, 1_000, 'host/boot/2'))).toBe(true)
    expect(isExpiredAtTick(lease, tick(1, 999))).toBe(true)
    applied(reducer, released())
    expect(isExpiredAtTick(leaseOf(reducer), tick(2_000))).toBe(false)
  })

  it('CTR-0302: tells the ticks that are left, and none where it cannot', () => {
    const reducer = applied(fresh(), issued(withTicks), issued({ leaseId: 'b', workId: 'b' }))
    const lease = leaseOf(reducer)
    expect([0, 1_999, 2_000, 9_000].map((now) => ticksRemaining(lease, tick(now)))).toEqual([
      2_000, 1, 0, 0,
    ])
    expect(ticksRemaining(lease, tick(1, 1_000, 'elsewhere'))).toBe(0)
    expect(ticksRemaining(lease, tick(1, 10))).toBe(0)
    expect(ticksRemaining(leaseOf(reducer, 'b'), tick(0))).toBe(0)
    const big = { issuedAtTick: tick(1n), expiresAtTick: tick(2n ** 63n) }
    applied(reducer, issued({ leaseId: 'c', workId: 'c', ...big }))
    expect(ticksRemaining(leaseOf(reducer, 'c'), tick(1n))).toBe(2n ** 63n - 1n)
  })

  it('CTR-0303: has a summary without the bytes of its signature', () => {
    const view = summary(leaseOf(applied(fresh(), issued())))
    expect(view).toMatchObject({ leaseId: 'lease-001', workId: 'work-001', state: 'ACTIVE' })
    expect(Object.keys(view)).not.toContain('registrarSignature')
  })

  it('CTR-0304: can still be judged by the wall, the boundary included', () => {
    const lease = leaseOf(applied(fresh(), issued()))
    expect([1_999, 2_000, 2_001].map((now) => isExpiredAt(lease, now))).toEqual([false, true, true])
    expect(isExpiredAt(lease, 1_999_999_999n)).toBe(false)
    expect(isExpiredAt(lease, 2_000_000_000n)).toBe(true)
    expect(isExpiredAt(leaseOf(applied(fresh(), issued(), released())), 2_000)).toBe(false)
  })

  it('CTR-0305: tells the wall time that is left, never less than none', () => {
    const lease = leaseOf(applied(fresh(), issued()))
    expect([0, 1_999, 2_000, 9_000].map((now) => timeRemaining(lease, now))).toEqual([
      2_000, 1, 0, 0,
    ])
    const ns = { issuedAt: 1_000_000_000n, expiresAt: 2_000_000_000n }
    expect(timeRemaining(leaseOf(applied(fresh(), issued(ns))), 1_999_999_999n)).toBe(1n)
  })

  it('keeps to one type of time: milliseconds as a number, nanoseconds as a bigint', () => {
    const reducer = fresh()
    expect(refusal(reducer, issued({ expiresAt: 2_000_000_000n }))).toBe('INVALID_INPUT')
    applied(reducer, issued({ issuedAt: 1_000_000_000n, expiresAt: 2_000_000_001n }))
    expect(refusal(reducer, renewed({ newExpiresAt: 3_000 }))).toBe('INVALID_INPUT')
    expect(refusal(reducer, expired({ expiredAt: 2_000_000_000n }))).toBe('INVALID_EXPIRATION')
    applied(reducer, renewed({ newExpiresAt: 2_000_000_002n }))
    expect(leaseOf(reducer)).toMatchObject({
      expiresAt: 2_000_000_002n,
      lastRenewedAt: 1_500_000_000n,
    })
    for (const issuedAt of [-1, 1.5, Number.NaN, 2n ** 64n, '1']) {
      const odd = issued({ leaseId: 'x', workId: 'x', issuedAt: issuedAt as number })
      expect(refusal(reducer, odd)).toBe('INVALID_INPUT')
    }
  })
})

describe('the state', () => {
  it('INV-0401: lists as active only leases that are there and active', () => {
    const reducer = applied(fresh(), issued(), issued({ leaseId: 'b', workId: 'b' }), released())
    for (const [workId, leaseId] of reducer.state.activeLeasesByWork) {
      expect(reducer.state.get(leaseId)).toMatchObject({ workId, state: 'ACTIVE' })
    }
    expect([...reducer.state.activeLeasesByWork]).toEqual([['b', 'b']])
  })

  it('INV-0402: has one active lease for each work, and a next one only after it', () => {
    const reducer = applied(fresh(), issued())
    expect(refusal(reducer, issued({ leaseId: 'b' }))).toBe('RESOURCE_HELD')
    applied(reducer, expired(), issued({ leaseId: 'b' }))
    expect(reducer.state.activeCount()).toBe(1)
  })

  it('CTR-0401: gives the active lease of a work, and nothing for any other', () => {
    const reducer = applied(fresh(), issued())
    expect(reducer.state.getActiveLeaseForWork('work-001')?.leaseId).toBe('lease-001')
    expect(reducer.state.hasActiveLease('work-001')).toBe(true)
    applied(reducer, released())
    expect(reducer.state.getActiveLeaseForWork('work-001')).toBeUndefined()
    expect(reducer.state.hasActiveLease('work-001')).toBe(false)
    expect(reducer.state.getActiveLeaseForWork('work-002')).toBeUndefined()
  })

  it('CTR-0402: prunes what has ended and leaves alone what has not', () => {
    const reducer = applied(
      fresh(),
      issued(),
      released(),
      issued({ leaseId: 'b' }),
      expired({ leaseId: 'b' }),
      issued({ leaseId: 'c' }),
    )
    expect(reducer.state.pruneTerminalLeases()).toBe(2)
    expect([...reducer.state.leases.keys()]).toEqual(['c'])
    expect(reducer.state.pruneTerminalLeases()).toBe(0)
    expect(reducer.state.hasActiveLease('work-001')).toBe(true)
  })

  it('CTR-0403: prunes before a time by the end of the lease, not by the time of its event', () => {
    const reducer = applied(
      fresh(),
      issued(),
      expired({ expiredAt: 50_000 }, 50_000),
      issued({ leaseId: 'b', expiresAt: 4_000 }),
      released({ leaseId: 'b', atMs: 3_000 }),
    )
    expect(reducer.state.pruneTerminalLeasesBefore(2_000)).toBe(0)
    expect(reducer.state.pruneTerminalLeasesBefore(2_001)).toBe(1)
    expect(reducer.state.pruneTerminalLeasesBefore(3_000_000_001n)).toBe(1)
  })

  it('never lets a pruned id be issued again, not even after a checkpoint', () => {
    const reducer = applied(fresh(), issued(), released())
    reducer.state.pruneTerminalLeases()
    expect(reducer.state.len()).toBe(0)
    expect(refusal(reducer, issued({ workId: 'other' }))).toBe('LEASE_EXISTS')
    const restored = LeaseReducer.restore(reducer.checkpoint())
    expect(refusal(restored, issued())).toBe('LEASE_EXISTS')
    applied(restored, issued({ leaseId: 'lease-002' }))
  })

  it('counts, and answers by actor and by end, in order of id', () => {
    const reducer = applied(
      fresh(),
      issued({ leaseId: 'c', workId: 'c' }),
      issued({ leaseId: 'a', workId: 'a', expiresAt: 5_000, ...withTicks }),
      issued({ leaseId: 'b', workId: 'b', actorId: 'agent-002' }),
      released({ leaseId: 'c' }),
      issued({ leaseId: 'd', workId: 'd' }),
      expired({ leaseId: 'd' }),
    )
    const { state } = reducer
    expect([state.len(), state.activeCount(), state.releasedCount()]).toEqual([4, 2, 1])
    expect([state.expiredCount(), state.terminalCount(), state.isEmpty()]).toEqual([1, 2, false])
    const ids = (leases: readonly RegisteredLease[]) => leases.map(({ leaseId }) => leaseId)
    expect(ids(state.leasesByActor('agent-001'))).toEqual(['a', 'c', 'd'])
    expect(ids(state.activeLeases())).toEqual(['a', 'b'])
    expect(ids(state.getExpiredButActive(2_000))).toEqual(['b'])
    expect(ids(state.getExpiredButActiveAtTick(tick(1_999)))).toEqual(['b'])
    expect(ids(state.getExpiredButActiveAtTick(tick(2_000)))).toEqual(['a', 'b'])
    reducer.reset()
    expect([state.len(), state.activeCount(), state.hasActiveLease('a')]).toEqual([0, 0, false])
  })
})

describe('the reducer', () => {
  it('INV-0501: goes from nothing to active to an end, and nowhere else', () => {
    const reducer = fresh()
    for (const event of [renewed(), released(), expired()]) {
      expect(refusal(reducer, event)).toBe('LEASE_NOT_FOUND')
    }
    applied(reducer, issued(), renewed(), released())
    expect(leaseOf(reducer)).toMatchObject({ renewalCount: 1, state: 'RELEASED' })
  })

  it('INV-0502: gives the same state for the same events', () => {
    const events = [issued(), renewed(), issued({ leaseId: 'b', workId: 'b' }), released()]
    const digests = [1, 2].map(() => applied(fresh(), ...events).state.digest())
    expect(digests[0]).toBe(digests[1])
    expect(digests[0]).toMatch(/^[0-9a-f]{64}$/)
    expect(applied(fresh(), ...events.slice(0, -1)).state.digest()).not.toBe(digests[0])
  })

  it('INV-0503: ignores what is not about leases', () => {
    const reducer = fresh()
    const digest = reducer.state.digest()
    for (const eventType of ['work.claimed', 'session.started', 'leases.issued', 'lease', '']) {
      reducer.apply({ eventType, actorId: 'x', atMs: 1, payload: null })
    }
    const unheard = { eventType: 'lease.unheard', actorId: 'x', atMs: 1, payload: null }
    expect(refusal(reducer, unheard)).toBe('DECODE_ERROR')
    expect(reducer.name).toBe('lease-registrar')
    expect(reducer.state.digest()).toBe(digest)
  })

  it('CTR-0501: refuses a second lease of a work, naming both', () => {
    const reducer = applied(fresh(), issued())
    const error = refusalError(reducer, issued({ leaseId: 'lease-002' }))
    expect(error.code).toBe('RESOURCE_HELD')
    expect(error.details).toEqual({ workId: 'work-001', existingLeaseId: 'lease-001' })
  })

  it('CTR-0502: refuses an id that was issued before', () => {
    const reducer = applied(fresh(), issued())
    expect(refusal(reducer, issued())).toBe('LEASE_EXISTS')
  })

  it('CTR-0503: refuses to issue or renew without a signature', () => {
    const registrarSignature = new Uint8Array(0)
    const reducer = fresh()
    expect(refusal(reducer, issued({ registrarSignature }))).toBe('MISSING_SIGNATURE')
    applied(reducer, issued())
    expect(refusal(reducer, renewed({ registrarSignature }))).toBe('MISSING_SIGNATURE')
  })

  it('CTR-0504: refuses everything about a lease that has ended, naming its state', () => {
    for (const [end, currentState] of [
      [released(), 'RELEASED'],
      [expired(), 'EXPIRED'],
    ] as const) {
      const reducer = applied(fresh(), issued(), end)
      for (const event of [renewed(), released(), expired()]) {
        const { code, details } = refusalError(reducer, event)
        expect([code, details['currentState']]).toEqual(['LEASE_TERMINAL', currentState])
      }
    }
  })

  it('CTR-0505: lets the holder alone release, and leaves the lease untouched otherwise', () => {
    const reducer = applied(fresh(), issued())
    for (const actorId of ['agent-002', 'registrar']) {
      expect(refusal(reducer, released({ actorId }))).toBe('NOT_HOLDER')
    }
    expect(leaseOf(reducer).state).toBe('ACTIVE')
  })

  it('lets the holder and the actor that issued renew, and nobody else', () => {
    const reducer = applied(fresh(), issued())
    expect(refusal(reducer, renewed({}, { actorId: 'agent-002' }))).toBe('NOT_HOLDER')
    applied(reducer, renewed({ newExpiresAt: 2_500 }, { actorId: 'agent-001' }))
    applied(reducer, renewed({ newExpiresAt: 2_600 }, { actorId: 'registrar' }))
    expect(leaseOf(reducer)).toMatchObject({ renewalCount: 2, lastRenewedAt: 1_500 })
  })

  it('renews strictly forward, in wall time and in ticks, on the same clock, and before the end', () => {
    const reducer = applied(fresh(), issued())
    for (const newExpiresAt of [2_000, 1_999]) {
      expect(refusal(reducer, renewed({ newExpiresAt }))).toBe('RENEWAL_DOES_NOT_EXTEND')
    }
    expect(refusal(reducer, renewed({}, { atMs: 2_000 }))).toBe('LEASE_EXPIRED')
    expect(refusal(reducer, renewed({ newExpiresAtTick: tick(9) }))).toBe('INVALID_INPUT')
    const ticking = applied(fresh(), issued(withTicks))
    expect(refusal(ticking, renewed())).toBe('INVALID_INPUT')
    for (const [newExpiresAtTick, code] of [
      [tick(2_000), 'RENEWAL_DOES_NOT_EXTEND'],
      [tick(1_999), 'RENEWAL_DOES_NOT_EXTEND'],
      [tick(3_000, 999), 'INVALID_EXPIRATION'],
      [tick(3_000, 1_000, 'elsewhere'), 'INVALID_EXPIRATION'],
    ] as const) {
      expect(refusal(ticking, renewed({ newExpiresAtTick }))).toBe(code)
    }
    applied(ticking, renewed({ newExpiresAtTick: tick(2_001) }))
  })

  it('refuses ticks that are given by halves or disagree', () => {
    const reducer = fresh()
    expect(refusal(reducer, issued({ issuedAtTick: tick(1) }))).toBe('INVALID_INPUT')
    expect(refusal(reducer, issued({ expiresAtTick: tick(1) }))).toBe('INVALID_INPUT')
    const foreign = { issuedAtTick: tick(1), expiresAtTick: tick(2, 1_000, 'elsewhere') }
    expect(refusal(reducer, issued(foreign))).toBe('INVALID_EXPIRATION')
    for (const bad of [{ value: -1 }, { rateHz: 0 }, { domain: '' }]) {
      const expiresAtTick = { ...tick(2), ...bad }
      const odd = issued({ issuedAtTick: tick(1), expiresAtTick })
      expect(refusal(reducer, odd)).toBe('INVALID_INPUT')
    }
  })

  it('refuses to expire a lease before its end', () => {
    const reducer = applied(fresh(), issued())
    expect(refusal(reducer, expired({ expiredAt: 1_999 }))).toBe('INVALID_EXPIRATION')
    applied(reducer, expired({ expiredAt: 2_000 }))
  })

  it('takes ids of 1..128 bytes and signatures of 1..512', () => {
    const reducer = fresh()
    const fields = ['leaseId', 'workId', 'actorId'] as const
    for (const field of fields) {
      for (const bad of ['', 'x'.repeat(129), 'ü'.repeat(65), '\ud800', 7]) {
        const error = refusalError(reducer, issued({ [field]: bad as string }))
        expect([error.code, error.details['field']]).toEqual(['INVALID_INPUT', field])
      }
    }
    expect(refusal(reducer, issued({ registrarSignature: new Uint8Array(513) }))).toBe(
      'INVALID_INPUT',
    )
    const registrarSignature = new Uint8Array(512)
    applied(reducer, issued({ leaseId: 'ü'.repeat(64), registrarSignature }))
    expect(reducer.state.len()).toBe(1)
  })

  it('refuses an event whose type and payload disagree', () => {
    const reducer = applied(fresh(), issued())
    const payload = leaseReleasedPayload({ leaseId: 'lease-001', releaseReason: 'COMPLETED' })
    for (const odd of [payload, null, undefined, {}, { kind: 'lease_unheard' }, 'text']) {
      const event = { eventType: 'lease.expired', actorId: 'agent-001', atMs: 1, payload: odd }
      expect(refusal(reducer, event)).toBe('DECODE_ERROR')
    }
  })

  it('takes note of a conflict without changing a lease', () => {
    const reducer = applied(fresh(), issued())
    const digest = reducer.state.digest()
    const conflictingLeaseIds = ['lease-001', 'lease-009']
    const payload = leaseConflictPayload({
      workId: 'work-001',
      conflictingLeaseIds,
      resolution: 'FIRST_WINS',
    })
    const event = { eventType: 'lease.conflict', actorId: 'registrar', atMs: 1, payload }
    reducer.apply(event)
    expect(reducer.state.digest()).toBe(digest)
    const empty = { ...event, payload: { ...payload, conflictingLeaseIds: [''] } }
    expect(refusal(reducer, empty)).toBe('INVALID_INPUT')
  })

  it('CTR-0601: says in every refusal what it is about, and where it stands if it is told', () => {
    const reducer = applied(fresh(), issued())
    const error = refusalError(reducer, renewed({ newExpiresAt: 2_000 }))
    expect(error.details).toEqual({
      leaseId: 'lease-001',
      currentExpiresAt: 2_000,
      newExpiresAt: 2_000,
    })
    expect(() => reducer.apply(issued(), { sequence: 42 })).toThrow(
      expect.objectContaining({ details: { leaseId: 'lease-001', sequence: 42 } }),
    )
  })

  it('CTR-0602: refuses with one class whose codes may grow', () => {
    expect(refusalError(fresh(), renewed())).toBeInstanceOf(LeaseError)
  })
})
