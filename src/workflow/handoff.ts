/** The second half of a handoff: the lease was given already, and the processors are still to be told. */
import type { Tenure } from '../client/contract.ts'
import { retry } from '../client/retry.ts'
import { LeaseError } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'

/** What the receiver of a workflow has, whether or not it has taken it over yet. */
export interface Handoff {
  readonly leaseId: string
  readonly fence: number
  /** The receiver goes on from here. */
  readonly epoch: number
}

const LOOK_WITHIN_MS = 10_000

/** What the receiver has. A store that is away for a moment is asked again: the lease was given, whatever it says. */
export async function givenLease(
  { tenure, runtime }: { readonly tenure: Pick<Tenure, 'get'>; readonly runtime: Runtime },
  leaseId: string | null,
  to: string,
): Promise<Omit<Handoff, 'epoch'>> {
  const limits = { runtime, withinMs: LOOK_WITHIN_MS }
  const given = leaseId === null ? null : await retry(limits, () => tenure.get(leaseId))
  if (leaseId !== null && typeof given?.fence === 'number') return { leaseId, fence: given.fence }
  throw new LeaseError('LEASE_NOT_FOUND', `the lease given to ${to} has ended already`)
}

/** The receiver has the workflow, and processors that do not ask the store have to be told by somebody else. */
export function unannounced(to: string, handoff: Handoff, cause: unknown): LeaseError {
  const message = `the workflow was given to ${to}, but the bus did not take the announcement`
  return new LeaseError('STORE_OUTCOME_UNKNOWN', message, { cause, details: { ...handoff } })
}
