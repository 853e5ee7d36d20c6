/**
 * What a child may have of its parent: less of everything. Decisions, ledgers that are imported and grants that are
 * checked offline ask this one rule.
 */
import { derivedShortage, subtractBudgets, type Budget, type Shortage } from './budget.ts'
import { delegationOf } from './delegation.ts'
import type { Lease } from './lease.ts'
import { CHILDREN_MAX, DERIVATION_DEPTH_MAX } from './limits.ts'
import { covers, type Mode, type Reach } from './resource.ts'
import { isScopeWithin, type Scope } from './scope.ts'

/** What a holder may do with a lease or a grant, how much of it, and until when. */
export interface Allowance extends Reach {
  readonly mode: Mode
  readonly scope: Scope
  readonly limits: Budget
  /** Who is to check it; null: any verifier. */
  readonly audience: string | null
  /** On whatever clock, the same for both that are compared. */
  readonly end: number
}

export type Excess =
  | { readonly kind: 'resource' | 'mode' | 'end' | 'scope' | 'audience' }
  | { readonly kind: 'budget'; readonly shortage: Shortage }

/** The first respect in which the child is more than the parent; null if it is within. `used`: of the parent's limits. */
export function excessOf(parent: Allowance, child: Allowance, used: Budget = {}): Excess | null {
  if (!covers(parent, child)) return { kind: 'resource' }
  if (parent.mode === 'shared' && child.mode === 'exclusive') return { kind: 'mode' }
  if (child.end > parent.end) return { kind: 'end' }
  if (!isScopeWithin(child.scope, parent.scope)) return { kind: 'scope' }
  const isForSame = parent.audience === null || child.audience === parent.audience
  if (!isForSame) return { kind: 'audience' }
  const shortage = derivedShortage(parent.limits, used, child.limits)
  return shortage === null ? null : { kind: 'budget', shortage }
}

/** What is asked of a parent; `end` is a tick of its deadline's clock. */
export type DerivationRequest = Allowance & { readonly ttlMs: number }

export interface DerivationProblem {
  readonly problem: string
  readonly shortage?: Shortage
}

/** Why a lease cannot give this, in words; null if it can. */
export function derivationProblem(
  parent: Lease,
  request: DerivationRequest,
): DerivationProblem | null {
  const { line, scope, limits, audience = null, used, children } = delegationOf(parent)
  if (parent.slots !== null) {
    return { problem: 'a lease of a counted resource cannot be derived from' }
  }
  if (line.length >= DERIVATION_DEPTH_MAX) {
    return { problem: `at most ${DERIVATION_DEPTH_MAX} derivations may follow each other` }
  }
  if (children.length >= CHILDREN_MAX) {
    return { problem: `at most ${CHILDREN_MAX} children may live` }
  }
  const { resource, extent, mode } = parent
  const allowance = { resource, extent, mode, scope, limits, audience, end: parent.deadline.us }
  const excess = excessOf(allowance, request, used)
  return excess === null ? null : describe(excess, parent, request)
}

function describe(excess: Excess, parent: Lease, request: DerivationRequest): DerivationProblem {
  switch (excess.kind) {
    case 'resource':
      return { problem: `resource must be within ${parent.resource}` }
    case 'mode':
      return { problem: 'mode must be shared, as that of its parent' }
    case 'end':
      return { problem: `ttlMs must end no later than the parent, got ${request.ttlMs}` }
    case 'scope':
      return { problem: 'scope must be within that of its parent' }
    case 'audience': {
      const { audience } = delegationOf(parent)
      return { problem: `audience must be ${audience}, as that of its parent` }
    }
    case 'budget': {
      const { shortage } = excess
      const { dimension, asked, left } = shortage
      const got = asked === Infinity ? 'no limit' : asked
      return { problem: `${dimension} must be at most ${left}, got ${got}`, shortage }
    }
  }
}

/** What comes back to the parent of a lease that ends: what the lease did not use, where the parent has a limit. */
export function unusedOf(parent: Lease, child: Lease): Budget {
  const { limits, used } = delegationOf(child)
  return reservedOf(parent, subtractBudgets(limits, used))
}

/** What the parent is debited: only where it has a limit itself is there something to run short of. */
export function reservedOf(parent: Pick<Lease, 'delegation'>, limits: Budget): Budget {
  const kept = delegationOf(parent).limits
  return Object.fromEntries(Object.entries(limits).filter(([dimension]) => dimension in kept))
}
