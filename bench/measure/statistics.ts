/** Medians, percentiles and spreads. */

/** The smallest value that at least so much of all values do not exceed; NaN of nothing. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const index = Math.max(0, Math.ceil(part * sorted.length) - 1)
  return sorted[index] ?? Number.NaN
}

/** Of an even number of values the middle between the two in the middle: neither the better nor the worse round counts. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  const [lower = Number.NaN, upper = Number.NaN] = [
    sorted[Math.ceil(half) - 1],
    sorted[Math.floor(half)],
  ]
  return (lower + upper) / 2
}

/** A figure of several rounds. */
export interface Spread {
  /** One for each round. */
  readonly values: readonly number[]
  readonly median: number
  readonly min: number
  readonly max: number
}

export function spreadOf(values: readonly number[]): Spread {
  const [min, max] = [Math.min(...values), Math.max(...values)]
  return { values, median: median(values), min, max }
}
