/** Groups of horizontal bars, one panel below the other. */
import { GRID, INK, svgLine, svgPage, svgText } from '../../sim/plot/svg.ts'
import { DASHES, SPREAD_ITEM, svgLegend, type LegendItem } from './legend.ts'

export interface Bar {
  readonly label: string
  readonly value: number
  /** What stands behind the bar. */
  readonly words: string
  readonly isOurs: boolean
  readonly spread?: readonly [from: number, to: number]
}

export interface BarPanel {
  readonly title: string
  readonly bars: readonly Bar[]
}

export interface BarPlotWords {
  readonly title: string
  /** A line at this value in each panel, and what it means. */
  readonly mark?: { readonly at: number; readonly words: string }
}

const WIDTH = 860
const LEFT = 190
const RIGHT = 170
const BAR = 14
const STEP = 20
const GAP = 46
const OURS = '#0969da'
const THEIRS = '#8c959f'

export function barPlot({ title, mark }: BarPlotWords, panels: readonly BarPanel[]): string {
  const items: readonly LegendItem[] = [
    { drawn: 'box', colour: OURS, words: 'Tenure' },
    { drawn: 'box', colour: THEIRS, words: 'others' },
    SPREAD_ITEM,
    ...(mark === undefined ? [] : [{ drawn: 'dashes', colour: INK, words: mark.words } as const]),
  ]
  const body: string[] = [
    svgText({ x: 20, y: 26, size: 15 }, title),
    ...svgLegend(items, { x: 20, y: 46 }),
  ]
  let top = 92
  for (const panel of panels) {
    body.push(...drawPanel(panel, top, mark?.at))
    top += panel.bars.length * STEP + GAP
  }
  return svgPage({ width: WIDTH, height: top - 10 }, body)
}

function drawPanel({ title, bars }: BarPanel, top: number, mark?: number): readonly string[] {
  const most = Math.max(mark ?? 0, ...bars.map(({ value, spread }) => spread?.[1] ?? value))
  const scale = (value: number): number => (value / most) * (WIDTH - LEFT - RIGHT)
  const drawn = bars.flatMap(({ label, value, words, isOurs, spread }, index) => {
    const y = top + index * STEP
    const middle = y + BAR / 2
    const end = LEFT + scale(spread?.[1] ?? value)
    return [
      svgText({ x: LEFT - 8, y: middle + 4, anchor: 'end' }, label),
      `<rect x="${LEFT}" y="${y}" width="${scale(value).toFixed(1)}" height="${BAR}" fill="${isOurs ? OURS : THEIRS}"/>`,
      ...(spread === undefined
        ? []
        : [svgLine({ x1: LEFT + scale(spread[0]), x2: end, y1: middle, y2: middle }, INK)]),
      svgText({ x: end + 8, y: middle + 4 }, words),
    ]
  })
  const bottom = top + bars.length * STEP - (STEP - BAR)
  const x = LEFT + scale(mark ?? 0)
  const marked =
    mark === undefined ? [] : [svgLine({ x1: x, x2: x, y1: top - 4, y2: bottom + 4 }, INK, DASHES)]
  const axis = svgLine({ x1: LEFT, x2: LEFT, y1: top - 4, y2: bottom + 4 }, GRID)
  return [svgText({ x: 20, y: top - 12 }, title), axis, ...drawn, ...marked]
}
