/**
 * Turns a claim into a lease. The TTL runs from `now`; whoever asked counts from before it sent the request, so its
 * own view ends no later than this.
 */
import { eventCommon, type Draft } from './draft.ts'
import type { Claim, EntryState, Lease } from './lease.ts'
import { tickAfter, US_PER_MS } from './time.ts'

export interface Grant {
  readonly claim: Claim
  readonly fence: number
  readonly before: EntryState | null
}

export function grant(draft: Draft, { claim, fence, before }: Grant): Lease {
  const { now } = draft
  const holdUntilUs = claim.maxHoldMs === null ? null : now.tick.us + claim.maxHoldMs * US_PER_MS
  const spanMs = claim.maxHoldMs === null ? claim.ttlMs : Math.min(claim.ttlMs, claim.maxHoldMs)
  const lease: Lease = {
    id: claim.id,
    resource: claim.resource,
    mode: claim.mode,
    extent: claim.extent,
    holder: claim.holder,
    session: claim.session,
    ttlMs: claim.ttlMs,
    maxRenewals: claim.maxRenewals,
    maxHoldMs: claim.maxHoldMs,
    reason: claim.reason,
    metadata: claim.metadata,
    createdAtMs: claim.createdAtMs,
    recorded: claim.recorded,
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: now.wallMs,
    renewedAtMs: null,
    expiresAtMs: now.wallMs + spanMs,
    terminatedAtMs: null,
    deadline: tickAfter(now.tick, spanMs),
    holdUntilUs,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
  }
  draft.record({
    ...eventCommon(lease, now, { before, after: 'active', reason: claim.reason }),
    type: 'lease.issued',
    lease,
  })
  return lease
}
