/**
 * Reads what agents pass in and turns it into what the service takes. Fields are named as the caller wrote them, so
 * that an error is about something the caller can find.
 */
import { invalid } from '../core/errors.ts'
import { parseMaxRenewals, parseSpanMs, refuseUnknown } from '../core/input.ts'
import { HOLDER_BYTES_MAX, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX } from '../core/limits.ts'
import { readResource } from '../client/read-options.ts'
import type { Resource } from '../core/resource.ts'
import { requireShortText, requireText } from '../core/text.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireRequest } from '../service/lease-api.ts'
import type { LeaseAcquisitionRequest } from './requests.ts'

const ACQUISITION_FIELDS = [
  'filePath',
  'agentId',
  'ttlSeconds',
  'maxRenewals',
  'timeoutMs',
  'blocking',
  'reason',
  'signal',
]

export function readAcquisition(
  request: LeaseAcquisitionRequest,
  runtime: Runtime,
): AcquireRequest {
  refuseUnknown(request, ACQUISITION_FIELDS)
  const { ttlSeconds, maxRenewals, timeoutMs, blocking = false, reason } = request
  if (typeof blocking !== 'boolean') throw invalid('blocking', 'must be true or false', blocking)
  const agentId = parseAgentId(request.agentId)
  const patienceMs = timeoutMs === undefined ? 'configured' : parseTimeoutMs(timeoutMs)
  return {
    leaseId: runtime.uuid(),
    resource: readFilePath(request.filePath, runtime),
    holder: agentId,
    session: agentId,
    sequential: true,
    waitMs: blocking ? patienceMs : 0,
    ...(ttlSeconds === undefined ? {} : { ttlMs: parseSeconds('ttlSeconds', ttlSeconds) }),
    ...(maxRenewals === undefined ? {} : { maxRenewals: parseMaxRenewals(maxRenewals) }),
    ...(reason === undefined ? {} : { reason }),
  }
}

/** An absolute path: the agents that one process serves need not share a working directory. */
export function readFilePath(filePath: unknown, runtime: Runtime): Resource {
  return readResource(runtime, `file:${requireText('filePath', filePath)}`)
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
