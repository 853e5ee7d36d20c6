/**
 * Who else holds what a holder is about to change without a lease of its own for it: a commit, a push. It is a question
 * about leases that were listed, not a part of a commit of the store, so it decides nothing and takes nothing.
 */
import type { Blocker } from './conflict.ts'
import type { LeaseInfo } from './lease.ts'
import { ancestorsOf, covers, type Reach, type Resource } from './resource.ts'

/** Live leases by the resource that each names, so that a place is looked up by its ancestors, however many there are. */
export type LeasesByResource = ReadonlyMap<Resource, readonly LeaseInfo[]>

export function byResource(leases: Iterable<LeaseInfo>): LeasesByResource {
  const found = new Map<Resource, LeaseInfo[]>()
  for (const lease of leases) {
    if (lease.state !== 'active') continue
    const same = found.get(lease.resource)
    if (same === undefined) found.set(lease.resource, [lease])
    else same.push(lease)
  }
  return found
}

/**
 * The leases of other holders that cover all of a place. None where the holder itself has one that does: what others have
 * there beside it is shared with it, or its ancestor or descendant, or it would not have been granted.
 */
export function coveredByOthers(
  leases: LeasesByResource,
  place: Reach,
  holder: string,
): readonly LeaseInfo[] {
  const covering = [place.resource, ...ancestorsOf(place.resource)]
    .flatMap((resource) => leases.get(resource) ?? [])
    .filter((lease) => covers(lease, place))
  return covering.some((lease) => lease.holder === holder) ? [] : covering
}

/** Whether the lease lets its holder, and who derives from it, alone write to all of a place. */
export function isAloneOn(lease: LeaseInfo, place: Reach): boolean {
  const { state, mode, slots, adopted } = lease
  const isAlone = state === 'active' && mode === 'exclusive' && slots === null && adopted
  return isAlone && covers(lease, place)
}

/** A lease that was listed, as a holder hears of it that it stands in the way of. */
export function blockerOf(lease: LeaseInfo): Blocker {
  const { resource, holder, session, mode, extent, slots, fence, reason, metadata } = lease
  const { expiresAtMs, remainingMs } = lease
  return {
    ...{ kind: 'lease', leaseId: lease.id, resource, holder, session, mode, extent, slots, fence },
    ...{
      sinceMs: lease.grantedAtMs ?? lease.createdAtMs,
      expiresAtMs,
      remainingMs,
      reason,
      metadata,
    },
  }
}
