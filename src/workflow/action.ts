/**
 * What an orchestrator tells a processor to do. An action always names its lease, fence and epoch: one without cannot
 * be built. It is frozen, and its payload is a copy that nobody else has.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import { parseLeaseId, parseSpanMs } from '../core/input.ts'
import { requireShortText, utf8Length } from '../core/text.ts'

export interface Action {
  readonly actionId: string
  readonly actionType: string
  /** The kind of processor that it is for; `*`: all of them. */
  readonly target: string
  readonly payload: unknown
  readonly workflowId: string
  readonly leaseId: string
  readonly fence: number
  readonly epoch: number
  /**
   * The epoch of the last action that this lease sent to the same target before; null for its first. One processor sees
   * only its own epochs, so this is how it can tell a gap from an epoch that was never meant for it.
   */
  readonly previousEpoch: number | null
  /** 1..10, default 5. */
  readonly priority: number
  readonly issuedAtMs: number
  /** The lease as its holder has signed it, for processors that do not ask a store. */
  readonly grant?: string
}

/** An action as somebody else tells it. */
export type ActionFields = { readonly [Field in keyof Action]: unknown }

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
export function createAction(fields: ActionFields): Action {
  if (typeof fields !== 'object' || fields === null) {
    throw invalid('action', 'must be an action', fields)
  }
  const epoch = parseEpoch(fields.epoch, 'epoch')
  return Object.freeze({
    actionId: parseLeaseId(fields.actionId, 'actionId'),
    actionType: parseName(fields.actionType, 'actionType'),
    target: parseName(fields.target, 'target'),
    payload: fields.payload,
    workflowId: parseWorkflowId(fields.workflowId),
    leaseId: parseLeaseId(fields.leaseId),
    fence: parseSpanMs({ field: 'fence', min: 1, max: Number.MAX_SAFE_INTEGER }, fields.fence),
    epoch,
    previousEpoch: parsePreviousEpoch(fields.previousEpoch, epoch),
    priority: parseActionPriority(fields.priority),
    issuedAtMs: parseEpoch(fields.issuedAtMs, 'issuedAtMs'),
    ...(fields.grant === undefined || fields.grant === null
      ? {}
      : { grant: parseGrant(fields.grant) }),
  })
}

export function parseGrant(value: unknown): string {
  return requireShortText({ field: 'grant', bytesMax: GRANT_BYTES_MAX }, value)
}

/** In the one spelling that its resource has, so that leases, actions, marks and revocations mean the same workflow. */
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

/** An integer from 0 on that JavaScript counts exactly. */
export function parseEpoch(value: unknown, field: string): number {
  return parseSpanMs({ field, min: 0, max: Number.MAX_SAFE_INTEGER }, value)
}

function parsePreviousEpoch(value: unknown, epoch: number): number | null {
  if (value === null || value === undefined) return null
  const previous = parseEpoch(value, 'previousEpoch')
  if (previous < epoch) return previous
  throw invalid('previousEpoch', `must be less than the epoch, ${epoch}`, previous)
}

/** A payload as JSON, which must be possible and short. */
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
