/**
 * Actions and announcements as they go over a bus, in the names that other implementations use. What comes in is read
 * like anything from outside: a message that is not one throws `DECODE_ERROR` or `INVALID_INPUT`, never anything else.
 */
import { invalid, isLeaseError, LeaseError, show } from '../../core/errors.ts'
import { parseLeaseId, parseSpanMs, refuseUnknown, utf8Length } from '../../core/input.ts'
import {
  LEASE_TRANSFER,
  parseEpoch,
  parseWorkflowId,
  PAYLOAD_BYTES_MAX,
  payloadText,
  readAction,
  type IncomingAction,
  type Action,
} from '../action.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'

/** A lease of a workflow was revoked: what it still sends is to be refused. */
export interface Revocation {
  readonly workflowId: string
  readonly leaseId: string
  readonly fence: number
  readonly reason: string | null
  readonly revokedAtMs: number
}

export type BusMessage =
  | { readonly kind: 'action'; readonly action: IncomingAction }
  | { readonly kind: 'revoked'; readonly revocation: Revocation }

export const LEASE_REVOKED = 'LEASE_REVOKED'

/** An action and its announcement are at most this long: a full payload, every character of it escaped. */
const MESSAGE_LENGTH_MAX = 2_000_000
/** The last moment that a `Date` has. */
const DATE_MS_MAX = 8_640_000_000_000_000

/** What the action does not have is left out. */
export function formatAction(action: IncomingAction): string {
  return JSON.stringify({
    action_id: action.actionId,
    action_type: action.actionType,
    target_node_type: action.target,
    payload: action.payload,
    workflow_id: action.workflowId ?? undefined,
    lease_id: action.leaseId,
    fence: action.fence ?? undefined,
    epoch: action.epoch,
    previous_epoch: action.previousEpoch,
    last_epochs: action.lastEpochs,
    priority: action.priority,
    issued_at_ms: action.issuedAtMs ?? undefined,
    grant: action.grant,
  })
}

/** Throws `INVALID_INPUT` for what no listener could read. */
export function formatRevocation(revocation: Revocation): string {
  if (typeof revocation !== 'object' || revocation === null) {
    throw invalid('revocation', 'must be a revocation', revocation)
  }
  const { reason = null } = revocation as { readonly reason?: unknown }
  if (reason !== null && typeof reason !== 'string') {
    throw invalid('reason', 'must be text or null', reason)
  }
  const limit = { field: 'revokedAtMs', min: 0, max: DATE_MS_MAX }
  return JSON.stringify({
    event_type: LEASE_REVOKED,
    payload: {
      workflow_id: parseWorkflowId(revocation.workflowId),
      lease_id: parseLeaseId(revocation.leaseId),
      fence: parseEpoch(revocation.fence, 'fence'),
      reason,
      revoked_at: new Date(parseSpanMs(limit, revocation.revokedAtMs)).toISOString(),
    },
  })
}

export function parseMessage(text: unknown): BusMessage {
  const fields = objectOf(text)
  if (fields['event_type'] === LEASE_REVOKED) {
    return { kind: 'revoked', revocation: revocationOf(fields['payload']) }
  }
  return { kind: 'action', action: actionOf(fields, text) }
}

/**
 * Reads an action, also one whose sender knows nothing of Tenure and names neither the workflow nor a fence: a guard that
 * knows one workflow takes it for an action of that.
 */
export function parseAction(text: unknown): IncomingAction {
  return actionOf(objectOf(text), text)
}

type Fields = Readonly<Record<string, unknown>>

function actionOf(fields: Fields, text: unknown): IncomingAction {
  // A message that is short enough has a payload that is, and need not be written out again to be measured. An
  // announcement names every target, so that the whole message is its limit.
  const isBounded = fields['action_type'] === LEASE_TRANSFER
  if (!isBounded && utf8Length(String(text)) > PAYLOAD_BYTES_MAX) {
    payloadText(fields['payload'] ?? null)
  }
  return readAction({
    actionId: fields['action_id'],
    actionType: fields['action_type'],
    target: fields['target_node_type'],
    payload: frozen(fields['payload'] ?? null),
    workflowId: fields['workflow_id'],
    leaseId: fields['lease_id'],
    fence: fields['fence'],
    epoch: fields['epoch'],
    previousEpoch: fields['previous_epoch'],
    lastEpochs: fields['last_epochs'],
    priority: fields['priority'],
    issuedAtMs: fields['issued_at_ms'],
    grant: fields['grant'],
  })
}

