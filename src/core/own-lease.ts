/**
 * Finds the lease that a holder's command is about, and checks the holder's right to it and the request's history.
 */
import type { LeaseEventType } from './event.ts'
import type { Lease, LeaseId } from './lease.ts'
import type { Refusal } from './outcome.ts'
import type { RealmView } from './realm.ts'

export interface OwnLeaseQuery {
  readonly leaseId: LeaseId
  /** Null for an operator, who needs no right of a holder. */
  readonly holder: string | null
  /** The event that the command would record; a prior effect of another kind is not a repeat. */
  readonly effect: LeaseEventType
}

export type OwnLease =
  | { readonly kind: 'found'; readonly lease: Lease; readonly repeated: boolean }
  | { readonly kind: 'refused'; readonly refusal: Refusal }

export function ownLease(view: RealmView, query: OwnLeaseQuery): OwnLease {
  const { leaseId, holder } = query
  const entry = view.entries.get(leaseId)
  if (entry === undefined) return { kind: 'refused', refusal: goneRefusal(view, query) }
  if (holder !== null && entry.holder !== holder) {
    return { kind: 'refused', refusal: { kind: 'not_holder', leaseId, holder: entry.holder } }
  }
  if (entry.kind === 'ticket') {
    const { state } = entry
    const refusal: Refusal =
      state === 'failed' ? { kind: 'terminal', leaseId, state } : { kind: 'not_found', leaseId }
    return { kind: 'refused', refusal }
  }
  const { prior } = view
  if (prior !== null && (prior.leaseId !== leaseId || prior.type !== query.effect)) {
    return { kind: 'refused', refusal: { kind: 'request_reused', leaseId } }
  }
  return { kind: 'found', lease: entry, repeated: prior !== null }
}

/**
 * Where no history is kept, a released lease leaves nothing behind but the request that released it. Its repeat must
 * hear that the lease is released, not that there never was one.
 */
function goneRefusal({ prior }: RealmView, { leaseId, effect }: OwnLeaseQuery): Refusal {
  const released = effect === 'lease.released' && prior?.type === effect
  if (released && prior.leaseId === leaseId) return { kind: 'terminal', leaseId, state: 'released' }
  return { kind: 'not_found', leaseId }
}
