/**
 * The rule of every action guard, over plain data: whether an action may be carried out, and the mark that follows.
 *
 *  1. Lease: the known lease of the workflow. An unknown lease is refused.
 *  2. Fence: no lower than the known one.
 *  3. Duplicate: an action that was carried out is not carried out again.
 *  4. Epoch: above the last one that was carried out. A dead letter that an operator sends again may be below it, if it is
 *     certain that it was not carried out.
 *  5. Gap, in strict mode: the action before it to the same target must have been carried out. The first under a new
 *     lease names none, and may follow anything. An action to all targets names the last action of each target. A guard
 *     that gets every epoch requires the next one.
 *
 * For an action without a fence the lease alone decides: an id is granted once, so its fence is that of the lease.
 */
import { LeaseError, type ErrorCode } from '../core/errors.ts'
import { parseLeaseId, parseSpanMs } from '../core/input.ts'
import { EVERY_TARGET, LEASE_TRANSFER, type Action } from './action.ts'

/** The last decision of a processor about a workflow. */
export interface WorkflowMark {
  /** The lease whose actions are carried out. */
  readonly leaseId: string
  readonly fence: number
  /** The lease was revoked: no further action is carried out under it. */
  readonly revoked: boolean
  /** The last epoch that was carried out; -1 if none was. */
  readonly epoch: number
}

export interface Known {
  readonly mark: WorkflowMark | null
  /** Whether the action was carried out before. */
  readonly seen: boolean
  /** From this epoch on every action that was carried out is remembered. Needed only for an action that is sent again. */
  readonly rememberedFrom?: number
}

/** A lease that a guard is notified of. */
export interface LeaseFact {
  readonly leaseId: string
  readonly fence: number
}

/** An action of a workflow; its sender may not have named a fence. */
export type WorkflowAction = Omit<Action, 'fence'> & { readonly fence: number | null }

/** Whether a gap is refused: never, by the previous action that each action names, or unless the epoch is the next. */
export type Strictness = boolean | 'every_epoch'

export type ActionDecision =
  | { readonly kind: 'accepted'; readonly mark: WorkflowMark }
  | { readonly kind: 'refused'; readonly error: LeaseError }

export interface DecisionOptions {
  readonly strict: Strictness
  /** The target of the guard; null if it is not known. */
  readonly target: string | null
  /** Whether an operator has sent the action again. */
  readonly resent: boolean
}

export function decideAction(
  action: WorkflowAction,
  known: Known,
  options: DecisionOptions,
): ActionDecision {
  const { mark, seen } = known
  if (mark === null) return violation(action, null, 'its lease is not known here')
  if (action.leaseId !== mark.leaseId) return violation(action, mark, 'it carries another lease')
  if (action.fence !== null && action.fence < mark.fence) {
    return violation(action, mark, 'it carries a lower fence')
  }
  if (mark.revoked) return violation(action, mark, 'its lease was revoked')
  if (seen) return duplicate(action, mark)
  if (action.epoch <= mark.epoch && !(options.resent && wasNeverCarriedOut(action, known))) {
    return stale(action, mark)
  }
  const previousEpoch = previousTo(action, options)
  if (previousEpoch !== null && previousEpoch > mark.epoch) {
    return future(action, mark, previousEpoch)
  }
  const { leaseId } = action
  const fence = action.fence ?? mark.fence
  const epoch = Math.max(action.epoch, mark.epoch)
  const accepted: WorkflowMark = { leaseId, fence, revoked: false, epoch }
  if (action.actionType === LEASE_TRANSFER) return transferred(action, accepted)
  return { kind: 'accepted', mark: accepted }
}

/** An action that is not remembered was not carried out, if every action since its epoch is remembered. */
function wasNeverCarriedOut({ epoch }: WorkflowAction, { seen, rememberedFrom }: Known): boolean {
  return !seen && rememberedFrom !== undefined && epoch >= rememberedFrom
}

/** The epoch of the action that must have been carried out before this one; null if none is required. */
function previousTo(action: WorkflowAction, { strict, target }: DecisionOptions): number | null {
  if (strict === false) return null
  if (strict === 'every_epoch') return action.epoch - 1
  if (action.target !== EVERY_TARGET) return action.previousEpoch
  const isTransfer = action.actionType === LEASE_TRANSFER
  const last = isTransfer
    ? fieldsOf(fieldsOf(action.payload)['last_epochs'])
    : fieldsOf(action.lastEpochs)
  const sent = [target ?? EVERY_TARGET, EVERY_TARGET].flatMap((name) => {
    const epoch = Object.hasOwn(last, name) ? last[name] : null
    return typeof epoch === 'number' ? [epoch] : []
  })
  return sent.length === 0 ? action.previousEpoch : Math.max(...sent)
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
    ? (value as Readonly<Record<string, unknown>>)
    : {}
}

