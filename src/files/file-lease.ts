/**
 * A file lease in the words of the file-leasing system, made from the lease that every other face sees. Only names and
 * units change here; what a lease may do is decided in the core.
 */
import type { Blocker } from '../core/conflict.ts'
import { rootOf } from '../core/delegation.ts'
import type { FencedLease } from '../core/fenced-lease.ts'
import type { EntryState, LeaseId, LeaseInfo } from '../core/lease.ts'
import { nameOf } from '../core/resource.ts'

/**
 * `active`, `expired`, `released`, `pending` (waiting) and `failed` (a wait or a request that came to nothing), and
 * `revoked`, which is what a forced release ends in.
 */
export type FileLeaseStatus = EntryState

export interface FileLease extends FencedLease {
  readonly filePath: string
  readonly agentId: string
  /** Milliseconds since 1970 on the store's wall clock, as all times here; for people, not for judging. */
  readonly createdAt: number
  /** Null while pending. */
  readonly expiresAt: number | null
  readonly updatedAt: number
  /** A fraction when the lease was made with a TTL that is no multiple of a second. */
  readonly ttlSeconds: number
  readonly status: FileLeaseStatus
  readonly renewalCount: number
  /** -1 means no limit. */
  readonly maxRenewals: number
  /** Greater for every later grant. A guard of the file refuses smaller ones. Null while pending. */
  readonly fence: number | null
  /** What was left on the store's clock at the moment of reading. */
  readonly remainingMs: number
  readonly reason: string | null
}

/** Who stands in the way, as far as it is known. */
export interface LeaseHolder {
  readonly agentId: string
  /** `lease`: has the file. `offer`, `ticket`: is before you in the queue. `lock_delay`: had it on another clock. */
  readonly kind: Blocker['kind']
  readonly leaseId: LeaseId
  readonly since: number
  readonly expiresAt: number | null
  readonly remainingMs: number
  readonly reason: string | null
}

export function fileLeaseOf(info: LeaseInfo): FileLease {
  const { id, resource, fence, mode, extent, slots } = info
  return {
    ...{ id, resource, fence, mode, extent, slots, root: rootOf(info) },
    filePath: nameOf(resource),
    agentId: info.holder,
    createdAt: info.createdAtMs,
    expiresAt: info.expiresAtMs,
    updatedAt: lastChangeMs(info),
    ttlSeconds: info.ttlMs / 1000,
    status: info.state,
    renewalCount: info.renewals,
    maxRenewals: info.maxRenewals,
    remainingMs: info.remainingMs,
    reason: info.reason,
  }
}

function lastChangeMs(info: LeaseInfo): number {
  const { terminatedAtMs, changedAtMs, renewedAtMs, grantedAtMs, createdAtMs } = info
  return terminatedAtMs ?? changedAtMs ?? renewedAtMs ?? grantedAtMs ?? createdAtMs
}

/** The blocking lease if there is one, else the first waiter. */
export function holderAmong(blockers: readonly Blocker[]): LeaseHolder | null {
  const blocker = blockers.find(({ kind }) => kind === 'lease') ?? blockers[0]
  if (blocker === undefined) return null
  const { kind, leaseId, holder, sinceMs, expiresAtMs, remainingMs, reason } = blocker
  const times = { since: sinceMs, expiresAt: expiresAtMs, remainingMs }
  return { agentId: holder, kind, leaseId, ...times, reason }
}

export function holderOf(info: LeaseInfo): LeaseHolder {
  const { id, holder, grantedAtMs, createdAtMs, expiresAtMs, remainingMs, reason } = info
  const kind = grantedAtMs === null ? 'ticket' : 'lease'
  const times = { since: grantedAtMs ?? createdAtMs, expiresAt: expiresAtMs, remainingMs }
  return { agentId: holder, kind, leaseId: id, ...times, reason }
}
