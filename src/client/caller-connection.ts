/**
 * What a wait on behalf of a remote caller knows of it: whether an answer can still reach it, and what the wait
 * came to. `server/server-waits.ts` keeps the promises.
 */
import type { LeaseInfo } from '../core/lease.ts'

/** What a caller's connection is to its request. */
export interface CallerConnection {
  /** Whether the caller can still be answered. */
  readonly isOpen: boolean
  /** Called once when the connection, or the answer on it, has ended; tells whether the whole answer was written. */
  onEnd(listener: (wasWritten: boolean) => void): void
}

export interface Acquired {
  readonly leases: readonly LeaseInfo[]
  /** From when the request was read until just before the claim was sent that brought the grant; 0 without a wait. */
  readonly waitedMs: number
}
