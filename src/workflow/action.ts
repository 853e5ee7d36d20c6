/**
 * A command from an orchestrator to a processor. An action always names its lease and epoch. Actions of our
 * orchestrators have a workflow and a fence as well; other senders may leave both out, and a guard adds what it knows. An
 * action is frozen, and its payload is a private copy.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { parseLeaseId, parseSpanMs, requireShortText, utf8Length } from '../core/input.ts'

export interface Action {
  readonly actionId: string
  readonly actionType: string
  /** The kind of processor; `*`: all of them. */
  readonly target: string
  readonly payload: unknown
  readonly workflowId: string
  readonly leaseId: string
  readonly fence: number
  readonly epoch: number
  /**
   * The epoch of the previous action under this lease to the same target; null for the first. A processor gets only the
   * epochs of its target, so it needs this to detect a gap.
   */
  readonly previousEpoch: number | null
  /** For an action to all: the last epoch under this lease for each target, and for all of them (`*`). */
  readonly lastEpochs?: EpochsByTarget
  /** 1..10, default 5. */
  readonly priority: number
  /** Wall time; null where the sender leaves it out. */
  readonly issuedAtMs: number | null
  /** The lease as its holder has signed it, for processors that do not ask a store. */
  readonly grant?: string
}

export type EpochsByTarget = Readonly<Record<string, number>>

/** An action as it is received. A sender without Tenure names neither the workflow nor a fence. */
export interface IncomingAction extends Omit<Action, 'workflowId' | 'fence'> {
  readonly workflowId: string | null
  readonly fence: number | null
}

/** The unchecked fields of an action. */
export type ActionFields = { readonly [Field in keyof Action]?: unknown }

/** For all processors, whatever their target. */
export const EVERY_TARGET = '*'
export const LEASE_TRANSFER = 'LEASE_TRANSFER'

export const PAYLOAD_BYTES_MAX = 262_144
export const ACTION_PRIORITY_DEFAULT = 5
const ACTION_PRIORITY_MIN = 1
const ACTION_PRIORITY_MAX = 10
const NAME_BYTES_MAX = 256
const WORKFLOW_ID_BYTES_MAX = 1_000
const GRANT_BYTES_MAX = 65_536

/** Reads whatever came and gives back an action that can be trusted to be one; its payload is taken as it is. */
export function readAction(
  fields: ActionFields & { readonly workflowId: string; readonly fence: number },
): Action
export function readAction(fields: ActionFields): IncomingAction
export function readAction(fields: ActionFields): IncomingAction {
  if (typeof fields !== 'object' || fields === null) {
    throw invalid('action', 'must be an action', fields)
  }
  const epoch = parseEpoch(fields.epoch, 'epoch')
  return Object.freeze({
    actionId: parseLeaseId(fields.actionId, 'actionId'),
    actionType: parseName(fields.actionType, 'actionType'),
    target: orNull(fields.target, (value) => parseName(value, 'target')) ?? EVERY_TARGET,
    payload: fields.payload,
    workflowId: orNull(fields.workflowId, parseWorkflowId),
    leaseId: parseLeaseId(fields.leaseId),
    fence: orNull(fields.fence, parseActionFence),
    epoch,
    previousEpoch: orNull(fields.previousEpoch, (value) => parseEpochBefore(value, epoch)),
    priority: orNull(fields.priority, parseActionPriority) ?? ACTION_PRIORITY_DEFAULT,
    issuedAtMs: orNull(fields.issuedAtMs, (value) => parseEpoch(value, 'issuedAtMs')),
    ...(isPresent(fields.lastEpochs)
      ? { lastEpochs: parseLastEpochs(fields.lastEpochs, epoch) }
      : {}),
    ...(isPresent(fields.grant) ? { grant: parseGrant(fields.grant) } : {}),
  })
}

/** Whether an optional field is there: neither left out nor null. */
function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null
}

function orNull<Value>(value: unknown, parse: (value: unknown) => Value): Value | null {
  return isPresent(value) ? parse(value) : null
}

export function parseActionFence(value: unknown): number {
  return parseSpanMs({ field: 'fence', min: 1, max: Number.MAX_SAFE_INTEGER }, value)
}

export function parseGrant(value: unknown): string {
  return requireShortText({ field: 'grant', bytesMax: GRANT_BYTES_MAX }, value)
}

/** In the canonical spelling, so that leases, actions, marks and revocations name the same workflow. */
export function parseWorkflowId(value: unknown): string {
  const text = requireShortText({ field: 'workflowId', bytesMax: WORKFLOW_ID_BYTES_MAX }, value)
  return text.normalize('NFC')
}

export function parseName(value: unknown, field: string): string {
  return requireShortText({ field, bytesMax: NAME_BYTES_MAX }, value)
}

export function parseActionPriority(value: unknown = ACTION_PRIORITY_DEFAULT): number {
  return parseSpanMs(
    { field: 'priority', min: ACTION_PRIORITY_MIN, max: ACTION_PRIORITY_MAX },
    value,
  )
}

/** A safe integer from 0 on. */
export function parseEpoch(value: unknown, field: string): number {
  return parseSpanMs({ field, min: 0, max: Number.MAX_SAFE_INTEGER }, value)
}

function parseEpochBefore(value: unknown, epoch: number, field = 'previousEpoch'): number {
  const previous = parseEpoch(value, field)
  if (previous < epoch) return previous
  throw invalid(field, `must be less than the epoch, ${epoch}`, previous)
}

function parseLastEpochs(value: unknown, epoch: number): EpochsByTarget {
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw invalid('lastEpochs', 'must be an object', value)
  }
  const read = Object.entries(value ?? {}).map(([target, last]) => {
    return [parseName(target, 'lastEpochs'), parseEpochBefore(last, epoch, 'lastEpochs')] as const
  })
  return Object.freeze(Object.fromEntries(read))
}

/** The payload as JSON; throws if it is no JSON or too long. */
export function payloadText(payload: unknown): string {
  const text = jsonOf(payload)
  const bytes = utf8Length(text)
  if (bytes <= PAYLOAD_BYTES_MAX) return text
  const message = `payload must be at most ${PAYLOAD_BYTES_MAX} bytes, got ${bytes} bytes`
  throw new LeaseError('LIMIT_EXCEEDED', message, {
    details: { field: 'payload', limit: PAYLOAD_BYTES_MAX },
  })
}

function jsonOf(payload: unknown): string {
  let text: string | undefined
  try {
    text = JSON.stringify(payload)
  } catch (cause) {
    const why = cause instanceof Error ? (cause.message.split('\n')[0] ?? '') : String(cause)
    const message = `payload must be JSON, got what is not: ${why}`
    throw new LeaseError('INVALID_INPUT', message, { cause, details: { field: 'payload' } })
  }
  if (text === undefined) throw invalid('payload', 'must be JSON', payload)
  return text
}
