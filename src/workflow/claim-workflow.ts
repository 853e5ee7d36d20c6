/** Claims a workflow: acquires its lease, and makes an orchestrator. */
import type { AcquireOptions, Lease, Tenure } from '../client/contract.ts'
import { invalid } from '../core/errors.ts'
import { parseSpanMs, parseTtlMs, refuseUnknown } from '../core/input.ts'
import { reportTo } from '../runtime/diagnostics.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { parseGrant, parseName, parseWorkflowId } from './action.ts'
import type { Bus } from './bus.ts'
import { Orchestrator } from './orchestrator.ts'
import { INITIAL_STATE, lastState } from './workflow-state.ts'

export interface ClaimOptions {
  readonly bus: Bus
  /** Default 300000. */
  readonly ttlMs?: number
  /** The lease is renewed as soon as less than this is left. Default 60000, or a third of a shorter TTL. */
  readonly renewBelowMs?: number
  /** How long to wait while another orchestrator has it. Default 0: `RESOURCE_HELD` at once. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
  /** The state of the workflow, where the caller knows it better. Default: the state in the ledger, or `initialized`. */
  readonly state?: string
  readonly reason?: string
  /**
   * Whether every action carries the signed grant of its lease, so that processors need no store. The client must have
   * a key to sign with. Default false.
   */
  readonly signed?: boolean
  readonly runtime?: Runtime
}

const TTL_MS_DEFAULT = 300_000
const RENEW_BELOW_MS_DEFAULT = 60_000
const OPTIONS = [
  ...['bus', 'ttlMs', 'renewBelowMs', 'waitMs', 'signal', 'state', 'reason', 'signed', 'runtime'],
]

/** Throws `RESOURCE_HELD` while another orchestrator has the workflow. */
export async function claimWorkflow(
  tenure: Tenure,
  workflowId: string,
  options: ClaimOptions,
): Promise<Orchestrator> {
  if (typeof options !== 'object') throw invalid('options', 'must be an object', options)
  refuseUnknown(options, OPTIONS)
  if (typeof tenure?.acquire !== 'function') throw invalid('tenure', 'must be a client', tenure)
  const id = parseWorkflowId(workflowId)
  const { bus, runtime = systemRuntime } = options
  if (typeof bus?.publish !== 'function') throw invalid('bus', 'must be a bus', bus)
  const { signed = false } = options
  if (typeof signed !== 'boolean') throw invalid('signed', 'must be true or false', signed)
  const initial = options.state === undefined ? null : parseName(options.state, 'state')
  const ttlMs = options.ttlMs === undefined ? TTL_MS_DEFAULT : parseTtlMs(options.ttlMs)
  const renewBelowMs = readRenewBelow(options.renewBelowMs, ttlMs)
  const lease = await tenure.acquire(`workflow:${id}`, {
    ...{ ttlMs, waitMs: options.waitMs ?? 0, autoRenew: false },
    ...passedOn(options),
  })
  const state = await orRelease(lease, async () => {
    if (signed) parseGrant(lease.grant)
    return initial ?? stateOf(tenure, lease, id)
  })
  return new Orchestrator({
    ...{ tenure, lease, bus, runtime, workflowId: id, state, signed },
    renewBelowMs: fitting(renewBelowMs, { asked: ttlMs, granted: lease.info.ttlMs }),
  })
}

/** A lease that was handed over has kept its own TTL, which may be shorter than the one that was asked for. */
function fitting(
  renewBelowMs: number,
  ttlMs: { readonly asked: number; readonly granted: number },
): number {
  if (ttlMs.granted >= ttlMs.asked) return renewBelowMs
  return Math.min(renewBelowMs, Math.floor(ttlMs.granted / 3))
}

/** Releases the lease when the state cannot be read or the grant cannot be signed. */
async function orRelease<Result>(lease: Lease, prepare: () => Promise<Result>): Promise<Result> {
  try {
    return await prepare()
  } catch (error) {
    await lease.release({ reason: 'aborted' }).catch(reportTo('workflow/give-back'))
    throw error
  }
}

async function stateOf(tenure: Tenure, lease: Lease, workflowId: string): Promise<string> {
  if (lease.epoch === 0) return INITIAL_STATE
  return (await lastState(tenure, workflowId)) ?? INITIAL_STATE
}

function passedOn({ signal, reason }: ClaimOptions): Pick<AcquireOptions, 'signal' | 'reason'> {
  return {
    ...(signal === undefined ? {} : { signal }),
    ...(reason === undefined ? {} : { reason }),
  }
}

function readRenewBelow(value: number | undefined, ttlMs: number): number {
  if (value === undefined) return Math.min(RENEW_BELOW_MS_DEFAULT, Math.floor(ttlMs / 3))
  return parseSpanMs({ field: 'renewBelowMs', min: 0, max: ttlMs - 1 }, value)
}
