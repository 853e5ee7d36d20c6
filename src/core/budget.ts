/**
 * Budgets: how much a derived lease may use up. A dimension that is absent is unlimited, 0 means none. What was given
 * to a child counts as used by the parent until the child ends and what it did not use comes back.
 */
import { invalid } from './errors.ts'

export type Dimension = 'episodes' | 'toolCalls' | 'tokens' | 'durationMs'
export type Budget = Readonly<Partial<Record<Dimension, number>>>

export const DIMENSIONS: readonly Dimension[] = ['durationMs', 'episodes', 'tokens', 'toolCalls']

export interface Shortage {
  readonly dimension: Dimension
  /** Infinity: a child without a limit where its parent has one. */
  readonly asked: number
  readonly left: number
}

/** Reads a budget or a spending; fields in one order, so that equal budgets have equal bytes. */
export function parseBudget(field: string, value: unknown): Budget {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw invalid(field, `must be an object of ${DIMENSIONS.join(', ')}`, value)
  }
  const unknown = Object.keys(value).find((name) => !DIMENSIONS.some((known) => known === name))
  if (unknown !== undefined) throw invalid(field, `must be of ${DIMENSIONS.join(', ')}`, unknown)
  const given = value as Partial<Record<Dimension, unknown>>
  const budget: Partial<Record<Dimension, number>> = {}
  for (const dimension of DIMENSIONS) {
    const amount = given[dimension]
    if (amount === undefined) continue
    if (typeof amount !== 'number' || !Number.isSafeInteger(amount) || amount < 0) {
      throw invalid(`${field}.${dimension}`, 'must be an integer 0..2^53-1', amount)
    }
    budget[dimension] = amount
  }
  return budget
}

/** What is left in a dimension; Infinity where there is no limit. */
export function leftOf(limits: Budget, used: Budget, dimension: Dimension): number {
  const limit = limits[dimension]
  return limit === undefined ? Infinity : limit - (used[dimension] ?? 0)
}

export function remainingBudget(limits: Budget, used: Budget): Budget {
  const remaining: Partial<Record<Dimension, number>> = {}
  for (const dimension of DIMENSIONS) {
    const left = leftOf(limits, used, dimension)
    if (left !== Infinity) remaining[dimension] = left
  }
  return remaining
}

/** The first dimension in which more is asked than is left; null if all fits. Absent asks for nothing. */
export function shortageOf(limits: Budget, used: Budget, asked: Budget): Shortage | null {
  for (const dimension of DIMENSIONS) {
    const amount = asked[dimension] ?? 0
    const left = leftOf(limits, used, dimension)
    if (amount > left) return { dimension, asked: amount, left }
  }
  return null
}

/** As for a spending, but a child that is unlimited where its parent is limited asks for too much as well. */
export function derivedShortage(limits: Budget, used: Budget, child: Budget): Shortage | null {
  for (const dimension of DIMENSIONS) {
    const left = leftOf(limits, used, dimension)
    const asked = child[dimension] ?? Infinity
    if (asked > left) return { dimension, asked, left }
  }
  return null
}

/** Sums that would no longer be exact stop at the largest that is. */
export function addBudgets(a: Budget, b: Budget): Budget {
  const sum: Partial<Record<Dimension, number>> = {}
  for (const dimension of DIMENSIONS) {
    const amount = (a[dimension] ?? 0) + (b[dimension] ?? 0)
    if (amount > 0) sum[dimension] = Math.min(amount, Number.MAX_SAFE_INTEGER)
  }
  return sum
}

export function subtractBudgets(a: Budget, b: Budget): Budget {
  const rest: Partial<Record<Dimension, number>> = {}
  for (const dimension of DIMENSIONS) {
    const amount = (a[dimension] ?? 0) - (b[dimension] ?? 0)
    if (amount > 0) rest[dimension] = amount
  }
  return rest
}
