/**
 * What every kind of handle says of its lease: a client's lease, a derived one, a file lease, an orchestrator, a poller.
 * It is all that a guard has to know, so each of them fits a guarded write as it is.
 */
import type { RootLease } from './delegation.ts'
import type { LeaseId } from './lease.ts'
import type { Extent, Mode } from './resource.ts'

export interface FencedLease {
  readonly id: LeaseId
  readonly resource: string
  /** Null while it is not granted; a guard refuses it then. */
  readonly fence: number | null
  readonly mode: Mode
  readonly extent: Extent
  /** How many leases the resource takes at once, for one that is counted; null for any other. */
  readonly slots: number | null
  /** The lease that a derived one acts for; null for one that was acquired. */
  readonly root: RootLease | null
}
