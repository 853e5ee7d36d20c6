/** Leases and blockers as a model is shown them: what it needs to go on, and no more. */
import type { Blocker } from '../core/conflict.ts'
import type { LeaseInfo } from '../core/lease.ts'

export type View = Readonly<Record<string, unknown>>

export function leaseView(lease: LeaseInfo): View {
  const { id, resource, mode, extent, holder, state, fence, reason } = lease
  const { expiresAtMs, remainingMs } = lease
  return {
    ...{ id, resource, mode, extent, holder, state, fence },
    ...(expiresAtMs === null ? {} : { expiresAtMs, remainingMs }),
    ...(reason === null ? {} : { reason }),
  }
}

/** Of a resource that the caller may not see, a server tells the holder alone. */
export function blockerView(blocker: Partial<Blocker> & Pick<Blocker, 'holder'>): View {
  const { kind, resource, extent, holder, expiresAtMs, remainingMs, reason } = blocker
  return {
    holder,
    ...(kind === undefined ? {} : { kind, resource, extent }),
    ...(expiresAtMs === undefined || expiresAtMs === null ? {} : { expiresAtMs, remainingMs }),
    ...(reason === undefined || reason === null ? {} : { reason }),
  }
}
