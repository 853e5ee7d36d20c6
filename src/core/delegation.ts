/**
 * What a lease knows of those it was derived from and of those derived from it. Ordinary leases have nothing of it.
 *
 * The ancestor chain (`line` in what is stored) says who may overlap whom: a lease never stands in the way of its own ancestors and descendants. What a
 * child was given counts as used by its parent until the child ends.
 */
import { addBudgets, subtractBudgets, type Budget } from './budget.ts'
import type { Claim, Lease, LeaseId } from './lease.ts'
import type { Mode } from './resource.ts'
import { UNLIMITED_SCOPE, type Scope } from './scope.ts'

export interface Delegation {
  /** From the root to the parent; empty for a root. */
  readonly line: readonly LeaseId[]
  /** The fence of the root, which a guard of the resource is shown; null for a root itself. */
  readonly rootFence: number | null
  /** When the root was shared as the lease was derived; absent: the root had its resource to itself. */
  readonly rootMode?: 'shared'
  readonly scope: Scope
  readonly limits: Budget
  /** Who is to check its grants, and those of whatever is derived from it; absent: any verifier. */
  readonly audience?: string
  /** Spent by the lease itself, given to children that live, and spent by children that have ended. */
  readonly used: Budget
  /** Those that live and were derived from this very lease. */
  readonly children: readonly LeaseId[]
}

/** A lease that was acquired may be used for everything, without limit. */
export const ROOT_DELEGATION: Delegation = {
  line: [],
  rootFence: null,
  scope: UNLIMITED_SCOPE,
  limits: {},
  used: {},
  children: [],
}

/** What a lease may be used for and how much of it, as its requester asks. */
export interface Authority {
  readonly scope: Scope
  readonly limits: Budget
}

/** The delegation of a lease that was acquired with less than everything. */
export function rootWith({ scope, limits }: Authority): Delegation {
  return { ...ROOT_DELEGATION, scope, limits }
}

/** What of a lease's delegation goes on when its resource is given to another: what it may, and what it has used. */
export function inheritedDelegation(lease: Lease): Delegation | null {
  const { delegation } = lease
  if (delegation === undefined) return null
  const isWhole = delegation.scope.unlimited && Object.keys(delegation.limits).length === 0
  return isWhole ? null : { ...delegation, children: [] }
}

/** What changed in the account of a lease, for a reader of the history. */
export type AccountChange =
  | { readonly kind: 'derived'; readonly childId: LeaseId; readonly amounts: Budget }
  | { readonly kind: 'refunded'; readonly childId: LeaseId; readonly amounts: Budget }
  | { readonly kind: 'spent'; readonly amounts: Budget }

export function delegationOf(claim: Pick<Claim, 'delegation'>): Delegation {
  return claim.delegation ?? ROOT_DELEGATION
}

export function parentOf(claim: Claim): LeaseId | null {
  return claim.delegation?.line.at(-1) ?? null
}

/** A lease that others act for, as guards know it. */
export interface RootLease {
  readonly id: LeaseId
  readonly fence: number
  readonly mode: Mode
}

/** The lease that a derived one acts for; null for one that was acquired. */
export function rootOf(claim: {
  readonly delegation?: Pick<Delegation, 'line' | 'rootFence' | 'rootMode'>
}): RootLease | null {
  const { line, rootFence, rootMode = 'exclusive' } = claim.delegation ?? ROOT_DELEGATION
  const [id] = line
  return id === undefined ? null : { id, fence: rootFence ?? 0, mode: rootMode }
}

/** What the children of a lease are told of the root. */
export function rootForChildren(
  parent: Pick<Lease, 'id' | 'fence' | 'mode' | 'delegation'>,
): RootLease {
  return rootOf(parent) ?? { id: parent.id, fence: parent.fence, mode: parent.mode }
}

/** Whether one of the two was derived from the other, however far up. */
export function areAncestorAndDescendant(a: Claim, b: Claim): boolean {
  const [up, down] = [a.delegation?.line, b.delegation?.line]
  return up?.includes(b.id) === true || down?.includes(a.id) === true
}

/** The account of a lease after a change. */
export function accountAfter(lease: Pick<Claim, 'delegation'>, change: AccountChange): Delegation {
  const account = delegationOf(lease)
  switch (change.kind) {
    case 'derived': {
      const used = addBudgets(account.used, change.amounts)
      return { ...account, used, children: [...account.children, change.childId] }
    }
    case 'refunded': {
      const children = account.children.filter((id) => id !== change.childId)
      return { ...account, used: subtractBudgets(account.used, change.amounts), children }
    }
    case 'spent':
      return { ...account, used: addBudgets(account.used, change.amounts) }
  }
}
