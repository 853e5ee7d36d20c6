/**
 * Whether a grant allows an act, decided offline. It tells whether the act is within scope and could be within budget;
 * how much of the budget is left, only the store knows.
 */
import { parseBudget, shortageOf, type Budget } from '../core/budget.ts'
import { invalid, LeaseError, show } from '../core/errors.ts'
import { outsideScope, parseAct, type ScopedAct } from '../core/scope.ts'
import type { Grant } from '../registrar/grant.ts'

/** Throws `SCOPE_VIOLATION` or `BUDGET_EXHAUSTED` when it does not, and `INVALID_INPUT` for what is no act. */
export function authorizeGrant(grant: Grant, act: ScopedAct, spending: Budget = {}): void {
  if (typeof grant !== 'object' || grant === null) throw invalid('grant', 'must be a grant', grant)
  const outside = outsideScope(grant.scope, parseAct(act))
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
