/** `tenure/delegation`: scopes, budgets, and signed grants that are checked with public keys. */
export { LeaseError } from '../core/errors.ts'
export type { Budget, Dimension } from '../core/budget.ts'
export type { Scope, ScopedAct } from '../core/scope.ts'
export { generateSigningKey, SigningKey } from '../registrar/ed25519.ts'
export {
  grantBytes,
  signGrant,
  verifyGrant,
  type Grant,
  type VerifiedGrant,
  type VerifyGrantOptions,
} from '../registrar/grant.ts'
export { parseVerificationKeys } from '../registrar/key-ring.ts'
export type { KeyState, VerificationKey, VerificationKeys } from '../registrar/verification-key.ts'
export { authorizeGrant } from './authorize-grant.ts'
export { grantOf, LeaseSigner } from './lease-signer.ts'
export { RegistrarLedger, type RegistrarLedgerOptions } from './registrar-ledger.ts'
