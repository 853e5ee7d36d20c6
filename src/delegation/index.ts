/** `tenure/delegation`: scopes, budgets, and signed grants that anybody can check. */
export { LeaseError } from '../core/errors.ts'
export type { Budget, Dimension } from '../core/budget.ts'
export type { Scope, ScopedAct } from '../core/scope.ts'
export { generateSigningKey, SigningKey } from '../ledger/ed25519.ts'
export {
  grantBytes,
  signGrant,
  verifyGrant,
  type Grant,
  type VerifiedGrant,
  type VerifyGrantOptions,
} from '../ledger/grant.ts'
export { parseVerificationKeys } from '../ledger/key-ring.ts'
export type { KeyState, VerificationKey, VerificationKeys } from '../ledger/verification-key.ts'
export { authorizeGrant } from './authorize-grant.ts'
export { grantOf, LeaseSigner } from './lease-signer.ts'
export { RegistrarLedger, type RegistrarLedgerOptions } from './registrar-ledger.ts'
