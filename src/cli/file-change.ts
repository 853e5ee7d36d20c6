/** Changes of files that a command shows first, and makes when it is told to. */
import path from 'node:path'
import { LeaseError, show } from '../core/errors.ts'
import { fs, ifThere } from '../runtime/file-system.ts'
import { lineDiff } from './line-diff.ts'

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

/** Whoever may read it may run it, unless somebody said who may. */
function executable(permissions: number): number {
  return (permissions & EXECUTABLE) === 0
    ? permissions | ((permissions & READABLE) >> 2)
    : permissions
}

function unusable(file: string, cause: unknown): LeaseError {
  const why = cause instanceof Error ? cause.message : String(cause)
  const message = `file must be one that can be read and written, got ${show(file)}: ${why}`
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