function revocationOf(payload: unknown): Revocation {
  const fields = requireObject(payload)
  const { reason } = fields as { readonly reason?: unknown }
  return Object.freeze({
    workflowId: parseWorkflowId(fields['workflow_id']),
    leaseId: parseLeaseId(fields['lease_id']),
    fence: parseEpoch(fields['fence'], 'fence'),
    reason: typeof reason === 'string' ? reason : null,
    revokedAtMs: parseEpoch(Date.parse(String(fields['revoked_at'])), 'revoked_at'),
  })
}

function objectOf(text: unknown): Fields {
  if (typeof text !== 'string') throw decodeError('must be text', text)
  if (text.length > MESSAGE_LENGTH_MAX) {
    throw decodeError(`must be at most ${MESSAGE_LENGTH_MAX} characters`, text.length)
  }
  return requireObject(parseJson(text))
}

function requireObject(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw decodeError('must be a JSON object', value)
  }
  return value as Fields
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // No fault: that it is no JSON is the answer.
    throw decodeError('must be JSON', text)
  }
}

function decodeError(expectation: string, value: unknown): LeaseError {
  const message = `message ${expectation}, got ${show(value)}`
  return new LeaseError('DECODE_ERROR', message, { details: { field: 'message', expectation } })
}

/** A frozen copy. */
export function frozenCopy(json: string): unknown {
  return frozen(JSON.parse(json))
}

/** Not recursive: how deep a payload is nested is for its sender to choose. */
function frozen(value: unknown): unknown {
  const parts = [value]
  for (let part = parts.pop(); part !== undefined; part = parts.pop()) {
    if (typeof part !== 'object' || part === null) continue
    Object.freeze(part)
    for (const inner of Object.values(part)) if (typeof inner === 'object') parts.push(inner)
  }
  return value
}

/** Why a message cannot be read, in one line. */
export function reasonOf(error: unknown): string {
  if (isLeaseError(error)) return `${error.code}: ${error.message}`
  return error instanceof Error ? error.message : String(error)
}

/** What makes an action; the rest has defaults. */
export interface NewAction {
  readonly actionType: string
  readonly leaseId: string
  readonly epoch: number
  readonly workflowId?: string
  readonly fence?: number
  /** Default: a new one. */
  readonly actionId?: string
  /** Default `*`: for all. */
  readonly target?: string
  /** JSON; default null. */
  readonly payload?: unknown
  readonly previousEpoch?: number | null
  /** 1..10, default 5. */
  readonly priority?: number
  /** Default: now. */
  readonly issuedAtMs?: number
  readonly grant?: string
}

const FIELDS = [
  ...['actionType', 'leaseId', 'epoch', 'workflowId', 'fence', 'actionId', 'target', 'payload'],
  ...['previousEpoch', 'priority', 'issuedAtMs', 'grant'],
]

/**
 * Builds an action by hand, for tests and custom buses; `orchestrator.emit` builds the actions that it sends. Throws
 * `INVALID_INPUT` for an action without a lease or an epoch.
 */
export function createAction(
  fields: NewAction & { readonly workflowId: string; readonly fence: number },
  runtime?: Pick<Runtime, 'uuid' | 'wallMs'>,
): Action
export function createAction(
  fields: NewAction,
  runtime?: Pick<Runtime, 'uuid' | 'wallMs'>,
): IncomingAction
export function createAction(
  fields: NewAction,
  runtime: Pick<Runtime, 'uuid' | 'wallMs'> = systemRuntime,
): IncomingAction {
  if (typeof fields !== 'object') throw invalid('action', 'must be an object', fields)
  refuseUnknown(fields, FIELDS)
  return readAction({
    ...{ actionId: runtime.uuid(), issuedAtMs: Math.floor(runtime.wallMs()) },
    ...fields,
    payload: frozenCopy(payloadText(fields.payload ?? null)),
  })
}
