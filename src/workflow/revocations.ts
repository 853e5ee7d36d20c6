/**
 * Carries revocations from the ledger to the bus, whoever revoked and from wherever: the holder hears of it from the
 * store, the processors hear of it from here. One such relay for each bus is enough; several do no harm.
 */
import type { Tenure } from '../client/contract.ts'
import { isLeaseError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { refuseUnknown } from '../core/input.ts'
import { report } from '../runtime/diagnostics.ts'
import type { Position } from '../service/lease-api.ts'
import type { Bus } from './bus.ts'
import type { Revocation } from './wire/action-json.ts'

const PREFIX = 'workflow:'

export interface RelayOptions {
  readonly signal: AbortSignal
  /** Where the last relay has stopped, so that nothing is lost between the two. Default: from now on. */
  readonly after?: Position
  /** Told how far it has come, each time the bus has taken a revocation. */
  readonly onRelayed?: (position: Position) => void
}

/** Runs until the signal aborts. Throws what the bus or the store throws; whoever runs it starts it again. */
export async function relayRevocations(
  tenure: Pick<Tenure, 'watch' | 'get'>,
  bus: Bus,
  options: RelayOptions,
): Promise<void> {
  refuseUnknown(options, ['signal', 'after', 'onRelayed'])
  const types = ['lease.revoked'] as const
  const from = options.after === undefined ? {} : { after: options.after }
  try {
    for await (const { event, position } of tenure.watch({
      types,
      ...from,
      signal: options.signal,
    })) {
      const revocation = await revocationOf(tenure, event)
      if (revocation !== null) await bus.announce(revocation)
      options.onRelayed?.(position)
    }
  } catch (error) {
    if (!options.signal.aborted || !isLeaseError(error)) throw error
    // Whoever ended it is not waiting for an answer; what was not relayed comes again after the last position.
    if (error.code !== 'ABORTED') report('workflow/relay', error)
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
