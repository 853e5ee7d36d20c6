/** How a guard looks up an unknown lease: in the store, or in the signed grant of the action. */
import type { Tenure } from '../client/contract.ts'
import { LeaseError } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import { parseResource, type Resource } from '../core/resource.ts'
import { verifyGrant } from '../registrar/grant.ts'
import type { VerificationKey } from '../registrar/verification-key.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseLookUp } from './action-guard.ts'

/**
 * The current holder of a workflow, by the store. If there is none, the lease of the action counts if its holder has
 * completed it: such a holder has sent everything before. A lease that expired or was revoked does not count.
 */
export function currentLease(tenure: Pick<Tenure, 'inspect' | 'get'>): LeaseLookUp {
  return async (workflowId, { leaseId }) => {
    const resource = resourceOf(workflowId)
    const { leases } = await tenure.inspect(resource)
    const lease = leases[0] ?? (await tenure.get(leaseId))
    if (lease === null || lease.fence === null || lease.resource !== resource) return null
    if (lease.state !== 'active' && !isCompleted(lease)) return null
    return { leaseId: lease.id, fence: lease.fence }
  }
}

/** In the canonical spelling of resources. */
function resourceOf(workflowId: string): Resource {
  return parseResource(`workflow:${workflowId}`)
}

function isCompleted(lease: {
  readonly state: string
  readonly releaseReason: string | null
}): boolean {
  return lease.state === 'released' && lease.releaseReason === 'completed'
}

export interface GrantedLeaseOptions {
  /** Who checks: a grant for another audience is refused. Default: every grant that names one. */
  readonly audience?: string
  /** For tests: the wall time by which grants end, instead of the real one. Default: the real one. */
  readonly runtime?: Pick<Runtime, 'wallMs'>
}

/**
 * The lease in the grant of an action, checked with public keys alone. Null for an action without a grant.
 * Throws what `verifyGrant` throws, and `LEASE_VIOLATION` for a grant of something else.
 */
export function grantedLease(
  keys: readonly VerificationKey[],
  options: GrantedLeaseOptions = {},
): LeaseLookUp {
  refuseUnknown(options, ['audience', 'runtime'])
  const { audience, runtime = systemRuntime } = options
  return (workflowId, action) => {
    if (action.grant === undefined) return null
    const now = Math.floor(runtime.wallMs())
    const grant = verifyGrant(action.grant, keys, {
      now,
      ...(audience === undefined ? {} : { audience }),
    })
    const { id: leaseId, fence, resource, mode } = grant
    const isItsOwn = leaseId === action.leaseId && (action.fence ?? fence) === fence
    const isOfWorkflow = resource === resourceOf(workflowId) && mode === 'exclusive'
    if (isItsOwn && isOfWorkflow) return { leaseId, fence }
    const message = `the grant of action ${action.actionId} must be of its own lease of workflow ${workflowId}`
    throw new LeaseError('LEASE_VIOLATION', message, {
      details: {
        ...{ action_id: action.actionId, workflow_id: workflowId },
        ...{ expected: action.leaseId, received: leaseId },
        ...{ expected_fence: action.fence, received_fence: fence, resource },
        action_epoch: action.epoch,
      },
    })
  }
}
