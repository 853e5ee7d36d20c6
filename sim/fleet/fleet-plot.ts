/** Draws what the fleet did as an SVG of three panels over one axis of time. */
import { GRID, INK, numberText, svgLine, svgPage, svgPolyline, svgText } from '../plot/svg.ts'
import type { ModelReport, Second } from './fleet-model.ts'

interface Line {
  readonly label: string
  readonly colour: string
  readonly value: (second: Second) => number
}

interface Panel {
  readonly title: string
  readonly lines: readonly Line[]
  readonly max: number
  /** A level that must not be exceeded. */
  readonly limit?: number
}

const WIDTH = 860
const LEFT = 70
const RIGHT = 20
const PANEL = 150
const GAP = 50
const START_UP = 10

export function plotOf(report: ModelReport, title: string): string {
  const panels = panelsOf(report)
  const height = 50 + panels.length * (PANEL + GAP)
  const body = panels.map((panel, index) => drawPanel(panel, report, 60 + index * (PANEL + GAP)))
  return svgPage({ width: WIDTH, height }, [svgText({ x: LEFT, y: 24, size: 15 }, title), ...body])
}

function panelsOf({ seconds, bound }: ModelReport): readonly Panel[] {
  // In the first seconds everything is acquired; on that scale nothing else could be seen.
  const shown = seconds.slice(START_UP)
  const most = (value: (second: Second) => number): number => Math.max(1, ...shown.map(value))
  const moves = (second: Second): number => second.moves
  const unowned = (second: Second): number => second.unowned
  const total = ({ renewing, discovering, moving }: Second): number =>
    renewing + discovering + moving
  return [
    {
      title: 'sessions per instance, relative to the mean (dashed: the bound)',
      max: 1.4,
      limit: bound,
      lines: [
        { label: 'fullest', colour: '#cf222e', value: ({ fullest }) => fullest },
        { label: 'emptiest', colour: '#0969da', value: ({ emptiest }) => emptiest },
      ],
    },
    {
      title: 'sessions that moved, and sessions without a living owner, per second',
      max: Math.max(most(moves), most(unowned)),
      lines: [
        { label: 'moved', colour: '#8250df', value: moves },
        { label: 'without owner', colour: '#cf222e', value: unowned },
      ],
    },
    {
      title: 'commands per second at the server',
      max: most(total),
      lines: [
        { label: 'all', colour: INK, value: total },
        { label: 'discovery', colour: '#1a7f37', value: ({ discovering }) => discovering },
        { label: 'renewal', colour: '#0969da', value: ({ renewing }) => renewing },
      ],
    },
  ]
}

function drawPanel(panel: Panel, { seconds }: ModelReport, top: number): string {
  const x = (second: number): number =>
    LEFT + (second / Math.max(1, seconds.length - 1)) * (WIDTH - LEFT - RIGHT)
  const y = (value: number): number => top + PANEL - Math.min(1, value / panel.max) * PANEL
  const across = { x1: LEFT, x2: WIDTH - RIGHT }
  const levels = [0, 0.5, 1].map((part) => part * panel.max)
  const grid = levels.flatMap((level) => [
    svgLine({ ...across, y1: y(level), y2: y(level) }, GRID),
    svgText({ x: LEFT - 8, y: y(level) + 4, anchor: 'end' }, numberText(level)),
  ])
  const ticks = seconds.flatMap((_, second) =>
    second % 60 === 0
      ? [svgText({ x: x(second), y: top + PANEL + 16, anchor: 'middle' }, `${second} s`)]
      : [],
  )
  const lines = panel.lines.map(({ colour, value }) => {
    const points = seconds.map((second, index) => [x(index), y(value(second))] as const)
    return svgPolyline(points, colour)
  })
  const legend = panel.lines.map(({ label, colour }, index) =>
    svgText(
      {
        x: WIDTH - RIGHT - 110 * (panel.lines.length - index) + 110,
        y: top - 6,
        anchor: 'end',
        colour,
      },
      label,
    ),
  )
  const { limit: level } = panel
  const limit =
    level === undefined ? [] : [svgLine({ ...across, y1: y(level), y2: y(level) }, INK, '5 4')]
  const heading = svgText({ x: LEFT, y: top - 6 }, panel.title)
  return [heading, ...grid, ...ticks, ...limit, ...lines, ...legend].join('\n')
}
