/**
 * Decides upgrades and downgrades of a lease in place.
 *
 * A holder that asks to be alone keeps its shared lease and, until the others have left, lets no other in. The last
 * of them to leave completes the upgrade in the same commit, with a new fence, so there is no moment at which another
 * writer could slip in. Two holders that both ask would wait for each other: the second is refused.
 */
import type { Downgrade, Upgrade, WithdrawUpgrade } from './command.ts'
import { inOrder, ownBlockersOf, type Blocker } from './conflict.ts'
import { overlap } from './resource.ts'
import { Draft, eventCommon, ownLease } from './draft.ts'
import type { LeaseUpgrading } from './event.ts'
import { isHeld, type CycleStep, type Lease } from './lease.ts'
import { endedOutcome, type DowngradeOutcome, type Held, type UpgradeOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { makeOffers, obstaclesOf, settle, upgrade } from './settle.ts'
import type { Now } from './time.ts'

export function decideUpgrade(
  view: RealmView,
  command: Upgrade,
  now: Now,
): Decision<UpgradeOutcome> {
  const draft = new Draft(view, now, command)
  const own = ownLease(view, { ...command, effect: 'lease.upgraded' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  // A request that names the wrong place has not looked where the lease is, and would find nothing in its way.
  if (!draft.sees(own.lease)) return draft.answer({ kind: 'not_found', leaseId: own.lease.id })
  settle(draft)
  const lease = draft.lease(own.lease.id)
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  if (lease.mode === 'exclusive') {
    const changed = own.lease.mode !== 'exclusive'
    return draft.answer({ kind: 'upgraded', lease, changed })
  }
  if (draft.parentOf(lease)?.mode === 'shared') {
    const problem = 'mode must be shared, as that of its parent'
    return draft.answer({ kind: 'invalid_derivation', leaseId: lease.id, problem })
  }
  const obstacles = obstaclesOf(lease, draft)
  if (obstacles.length === 0) {
    upgrade(draft, lease)
    return draft.answer({ kind: 'upgraded', lease: draft.lease(lease.id), changed: true })
  }
  const ownOnes = ownObstacles(draft, lease, command)
  if (ownOnes.length > 0) return draft.answer(heldBy(lease, ownOnes, 'own'))
  const rival = rivalOf(lease, draft)
  if (rival !== null) return draft.answer(deadlock(lease, rival))
  const mayWait = command.mayWait && view.settings.blocking_mode_enabled
  if (!mayWait) {
    const notWaiting = command.mayWait ? 'waiting_disabled' : 'not_asked'
    return draft.answer(heldBy(lease, obstacles, notWaiting))
  }
  const { under } = command
  if (!lease.upgrading || under?.leaseIds.join() !== lease.under?.leaseIds.join()) {
    recordRequest(draft, lease, { wished: true, ...(under === undefined ? {} : { under }) })
  }
  const checkAfterMs = Math.max(1, Math.min(...obstacles.map((blocker) => blocker.remainingMs)))
  return draft.answer({ kind: 'upgrading', leaseId: lease.id, blockers: obstacles, checkAfterMs })
}

function heldBy(
  { resource }: Lease,
  blockers: readonly Blocker[],
  notWaiting: Held['notWaiting'],
): Held {
  const retryAfterMs = Math.max(1, ...blockers.map((blocker) => blocker.remainingMs))
  return { kind: 'held', resource, blockers, retryAfterMs, notWaiting }
}

function rivalOf(lease: Lease, draft: Draft): Lease | null {
  for (const entry of inOrder(draft.entries.values())) {
    if (entry.id === lease.id || !isHeld(entry, draft.now) || !entry.upgrading) continue
    if (overlap(entry, lease)) return entry
  }
  return null
}

function deadlock(lease: Lease, rival: Lease): UpgradeOutcome {
  const step = ({ holder, session, resource }: Lease): CycleStep => ({ holder, session, resource })
  return { kind: 'deadlock', leaseId: lease.id, cycle: [step(lease), step(rival)] }
}

/** What the holder itself has in the way of the upgrade, and cannot release before it. */
function ownObstacles(draft: Draft, lease: Lease, command: Upgrade): readonly Blocker[] {
  const { under } = command
  const alone = { ...lease, mode: 'exclusive', slots: null, ...(under ? { under } : {}) } as const
  return ownBlockersOf(alone, draft, command.sequential === true)
}

function recordRequest(
  draft: Draft,
  lease: Lease,
  facts: Pick<LeaseUpgrading, 'wished' | 'under'>,
): void {
  const { renewals } = lease
  draft.record({
    type: 'lease.upgrading',
    ...eventCommon(lease, draft.now, { before: 'active', after: 'active', renewals }),
    ...facts,
  })
}

export function decideWithdrawUpgrade(
  view: RealmView,
  command: WithdrawUpgrade,
  now: Now,
): Decision<UpgradeOutcome> {
  const draft = new Draft(view, now, command)
  const own = ownLease(view, { ...command, effect: 'lease.upgraded' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  settle(draft)
  const lease = draft.lease(own.lease.id)
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  if (lease.mode === 'exclusive') return draft.answer({ kind: 'upgraded', lease, changed: false })
  if (lease.upgrading) {
    recordRequest(draft, lease, { wished: false })
    makeOffers(draft)
  }
  return draft.answer({ kind: 'upgrade_withdrawn', leaseId: lease.id })
}

export function decideDowngrade(
  view: RealmView,
  command: Downgrade,
  now: Now,
): Decision<DowngradeOutcome> {
  const draft = new Draft(view, now, command)
  const own = ownLease(view, { ...command, effect: 'lease.downgraded' })
  if (own.kind === 'refused') return draft.answer(own.refusal)
  settle(draft)
  const lease = draft.lease(own.lease.id)
  if (!isHeld(lease, now)) return draft.answer(endedOutcome(lease))
  // A repeat hears what the first try did: it was that one which changed the mode.
  if (own.repeated || lease.mode === 'shared') {
    return draft.answer({ kind: 'downgraded', lease, changed: own.repeated })
  }
  const lone = draft.childrenOf(lease).find(({ mode, upgrading }) => {
    return mode === 'exclusive' || upgrading
  })
  if (lone !== undefined) {
    const problem = `mode must be exclusive, as that of lease ${lone.id} that was derived from it`
    return draft.answer({ kind: 'invalid_derivation', leaseId: lease.id, problem })
  }
  const { renewals } = lease
  const { requestId } = command
  draft.record({
    type: 'lease.downgraded',
    ...eventCommon(lease, now, { before: 'active', after: 'active', renewals, requestId }),
  })
  makeOffers(draft)
  return draft.answer({ kind: 'downgraded', lease: draft.lease(lease.id), changed: true })
}
