/**
 * How things look: tables, relative times, colours. Pure text in, text out; whether there is a terminal, and how wide,
 * is told by the caller.
 */
import { formatSpan } from './duration.ts'

export type Colour = 'red' | 'green' | 'yellow' | 'cyan' | 'dim' | 'bold'

const CODES: Readonly<Record<Colour, number>> = {
  bold: 1,
  dim: 2,
  red: 31,
  green: 32,
  yellow: 33,
  cyan: 36,
}

export type Paint = (text: string, colour: Colour) => string

/** Colours only where a person looks at a terminal that has them, and never against NO_COLOR. */
export function painter(
  isTerminal: boolean,
  env: Readonly<Record<string, string | undefined>>,
): Paint {
  const wanted = isTerminal && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  if (!wanted) return plain
  return (text, colour) => `\u001b[${CODES[colour]}m${text}\u001b[0m`
}

export const plain: Paint = (text) => text

const UNSAFE_PATTERN =
  // oxlint-disable-next-line no-control-regex -- control characters are exactly what is looked for
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/**
 * Text that cannot move the cursor, break the line, turn the reading direction or hide a difference. The core refuses
 * most of this, but a database or a ledger that was edited by hand may hold anything. JSON stays the same value.
 */
export function visible(text: string): string {
  return text.replace(UNSAFE_PATTERN, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

export interface Cell {
  readonly text: string
  readonly colour?: Colour
}

export interface Column {
  readonly title: string
  readonly align?: 'left' | 'right'
}

/** A table with two spaces between columns and no trailing spaces. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): string {
  const header: readonly Cell[] = columns.map(({ title }) => ({ text: title, colour: 'dim' }))
  const lines = [header, ...rows].map((row) =>
    row.map((cell) => ({ ...cell, text: visible(cell.text) })),
  )
  const widths = columns.map((_, index) =>
    Math.max(...lines.map((row) => width(row[index]?.text ?? ''))),
  )
  return lines.map((row) => formatRow({ columns, widths, row }, paint)).join('\n')
}

interface Row {
  readonly columns: readonly Column[]
  readonly widths: readonly number[]
  readonly row: readonly Cell[]
}

function formatRow({ columns, widths, row }: Row, paint: Paint): string {
  const last = columns.length - 1
  const cells = columns.map((column, index) => {
    const { text, colour } = row[index] ?? { text: '' }
    const padding = ' '.repeat(Math.max(0, (widths[index] ?? 0) - width(text)))
    const painted = colour === undefined || text === '' ? text : paint(text, colour)
    if (column.align === 'right') return `${padding}${painted}`
    return index === last ? painted : `${painted}${padding}`
  })
  return cells.join('  ').trimEnd()
}

/** Characters, not UTF-16 units: close enough to columns for names and paths. */
function width(text: string): number {
  return [...text].length
}

export function cut(text: string, widthMax: number): string {
  const characters = [...text]
  return characters.length <= widthMax ? text : `${characters.slice(0, widthMax - 1).join('')}…`
}

/** `3m ago`, `in 29s`, `now`. */
export function relativeTime(atMs: number, nowMs: number): string {
  const deltaMs = atMs - nowMs
  if (Math.abs(deltaMs) < 1_000) return 'now'
  return deltaMs > 0 ? `in ${formatSpan(deltaMs)}` : `${formatSpan(-deltaMs)} ago`
}

/** A point in time for people: the local date and time of day, to the millisecond. */
export function clockTime(atMs: number): string {
  const at = new Date(atMs)
  if (Number.isNaN(at.getTime())) return '-'
  const two = (value: number): string => String(value).padStart(2, '0')
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
  return `${date} ${time}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

export function plural(count: number, one: string, many: string = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
