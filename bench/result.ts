/** What a work found out, and what follows from it. Ratios are taken round by round, never from two medians. */
import type { Slice } from './measure/load.ts'
import { median, spreadOf, type Spread } from './measure/statistics.ts'
import { NO_EXCLUSION, type Contention } from './measure/turns.ts'
import type { StoreName } from './system.ts'

export type WhereMeasured = StoreName | 'process'

export interface Result {
  readonly work: string
  readonly store: WhereMeasured
  readonly system: string
  readonly isReference: boolean
  readonly inFlight: number
  /** One for each round, in order. Empty if it failed. */
  readonly rounds: readonly Slice[]
  /** Why it is not scored; null: it is. */
  readonly error: string | null
  readonly contention?: ContentionDetail
}

export interface ContentionDetail {
  /** One for each round. */
  readonly rounds: readonly Contention[]
  /** Null where the store does not tell. */
  readonly operationsPerHandover: number | null
  readonly commitsPerHandover: number | null
}

/** One line of `--json`. `ratio`: throughput against the store's floor or limit, the median of the rounds. */
export interface Row {
  readonly work: string
  readonly store: WhereMeasured
  readonly system: string
  readonly inFlight: number
  readonly opsPerSecond: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly ratio: number | null
  /** Only if it was not scored. */
  readonly error?: string
}

export function ratioBetween(
  result: Result | undefined,
  other: Result | undefined,
  figure: keyof Slice = 'opsPerSecond',
): Spread | null {
  if (result === undefined || other === undefined) return null
  return ratioOf(result.rounds, other.rounds, figure)
}

/** Round by round. */
export function ratioOf(
  rounds: readonly Slice[],
  others: readonly Slice[],
  figure: keyof Slice,
): Spread | null {
  const count = Math.min(rounds.length, others.length)
  const ratios = rounds.slice(0, count).map((slice, round) => {
    return slice[figure] / (others[round]?.[figure] ?? Number.NaN)
  })
  const sound = ratios.filter((ratio) => Number.isFinite(ratio))
  return sound.length === 0 ? null : spreadOf(sound)
}

export function referenceOf(result: Result, all: readonly Result[]): Result | undefined {
  return all.find(
    (other) =>
      other.isReference &&
      other.work === result.work &&
      other.store === result.store &&
      other.inFlight === result.inFlight,
  )
}

/** Whoever let two have it at one time is scored nowhere on that store: where it was not seen it may have done so too. */
export function withoutThoseThatOverlap(results: readonly Result[]): readonly Result[] {
  const keyOf = ({ store, system }: Result): string => `${store} ${system}`
  const caught = new Map(
    results.flatMap((result): readonly (readonly [string, string])[] => {
      const { error } = result
      return error?.includes(NO_EXCLUSION) === true ? [[keyOf(result), error]] : []
    }),
  )
  return results.map((result) => {
    const error = result.error ?? caught.get(keyOf(result)) ?? null
    return error === null ? result : { ...result, rounds: [], error }
  })
}

export function rowOf(result: Result, all: readonly Result[]): Row {
  const { work, store, system, inFlight, rounds, error } = result
  const place = { work, store, system, inFlight }
  if (error !== null || rounds.length === 0) {
    const nothing = { opsPerSecond: null, p50Ms: null, p99Ms: null, ratio: null }
    return { ...place, ...nothing, error: error ?? 'no round was measured' }
  }
  const figure = (name: keyof Slice): number | null => rounded(median(rounds.map((r) => r[name])))
  const ratio = ratioBetween(result, referenceOf(result, all))
  return {
    ...place,
    opsPerSecond: figure('opsPerSecond'),
    p50Ms: figure('p50Ms'),
    p99Ms: figure('p99Ms'),
    ratio: ratio === null ? null : rounded(ratio.median),
  }
}

/** To four digits: more would pretend to a precision that nothing here has. */
function rounded(value: number): number | null {
  return Number.isFinite(value) ? Number(value.toPrecision(4)) : null
}

export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.split('\n', 1)[0] ?? text
}
