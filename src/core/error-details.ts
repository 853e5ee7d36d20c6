/**
 * What `details` of an error holds, by its code, as the client throws it. Codes that are not named here have details that
 * depend on where the error comes from; the reducer of a registrar has details of its own.
 */
import type { Dimension } from './budget.ts'
import type { Blocker } from './conflict.ts'
import type { CycleStep, LeaseId } from './lease.ts'

export interface ErrorDetails {
  readonly RESOURCE_HELD: {
    readonly resource: string
    readonly blockers: readonly Blocker[]
    readonly retryAfterMs: number
  }
  /** A transfer to the next in the queue that found no waiter has waited for nothing. */
  readonly WAIT_TIMEOUT: {
    readonly resource?: string
    readonly waitedMs?: number
    readonly blockers?: readonly Blocker[]
  }
  readonly DEADLOCK: { readonly cycle: readonly CycleStep[]; readonly implied?: true }
  readonly NOT_HOLDER: { readonly leaseId: LeaseId; readonly holder: string }
  readonly LEASE_NOT_FOUND: { readonly leaseId: LeaseId }
  readonly INVALID_INPUT: { readonly field: string }
  readonly BUDGET_EXHAUSTED: {
    readonly leaseId: LeaseId
    readonly dimension: Dimension
    readonly asked: number
    readonly left: number
  }
}
