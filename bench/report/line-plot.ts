/** Lines over a logarithmic axis, one panel beside the other. */
import {
  GRID,
  INK,
  numberText,
  svgLine,
  svgPage,
  svgPolyline,
  svgText,
} from '../../sim/plot/svg.ts'

export interface Line {
  readonly label: string
  readonly colour: string
  readonly points: readonly (readonly [x: number, y: number])[]
}

export interface LinePanel {
  readonly title: string
  readonly lines: readonly Line[]
}

const WIDTH = 860
const PANEL = 210
const TOP = 70
const HEIGHT = 170
const LEFT = 55
const BETWEEN = 65

export function linePlot(title: string, panels: readonly LinePanel[], axis: string): string {
  const body = [svgText({ x: 20, y: 26, size: 15 }, title)]
  panels.forEach((panel, index) => body.push(...drawPanel(panel, LEFT + index * (PANEL + BETWEEN))))
  body.push(svgText({ x: WIDTH / 2, y: TOP + HEIGHT + 40, anchor: 'middle' }, axis))
  body.push(...legend(panels[0]?.lines ?? []))
  return svgPage({ width: WIDTH, height: TOP + HEIGHT + 80 }, body)
}

function drawPanel({ title, lines }: LinePanel, left: number): readonly string[] {
  const xs = lines.flatMap(({ points }) => points.map(([x]) => Math.log10(x)))
  const most = Math.max(...lines.flatMap(({ points }) => points.map(([, y]) => y)))
  const widest = Math.max(1, ...xs)
  const x = (value: number): number => left + (Math.log10(value) / widest) * PANEL
  const y = (value: number): number => TOP + HEIGHT - (value / most) * HEIGHT
  const grid = [0, 0.5, 1].flatMap((part) => {
    const level = y(part * most)
    return [
      svgLine({ x1: left, x2: left + PANEL, y1: level, y2: level }, GRID),
      svgText({ x: left - 6, y: level + 4, anchor: 'end' }, numberText(part * most)),
    ]
  })
  const sizes = [...new Set(lines.flatMap(({ points }) => points.map(([value]) => value)))]
  const ticks = sizes.map((size) =>
    svgText({ x: x(size), y: TOP + HEIGHT + 16, anchor: 'middle' }, shortText(size)),
  )
  const drawn = lines.map(({ points, colour }) =>
    svgPolyline(
      points.map(([size, value]) => [x(size), y(value)] as const),
      colour,
    ),
  )
  return [svgText({ x: left, y: TOP - 12 }, title), ...grid, ...ticks, ...drawn]
}

function legend(lines: readonly Line[]): readonly string[] {
  return lines.map(({ label, colour }, index) =>
    svgText({ x: LEFT + index * 130, y: TOP + HEIGHT + 62, colour: colour || INK }, label),
  )
}

function shortText(size: number): string {
  if (size >= 1_000_000) return `${size / 1_000_000}M`
  return size >= 1_000 ? `${size / 1_000}k` : String(size)
}
