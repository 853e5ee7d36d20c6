/** The second half of a handoff: the lease was transferred, and the processors must be notified. */
import type { Tenure } from '../client/contract.ts'
import { retry } from '../client/retry.ts'
import { LeaseError } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'

/** The lease of the receiver of a workflow, whether or not it has taken it over yet. */
export interface Handoff {
  readonly leaseId: string
  readonly fence: number
  /** The next epoch, of the receiver. */
  readonly epoch: number
}

const LOOK_WITHIN_MS = 10_000

/** Reads the receiver's lease, with retries: it was transferred, whether or not the store is available now. */
export async function transferredLease(
  { tenure, runtime }: { readonly tenure: Pick<Tenure, 'get'>; readonly runtime: Runtime },
  leaseId: string | null,
  to: string,
): Promise<Omit<Handoff, 'epoch'>> {
  const limits = { runtime, withinMs: LOOK_WITHIN_MS }
  const lease = leaseId === null ? null : await retry(limits, () => tenure.get(leaseId))
  if (leaseId !== null && typeof lease?.fence === 'number') return { leaseId, fence: lease.fence }
  throw new LeaseError('LEASE_NOT_FOUND', `the lease transferred to ${to} has ended already`)
}

/** The receiver has the workflow, and processors that do not ask the store do not know it yet. */
export function unannounced(to: string, handoff: Handoff, cause: unknown): LeaseError {
  const message = `the workflow was transferred to ${to}, but the bus did not accept the announcement`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause, details: { ...handoff } })
}
