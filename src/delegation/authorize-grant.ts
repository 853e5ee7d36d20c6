/**
 * Whether a grant allows an act, decided offline. It tells whether the act is within scope and could be within budget;
 * how much of the budget is left, only the store knows.
 */
import { parseBudget, shortageOf, type Budget } from '../core/budget.ts'
import { invalid, LeaseError, show } from '../core/errors.ts'
import { outsideScope, type ScopedAct } from '../core/scope.ts'
import type { Grant } from '../ledger/grant.ts'

/** Throws `SCOPE_VIOLATION` or `BUDGET_EXHAUSTED` when it does not, and `INVALID_INPUT` for what is no act. */
export function authorizeGrant(grant: Grant, act: ScopedAct, spending: Budget = {}): void {
  requireAct(act)
  const outside = outsideScope(grant.scope, act)
  if (outside !== null) {
    const got = outside === 'act' ? undefined : act[outside]
    const message = `${outside} must be within the scope of lease ${grant.id}, got ${show(got)}`
    throw new LeaseError('SCOPE_VIOLATION', message, {
      details: { leaseId: grant.id, field: outside },
    })
  }
  const shortage = shortageOf(grant.budget, {}, parseBudget('spending', spending))
  if (shortage === null) return
  const { dimension, asked, left } = shortage
  const message = `lease ${grant.id} has ${left} ${dimension} in all, got ${asked}`
  throw new LeaseError('BUDGET_EXHAUSTED', message, { details: { leaseId: grant.id, ...shortage } })
}

const ACT_FIELDS: readonly string[] = ['workId', 'tool', 'path'] satisfies (keyof ScopedAct)[]

/** A field that is misspelt would be left unchecked. */
function requireAct(act: unknown): void {
  if (typeof act !== 'object' || act === null) {
    throw invalid('act', 'must be { workId, tool, path }', act)
  }
  const unknown = Object.keys(act).find((field) => !ACT_FIELDS.includes(field))
  if (unknown !== undefined) throw invalid('act', `must have ${ACT_FIELDS.join(', ')}`, unknown)
}
