/**
 * Decides a renewal. It looks at its own entry and nothing else, so that no stranger can make it miss, and it settles
 * nothing: a lease that is over stays over until a request for the resource settles it.
 */
import type { Renew } from './command.ts'
import { parentOf } from './delegation.ts'
import { Draft, eventCommon, frequentEvent, ownLease } from './draft.ts'
import { isHeld, type Lease } from './lease.ts'
import { endedOutcome, type RenewOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { noteRenewalDenied } from './refusal.ts'
import { deadlineAfter, latestTick, US_PER_MS, wallAt, type Now, type Tick } from './time.ts'

export function decideRenew(view: RealmView, command: Renew, now: Now): Decision<RenewOutcome> {
  const draft = new Draft(view, now, command)
  const outcome = renew(draft, command)
  if (outcome.kind !== 'renewed') noteRenewalDenied(draft, command, outcome)
  return draft.answer(outcome)
}

function renew(draft: Draft, command: Renew): RenewOutcome {
  const { view, now } = draft
  const { leaseId, holder } = command
  const own = ownLease(view, { leaseId, holder, effect: 'lease.renewed' })
  if (own.kind === 'refused') return own.refusal
  const { lease } = own
  if (!isHeld(lease, now)) return endedOutcome(lease)
  if (own.repeated) return { kind: 'renewed', lease }
  const ceiling = parentCeiling(view, lease)
  if (ceiling === 'unseen') {
    const unseen = [{ leaseId: parentOf(lease) ?? '', resource: lease.resource }]
    return { kind: 'look_further', unseen }
  }
  const askedMs = command.ttlMs ?? lease.ttlMs
  const limit = reachedLimit(lease, now)
  if (limit !== null) return { kind: 'renewal_limit', leaseId: lease.id, limit }
  const deadline = extendedDeadline(lease, { ttlMs: askedMs, ceiling }, now)
  if (ceiling !== null && deadline.us <= lease.deadline.us && deadline.us === ceiling) {
    const limit = 'the end of its parent'
    return { kind: 'renewal_limit', leaseId, limit, parentId: parentOf(lease) ?? '' }
  }
  if (deadline.us <= lease.deadline.us) {
    const { expiresAtMs } = lease
    return { kind: 'does_not_extend', leaseId, expiresAtMs }
  }
  const common = eventCommon(lease, now, {
    before: 'active',
    after: 'active',
    renewals: lease.renewals + 1,
    requestId: command.requestId,
  })
  const expiresAtMs = wallAt(deadline.us, now)
  const ttlMs = grantedMs(lease, { askedMs, deadline }, now)
  draft.record(frequentEvent(common, { type: 'lease.renewed', ttlMs, deadline, expiresAtMs }))
  return { kind: 'renewed', lease: draft.lease(leaseId) }
}

function reachedLimit(lease: Lease, now: Now): string | null {
  if (lease.revoking !== null) return `the end that ${lease.revoking.by} asked for`
  if (lease.maxRenewals >= 0 && lease.renewals >= lease.maxRenewals) {
    return `its ${lease.maxRenewals} renewals`
  }
  const atCeiling = lease.holdUntilUs !== null && lease.deadline.us >= lease.holdUntilUs
  return atCeiling && now.tick.us < lease.deadline.us ? `its maxHoldMs of ${lease.maxHoldMs}` : null
}

interface Extension {
  readonly ttlMs: number
  /** The deadline of the parent, for a derived lease. */
  readonly ceiling: number | null
}

/**
 * A whole TTL from now. Where decisions are made before they are committed, the last one may have allowed for a longer
 * way than this one: asking for as long again always extends.
 */
function extendedDeadline(lease: Lease, { ttlMs, ceiling }: Extension, now: Now): Tick {
  const counted = deadlineAfter(now, ttlMs)
  const atLeastUs = now.toleranceUs > 0 && ttlMs >= lease.ttlMs ? lease.deadline.us + 1 : 0
  const requestedUs = Math.max(counted.us, atLeastUs)
  const us = Math.min(requestedUs, lease.holdUntilUs ?? Infinity, ceiling ?? Infinity)
  return { domain: counted.domain, us }
}

interface Granted {
  readonly askedMs: number
  readonly deadline: Tick
}

/**
 * The span that the lease goes by from now on: what was asked for, unless a limit has cut it short. Then it is not longer
 * than what was given, nor shorter than it was, or each renewal under a limit would be for less than the one before it.
 */
function grantedMs({ ttlMs }: Lease, { askedMs, deadline }: Granted, now: Now): number {
  const givenMs = Math.floor((deadline.us - latestTick(now).us) / US_PER_MS)
  return Math.min(askedMs, Math.max(givenMs, ttlMs))
}

/** A derived lease ends no later than its parent does; null for any other. */
function parentCeiling(view: RealmView, lease: Lease): number | 'unseen' | null {
  const parentId = parentOf(lease)
  if (parentId === null) return null
  const parent = view.entries.get(parentId)
  return parent?.kind === 'lease' ? parent.deadline.us : 'unseen'
}
