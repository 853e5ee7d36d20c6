/**
 * Where things stand on a picture of a span of time: moments, the lines of its scale, lanes, and the names in them. A name
 * stands in its bar; one that is longer stands below, unless it would reach below the next bar and be taken for the name of
 * that one, so that it need not be pointed at. What fits nowhere is cut short, and says so.
 */
import { firstMs, type Hold, type Lane } from '../state/holds.ts'
import { SPAN_MS } from './words.ts'

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

interface TimeLine {
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
    lines.push({ atMs: at, label: lineText(at, step) })
  }
  return lines
}

const WITH_SECONDS = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const WITH_MINUTES = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short' })
const DAYS = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })

function lineText(atMs: number, step: number): string {
  if (step < SPAN_MS.minute) return WITH_SECONDS.format(atMs)
  const isMidnight = new Date(atMs).getHours() === 0 && new Date(atMs).getMinutes() === 0
  return step >= SPAN_MS.day || isMidnight ? DAYS.format(atMs) : WITH_MINUTES.format(atMs)
}

export const TRACK_HEIGHT = 22
export const LANE_PADDING = 6
const BELOW_HEIGHT = 13
const LONG_NAME_HEIGHT = 28
/** Of the fonts of code, at 11 and 12 px. */
const LABEL_CHARACTER = 6.7
const NAME_CHARACTER = 7.3
/** Before a label, and after it for the sign at the end of the bar. */
const LABEL_START = 6
const LABEL_END = 14

export interface LanesShown {
  /** What is written of a hold. */
  readonly label: 'holder' | 'resource' | 'reason'
  readonly scale: TimeScale
  readonly nowMs: number
  /** For the name of a lane. */
  readonly nameWidth: number
}

export interface TrackPlace {
  readonly holds: readonly Hold[]
  readonly y: number
  /** Those whose names stand below their bars. */
  readonly below: ReadonlySet<string>
}

export interface LanePlace {
  readonly lane: Lane
  readonly tracks: readonly TrackPlace[]
  readonly y: number
  readonly endY: number
  /** Its own name takes two lines, of so many characters together; null: it stands in one. */
  readonly nameCharacters: number | null
}

export function lanePlacesOf(lanes: readonly Lane[], shown: LanesShown): readonly LanePlace[] {
  let laneY = 0
  return lanes.map((lane) => {
    let height = 0
    const tracks = lane.tracks.map((holds): TrackPlace => {
      const place = { holds, y: height, below: namesBelow(holds, shown) }
      height += TRACK_HEIGHT + (place.below.size === 0 ? 0 : BELOW_HEIGHT)
      return place
    })
    const lineCharacters = Math.floor(shown.nameWidth / NAME_CHARACTER)
    const isLong = lane.name.length > lineCharacters
    const y = laneY
    laneY += Math.max(height, isLong ? LONG_NAME_HEIGHT : 0) + LANE_PADDING
    return {
      lane,
      tracks,
      y,
      endY: laneY,
      nameCharacters: isLong ? 2 * (lineCharacters - 1) : null,
    }
  })
}

export interface Bar {
  /** A little beyond the picture at most. */
  readonly x: number
  readonly width: number
  /** Where the part begins that can be seen. */
  readonly fromX: number
  /** How many characters of a name stand in it. */
  readonly characters: number
}

export function barOf({ askedAtMs, grantedAtMs, endedAtMs }: Hold, shown: LanesShown): Bar {
  const { scale, nowMs } = shown
  const untilMs = endedAtMs ?? nowMs
  const x = inside(scale, grantedAtMs ?? askedAtMs ?? untilMs)
  const width = Math.max(2, inside(scale, untilMs) - x)
  const fromX = Math.max(0, x)
  const room = x + width - fromX - LABEL_START - LABEL_END
  return { x, width, fromX, characters: Math.max(0, Math.floor(room / LABEL_CHARACTER)) }
}

export function inside(scale: TimeScale, atMs: number): number {
  return Math.max(-8, Math.min(scale.width + 8, xOf(scale, atMs)))
}

export function labelOf(hold: Hold, { label }: LanesShown): string {
  return hold[label] ?? ''
}

/** In the order of time, which that of a track is. */
function namesBelow(holds: readonly Hold[], shown: LanesShown): ReadonlySet<string> {
  const { scale } = shown
  const below = holds.filter((hold, index) => {
    const { x, width, fromX, characters } = barOf(hold, shown)
    const { length } = labelOf(hold, shown)
    if (length <= characters || x + width <= 0 || x >= scale.width) return false
    const next = holds[index + 1]
    const freeX = next === undefined ? scale.width : inside(scale, firstMs(next))
    return fromX + length * LABEL_CHARACTER <= Math.min(freeX, scale.width)
  })
  return new Set(below.map(({ leaseId }) => leaseId))
}
