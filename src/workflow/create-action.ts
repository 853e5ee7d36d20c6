/** Builds an action by hand, for tests and custom buses. `orchestrator.emit` builds the actions that it sends. */
import { invalid } from '../core/errors.ts'
import { refuseUnknown } from '../core/input.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { payloadText, readAction, type Action, type IncomingAction } from './action.ts'
import { frozenCopy } from './wire/action-json.ts'

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

/** Throws `INVALID_INPUT` for an action without a lease or an epoch. */
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
