/**
 * Until when leases were held for certain. Where renewals are not recorded, the last end that the ledger tells of is too
 * early; whatever the holder did later proves that it held on, and so does an end that came later.
 */
import type { LeaseEvent } from '../core/event.ts'
import type { Lease, LeaseId, LeaseInfo } from '../core/lease.ts'
import { US_PER_MS } from '../core/time.ts'

/** Leases as their store keeps them. It knows of renewals that no event tells of. */
export type KeptLeases = ReadonlyMap<LeaseId, Pick<LeaseInfo, 'expiresAtMs'>>

export class HeldUntil {
  readonly #provenMs: Map<LeaseId, number> = new Map()
  readonly #kept: KeptLeases

  constructor(events: Iterable<LeaseEvent>, kept: KeptLeases = new Map()) {
    for (const event of events) if (event.before === 'active') this.#hear(event)
    this.#kept = kept
  }

  /** The lease with the latest end that is known of; what has ended is left as it is. */
  extended(lease: Lease): Lease {
    if (lease.state !== 'active') return lease
    const untilMs = Math.max(
      this.#provenMs.get(lease.id) ?? 0,
      this.#kept.get(lease.id)?.expiresAtMs ?? 0,
    )
    const addedMs = untilMs - lease.expiresAtMs
    if (addedMs <= 0) return lease
    const { domain, us } = lease.deadline
    return {
      ...lease,
      expiresAtMs: untilMs,
      deadline: { domain, us: us + addedMs * US_PER_MS },
    }
  }

  #hear(event: LeaseEvent): void {
    // No act of the holder: what a child gives back may be noticed long after both have ended.
    if (event.type === 'lease.accounted' && event.change.kind === 'refunded') return
    const isEnd = event.type === 'lease.expired' || event.type === 'lease.revoked'
    const provenMs = isEnd ? event.terminatedAtMs : event.atMs
    this.#provenMs.set(event.leaseId, Math.max(provenMs, this.#provenMs.get(event.leaseId) ?? 0))
  }
}
