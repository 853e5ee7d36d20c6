/**
 * Decides a derivation: a lease inside another, with less of everything. What is asked for beyond the parent is
 * refused, never cut down to size, and a refusal changes nothing. The parent is debited in the same commit.
 *
 * A waiter of the resource waits for the parent; a child ends with it, so it passes the waiters.
 */
import { endedBefore, grant } from './acquire.ts'
import type { Derive } from './command.ts'
import { blockersOf } from './conflict.ts'
import { delegationOf, parentOf, rootForChildren } from './delegation.ts'
import { derivationProblem, reservedOf, type DerivationRequest } from './derivation.ts'
import { Draft } from './draft.ts'
import { isHeld, type Claim, type Entry, type Lease } from './lease.ts'
import { endedOutcome, type AcquireOutcome } from './outcome.ts'
import type { Decision, RealmView } from './realm.ts'
import { settle } from './settle.ts'
import { deadlineAfter, US_PER_MS, type Now } from './time.ts'

export function decideDerive(view: RealmView, command: Derive, now: Now): Decision<AcquireOutcome> {
  const draft = new Draft(view, now, command)
  const { leaseId, parentId } = command
  const known = view.entries.get(leaseId)
  if (known !== undefined) return draft.answer(answerRepeat(known, command, now))
  const ended = endedBefore(view.prior, command)
  if (ended !== null) return draft.answer(ended)
  const owner = view.entries.get(parentId)
  if (owner?.kind !== 'lease') return draft.answer({ kind: 'not_found', leaseId: parentId })
  if (owner.holder !== command.by) {
    return draft.answer({ kind: 'not_holder', leaseId: parentId, holder: owner.holder })
  }
  settle(draft)
  const parent = draft.lease(parentId)
  if (!isHeld(parent, now)) return draft.answer(endedOutcome(parent))
  const ttlMs = command.ttlMs ?? wholeMs(parent.deadline.us - deadlineAfter(now, 0).us)
  const problem = derivationProblem(parent, requestOf(command, parent, { ttlMs, now }))
  if (problem !== null) {
    return draft.answer({ kind: 'invalid_derivation', leaseId: parentId, ...problem })
  }
  const claim = claimOf(parent, command, ttlMs)
  const blockers = blockersOf(claim, draft.entries.values(), now)
  if (blockers.length > 0) {
    const retryAfterMs = Math.max(1, ...blockers.map((blocker) => blocker.remainingMs))
    const held = { kind: 'held', resource: command.resource, blockers } as const
    return draft.answer({ ...held, retryAfterMs, notWaiting: 'not_asked' })
  }
  const amounts = reservedOf(parent, command.budget)
  grant(draft, {
    claim: { ...claim, createdAtMs: now.wallMs },
    fence: draft.nextFence(),
    before: null,
  })
  draft.account(parent, { kind: 'derived', childId: leaseId, amounts })
  return draft.answer({ kind: 'granted', lease: draft.lease(leaseId), repeated: false })
}

function wholeMs(us: number): number {
  return Math.max(1, Math.floor(us / US_PER_MS))
}

function answerRepeat(known: Entry, command: Derive, now: Now): AcquireOutcome {
  const { id: leaseId, resource } = known
  const isSame =
    known.kind === 'lease' &&
    known.holder === command.holder &&
    known.session === command.session &&
    parentOf(known) === command.parentId
  if (!isSame) return { kind: 'id_taken', leaseId, resource }
  return isHeld(known, now)
    ? { kind: 'granted', lease: known, repeated: true }
    : endedOutcome(known)
}

interface Span {
  readonly ttlMs: number
  readonly now: Now
}

function requestOf(command: Derive, parent: Lease, { ttlMs, now }: Span): DerivationRequest {
  const { resource, extent, mode, scope, budget: limits } = command
  const audience = audienceOf(command, parent) ?? null
  const end = deadlineAfter(now, ttlMs).us
  return { resource, extent, mode, scope, limits, audience, ttlMs, end }
}

function audienceOf(command: Derive, parent: Lease): string | undefined {
  return command.audience ?? delegationOf(parent).audience
}

function claimOf(parent: Lease, command: Derive, ttlMs: number): Claim {
  const { line } = delegationOf(parent)
  const root = rootForChildren(parent)
  const audience = audienceOf(command, parent)
  return {
    id: command.leaseId,
    resource: command.resource,
    mode: command.mode,
    extent: command.extent,
    holder: command.holder,
    session: command.session,
    ttlMs,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: command.reason,
    metadata: null,
    createdAtMs: 0,
    recorded: parent.recorded,
    ...(command.tokenName === undefined ? {} : { tokenName: command.tokenName }),
    delegation: {
      line: [...line, parent.id],
      rootFence: root.fence,
      ...(root.mode === 'shared' ? { rootMode: root.mode } : {}),
      scope: command.scope,
      limits: command.budget,
      ...(audience === undefined ? {} : { audience }),
      used: {},
      children: [],
    },
  }
}
