/** Events of a registrar for tests: short to write, in milliseconds unless a test says otherwise. */
import { LeaseError } from '../../src/core/errors.ts'
import type { LeaseReducer } from '../../src/registrar/lease-reducer.ts'
import {
  leaseExpiredPayload,
  leaseIssuedPayload,
  leaseReleasedPayload,
  leaseRenewedPayload,
  type EventRecord,
  type LeaseExpiredFacts,
  type LeaseIssuedFacts,
  type LeaseRenewedFacts,
} from '../../src/registrar/payloads.ts'
import type { LogicalTick } from '../../src/registrar/logical-tick.ts'

export const SIGNATURE = new Uint8Array([1, 2, 3, 4])

export function tick(value: number | bigint, rateHz = 1000, domain = 'host/boot/1'): LogicalTick {
  return { value, rateHz, domain }
}

export function issued(facts: Partial<LeaseIssuedFacts> = {}, actorId = 'registrar'): EventRecord {
  const payload = leaseIssuedPayload({
    leaseId: 'lease-001',
    workId: 'work-001',
    actorId: 'agent-001',
    issuedAt: 1_000,
    expiresAt: 2_000,
    registrarSignature: SIGNATURE,
    ...facts,
  })
  return { eventType: 'lease.issued', actorId, atMs: 1_000, payload }
}

export function renewed(
  facts: Partial<LeaseRenewedFacts> = {},
  { actorId = 'registrar', atMs = 1_500 }: { actorId?: string; atMs?: number } = {},
): EventRecord {
  const defaults = { leaseId: 'lease-001', newExpiresAt: 3_000, registrarSignature: SIGNATURE }
  const payload = leaseRenewedPayload({ ...defaults, ...facts })
  return { eventType: 'lease.renewed', actorId, atMs, payload }
}

export function released({
  leaseId = 'lease-001',
  releaseReason = 'COMPLETED',
  actorId = 'agent-001',
  atMs = 1_600,
} = {}): EventRecord {
  const payload = leaseReleasedPayload({ leaseId, releaseReason })
  return { eventType: 'lease.released', actorId, atMs, payload }
}

export function expired(facts: Partial<LeaseExpiredFacts> = {}, atMs = 9_000): EventRecord {
  const payload = leaseExpiredPayload({ leaseId: 'lease-001', expiredAt: 2_000, ...facts })
  return { eventType: 'lease.expired', actorId: 'registrar', atMs, payload }
}

export function applied(reducer: LeaseReducer, ...events: readonly EventRecord[]): LeaseReducer {
  for (const event of events) reducer.apply(event)
  return reducer
}

/** The code of the refusal; a refused event must leave no trace. */
export function refusal(reducer: LeaseReducer, event: EventRecord): string {
  return refusalError(reducer, event).code
}

export function refusalError(reducer: LeaseReducer, event: EventRecord): LeaseError {
  const before = reducer.state.digest()
  try {
    reducer.apply(event)
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error
    if (reducer.state.digest() !== before) throw new Error('a refused event changed the state')
    return error
  }
  throw new Error(`${event.eventType} was not refused`)
}
