/**
 * Positions of stores that number their events: the number, as text. Callers treat it as opaque.
 */
import { invalid } from '../core/errors.ts'
import type { Position } from './store.ts'

export function parsePosition(position: Position): number {
  const sequence = /^\d{1,15}$/.test(position) ? Number(position) : Number.NaN
  if (Number.isSafeInteger(sequence)) return sequence
  throw invalid('after', 'must be a position from history or watch', position)
}
