/** The examples of the registrar's design, as its reader would write them here. */
import { describe, expect, it } from 'vitest'
import {
  LeaseError,
  LeaseReducer,
  leaseExpiredPayload,
  leaseIssuedPayload,
  leaseReleasedPayload,
  leaseRenewedPayload,
  payloadBytes,
  type EventRecord,
  type OwnPayload,
} from '../../src/ledger/index.ts'

const MS = 1_000_000n

/** `EventRecord::new(type, session, actor, payload)`, and when it happened. */
function eventRecord(
  eventType: string,
  actorId: string,
  payload: OwnPayload,
  atMs: number,
): EventRecord {
  return { eventType, sessionId: 'session-1', actorId, atMs, payload: payloadBytes(payload) }
}

function issue(reducer: LeaseReducer): void {
  const payload = leaseIssuedPayload({
    leaseId: 'lease-001',
    workId: 'work-001',
    actorId: 'agent-001',
    issuedAt: 1_000_000_000n,
    expiresAt: 2_000_000_000n,
    registrarSignature: [1, 2, 3, 4],
  })
  reducer.apply(eventRecord('lease.issued', 'registrar', payload, 1_000), { sequence: 1 })
}

describe("the examples of the registrar's design", () => {
  it('basic usage: a lease is issued, and found by its id and its work', () => {
    const reducer = new LeaseReducer()
    issue(reducer)
    expect(reducer.state.get('lease-001')?.state).toBe('ACTIVE')
    expect(reducer.state.hasActiveLease('work-001')).toBe(true)
  })

  it('lease lifecycle: renewed, released, and free for the next', () => {
    const reducer = new LeaseReducer()
    issue(reducer)
    const renewal = leaseRenewedPayload({
      ...{ leaseId: 'lease-001', newExpiresAt: 3_000_000_000n, registrarSignature: [5, 6, 7, 8] },
    })
    reducer.apply(eventRecord('lease.renewed', 'registrar', renewal, 1_500))
    expect(reducer.state.get('lease-001')?.expiresAt).toBe(3_000_000_000n)
    const release = leaseReleasedPayload({ leaseId: 'lease-001', releaseReason: 'COMPLETED' })
    reducer.apply(eventRecord('lease.released', 'agent-001', release, 2_500))
    expect(reducer.state.hasActiveLease('work-001')).toBe(false)
    expect(reducer.state.get('lease-001')?.terminatedAt).toBe(2_500n * MS)
  })

  it('detecting expired leases: each that is found is told to have expired, and pruned', () => {
    const reducer = new LeaseReducer()
    issue(reducer)
    const now = 2_500_000_000n
    const expired = reducer.state.getExpiredButActive(now)
    expect(expired.map(({ leaseId }) => leaseId)).toEqual(['lease-001'])
    for (const { leaseId } of expired) {
      const payload = leaseExpiredPayload({ leaseId, expiredAt: now })
      reducer.apply(eventRecord('lease.expired', 'registrar', payload, 2_500))
    }
    expect(reducer.state.get('lease-001')?.terminatedAt).toBe(2_000_000_000n)
    expect(reducer.state.pruneTerminalLeasesBefore(1_500_000_000n)).toBe(0)
    expect(reducer.state.pruneTerminalLeases()).toBe(1)
  })

  it('an event without a time is refused, and says which field', () => {
    const release = leaseReleasedPayload({ leaseId: 'lease-001', releaseReason: 'COMPLETED' })
    const { atMs: _, ...untimed } = eventRecord('lease.released', 'agent-001', release, 0)
    const refused = expect.objectContaining({
      code: 'INVALID_INPUT',
      message: 'atMs must be when it happened, in whole milliseconds, got undefined',
    })
    expect(() => new LeaseReducer().apply(untimed as EventRecord)).toThrow(refused)
    expect(() => new LeaseReducer().apply(untimed as EventRecord)).toThrow(LeaseError)
  })

  it('a time in plain numbers is milliseconds, and a lease keeps to one unit', () => {
    const reducer = new LeaseReducer()
    issue(reducer)
    const payload = leaseRenewedPayload({
      ...{ leaseId: 'lease-001', newExpiresAt: 3_000_000_000, registrarSignature: [1] },
    })
    expect(() => reducer.apply(eventRecord('lease.renewed', 'registrar', payload, 1_500))).toThrow(
      /^newExpiresAt must be a bigint like the other times of the lease, got 3000000000$/,
    )
  })
})
