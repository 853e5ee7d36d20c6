/**
 * Positions in the ledger of a namespace: for each bucket the microsecond of its last event that was seen, empty for
 * none yet when reading backwards. They grow with the server's clock, so that a position stays good when a server has
 * lost its data.
 */
import { invalid } from '../../core/errors.ts'
import type { Position } from '../../store-port/store.ts'

export type Positions = readonly string[]

export function startOf(buckets: number, newestFirst: boolean): Positions {
  return Array.from({ length: buckets }, () => (newestFirst ? '' : '0'))
}

export function positionText(positions: Positions): Position {
  return positions.map((position) => (position === '' ? '-' : position)).join('.')
}

export function parsePosition(text: Position, buckets: number): Positions {
  const positions = text.split('.')
  const isOne = positions.every((position) => /^(\d{1,16}|-)$/.test(position))
  if (isOne && positions.length === buckets) {
    return positions.map((position) => (position === '-' ? '' : position))
  }
  throw invalid('after', 'must be a position from history or watch', text)
}
