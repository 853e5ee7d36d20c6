/** `tenure/ledger`: the registrar's reducer over a ledger of lease events. */
export { LeaseError } from '../core/errors.ts'
export { LeaseReducer, type ReducerContext } from './lease-reducer.ts'
export type { LeaseReducerState } from './lease-reducer-state.ts'
export type { LogicalTick } from './logical-tick.ts'
export {
  leaseConflictPayload,
  leaseExpiredPayload,
  leaseIssuedPayload,
  leaseReleasedPayload,
  leaseRenewedPayload,
  ledgerRecord,
  type EventRecord,
} from './payloads.ts'
export {
  isExpiredAt,
  isExpiredAtTick,
  summary,
  ticksRemaining,
  timeRemaining,
  type LeaseSummary,
  RegisteredLease,
} from './registered-lease.ts'
export {
  isTerminal,
  parseLeaseState,
  parseReleaseReason,
  type RegistrarReason,
  type RegistrarState,
} from './registrar-words.ts'
export type { WallTime } from './wall-time.ts'
