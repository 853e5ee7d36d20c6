/** The little of SVG that the plots of this repository are made of. */
export const INK = '#24292f'
export const GRID = '#d0d7de'

export interface TextPlace {
  readonly x: number
  readonly y: number
  readonly size?: number
  readonly anchor?: string
  readonly colour?: string
}

/** A white page of this size. */
export function svgPage(
  { width, height }: { readonly width: number; readonly height: number },
  body: readonly string[],
): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif">`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    ...body,
    '</svg>',
    '',
  ].join('\n')
}

export function svgText(
  { x, y, size = 11, anchor = 'start', colour = INK }: TextPlace,
  words: string,
): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" font-size="${size}" text-anchor="${anchor}" fill="${colour}">${escaped(words)}</text>`
}

export interface Segment {
  readonly x1: number
  readonly x2: number
  readonly y1: number
  readonly y2: number
}

export function svgLine({ x1, x2, y1, y2 }: Segment, stroke: string, dashes?: string): string {
  const dashed = dashes === undefined ? '' : ` stroke-dasharray="${dashes}"`
  return `<line x1="${x1}" x2="${x2}" y1="${y1}" y2="${y2}" stroke="${stroke}"${dashed}/>`
}

export function svgPolyline(
  points: readonly (readonly [x: number, y: number])[],
  stroke: string,
): string {
  const written = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`)
  return `<polyline fill="none" stroke="${stroke}" stroke-width="1.3" points="${written.join(' ')}"/>`
}

export function numberText(value: number): string {
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString('en')
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
