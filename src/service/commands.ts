/**
 * Requests into commands: everything that a caller passed is read and checked here, once for all faces.
 */
import type {
  Acquire,
  ClaimOffer,
  Release,
  Renew,
  Revoke,
  Wait,
  Withdraw,
} from '../core/command.ts'
import { invalid } from '../core/errors.ts'
import {
  parseHolder,
  parseLeaseId,
  parseMaxHoldMs,
  parseMaxRenewals,
  parseNote,
  parseReleaseReason,
  parseSession,
  parseSpanMs,
  parseTtlMs,
  parseWaitMs,
} from '../core/input.ts'
import type { Claim, LeaseId } from '../core/lease.ts'
import {
  CLAIM_WINDOW_MS_DEFAULT,
  CLAIM_WINDOW_MS_MAX,
  CLAIM_WINDOW_MS_MIN,
} from '../core/limits.ts'
import type { Extent, Resource } from '../core/resource.ts'
import type {
  AcquireRequest,
  ReleaseRequest,
  RenewRequest,
  RevokeRequest,
  TicketRef,
} from './lease-api.ts'

/** Where a lease is to be found. */
export interface Place {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly extent: Extent
}

export function acquireCommand(request: AcquireRequest): Acquire {
  const { mode = 'exclusive', extent = 'exact', ttlMs, maxRenewals, maxHoldMs } = request
  if (mode !== 'exclusive') throw invalid('mode', 'must be exclusive', mode)
  if (extent !== 'exact') throw invalid('extent', 'must be exact', extent)
  return {
    kind: 'acquire',
    leaseId: parseLeaseId(request.leaseId),
    resource: request.resource,
    mode,
    extent,
    holder: parseHolder(request.holder),
    session: parseSession(request.session),
    ttlMs: ttlMs === undefined ? null : parseTtlMs(ttlMs),
    maxRenewals: maxRenewals === undefined ? null : parseMaxRenewals(maxRenewals),
    maxHoldMs: maxHoldMs === undefined ? null : parseMaxHoldMs(maxHoldMs),
    ...parseNote(request.reason, request.metadata),
    wait: waitOf(request.waitMs),
    claimWindowMs: parseClaimWindow(request.claimWindowMs),
  }
}

function waitOf(waitMs: number | 'configured'): Wait {
  if (waitMs === 'configured') return { kind: 'configured' }
  const parsed = parseWaitMs(waitMs)
  return parsed === 0 ? { kind: 'none' } : { kind: 'up_to', waitMs: parsed }
}

function parseClaimWindow(value: number | undefined): number {
  if (value === undefined) return CLAIM_WINDOW_MS_DEFAULT
  const limit = { field: 'claimWindowMs', min: CLAIM_WINDOW_MS_MIN, max: CLAIM_WINDOW_MS_MAX }
  return parseSpanMs(limit, value)
}

export function claimCommand(ticket: TicketRef): ClaimOffer {
  return { kind: 'claim', ...ticketPlace(ticket) }
}

export function withdrawCommand(
  ticket: TicketRef & { readonly why: 'timed_out' | 'aborted' },
): Withdraw {
  return { kind: 'withdraw', ...ticketPlace(ticket), why: ticket.why }
}

function ticketPlace(ticket: TicketRef): Place & { readonly session: string } {
  return {
    leaseId: parseLeaseId(ticket.leaseId),
    resource: ticket.resource,
    extent: ticket.extent ?? 'exact',
    session: parseSession(ticket.session),
  }
}

export function renewCommand(request: RenewRequest, place: Place): Renew {
  return {
    kind: 'renew',
    ...place,
    holder: parseHolder(request.holder),
    ttlMs: request.ttlMs === undefined ? null : parseTtlMs(request.ttlMs),
    requestId: parseRequestId(request.requestId),
  }
}

export function releaseCommand(request: ReleaseRequest, place: Place): Release {
  return {
    kind: 'release',
    ...place,
    holder: parseHolder(request.holder),
    releaseReason: parseReleaseReason(request.releaseReason ?? 'voluntary'),
    requestId: parseRequestId(request.requestId),
  }
}

export function revokeCommand(request: RevokeRequest, place: Place): Revoke {
  return {
    kind: 'revoke',
    ...place,
    by: parseHolder(request.by),
    reason: parseNote(request.reason, undefined).reason,
    requestId: parseRequestId(request.requestId),
  }
}

function parseRequestId(value: string | undefined): string | null {
  return value === undefined ? null : parseLeaseId(value, 'requestId')
}

/** A claim that nobody makes: what blocks it is what would block a newcomer. */
export function probeClaim(resource: Resource): Claim {
  return {
    id: '',
    resource,
    mode: 'exclusive',
    extent: 'exact',
    holder: '',
    session: '',
    ttlMs: 1,
    maxRenewals: -1,
    maxHoldMs: null,
    reason: null,
    metadata: null,
    createdAtMs: 0,
    recorded: false,
  }
}
