/** A lease that its holder counts on, and what happens to it, each at its time. */
import { HolderClock, type Moment } from '../../src/client/holder-clock.ts'
import {
  beginHolding,
  stepHolding,
  type Holding,
  type HoldingEvent,
  type HoldingStep,
  type Instant,
} from '../../src/client/holding.ts'
import { LeaseError, type ErrorCode } from '../../src/core/errors.ts'
import { describeEntry, type LeaseInfo } from '../../src/core/lease.ts'
import type { Refusal } from '../../src/core/outcome.ts'
import { FakeRuntime } from '../../src/testing/fake-runtime.ts'
import { id, lease, nowAt } from '../core/builders.ts'

const clock: HolderClock = new HolderClock(new FakeRuntime())
export const TTL_MS = 30_000
/** What a holder counts on of it: one percent is given away. */
export const SPAN_MS = 29_700
export const FENCE = 7
export const GRANTED: LeaseInfo = {
  ...describeEntry(lease({ ttlMs: TTL_MS }), nowAt(1)),
  ...{ ttlMs: TTL_MS, remainingMs: TTL_MS, renewals: 0, fence: FENCE },
}

export function moment(ms: number): Moment {
  return { monotonicMs: ms, bootMs: null, wallMs: ms }
}

export function at(ms: number): Instant {
  return { clock, now: moment(ms) }
}

export function begin(lease: Partial<LeaseInfo> = {}, autoRenew = true): Holding {
  const info = { ...GRANTED, ...lease }
  const term = { from: moment(0), spanMs: info.ttlMs }
  const granted = { lease: info, fence: FENCE, term, autoRenew, limitsHold: false }
  return beginHolding(granted, at(0)).holding
}

/** The last of several events, each at its time. */
export function play(
  start: Holding,
  ...events: readonly (readonly [number, HoldingEvent])[]
): HoldingStep {
  let step: HoldingStep = { holding: start, actions: [] }
  for (const [ms, event] of events) step = stepHolding(step.holding, event, at(ms))
  return step
}

export const TIME: HoldingEvent = { kind: 'time' }
export const DUE = { kind: 'due', newId: () => 'renewal-1' } as const satisfies HoldingEvent

export function renewed(fromMs: number, lease: Partial<LeaseInfo> = {}): HoldingEvent {
  const info = { ...GRANTED, renewals: 1, ...lease }
  return { kind: 'renewed', lease: info, from: moment(fromMs) }
}

export function failed(code: ErrorCode): HoldingEvent {
  return { kind: 'renewal_failed', error: new LeaseError(code, 'a fault of the test') }
}

export function revoking(endUs: number, remainingMs: number): Partial<LeaseInfo> {
  const by = { by: 'operator', reason: null }
  return { revoking: by, deadline: { domain: 'test', us: endUs }, remainingMs }
}

export function namesOf({ actions }: HoldingStep): readonly string[] {
  return actions.map((action) => (action.kind === 'notify' ? action.name : action.kind))
}

export const NOT_FOUND: Refusal = { kind: 'not_found', leaseId: id(1) }
export const TERMINAL: Refusal = { kind: 'terminal', leaseId: id(1), state: 'released' }
export const LIMIT: Extract<Refusal, { readonly kind: 'renewal_limit' }> = {
  kind: 'renewal_limit',
  leaseId: id(1),
  limit: 'its maxRenewals of 0',
}
export const SOON: Refusal = { kind: 'does_not_extend', leaseId: id(1), expiresAtMs: 9 }
