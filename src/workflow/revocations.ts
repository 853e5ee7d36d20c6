/**
 * Revocations of workflow leases, as the ledger tells of them. A guard that has a client follows them itself. For guards
 * that have none, `relayRevocations` carries them to the bus, whoever revoked and from wherever: the holder hears of it
 * from the store, the processors from there. One such relay for each bus is enough; several do no harm.
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

/** Of a client: what tells of revocations. */
export type RevocationSource = Pick<Tenure, 'watch' | 'get'>

export interface RelayOptions {
  readonly signal: AbortSignal
  /** Where the last relay has stopped, so that nothing is lost between the two. Default: from now on. */
  readonly after?: Position
  /** Told how far it has come, each time the bus has taken a revocation. */
  readonly onRelayed?: (position: Position) => void
}

/** Runs until the signal aborts. Throws what the bus or the store throws; whoever runs it starts it again. */
export async function relayRevocations(
  tenure: RevocationSource,
  bus: Bus,
  options: RelayOptions,
): Promise<void> {
  refuseUnknown(options, ['signal', 'after', 'onRelayed'])
  const { signal, after, onRelayed } = options
  const place = {
    ...{ signal, onPosition: (position: Position) => onRelayed?.(position) },
    ...(after === undefined ? {} : { after }),
  }
  try {
    await followRevocations(tenure, place, (revocation) => bus.announce(revocation))
  } catch (error) {
    if (!options.signal.aborted || !isLeaseError(error)) throw error
    // Whoever ended it is not waiting for an answer; what was not relayed comes again after the last position.
    if (error.code !== 'ABORTED') report('workflow/relay', error)
  }
}

interface FollowOptions {
  readonly signal: AbortSignal
  /** Default: from now on. */
  readonly after?: Position
  /** Everything up to here was told. */
  readonly onPosition: (position: Position) => void
}

/** One after the other, until the signal aborts or the client is closed. Throws what the store or `tell` throws. */
export async function followRevocations(
  tenure: RevocationSource,
  { onPosition, ...where }: FollowOptions,
  tell: (revocation: Revocation) => Promise<void> | void,
): Promise<void> {
  for await (const { event, position } of tenure.watch({ types: ['lease.revoked'], ...where })) {
    const revocation = await revocationOf(tenure, event)
    if (revocation !== null) await tell(revocation)
    onPosition(position)
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
