/**
 * Guards files: a file is replaced, whole and at once, only under a fence that no later holder has passed. The marks
 * are in a SQLite database, whose lock the operating system takes from a process that dies.
 *
 *  1. The mark is raised and committed. Should the process die now, the file is old and the mark is new: safe.
 *  2. In a second transaction the fence is checked again, and the new content is renamed into place while the lock is
 *     held, so that nobody with a higher fence can come between check and rename.
 *
 * One transaction would not do: dying after the rename and before COMMIT would leave new content under an old mark.
 */
import fs from 'node:fs'
import path from 'node:path'
import { invalid } from '../core/errors.ts'
import { kindOf, nameOf } from '../core/resource.ts'
import { readAct, type GuardedLease, type WriteOptions } from './act.ts'
import { SqliteGuard, type SqliteLike } from './sqlite-guard.ts'

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
    const file = fileOf(lease, options)
    const target = options.resource === undefined ? {} : { resource: options.resource }
    if (typeof content !== 'string' && !(content instanceof Uint8Array)) {
      throw invalid('content', 'must be text or bytes', content)
    }
    if (this.#database.inTransaction) {
      throw invalid('database', 'must not be in a transaction', 'one that is')
    }
    this.#marks.write(lease, () => undefined, target)
    // Beside the file, because a rename is atomic within one file system only.
    const drafts = fs.mkdtempSync(`${file}.`)
    try {
      const draft = path.join(drafts, 'draft')
      writeDurably(draft, content, modeOf(file))
      this.#marks.write(lease, () => fs.renameSync(draft, file), target)
      syncDirectory(path.dirname(file))
    } finally {
      fs.rmSync(drafts, { recursive: true, force: true })
    }
  }

  /** True if no later holder was seen, and from now on older ones are refused; throws `STALE_FENCE` otherwise. */
  check(resource: string, fence: number): true {
    return this.#marks.check(resource, fence)
  }
}

function fileOf(lease: GuardedLease, options: FileWriteOptions): string {
  const { target } = readAct(lease, options, ['resource', 'path'])
  const { path: given } = options
  const isFile = kindOf(target.resource) === 'file'
  if (isFile && target.extent === 'subtree') {
    throw invalid('resource', 'must name the file to be written below', target.resource)
  }
  if (isFile && given === undefined) return nameOf(target.resource)
  if (isFile) throw invalid('path', 'must not be given for a file: resource', given)
  if (typeof given !== 'string' || !path.isAbsolute(given)) {
    throw invalid('path', `must be an absolute path for ${target.resource}`, given)
  }
  return path.normalize(given)
}

function modeOf(file: string): number {
  return (fs.statSync(file, { throwIfNoEntry: false })?.mode ?? 0o666) & 0o7777
}

function writeDurably(file: string, content: string | Uint8Array, mode: number): void {
  const descriptor = fs.openSync(file, 'w', mode)
  try {
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
