/** The difference of two texts, line by line, in the form that `diff -u` has. */

const CONTEXT_LINES = 3
/** Beyond this, all that changed is shown as gone and come again. */
const CELLS_MAX = 4_000_000

interface Step {
  readonly mark: ' ' | '-' | '+'
  readonly line: string
}

/** Hunks alone, without the names of files; nothing for texts that are the same. */
export function lineDiff(before: string, after: string): readonly string[] {
  const steps = stepsBetween(linesOf(before), linesOf(after))
  const near = steps.map((_, index) => {
    const from = Math.max(0, index - CONTEXT_LINES)
    return steps.slice(from, index + CONTEXT_LINES + 1).some(({ mark }) => mark !== ' ')
  })
  const lines: string[] = []
  let [oldLine, newLine] = [1, 1]
  for (const [index, { mark, line }] of steps.entries()) {
    if (near[index] === true) {
      if (near[index - 1] !== true) lines.push(hunkHead({ steps, near, index }, oldLine, newLine))
      lines.push(`${mark}${line}`)
    }
    if (mark !== '+') oldLine += 1
    if (mark !== '-') newLine += 1
  }
  return lines
}

interface HunkPlace {
  readonly steps: readonly Step[]
  readonly near: readonly boolean[]
  readonly index: number
}

function hunkHead({ steps, near, index }: HunkPlace, oldLine: number, newLine: number): string {
  const end = near.indexOf(false, index)
  const hunk = steps.slice(index, end < 0 ? steps.length : end)
  const part = (line: number, without: Step['mark']): string => {
    const count = hunk.filter(({ mark }) => mark !== without).length
    return `${count === 0 ? line - 1 : line},${count}`
  }
  return `@@ -${part(oldLine, '+')} +${part(newLine, '-')} @@`
}

function linesOf(text: string): readonly string[] {
  if (text === '') return []
  const lines = text.split('\n')
  if (lines.at(-1) === '') return lines.slice(0, -1)
  return [...lines.slice(0, -1), `${lines.at(-1)}\n\\ No newline at end of file`]
}

/** By the longest common subsequence, between what both begin and end with. */
function stepsBetween(a: readonly string[], b: readonly string[]): readonly Step[] {
  let start = 0
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1
  let same = 0
  const room = Math.min(a.length, b.length) - start
  while (same < room && a[a.length - 1 - same] === b[b.length - 1 - same]) same += 1
  const keep = (line: string): Step => ({ mark: ' ', line })
  const middle = [a.slice(start, a.length - same), b.slice(start, b.length - same)] as const
  return [
    ...a.slice(0, start).map(keep),
    ...changedSteps(...middle),
    ...a.slice(a.length - same).map(keep),
  ]
}

function changedSteps(a: readonly string[], b: readonly string[]): readonly Step[] {
  const lengths = commonLengths(a, b)
  const steps: Step[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]]
    if (left !== undefined && left === right) {
      steps.push({ mark: ' ', line: left })
      i += 1
      j += 1
    } else if (
      right === undefined ||
      (left !== undefined && lengths(i + 1, j) >= lengths(i, j + 1))
    ) {
      steps.push({ mark: '-', line: left ?? '' })
      i += 1
    } else {
      steps.push({ mark: '+', line: right })
      j += 1
    }
  }
  return steps
}

/** How many lines two texts have in common, in order, from line `i` of one and line `j` of the other. */
function commonLengths(
  a: readonly string[],
  b: readonly string[],
): (i: number, j: number) => number {
  if (a.length * b.length > CELLS_MAX) return () => 0
  const width = b.length + 1
  const table = new Uint32Array((a.length + 1) * width)
  const at = (i: number, j: number): number => table[i * width + j] ?? 0
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const longest = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
      table[i * width + j] = longest
    }
  }
  return at
}
