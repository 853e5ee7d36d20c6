/**
 * Turns a claim into a lease. The TTL runs from `now`; the requester counts from before it sent the request, so its
 * own view ends no later than this.
 */
import { eventCommon, frequentEvent, type Draft } from './draft.ts'
import type { Claim, EntryState, Lease, Revoking } from './lease.ts'
import { hasEpoch } from './resource.ts'
import { deadlineAfter, wallAt, type Now } from './time.ts'

export interface GrantedClaim {
  readonly claim: Claim
  readonly fence: number
  readonly before: EntryState | null
  /** A transfer hands on the ceiling of the lease that it ends. */
  readonly holdUntilUs?: number | null
  /** So is the request to end it. */
  readonly revoking?: Revoking | null
  readonly adopted?: boolean
  /** Of the claim's resource, where the draft's view is about several. */
  readonly epoch?: number
}

export function grant(draft: Draft, granted: GrantedClaim): Lease {
  const { now } = draft
  const { claim, fence, before } = granted
  const holdUntilUs = granted.holdUntilUs ?? ceilingOf(claim, now)
  const requested = deadlineAfter(now, claim.ttlMs)
  const us = Math.min(requested.us, holdUntilUs ?? Infinity)
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
    slots: claim.slots,
    lockDelayMs: claim.lockDelayMs,
    breakable: claim.breakable,
    reason: claim.reason,
    metadata: claim.metadata,
    createdAtMs: claim.createdAtMs,
    recorded: claim.recorded,
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: now.wallMs,
    renewedAtMs: null,
    expiresAtMs: wallAt(us, now),
    terminatedAtMs: null,
    deadline: { domain: requested.domain, us },
    holdUntilUs,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: granted.revoking ?? null,
    upgrading: false,
    adopted: granted.adopted ?? true,
    epoch: hasEpoch(claim.resource) ? (granted.epoch ?? draft.view.epoch) : 0,
  }
  return issued(draft, withRareFacts(lease, claim), before)
}

function withRareFacts(lease: Lease, { delegation, tokenName }: Claim): Lease {
  const named = tokenName === undefined ? lease : { ...lease, tokenName }
  return delegation === undefined ? named : { ...named, delegation }
}

function issued(draft: Draft, lease: Lease, before: EntryState | null): Lease {
  const common = eventCommon(lease, draft.now, { before, after: 'active', reason: lease.reason })
  draft.record(frequentEvent(common, { type: 'lease.issued', lease }))
  return lease
}

function ceilingOf(claim: Claim, now: Now): number | null {
  return claim.maxHoldMs === null ? null : deadlineAfter(now, claim.maxHoldMs).us
}
