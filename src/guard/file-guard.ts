/**
 * Guards files: a file is replaced, whole and at once, only under a fence that no later holder has passed. The marks
 * are in a SQLite database, whose lock the operating system takes from a process that dies.
 *
 *  1. The mark is raised and committed. Should the process die now, the file is old and the mark is new: safe.
 *  2. In a second transaction the fence is checked again, the new content is written beside the file and renamed into
 *     place while the lock is held, so that nobody with a higher fence can come between check and rename. The draft has
 *     one name: what a process left that died here, the next one replaces.
 *
 * One transaction would not do: dying after the rename and before COMMIT would leave new content under an old mark.
 *
 * A file is known by the path that its symbolic links lead to. So whoever comes by another way meets the same mark, and
 * a link cannot lead out of what the lease covers.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { invalid, LeaseError } from '../core/errors.ts'
import { kindOf, nameOf, parseResource, type Resource } from '../core/resource.ts'
import { canonicalPath } from '../runtime/canonical-path.ts'
import {
  readAct,
  readCheck,
  type Act,
  type ActReading,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import { SqliteGuard, type SqliteLike } from './sqlite-guard.ts'

const READING: ActReading = { known: ['resource', 'path'], canonical: canonicalFile }

export interface FileWriteOptions extends WriteOptions {
  /** Where the content goes, for a resource that is not a `file:`, whose name says it. */
  readonly path?: string
}

export class FileGuard {
  readonly #database: SqliteLike
  readonly #marks: SqliteGuard<SqliteLike>

  /** `database` is where the marks are kept; all who write the same files must use the same. */
  constructor(database: SqliteLike) {
    this.#marks = new SqliteGuard(database)
    this.#database = database
  }

  /** Creates the table of marks unless it is there. */
  init(): void {
    this.#marks.init()
  }

  /**
   * Replaces a file atomically and durably, or throws `STALE_FENCE` and leaves it as it was. A reader sees the old
   * content or the new, never a part.
   */
  write(lease: GuardedLease, content: string | Uint8Array, options: FileWriteOptions = {}): void {
    const act = readAct(lease, options, READING)
    const file = fileOf(act, options)
    if (typeof content !== 'string' && !(content instanceof Uint8Array)) {
      throw invalid('content', 'must be text or bytes', content)
    }
    if (this.#database.inTransaction) {
      throw invalid('database', 'must not be in a transaction', 'one that is')
    }
    this.#marks.carryOut(act, () => undefined)
    this.#marks.carryOut(act, () => replace(file, content))
  }

  /**
   * True if no later holder was seen, and from now on older ones are refused; throws `STALE_FENCE` otherwise. A lease of
   * a subtree refuses them below it, too; a shared one, or a slot, does not refuse those with whom it shares.
   */
  check(...asked: CheckArguments): true {
    this.#marks.carryOut(readCheck(asked, READING), () => undefined)
    return true
  }
}

function canonicalFile(resource: Resource): Resource {
  if (kindOf(resource) !== 'file') return resource
  return parseResource(`file:${canonicalPath(nameOf(resource))}`)
}

function fileOf({ target }: Act, { path: given }: FileWriteOptions): string {
  const isFile = kindOf(target.resource) === 'file'
  if (isFile && target.extent === 'subtree') {
    throw invalid('resource', 'must name the file to be written below', target.resource)
  }
  if (isFile && given === undefined) return nameOf(target.resource)
  if (isFile) throw invalid('path', 'must not be given for a file: resource', given)
  if (typeof given !== 'string' || !path.isAbsolute(given)) {
    throw invalid('path', `must be an absolute path for ${target.resource}`, given)
  }
  return canonicalPath(path.normalize(given))
}

function replace(file: string, content: string | Uint8Array): void {
  const draft = draftOf(file)
  try {
    fs.rmSync(draft, { recursive: true, force: true })
    writeDurably(draft, content, modeOf(file))
    // Somebody may have put a link in the way since the name was read.
    if (canonicalPath(file) !== file) throw movedError(file)
    fs.renameSync(draft, file)
  } catch (error) {
    fs.rmSync(draft, { recursive: true, force: true })
    throw error
  }
  syncDirectory(path.dirname(file))
}

/** Beside the file, because a rename is atomic within one file system only; no longer than any other name. */
function draftOf(file: string): string {
  const hash = createHash('sha256').update(path.basename(file)).digest('hex').slice(0, 32)
  return path.join(path.dirname(file), `.tenure-${hash}`)
}

function movedError(file: string): LeaseError {
  const message = `${file} leads elsewhere now, to ${canonicalPath(file)}`
  return new LeaseError('SCOPE_VIOLATION', message, { details: { path: file } })
}

function modeOf(file: string): number | null {
  const found = fs.statSync(file, { throwIfNoEntry: false })
  return found === undefined ? null : found.mode & 0o7777
}

/** A file that is there keeps its permissions, whatever the process's mask; a new one gets what a new one gets. */
function writeDurably(file: string, content: string | Uint8Array, mode: number | null): void {
  const descriptor = fs.openSync(file, 'wx', mode ?? 0o666)
  try {
    if (mode !== null) fs.fchmodSync(descriptor, mode)
    fs.writeFileSync(descriptor, content)
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}

/** The rename itself must survive a loss of power, too. */
function syncDirectory(directory: string): void {
  const descriptor = fs.openSync(directory, 'r')
  try {
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}
