/** Claims a workflow: takes its lease through the store, and makes an orchestrator of whoever gets it. */
import type { AcquireOptions, Tenure } from '../client/contract.ts'
import { invalid } from '../core/errors.ts'
import { parseSpanMs, parseTtlMs, refuseUnknown } from '../core/input.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { parseName, parseWorkflowId } from './action.ts'
import type { Bus } from './bus.ts'
import { Orchestrator } from './orchestrator.ts'

export interface ClaimOptions {
  readonly bus: Bus
  /** Default 300000. */
  readonly ttlMs?: number
  /** The lease is renewed as soon as less than this is left. Default 60000, or a third of a shorter TTL. */
  readonly renewBelowMs?: number
  /** How long to wait for whoever has it. Default 0: `RESOURCE_HELD` at once. */
  readonly waitMs?: number
  readonly signal?: AbortSignal
  /** How far the workflow is, as its next orchestrator knows from elsewhere. Default `initialized`. */
  readonly state?: string
  readonly reason?: string
  readonly runtime?: Runtime
}

const TTL_MS_DEFAULT = 300_000
const RENEW_BELOW_MS_DEFAULT = 60_000
const OPTIONS = ['bus', 'ttlMs', 'renewBelowMs', 'waitMs', 'signal', 'state', 'reason', 'runtime']

/** Throws `RESOURCE_HELD` while another orchestrator has the workflow. */
export async function claimWorkflow(
  tenure: Tenure,
  workflowId: string,
  options: ClaimOptions,
): Promise<Orchestrator> {
  if (typeof options !== 'object') throw invalid('options', 'must be an object', options)
  refuseUnknown(options, OPTIONS)
  const id = parseWorkflowId(workflowId)
  const { bus, runtime = systemRuntime } = options
  if (typeof bus?.publish !== 'function') throw invalid('bus', 'must be a bus', bus)
  const state = parseName(options.state ?? 'initialized', 'state')
  const ttlMs = options.ttlMs === undefined ? TTL_MS_DEFAULT : parseTtlMs(options.ttlMs)
  const renewBelowMs = readRenewBelow(options.renewBelowMs, ttlMs)
  const lease = await tenure.acquire(`workflow:${id}`, {
    ...{ ttlMs, waitMs: options.waitMs ?? 0, autoRenew: false },
    ...passedOn(options),
  })
  return new Orchestrator({ tenure, lease, bus, runtime, workflowId: id, state, renewBelowMs })
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
