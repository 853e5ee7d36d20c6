/** `tenure/ledger`: the registrar's reducer, and a ledger that proves itself. */
export { LeaseError } from '../core/errors.ts'
export { LeaseReducer, type ReducerContext } from '../registrar/lease-reducer.ts'
export type { LeaseReducerState } from '../registrar/lease-reducer-state.ts'
export type { LogicalTick } from '../registrar/logical-tick.ts'
export {
  leaseConflictPayload,
  leaseExpiredPayload,
  leaseIssuedPayload,
  leaseReleasedPayload,
  leaseRenewedPayload,
  ledgerRecord,
  type EventRecord,
  type OwnPayload,
  type RegistrarPayload,
} from '../registrar/payloads.ts'
export { parsePayload, payloadBytes } from '../registrar/payload-bytes.ts'
export {
  eventBytes,
  signEvent,
  verifyEvent,
  type VerifyEventOptions,
} from '../registrar/signed-event.ts'
export { generateSigningKey, SigningKey } from '../registrar/ed25519.ts'
export { parseVerificationKeys } from '../registrar/key-ring.ts'
export type { KeyState, VerificationKey, VerificationKeys } from '../registrar/verification-key.ts'
export {
  isExpiredAt,
  isExpiredAtTick,
  summary,
  ticksRemaining,
  timeRemaining,
  type LeaseSummary,
  RegisteredLease,
} from '../registrar/registered-lease.ts'
export {
  isTerminal,
  parseLeaseState,
  parseReleaseReason,
  type RegistrarReason,
  type RegistrarState,
} from '../registrar/registrar-words.ts'
export {
  compareLedgers,
  type Comparison,
  type Retention,
  type StoreDifference,
} from './compare-ledger.ts'
export { sealChain, parseCheckpoint, type LedgerCheckpoint } from './ledger-checkpoint.ts'
export { holdingsIn, type Holding, type HoldingsQuery } from './holdings.ts'
export type { KeptLeases } from './held-until.ts'
export { replayLedger, type ReplayOptions } from './replay-ledger.ts'
export { readLedger, type ReadLedger } from './read-ledger.ts'
export { entryOf, LedgerChain, linesOf, recordOf } from './sealed-ledger.ts'
export {
  verifyLedger,
  type LedgerProblem,
  type LedgerVerdict,
  type SealedLedger,
} from './verify-ledger.ts'
export type { WallTime } from '../registrar/wall-time.ts'
