/** How figures are written, the same everywhere. */
import type { Spread } from '../measure/statistics.ts'

export function perSecondText(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return '—'
  return value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString('en')
}

export function msText(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return '—'
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value >= 1 ? value.toFixed(1) : value.toFixed(3)
}

/** The median, and from where to where the rounds went, if they went anywhere. */
export function ratioText(ratio: Spread | null, written = twoDigits): string {
  if (ratio === null) return '—'
  if (ratio.min === ratio.max) return written(ratio.median)
  return `${written(ratio.median)} (${written(ratio.min)}–${written(ratio.max)})`
}

/** For what comes in wholes only. */
export function wholeText(value: number): string {
  return Math.round(value).toLocaleString('en')
}

export function twoDigits(value: number): string {
  if (!Number.isFinite(value)) return '—'
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(2)
}

export function percentText(part: number): string {
  return `${(100 * part).toFixed(1)} %`
}

export function countText(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return '—'
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(1)
}
