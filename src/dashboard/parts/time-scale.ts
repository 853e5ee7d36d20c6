/** From a moment to its place on a picture and back, and the lines of its scale. */
import { SPAN_MS } from './durations.ts'

export interface TimeWindow {
  readonly fromMs: number
  readonly toMs: number
}

export interface TimeScale extends TimeWindow {
  readonly width: number
}

export function xOf({ fromMs, toMs, width }: TimeScale, atMs: number): number {
  return ((atMs - fromMs) / (toMs - fromMs)) * width
}

export function timeAt({ fromMs, toMs, width }: TimeScale, x: number): number {
  return fromMs + (x / width) * (toMs - fromMs)
}

const STEPS: readonly number[] = [
  ...[1, 2, 5, 10, 30].map((count) => count * SPAN_MS.second),
  ...[1, 2, 5, 10, 30].map((count) => count * SPAN_MS.minute),
  ...[1, 2, 6, 12].map((count) => count * SPAN_MS.hour),
  ...[1, 2, 7].map((count) => count * SPAN_MS.day),
]
const LINE_EVERY_PX = 110

export interface TimeLine {
  readonly atMs: number
  readonly label: string
}

/** Lines at round times of the reader's own zone, about as many as there is room for. */
export function timeLines(scale: TimeScale): readonly TimeLine[] {
  const { fromMs, toMs, width } = scale
  const wanted = ((toMs - fromMs) * LINE_EVERY_PX) / Math.max(1, width)
  const step = STEPS.find((one) => one >= wanted) ?? 7 * SPAN_MS.day
  const zoneMs = new Date(fromMs).getTimezoneOffset() * SPAN_MS.minute
  const lines: TimeLine[] = []
  for (let at = Math.ceil((fromMs - zoneMs) / step) * step + zoneMs; at <= toMs; at += step) {
    lines.push({ atMs: at, label: labelOf(at, step) })
  }
  return lines
}

const WITH_SECONDS = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const WITH_MINUTES = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' })
const DAYS = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })

function labelOf(atMs: number, step: number): string {
  if (step < SPAN_MS.minute) return WITH_SECONDS.format(atMs)
  const isMidnight = new Date(atMs).getHours() === 0 && new Date(atMs).getMinutes() === 0
  return step >= SPAN_MS.day || isMidnight ? DAYS.format(atMs) : WITH_MINUTES.format(atMs)
}
