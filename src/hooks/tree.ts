/** The checkout that a file is in and its uncommitted changes, the content of files, and the files that a pattern stands for. */
import { createHash } from 'node:crypto'
import path from 'node:path'
import { fs, hasCode, ifThere } from '../runtime/file-system.ts'
import { outputOf } from '../runtime/programs.ts'

/** The directory with the `.git` above a path, or of the path itself; null outside of every checkout. */
export function checkoutRoot(start: string): string | null {
  for (let directory = start; ; directory = path.dirname(directory)) {
    if (fs.existsSync(path.join(directory, '.git'))) return directory
    if (directory === path.dirname(directory)) return null
  }
}

export function isInside(root: string, file: string): boolean {
  const relative = path.relative(root, file)
  return relative !== '..' && !relative.startsWith(`..${path.sep}`) && !path.isAbsolute(relative)
}

const STATUS_WITHIN_MS = 300

/** Which of some files have uncommitted changes, as absolute paths; null where git does not answer in time, is not there, or fails. */
export async function dirtyFiles(
  root: string,
  files: readonly string[],
): Promise<ReadonlySet<string> | null> {
  const args = ['status', '--porcelain', '-z', '--untracked-files=all', '--', ...files]
  const output = await outputOf('git', args, { cwd: root, withinMs: STATUS_WITHIN_MS })
  if (output === null) return null
  const dirty = new Set<string>()
  const fields = output.split('\0')
  for (let index = 0; index < fields.length; index += 1) {
    const field = fields[index] ?? ''
    if (field.length < 4) continue
    dirty.add(path.join(root, field.slice(3)))
    // A rename has its old name in a field of its own.
    if (/^[RC]|^.[RC]/.test(field)) dirty.add(path.join(root, fields[(index += 1)] ?? ''))
  }
  return dirty
}

export const ABSENT = 'absent'
/** Of what is no file, such as a directory or a pipe: nothing of it is read. */
const NO_FILE = 'no file'
const HASHED_BYTES_MAX = 16 * 1_048_576

/** Differs when the content differs; of files beyond 16 MiB when the size or the time of the last write does. */
export function contentHash(file: string): string {
  const status = look(() => fs.statSync(file))
  if (status === null) return ABSENT
  if (!status.isFile()) return NO_FILE
  if (status.size > HASHED_BYTES_MAX) return `${status.size} ${status.mtimeMs}`
  const bytes = look(() => fs.readFileSync(file))
  return bytes === null ? ABSENT : createHash('sha256').update(bytes).digest('base64url')
}

/** A file that may not be read has no content to compare; editing it fails on its own. */
function look<Result>(read: () => Result): Result | null {
  try {
    return ifThere(read)
  } catch (error) {
    if (hasCode(error, 'EACCES', 'EPERM', 'ELOOP', 'ENAMETOOLONG', 'EISDIR')) return null
    throw error
  }
}

const TEXT_BYTES_MAX = 4 * 1_048_576

export function textOfFile(file: string): string | null {
  const status = look(() => fs.statSync(file))
  if (status === null || !status.isFile() || status.size > TEXT_BYTES_MAX) return null
  return look(() => fs.readFileSync(file, 'utf8'))
}

export function isThere(file: string): boolean {
  return look(() => fs.statSync(file)) !== null
}

export function isDirectory(file: string): boolean {
  return look(() => fs.statSync(file))?.isDirectory() === true
}

const GLOB_MAX = 10_000

/** What a shell makes of `*`, `?` and `[…]` in an absolute path; names with a leading dot only where the pattern has it. */
export function expandGlob(pattern: string): readonly string[] {
  const [, ...segments] = pattern.split('/')
  let found: readonly string[] = ['/']
  for (const segment of segments) {
    found = found.flatMap((directory) => matches(directory, segment)).slice(0, GLOB_MAX)
  }
  return found
}

function matches(directory: string, segment: string): readonly string[] {
  if (!/[*?[]/.test(segment)) {
    const file = path.join(directory, segment)
    return isThere(file) ? [file] : []
  }
  const names = look(() => fs.readdirSync(directory)) ?? []
  const expression = patternOf(segment)
  const isHidden = segment.startsWith('.')
  return names
    .filter((name) => expression.test(name) && (isHidden || !name.startsWith('.')))
    .sort()
    .map((name) => path.join(directory, name))
}

function patternOf(segment: string): RegExp {
  const source = segment.replaceAll(/\[!?[^\]]+\]|[^]/gu, (part) => {
    if (part === '*') return '.*'
    if (part === '?') return '.'
    if (part.length > 1 && part.startsWith('[')) {
      return part.replace('[!', '[^').replaceAll('\\', '\\\\')
    }
    return part.replace(/[\\^$.|?*+()[\]{}]/, '\\$&')
  })
  try {
    return new RegExp(`^${source}$`, 'su')
  } catch (error) {
    // No fault: a set such as [z-a] matches nothing in a shell either.
    if (error instanceof SyntaxError) return /^\b$/
    throw error
  }
}
