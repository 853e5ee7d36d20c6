/** One table, written for a terminal or for a page. */
export interface Table {
  readonly title: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** Printed under the title. */
  readonly note?: string
}

/** Words to the left, figures to the right. */
export function terminalText({ title, columns, rows, note }: Table): string {
  const lines = [columns, ...rows]
  const isFigures = figureColumns({ columns, rows })
  const widths = columns.map((_, column) => Math.max(...lines.map((row) => lengthOf(row[column]))))
  const written = lines.map((row) =>
    row
      .map((cell, column) => {
        const padding = ' '.repeat((widths[column] ?? 0) - lengthOf(cell))
        return isFigures[column] === true ? padding + cell : cell + padding
      })
      .join('  ')
      .trimEnd(),
  )
  return [title, ...(note === undefined ? [] : [note]), ...written, ''].join('\n')
}

export function markdownText({ title, columns, rows, note }: Table): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  const rule = line(figureColumns({ columns, rows }).map((is) => (is ? '--:' : '---')))
  const above = note === undefined ? [] : [note, '']
  return [`### ${title}`, '', ...above, line(columns), rule, ...rows.map(line), ''].join('\n')
}

/** Which columns have nothing but figures. */
function figureColumns({ columns, rows }: Pick<Table, 'columns' | 'rows'>): readonly boolean[] {
  return columns.map((_, column) => rows.every((row) => /^[\d—]/.test(row[column] ?? '')))
}

function lengthOf(cell: string | undefined): number {
  return [...(cell ?? '')].length
}
