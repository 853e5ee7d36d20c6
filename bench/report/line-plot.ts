/** Lines over a logarithmic axis, one panel beside the other. */
import { GRID, INK, svgLine, svgPage, svgPolyline, svgText } from '../../sim/plot/svg.ts'
import { DASHES, SPREAD_ITEM, svgLegend, type LegendItem } from './legend.ts'

export interface Point {
  readonly x: number
  readonly y: number
  readonly spread: readonly [from: number, to: number]
}

export interface Line {
  readonly label: string
  readonly colour: string
  readonly points: readonly Point[]
}

export interface LinePanel {
  readonly title: string
  readonly lines: readonly Line[]
}

export interface LinePlotWords {
  readonly title: string
  readonly axis: string
  /** What it means to be at 1. */
  readonly one: string
}

const WIDTH = 860
const PANEL = 210
const TOP = 70
const HEIGHT = 170
const LEFT = 55
const BETWEEN = 65
/** Within a panel, so that no spread is drawn over the figures beside it. */
const MARGIN = 10
const TICKS_MAX = 5
/** The spreads of lines at one place stand side by side. */
const SPREAD_STEP = 4

export function linePlot(
  { title, axis, one }: LinePlotWords,
  panels: readonly LinePanel[],
): string {
  const body = [svgText({ x: 20, y: 26, size: 15 }, title)]
  panels.forEach((panel, index) => body.push(...drawPanel(panel, LEFT + index * (PANEL + BETWEEN))))
  body.push(svgText({ x: WIDTH / 2, y: TOP + HEIGHT + 40, anchor: 'middle' }, axis))
  const below = TOP + HEIGHT + 62
  body.push(...svgLegend((panels[0]?.lines ?? []).map(itemOf), { x: LEFT, y: below }))
  const marks: readonly LegendItem[] = [
    { ...SPREAD_ITEM, words: `upright: ${SPREAD_ITEM.words}` },
    { drawn: 'dashes', colour: INK, words: one },
  ]
  body.push(...svgLegend(marks, { x: LEFT, y: below + 20 }))
  return svgPage({ width: WIDTH, height: below + 38 }, body)
}

function itemOf({ label, colour }: Line): LegendItem {
  return { drawn: 'line', colour, words: label }
}

interface Scales {
  readonly x: (value: number) => number
  readonly y: (value: number) => number
}

function drawPanel({ title, lines }: LinePanel, left: number): readonly string[] {
  const points = lines.flatMap((line) => line.points)
  const ticks = ticksUpTo(Math.max(1, ...points.map(({ spread }) => spread[1])))
  const most = ticks.at(-1)?.value ?? 1
  const widest = Math.max(1, ...points.map(({ x: size }) => Math.log10(size)))
  const room = PANEL - 2 * MARGIN
  const x = (value: number): number => left + MARGIN + (Math.log10(value) / widest) * room
  const y = (value: number): number => TOP + HEIGHT - (value / most) * HEIGHT
  const across = (value: number) => ({ x1: left, x2: left + PANEL, y1: y(value), y2: y(value) })
  const grid = ticks.flatMap(({ value, words }) => [
    svgLine(across(value), GRID),
    svgText({ x: left - 6, y: y(value) + 4, anchor: 'end' }, words),
  ])
  const sizes = [...new Set(points.map(({ x: size }) => size))].map((size) =>
    svgText({ x: x(size), y: TOP + HEIGHT + 16, anchor: 'middle' }, shortText(size)),
  )
  const drawn = lines.flatMap((line, index) => {
    const shift = (index - (lines.length - 1) / 2) * SPREAD_STEP
    return drawLine(line, { x: (value) => x(value) + shift, y })
  })
  const named = svgText({ x: left, y: TOP - 12 }, title)
  return [named, ...grid, ...sizes, svgLine(across(1), INK, DASHES), ...drawn]
}

function drawLine({ points, colour }: Line, { x, y }: Scales): readonly string[] {
  const places = points.map((point) => [x(point.x), y(point.y)] as const)
  const spreads = points
    .filter(({ spread: [from, to] }) => from < to)
    .map(({ x: size, spread: [from, to] }) =>
      svgLine({ x1: x(size), x2: x(size), y1: y(from), y2: y(to) }, colour),
    )
  return [svgPolyline(places, colour), ...spreads]
}

export interface Tick {
  readonly value: number
  readonly words: string
}

/** From nothing to at least `most`, in steps of 1, 2 or 5, each with as many digits as tell it from the next. */
export function ticksUpTo(most: number): readonly Tick[] {
  const rough = most / TICKS_MAX
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5].find((times) => times * power >= rough) ?? 10)
  const digits = Math.max(0, -Math.floor(Math.log10(step)))
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => {
    const value = index * step
    return { value, words: value.toFixed(digits) }
  })
}

function shortText(size: number): string {
  if (size >= 1_000_000) return `${size / 1_000_000}M`
  return size >= 1_000 ? `${size / 1_000}k` : String(size)
}
