/** One target: what is wanted, what this run read, and whether that is enough. */
import type { Slice } from '../measure/load.ts'
import { spreadOf, type Spread } from '../measure/statistics.ts'
import { ratioBetween, type Result } from '../result.ts'
import { ratioText, twoDigits } from './figures.ts'

export interface Reading {
  readonly target: string
  readonly wanted: string
  readonly reads: string
  readonly met: Verdict
}

/** Unsure: by the median, but by too few of the rounds to say that it was not chance. */
export type Verdict = 'yes' | 'unsure' | 'no'

export type Bound = ({ readonly atLeast: number } | { readonly atMost: number }) & {
  /** How its figures are written; with two digits, if nothing is said. */
  readonly written?: (value: number) => string
}

/** Of the rounds: what is met is met by so many of them. */
const SURE_PART = 0.75

export interface Opponents {
  readonly ours: Result | undefined
  readonly theirs: Result | undefined
  readonly figure?: keyof Slice | undefined
}

/** A target must not go away because the other one failed; it does if the other one was not in this run. */
export function duelReading(
  target: string,
  bound: Bound,
  { ours, theirs, figure }: Opponents,
): readonly Reading[] {
  if (ours === undefined || ours.error !== null || theirs === undefined) return []
  const ratio = ratioBetween(ours, theirs, figure)
  if (ratio !== null) return reading(target, bound, ratio)
  const reads = `not measured: ${theirs.error ?? 'nothing to compare with'}`
  return [{ target, wanted: wantedText(bound), reads, met: 'no' }]
}

export function plain(target: string, bound: Bound, values: readonly number[]): readonly Reading[] {
  const sound = values.filter((value) => Number.isFinite(value))
  return sound.length === 0 ? [] : reading(target, bound, spreadOf(sound))
}

/** For what must be so every time. */
export function worst(target: string, bound: Bound, values: readonly number[]): readonly Reading[] {
  const one = 'atLeast' in bound ? Math.min(...values) : Math.max(...values)
  return plain(`${target}, worst round`, bound, values.length === 0 ? [] : [one])
}

export function reading(target: string, bound: Bound, spread: Spread): readonly Reading[] {
  const reads = ratioText(spread, bound.written)
  return [{ target, wanted: wantedText(bound), reads, met: verdictOf(bound, spread) }]
}

function verdictOf(bound: Bound, { median: middle, values }: Spread): Verdict {
  const isWithin = (value: number): boolean => {
    return 'atLeast' in bound ? value >= bound.atLeast : value <= bound.atMost
  }
  if (!isWithin(middle)) return 'no'
  return values.filter(isWithin).length >= SURE_PART * values.length ? 'yes' : 'unsure'
}

function wantedText(bound: Bound): string {
  const { written = twoDigits } = bound
  return 'atLeast' in bound ? `≥ ${written(bound.atLeast)}` : `≤ ${written(bound.atMost)}`
}
