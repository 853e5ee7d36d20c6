/** What the marks of a plot mean, in one row. */
import { INK, svgLine, svgText } from '../../sim/plot/svg.ts'

export interface LegendItem {
  readonly words: string
  readonly drawn: 'box' | 'line' | 'dashes'
  readonly colour: string
}

/** Where the rounds of a figure went. */
export const SPREAD_ITEM: LegendItem = {
  ...{ drawn: 'line', colour: INK, words: 'from the lowest to the highest round' },
}

export const DASHES = '5 4'
const SAMPLE = 22
const GAP = 18
/** Of a letter, about: nothing here can measure words. */
const LETTER = 6.3

export function svgLegend(
  items: readonly LegendItem[],
  { x, y }: { readonly x: number; readonly y: number },
): readonly string[] {
  let left = x
  return items.flatMap((item) => {
    const from = left
    left += SAMPLE + 6 + item.words.length * LETTER + GAP
    return [sampleOf(item, from, y), svgText({ x: from + SAMPLE + 6, y: y + 4 }, item.words)]
  })
}

function sampleOf({ drawn, colour }: LegendItem, x: number, y: number): string {
  if (drawn === 'box') {
    return `<rect x="${x}" y="${y - 5}" width="${SAMPLE}" height="10" fill="${colour}"/>`
  }
  const segment = { x1: x, x2: x + SAMPLE, y1: y, y2: y }
  return svgLine(segment, colour, drawn === 'dashes' ? DASHES : undefined)
}
