/**
 * What agents ask and what they are told: the requests and responses of the file-leasing system. Being refused is a
 * response with `success: false`; only a store that fails and input that cannot be read throw.
 */
import { readResource } from '../client/read-options.ts'
import { invalid, type LeaseError } from '../core/errors.ts'
import {
  parseExtent,
  parseFlag,
  parseMaxRenewals,
  parseMode,
  parsePriority,
  parseSpanMs,
  refuseUnknown,
  requireShortText,
  requireText,
} from '../core/input.ts'
import type { LeaseId } from '../core/lease.ts'
import { HOLDER_BYTES_MAX, TTL_MS_MAX, TTL_MS_MIN, WAIT_MS_MAX } from '../core/limits.ts'
import type { Extent, Mode, Resource } from '../core/resource.ts'
import type { Runtime } from '../runtime/runtime.ts'
import type { AcquireRequest } from '../service/lease-api.ts'
import type { FileLease, FileLeaseStatus, LeaseHolder } from './file-lease.ts'

/** Whether and how long a request waits. */
export interface Patience {
  /** How long a blocking request waits. Default: the configured `acquisition_timeout_ms`. */
  readonly timeoutMs?: number
  /** Whether to wait while other agents are in the way. Default false. */
  readonly blocking?: boolean
  /** Cancels the wait (`ABORTED`); has no effect once the request is granted. */
  readonly signal?: AbortSignal
}

export interface LeaseAcquisitionRequest extends Patience {
  /**
   * Absolute. Links are resolved as far as they exist, so that two names of one file are one file. A path that a link leads
   * out of what another agent holds is refused (`RESOURCE_HELD`), even if `blocking`; ask for the file by its own name.
   */
  readonly filePath: string
  readonly agentId: string
  /** Default: the configured `default_ttl_seconds`. */
  readonly ttlSeconds?: number
  /** -1: no limit. Default: the configured `max_renewals`. */
  readonly maxRenewals?: number
  /** `shared`: with others who share it, as for reading. Default `exclusive`. */
  readonly mode?: Mode
  /** `subtree`: the directory and everything below it. Default `exact`. */
  readonly extent?: Extent
  /** -100..100, default 0: each step is worth ten seconds of waiting. */
  readonly priority?: number
  /** Shown to blocked requests. */
  readonly reason?: string
}

export interface LeaseRenewalRequest {
  readonly leaseId: LeaseId
  readonly agentId: string
  /** Default: the TTL that the lease has. */
  readonly newTtlSeconds?: number
}

export interface LeaseReleaseRequest {
  readonly leaseId: LeaseId
  readonly agentId: string
}

/** From shared to exclusive, without letting the file go in between. The lease keeps its id and gets a higher fence. */
export interface LeaseUpgradeRequest extends Patience {
  readonly leaseId: LeaseId
  readonly agentId: string
}

export interface LeaseDowngradeRequest {
  readonly leaseId: LeaseId
  readonly agentId: string
}

/** The receiver gets a lease of its own, with a new id and a higher fence, ahead of all waiters. */
export interface LeaseTransferRequest {
  readonly leaseId: LeaseId
  readonly agentId: string
  /** Null: the next in the queue. */
  readonly toAgentId: string | null
}

export interface Refused {
  readonly success: false
  /** `RESOURCE_HELD`, `WAIT_TIMEOUT`, `LEASE_NOT_FOUND`, `NOT_HOLDER`, `RENEWAL_LIMIT`, … (docs/errors.md). */
  readonly error: LeaseError
  /** Who has the file or the lease, if that is why. */
  readonly holder: LeaseHolder | null
}

export type LeaseAcquisitionResponse =
  | { readonly success: true; readonly lease: FileLease; readonly waitedMs: number }
  | (Refused & { readonly waitedMs: number })
export type LeaseRenewalResponse = { readonly success: true; readonly lease: FileLease } | Refused
export type LeaseReleaseResponse = { readonly success: true; readonly lease: FileLease } | Refused

export type LeaseUpgradeResponse = { readonly success: true; readonly lease: FileLease } | Refused
export type LeaseDowngradeResponse = { readonly success: true; readonly lease: FileLease } | Refused
/** `lease`: the receiver's; null when it went to the queue, whose first gets a lease of its own. */
export type LeaseTransferResponse =
  { readonly success: true; readonly lease: FileLease | null } | Refused

export interface LookUpOptions {
  /** Default: what is live, `active` and `pending`. */
  readonly status?: FileLeaseStatus
  /**
   * 1..10000: at most so many of the store's leases are looked at, and of these the files are given. Default: all, and
   * `LIMIT_EXCEEDED` for more than 10,000 files.
   */
  readonly limit?: number
  /** Goes on where another look-up was cut short by its `limit`: its `next`. */
  readonly after?: string
}

/** Leases in the order of their creation. */
export interface FileLeasePage extends ReadonlyArray<FileLease> {
  /** To be passed as `after`, in the same look-up; absent on the last page. A page may be empty and have one. */
  readonly next?: string
}

export interface ForceReleaseOptions {
  /** Who ends the leases, for the history. Default `operator`. */
  readonly by?: string
  readonly reason?: string
}

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

/**
 * Reads what an agent passes in and turns it into what the service takes. Fields are named as the caller wrote them, so
 * that an error is about something the caller can find.
 */
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
