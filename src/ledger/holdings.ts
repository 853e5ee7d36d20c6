/**
 * What a holder held over a stretch of time, from the ledger alone. Each lease was held from its grant to its end: the
 * one that the ledger tells of, or its expiry if no event tells of that yet.
 *
 * The whole ledger is folded, also what came after the stretch: how a lease ended may have been told later.
 */
import { parentOf } from '../core/delegation.ts'
import type { LeaseEvent } from '../core/event.ts'
import {
  settledState,
  type Lease,
  type LeaseId,
  type LeaseState,
  type ReleaseReason,
} from '../core/lease.ts'
import {
  covers,
  parseResource,
  type Extent,
  type Mode,
  type Reach,
  type Resource,
} from '../core/resource.ts'
import { foldLedger } from './fold.ts'
import { HeldUntil, type KeptLeases } from './held-until.ts'

export interface Holding {
  readonly leaseId: LeaseId
  readonly resource: Resource
  readonly holder: string
  readonly mode: Mode
  readonly extent: Extent
  readonly fence: number
  /** Of a derived lease. */
  readonly parentId: LeaseId | null
  readonly fromMs: number
  /** Null: it is still held. */
  readonly toMs: number | null
  /** How it ended; `active` while it is held. */
  readonly end: LeaseState
  readonly releaseReason: ReleaseReason | null
}

export interface HoldingsQuery {
  /** Both included: what was held at any moment between them is told. */
  readonly fromMs: number
  readonly toMs: number
  /** The present: what was to end before it has ended. */
  readonly nowMs: number
  readonly holder?: string
  /** What was held of it, or of a directory that it is in, by any holder. */
  readonly resource?: string
  /** What the store keeps now. Without it a lease whose renewals are not recorded may be told as over while it is held. */
  readonly kept?: KeptLeases
}

/** In order of their beginning. */
export function holdingsIn(
  events: Iterable<LeaseEvent>,
  { fromMs, toMs, nowMs, holder, resource, kept }: HoldingsQuery,
): readonly Holding[] {
  const all = [...events]
  const until = new HeldUntil(all, kept)
  const place = resource === undefined ? null : exactly(resource)
  const found: Holding[] = []
  for (const entry of foldLedger(all).values()) {
    if (entry.kind !== 'lease') continue
    if (holder !== undefined && entry.holder !== holder) continue
    if (place !== null && !covers(entry, place)) continue
    const holding = holdingOf(until.extended(entry), nowMs)
    const isWithin = holding.fromMs <= toMs && (holding.toMs === null || holding.toMs > fromMs)
    if (isWithin) found.push(holding)
  }
  return found.toSorted((a, b) => a.fromMs - b.fromMs || a.fence - b.fence)
}

function exactly(resource: string): Reach {
  return { resource: parseResource(resource), extent: 'exact' }
}

function holdingOf(lease: Lease, nowMs: number): Holding {
  const isOver = lease.state === 'active' && lease.expiresAtMs <= nowMs
  return {
    leaseId: lease.id,
    resource: lease.resource,
    holder: lease.holder,
    mode: lease.mode,
    extent: lease.extent,
    fence: lease.fence,
    parentId: parentOf(lease),
    fromMs: lease.grantedAtMs,
    toMs: isOver ? lease.expiresAtMs : lease.terminatedAtMs,
    end: settledState(lease, isOver),
    releaseReason: lease.releaseReason,
  }
}
