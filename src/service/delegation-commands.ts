/** Requests to derive and to spend, read and checked once for all faces. */
import { parseBudget } from '../core/budget.ts'
import type { Derive, Spend } from '../core/command.ts'
import { invalid } from '../core/errors.ts'
import {
  parseExtent,
  parseHolder,
  parseLeaseId,
  parseMode,
  parseNote,
  parseTtlMs,
} from '../core/input.ts'
import type { OutcomeOf } from '../core/decide.ts'
import { parseScope } from '../core/scope.ts'
import { isTree } from '../core/resource.ts'
import { readSession, type Place } from './commands.ts'
import type { DeriveRequest, SpendRequest } from './lease-api.ts'

/** Without a resource a child has its parent's, shared; with one of its own it has that alone. */
export function deriveCommand(request: DeriveRequest, parent: Place): Derive {
  const { resource = parent.resource, ttlMs, audience } = request
  const isOwn = request.resource !== undefined
  const extent = parseExtent(request.extent ?? (isOwn ? 'exact' : parent.extent))
  if (extent === 'subtree' && !isTree(resource)) {
    throw invalid('extent', 'must be exact for a kind that is not a tree', extent)
  }
  return {
    kind: 'derive',
    leaseId: parseLeaseId(request.leaseId),
    parentId: parent.leaseId,
    resource,
    extent,
    mode: parseMode(request.mode ?? (isOwn ? 'exclusive' : 'shared')),
    holder: parseHolder(request.holder),
    session: readSession(request.session),
    by: parseHolder(request.by, 'by'),
    ttlMs: ttlMs === undefined ? null : parseTtlMs(ttlMs),
    scope: parseScope(request.scope),
    budget: parseBudget('budget', request.budget),
    ...(audience === undefined ? {} : { audience: parseHolder(audience, 'audience') }),
    reason: parseNote(request.reason, undefined).reason,
  }
}

export function spendCommand(request: SpendRequest, place: Place): Spend {
  const amounts = parseBudget('amounts', request.amounts)
  if (Object.values(amounts).every((amount) => amount === 0)) {
    throw invalid(
      'amounts',
      'must name something to spend (budgetLeft tells what is left)',
      request.amounts,
    )
  }
  return {
    kind: 'spend',
    ...place,
    holder: parseHolder(request.holder),
    amounts,
    requestId:
      request.requestId === undefined ? null : parseLeaseId(request.requestId, 'requestId'),
  }
}

export function isShort(outcome: OutcomeOf<Derive | Spend>): boolean {
  if (outcome.kind === 'budget_exhausted') return true
  return outcome.kind === 'invalid_derivation' && outcome.shortage !== undefined
}
