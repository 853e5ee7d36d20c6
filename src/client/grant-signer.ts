/**
 * Who signs what a client holds. The client knows what its leases are; how they become bytes that others can check is
 * not its business, and neither is the key.
 */
import type { LeaseInfo } from '../core/lease.ts'

export interface GrantSigner {
  /**
   * The token of the last lease of an ancestor chain that begins with the root. Throws `MISSING_SIGNATURE` when there is no key
   * that signs.
   */
  sign(chain: readonly LeaseInfo[]): string
}
