/**
 * Positions of stores that number their events: the number, as text. Callers treat it as opaque.
 */
import { invalid, LeaseError } from '../core/errors.ts'
import type { HistoryQuery, Position } from '../store-port/store.ts'

export function parsePosition(position: Position): number {
  const sequence = /^\d{1,15}$/.test(position) ? Number(position) : Number.NaN
  if (Number.isSafeInteger(sequence)) return sequence
  throw invalid('after', 'must be a position from history or watch', position)
}

/** Positions, both of them included, and the order in which they are gone through. */
export interface Range {
  readonly from: number
  readonly to: number
  readonly descending: boolean
}

/** The positions that a question goes through, in a ledger that has given `last` and keeps all after `prunedUpTo`. */
export function rangeOf(
  { after, newestFirst, unbroken }: HistoryQuery,
  last: number,
  prunedUpTo: number,
): Range {
  const descending = newestFirst === true
  if (after === undefined) return { from: 0, to: last, descending }
  const reached = parseReached(after, last)
  if (unbroken === true && reached < prunedUpTo) throw prunedError(after, String(prunedUpTo))
  const [from, to] = descending ? [0, reached - 1] : [reached + 1, last]
  return { from, to, descending }
}

/** Parses a position that a store may have given: it numbered its events up to `last`. */
export function parseReached(position: Position, last: number): number {
  const sequence = parsePosition(position)
  if (sequence <= last) return sequence
  throw invalid('after', `must be a position of this store, at most ${last}`, position)
}

/**
 * For a reader that has seen everything up to `after`: events behind it, up to `prunedUpTo`, are no longer kept. What is live
 * can be listed; nothing is missing after `prunedUpTo`.
 */
export function prunedError(after: Position, prunedUpTo: Position): LeaseError {
  const expectation = `must be a position after which nothing was pruned: list what is live, then go on after ${prunedUpTo} or later`
  const { message, details } = invalid('after', expectation, after)
  return new LeaseError('INVALID_INPUT', message, { details: { ...details, prunedUpTo } })
}