/**
 * Merges two marks of one workflow: the later lease and the higher epoch. A lease that is revoked in either mark is
 * revoked. Of two leases with the same fence, which no store grants, the recorded one counts.
 */
export function mergedMark(
  recorded: WorkflowMark | null,
  notified: WorkflowMark | null,
): WorkflowMark | null {
  if (recorded === null || notified === null) return recorded ?? notified
  const later = notified.fence > recorded.fence ? notified : recorded
  const isSame = notified.leaseId === recorded.leaseId
  const revoked = later.revoked || (isSame && (notified.revoked || recorded.revoked))
  return { ...later, revoked, epoch: Math.max(recorded.epoch, notified.epoch) }
}

/** The lease with the higher fence is the later one; a revoked lease stays revoked, whatever its fence. */
export function withLease(mark: WorkflowMark | null, fact: LeaseFact): WorkflowMark {
  if (mark !== null && fact.fence <= mark.fence) return mark
  const { leaseId, fence } = fact
  const revoked = mark?.leaseId === leaseId && mark.revoked
  return { leaseId, fence, revoked, epoch: mark?.epoch ?? -1 }
}

/** An announcement under the old lease names the new lease, which must have a higher fence. */
function transferred(action: WorkflowAction, mark: WorkflowMark): ActionDecision {
  const payload = fieldsOf(action.payload)
  try {
    const leaseId = parseLeaseId(payload['new_lease_id'], 'new_lease_id')
    const limit = { field: 'new_fence', min: mark.fence + 1, max: Number.MAX_SAFE_INTEGER }
    const fence = parseSpanMs(limit, payload['new_fence'])
    return { kind: 'accepted', mark: { ...mark, leaseId, fence } }
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error
    return { kind: 'refused', error }
  }
}

/** The known lease of a workflow when an action is refused. */
type KnownLease = Pick<WorkflowMark, 'leaseId' | 'fence' | 'epoch'>

function violation(action: WorkflowAction, mark: WorkflowMark | null, why: string): ActionDecision {
  return { kind: 'refused', error: leaseViolation(action, mark, why) }
}

export function leaseViolation(
  action: WorkflowAction,
  mark: KnownLease | null,
  why: string,
): LeaseError {
  const message = `action ${action.actionId} of workflow ${action.workflowId} is refused: ${why}`
  const details = {
    ...epochsOf(action, mark),
    expected: mark?.leaseId ?? null,
    received: action.leaseId,
    expected_fence: mark?.fence ?? null,
    received_fence: action.fence,
    recommendation: 'only the orchestrator that holds the workflow may act',
  }
  return new LeaseError('LEASE_VIOLATION', message, { details })
}

function duplicate(action: WorkflowAction, mark: WorkflowMark): ActionDecision {
  const message = `action ${action.actionId} was carried out already`
  return refused('DUPLICATE_ACTION', message, {
    ...epochsOf(action, mark),
    recommendation: 'nothing is left to do',
  })
}

function stale(action: WorkflowAction, mark: WorkflowMark): ActionDecision {
  const message = `epoch must be above ${mark.epoch}, got ${action.epoch}`
  return refused('STALE_EPOCH', message, {
    ...epochsOf(action, mark),
    recommendation: 'Orchestrator should refresh state',
  })
}

function future(action: WorkflowAction, mark: WorkflowMark, previousEpoch: number): ActionDecision {
  const message = `epoch ${action.epoch} follows ${previousEpoch}, which has not come; the last was ${mark.epoch}`
  return refused('FUTURE_EPOCH', message, {
    ...epochsOf(action, mark),
    missing: { after: mark.epoch, through: previousEpoch },
    recommendation: 'Check for missed state updates',
  })
}

/** `current_epoch` is the last one that was carried out, -1 if none was; null where nothing is known. */
function epochsOf(
  { actionId, workflowId, epoch }: WorkflowAction,
  mark: KnownLease | null,
): Readonly<Record<string, unknown>> {
  return {
    ...{ action_id: actionId, workflow_id: workflowId },
    ...{ action_epoch: epoch, current_epoch: mark?.epoch ?? null },
  }
}

function refused(
  code: ErrorCode,
  message: string,
  details: Readonly<Record<string, unknown>>,
): ActionDecision {
  return { kind: 'refused', error: new LeaseError(code, message, { details }) }
}
