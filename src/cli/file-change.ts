/** Changes of files that a command shows first, and makes when it is told to. */
import path from 'node:path'
import { LeaseError, messageOf, show } from '../core/errors.ts'
import { fs, ifThere } from '../runtime/file-system.ts'

export type FileChange =
  | {
      readonly kind: 'write'
      readonly file: string
      /** Null for a file that is made. */
      readonly before: Buffer | null
      readonly after: Buffer
      /** Whether it is a program. One that is there keeps its other permissions. */
      readonly isProgram?: boolean
      /** What the file was before is kept under this name. */
      readonly backup?: string
    }
  | { readonly kind: 'remove'; readonly file: string; readonly before: Buffer }
  | { readonly kind: 'move'; readonly file: string; readonly to: string }

const FILE_MODE = 0o644
const EXECUTABLE = 0o111
const READABLE = 0o444
const PERMISSION_BITS = 0o7777

/** Null where there is no such file. What is there and cannot be read is told in one line. */
export function readIfThere(file: string): Buffer | null {
  try {
    return ifThere(() => fs.readFileSync(file))
  } catch (cause) {
    throw unusable(file, cause)
  }
}

export function applyChange(change: FileChange): void {
  const { file } = change
  try {
    if (change.kind === 'remove') fs.unlinkSync(file)
    else if (change.kind === 'move') fs.renameSync(file, change.to)
    else writeChange(change)
  } catch (cause) {
    throw unusable(file, cause)
  }
}

/** Replaced as a whole, so that a crash leaves the old text or the new one. */
function writeChange(change: Extract<FileChange, { kind: 'write' }>): void {
  const { file, before, after, backup } = change
  fs.mkdirSync(path.dirname(file), { recursive: true })
  const permissions = before === null ? FILE_MODE : fs.statSync(file).mode & PERMISSION_BITS
  const mode = change.isProgram === true ? executable(permissions) : permissions
  // A rename would replace what may not be written.
  if (before !== null) fs.accessSync(file, fs.constants.W_OK)
  if (before !== null && backup !== undefined) fs.copyFileSync(file, backup)
  const temporary = `${file}.${process.pid}.new`
  try {
    fs.writeFileSync(temporary, after, { flag: 'wx' })
    // Not by the option, which the umask would narrow.
    fs.chmodSync(temporary, mode)
    fs.renameSync(temporary, file)
  } catch (error) {
    fs.rmSync(temporary, { force: true })
    throw error
  }
}

/** Every user that may read it may run it, unless its permissions say who may. */
function executable(permissions: number): number {
  return (permissions & EXECUTABLE) === 0
    ? permissions | ((permissions & READABLE) >> 2)
    : permissions
}

function unusable(file: string, cause: unknown): LeaseError {
  const message = `file must be one that can be read and written, got ${show(file)}: ${messageOf(cause)}`
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'file' }, cause })
}

/** The change as people read it, with names from the working directory. */
export function changeText(change: FileChange, cwd: string): string {
  const name = path.relative(cwd, change.file)
  if (change.kind === 'move') return `rename ${name}\n    to ${path.relative(cwd, change.to)}`
  const before = change.before?.toString() ?? ''
  const after = change.kind === 'remove' ? '' : change.after.toString()
  const old = change.before === null ? '/dev/null' : name
  const next = change.kind === 'remove' ? '/dev/null' : name
  return [`--- ${old}`, `+++ ${next}`, ...lineDiff(before, after)].join('\n')
}

/** What was done, in a line. */
export function changeWords(change: FileChange, cwd: string): string {
  const name = path.relative(cwd, change.file)
  if (change.kind === 'remove') return `${name} is removed`
  if (change.kind === 'move') return `${name} is now ${path.relative(cwd, change.to)}`
  const kept =
    change.backup === undefined ? '' : `; ${path.relative(cwd, change.backup)} is as it was`
  return change.before === null ? `${name} is made` : `${name} is changed${kept}`
}

const CONTEXT_LINES = 3
/** Beyond this, all that changed is shown as gone and come again. */
const CELLS_MAX = 4_000_000

interface Step {
  readonly mark: ' ' | '-' | '+'
  readonly line: string
}

/**
 * The difference of two texts, line by line, as the hunks of `diff -u` without the names of files; nothing for texts that are the same.
 */
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
