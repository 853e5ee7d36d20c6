/**
 * The rule of every action guard, over plain data: whether an action may be carried out, and what is remembered of it.
 *
 *  1. Lease: it must be the one that is known for the workflow. An unknown one is refused: closed, not open.
 *  2. Fence: no lower than the one that is known.
 *  3. Again: an action that was carried out is recognised, and not carried out twice.
 *  4. Epoch: above the last one that was carried out. One that was passed over, a dead letter, may be below it when an
 *     operator sends it again, as long as it is certain that it was not carried out.
 *  5. Gap, in strict mode: the action before it to the same target must have been carried out. The first under a new
 *     lease names none before it, and may follow anything. What goes to all targets, as the announcement of a transfer
 *     does, says for each of them which action was its last. A guard that sees every epoch needs nobody to say so: each
 *     must be the next.
 *
 * An action without a fence is judged by its lease alone: an id is given once, so the fence is that of the lease.
 */
import { LeaseError, type ErrorCode } from '../core/errors.ts'
import { parseLeaseId, parseSpanMs } from '../core/input.ts'
import { EVERY_TARGET, LEASE_TRANSFER, type Action } from './action.ts'

/** What a processor remembers of a workflow. */
export interface WorkflowMark {
  /** The lease whose actions are carried out. */
  readonly leaseId: string
  readonly fence: number
  /** It was revoked: nothing more is carried out under it. */
  readonly revoked: boolean
  /** The last epoch that was carried out; -1 if none was. */
  readonly epoch: number
}

export interface Known {
  readonly mark: WorkflowMark | null
  /** Whether the action that is judged was carried out before. */
  readonly seen: boolean
  /** From this epoch on every action that was carried out is remembered. Needed for what is sent again, and only then. */
  readonly rememberedFrom?: number
}

/** A lease as somebody tells a guard of it. */
export interface LeaseFact {
  readonly leaseId: string
  readonly fence: number
}

/** An action of a workflow; its sender may not have named a fence. */
export type WorkflowAction = Omit<Action, 'fence'> & { readonly fence: number | null }

/** Whether a gap is refused: not at all, by what actions name as the ones before them, or because each is the next. */
export type Strictness = boolean | 'every_epoch'

export type Judgement =
  | { readonly kind: 'accepted'; readonly mark: WorkflowMark }
  | { readonly kind: 'refused'; readonly error: LeaseError }

export interface Manner {
  readonly strict: Strictness
  /** The target whose actions are judged; null if that is not known. */
  readonly target: string | null
  /** Whether an operator has sent the action again, after it was passed over. */
  readonly resent: boolean
}

export function judgeAction(action: WorkflowAction, known: Known, manner: Manner): Judgement {
  const { mark, seen } = known
  if (mark === null) return violation(action, null, 'its lease is not known here')
  if (action.leaseId !== mark.leaseId) return violation(action, mark, 'it carries another lease')
  if (action.fence !== null && action.fence < mark.fence) {
    return violation(action, mark, 'it carries a lower fence')
  }
  if (mark.revoked) return violation(action, mark, 'its lease was revoked')
  if (seen) return duplicate(action, mark)
  if (action.epoch <= mark.epoch && !(manner.resent && wasPassedOver(action, known))) {
    return stale(action, mark)
  }
  const previousEpoch = previousTo(action, manner)
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

/** What is not among the actions that are remembered was not carried out, if all of its time are remembered. */
function wasPassedOver({ epoch }: WorkflowAction, { seen, rememberedFrom }: Known): boolean {
  return !seen && rememberedFrom !== undefined && epoch >= rememberedFrom
}

/** The epoch of the action that must have come before this one, as far as anybody says. */
function previousTo(action: WorkflowAction, { strict, target }: Manner): number | null {
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
 * What two know of one workflow, as one: the later lease and the higher epoch. A lease that either of them knows to be
 * revoked is revoked. Of two leases with one fence, which is no store's doing, the one that is kept counts.
 */
export function mergedMark(
  kept: WorkflowMark | null,
  told: WorkflowMark | null,
): WorkflowMark | null {
  if (kept === null || told === null) return kept ?? told
  const later = told.fence > kept.fence ? told : kept
  const isSame = told.fence === kept.fence && told.leaseId === kept.leaseId
  const revoked = later.revoked || (isSame && (told.revoked || kept.revoked))
  return { ...later, revoked, epoch: Math.max(kept.epoch, told.epoch) }
}

/** The lease with the higher fence is the later one. */
export function withLease(mark: WorkflowMark | null, fact: LeaseFact): WorkflowMark {
  if (mark !== null && fact.fence <= mark.fence) return mark
  const { leaseId, fence } = fact
  return { leaseId, fence, revoked: false, epoch: mark?.epoch ?? -1 }
}

/** Under its old lease an announcement may name the next one, if that has a higher fence. */
function transferred(action: WorkflowAction, mark: WorkflowMark): Judgement {
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

/** What is known of a workflow where an action is refused. */
type KnownLease = Pick<WorkflowMark, 'leaseId' | 'fence' | 'epoch'>

function violation(action: WorkflowAction, mark: WorkflowMark | null, why: string): Judgement {
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

function duplicate(action: WorkflowAction, mark: WorkflowMark): Judgement {
  const message = `action ${action.actionId} was carried out already`
  return refused('DUPLICATE_ACTION', message, {
    ...epochsOf(action, mark),
    recommendation: 'nothing is left to do',
  })
}

function stale(action: WorkflowAction, mark: WorkflowMark): Judgement {
  const message = `epoch must be above ${mark.epoch}, got ${action.epoch}`
  return refused('STALE_EPOCH', message, {
    ...epochsOf(action, mark),
    recommendation: 'Orchestrator should refresh state',
  })
}

function future(action: WorkflowAction, mark: WorkflowMark, previousEpoch: number): Judgement {
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
): Judgement {
  return { kind: 'refused', error: new LeaseError(code, message, { details }) }
}
