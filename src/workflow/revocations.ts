/**
 * Revocations of workflow leases, from the ledger. A guard with a client follows them itself. For guards without one,
 * `relayRevocations` publishes them on the bus. One relay for each bus is enough; several do no harm.
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

/** The methods of a client that revocations are read with. */
export type RevocationSource = Pick<Tenure, 'watch' | 'get'>

export interface RelayOptions {
  readonly signal: AbortSignal
  /** The last position of an earlier relay, so that no revocation is missed. Default: from now on. */
  readonly after?: Position
  /** Called with the position each time the bus has accepted a revocation. */
  readonly onRelayed?: (position: Position) => void
}

/** Runs until the signal aborts. Throws what the bus or the store throws; the caller starts it again. */
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
    // The caller has ended it; a revocation that was not relayed comes again after the last position.
    if (error.code !== 'ABORTED') report('workflow/relay', error)
  }
}

interface FollowOptions {
  readonly signal: AbortSignal
  /** Default: from now on. */
  readonly after?: Position
  /** Called after every revocation up to this position was notified. */
  readonly onPosition: (position: Position) => void
}

/** One after the other, until the signal aborts or the client is closed. Throws what the store or `notify` throws. */
export async function followRevocations(
  tenure: RevocationSource,
  { onPosition, ...where }: FollowOptions,
  notify: (revocation: Revocation) => Promise<void> | void,
): Promise<void> {
  for await (const { event, position } of tenure.watch({ types: ['lease.revoked'], ...where })) {
    const revocation = await revocationOf(tenure, event)
    if (revocation !== null) await notify(revocation)
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
