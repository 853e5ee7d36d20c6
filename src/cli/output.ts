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

/** Plain text, or text with a colour. */
export type Cell = string | { readonly text: string; readonly colour?: Colour }

/** A title, of what is lined up on the left unless it says otherwise. */
export type Column = string | { readonly title: string; readonly align?: 'left' | 'right' }

/** A table with two spaces between columns and no trailing spaces. */
export function formatTable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  paint: Paint,
): string {
  const plainColumns = columns.map((column) => {
    return typeof column === 'string' ? { title: column } : column
  })
  const header = plainColumns.map(({ title }): Cell => ({ text: title, colour: 'dim' }))
  const lines = [header, ...rows].map((row) => {
    return row.map((cell) => {
      return typeof cell === 'string'
        ? { text: visible(cell) }
        : { ...cell, text: visible(cell.text) }
    })
  })
  const widths = columns.map((_, index) => {
    return Math.max(...lines.map((row) => width(row[index]?.text ?? '')))
  })
  const format = (row: (typeof lines)[number]): string => {
    const cells = plainColumns.map(({ align }, index) => {
      const { text, colour } = row[index] ?? { text: '' }
      const padding = ' '.repeat(Math.max(0, (widths[index] ?? 0) - width(text)))
      const painted = colour === undefined || text === '' ? text : paint(text, colour)
      return align === 'right' ? `${padding}${painted}` : `${painted}${padding}`
    })
    return cells.join('  ').trimEnd()
  }
  return lines.map(format).join('\n')
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

/** A word as a POSIX shell reads it back, quoted only where it must be. */
export function shellWord(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word
  return `'${word.replaceAll("'", `'\\''`)}'`
}
