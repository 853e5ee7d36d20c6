/**
 * Reads what agents pass in and turns it into what the service takes. Fields are named as the caller wrote them, so
 * that an error is about something the caller can find.
 */
import { invalid } from '../core/errors.ts'
import {
  parseExtent,
  parseFlag,
  parseMaxRenewals,
  parseMode,
  parsePriority,
  parseSpanMs,
  refuseUnknown,
} from '../core/input.ts'
import { HOLDER_BYTES_MAX, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX } from '../core/limits.ts'
import { readResource } from '../client/read-options.ts'
import type { Resource } from '../core/resource.ts'
import { requireShortText, requireText } from '../core/text.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireRequest } from '../service/lease-api.ts'
import type { LeaseAcquisitionRequest, Patience } from './requests.ts'

const ACQUISITION_FIELDS = [
  'filePath',
  'agentId',
  'ttlSeconds',
  'maxRenewals',
  'timeoutMs',
  'blocking',
  'mode',
  'extent',
  'priority',
  'reason',
  'signal',
]

export function readAcquisition(
  request: LeaseAcquisitionRequest,
  runtime: Runtime,
): AcquireRequest {
  refuseUnknown(request, ACQUISITION_FIELDS)
  const { ttlSeconds, maxRenewals, mode, extent, priority, reason } = request
  const agentId = parseAgentId(request.agentId)
  return {
    id: runtime.uuid(),
    resource: readFilePath(request.filePath, runtime),
    holder: agentId,
    session: agentId,
    sequential: true,
    waitMs: readPatience(request),
    ...(ttlSeconds === undefined ? {} : { ttlMs: parseSeconds('ttlSeconds', ttlSeconds) }),
    ...(maxRenewals === undefined ? {} : { maxRenewals: parseMaxRenewals(maxRenewals) }),
    ...(mode === undefined ? {} : { mode: parseMode(mode) }),
    ...(extent === undefined ? {} : { extent: parseExtent(extent) }),
    ...(priority === undefined ? {} : { priority: parsePriority(priority) }),
    ...(reason === undefined ? {} : { reason }),
  }
}

/** How long a request that may block waits. */
export function readPatience(request: Patience): number | 'configured' {
  const { timeoutMs, blocking = false } = request
  const patienceMs = timeoutMs === undefined ? 'configured' : parseTimeoutMs(timeoutMs)
  return parseFlag('blocking', blocking) ? patienceMs : 0
}

/** An absolute path: the agents that one process serves need not share a working directory. */
export function readFilePath(filePath: unknown, runtime: Runtime): Resource {
  const path = requireText('filePath', filePath)
  if (!path.startsWith('/')) throw invalid('filePath', 'must be an absolute path', path)
  return readResource(runtime, `file:${path}`)
}

export function parseAgentId(value: unknown): string {
  return requireShortText({ field: 'agentId', bytesMax: HOLDER_BYTES_MAX }, value)
}

/** Seconds into milliseconds, to the nearest one. */
export function parseSeconds(field: string, value: unknown): number {
  const ttlMs = typeof value === 'number' ? Math.round(value * 1000) : Number.NaN
  if (ttlMs >= TTL_MS_MIN && ttlMs <= TTL_MS_MAX) return ttlMs
  throw invalid(field, `must be ${TTL_MS_MIN / 1000}..${TTL_MS_MAX / 1000}`, value)
}

function parseTimeoutMs(value: unknown): number {
  return parseSpanMs({ field: 'timeoutMs', min: 0, max: WAIT_MS_MAX }, value)
}
