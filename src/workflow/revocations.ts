/**
 * Carries revocations from the ledger to the bus, whoever revoked and from wherever: the holder hears of it from the
 * store, the processors hear of it from here. One such relay for each bus is enough; several do no harm.
 */
import type { Tenure } from '../client/contract.ts'
import { isLeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import type { Bus } from './bus.ts'
import type { Revocation } from './wire/action-json.ts'

const PREFIX = 'workflow:'

/** Runs until the signal aborts. Throws what the bus or the store throws; whoever runs it starts it again. */
export async function relayRevocations(
  tenure: Pick<Tenure, 'watch' | 'get'>,
  bus: Bus,
  options: { readonly signal: AbortSignal },
): Promise<void> {
  const types = ['lease.revoked'] as const
  try {
    for await (const { event } of tenure.watch({ types, signal: options.signal })) {
      const revocation = await revocationOf(tenure, event)
      if (revocation !== null) await bus.announce(revocation)
    }
  } catch (error) {
    if (!options.signal.aborted || !isLeaseError(error)) throw error
  }
}

async function revocationOf(
  tenure: Pick<Tenure, 'get'>,
  event: LeaseEvent,
): Promise<Revocation | null> {
  if (event.type !== 'lease.revoked' || !event.resource.startsWith(PREFIX)) return null
  const lease = await tenure.get(event.leaseId)
  if (lease === null || lease.fence === null) return null
  return {
    workflowId: event.resource.slice(PREFIX.length),
    leaseId: event.leaseId,
    fence: lease.fence,
    reason: event.reason,
    revokedAtMs: event.terminatedAtMs,
  }
}
