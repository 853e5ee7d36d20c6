/** Durations as people write them on a command line, and as they are shown to people. */
import { invalid } from '../core/errors.ts'

const MS_PER_UNIT: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** Fifteen digits keep every product with a unit a number that cannot be mistaken for another. */
const DURATION_PATTERN = /^(\d{1,15})(ms|s|m|h|d)$/

export interface DurationLimit {
  readonly field: string
  readonly minMs: number
  readonly maxMs: number
  /** Whether `forever` is read as well, as `Infinity`. */
  readonly orForever?: boolean
}

/** Reads `500ms`, `30s`, `5m`, `1h`, `2d`, and `0`, which needs no unit; anything else is `INVALID_INPUT`. */
export function parseDuration(limit: DurationLimit, text: string): number {
  const { field, minMs, maxMs, orForever = false } = limit
  if (orForever && text === 'forever') return Infinity
  const [, digits, unit] = DURATION_PATTERN.exec(text) ?? []
  const unitMs = MS_PER_UNIT[unit ?? '']
  const ms = text === '0' ? 0 : Number(digits) * (unitMs ?? Number.NaN)
  if (ms >= minMs && ms <= maxMs) return ms
  const range = `${formatExact(minMs)}..${formatExact(maxMs)}`
  const examples = `500ms, 30s, 5m, 1h or 2d${orForever ? ', or forever' : ''}`
  throw invalid(field, `must be a duration of ${range} such as ${examples}`, text)
}

/** The shortest spelling that `parseDuration` reads as the same number. */
export function formatExact(ms: number): string {
  if (ms === 0) return '0s'
  if (ms === Infinity) return 'forever'
  for (const unit of ['d', 'h', 'm', 's']) {
    const unitMs = MS_PER_UNIT[unit] ?? 1
    if (ms % unitMs === 0) return `${ms / unitMs}${unit}`
  }
  return `${ms}ms`
}

/** A span in at most two units, rounded down, so that no reader is promised more time than there is. */
export function formatSpan(spanMs: number): string {
  const ms = Math.max(0, Math.floor(spanMs))
  if (ms < 1_000) return `${ms}ms`
  if (ms < 10_000) return `${Math.floor(ms / 100) / 10}s`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3_600) return twoUnits([Math.floor(seconds / 60), 'm'], [seconds % 60, 's'])
  const minutes = Math.floor(seconds / 60)
  if (minutes < 1_440) return twoUnits([Math.floor(minutes / 60), 'h'], [minutes % 60, 'm'])
  const hours = Math.floor(minutes / 60)
  return twoUnits([Math.floor(hours / 24), 'd'], [hours % 24, 'h'])
}

type Part = readonly [number, string]

function twoUnits([large, largeUnit]: Part, [small, smallUnit]: Part): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit} ${small}${smallUnit}`
}
