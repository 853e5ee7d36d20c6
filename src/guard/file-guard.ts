/**
 * Guards files: a file is replaced, whole and at once, only under a fence that no later holder has passed. The marks
 * are in a SQLite database, whose lock the operating system takes from a process that dies.
 *
 *  1. The mark is raised and committed. Should the process die now, the file is old and the mark is new: safe.
 *  2. In a second transaction the fence is checked again, the new content is written beside the file and renamed into
 *     place while the lock is held, so that no holder with a higher fence can come between check and rename. The draft has
 *     one name: what a process left that died here, the next one replaces.
 *
 * One transaction would not do: dying after the rename and before COMMIT would leave new content under an old mark.
 *
 * A file is known by the path that its symbolic links lead to. So a writer that comes by another way meets the same mark, and
 * a link cannot lead out of what the lease covers.
 *
 * Names that Unicode takes for the same (é, or e and an accent) are one resource and have one mark, but may be two files:
 * what is written is the file as it was named. The handle of a lease knows the composed spelling only, so of a composed
 * name the guard looks how the file is spelt in its directory.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { invalid, LeaseError, pathError } from '../core/errors.ts'
import { parseResource, type Resource } from '../core/resource.ts'
import { report } from '../runtime/diagnostics.ts'
import { canonicalPath, ifThere } from '../runtime/file-system.ts'
import {
  readAct,
  readCheck,
  type Act,
  type ActReading,
  type CheckArguments,
  type GuardedLease,
  type WriteOptions,
} from './act.ts'
import { isInTransaction, type SqliteLike } from '../drivers/sqlite-driver.ts'
import { SqliteGuard } from './sqlite-guard.ts'

const FILE_PREFIX = 'file:'
const READING: ActReading = { known: ['resource', 'path'], resourceOf }

export interface FileWriteOptions extends WriteOptions {
  /** Where the content goes. Of a `file:`, whose name says it, needed only if two files have names that are the same. */
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
    const file = fileOf(act, options.resource ?? lease.resource, options.path)
    if (typeof content !== 'string' && !(content instanceof Uint8Array)) {
      throw invalid('content', 'must be text or bytes', content)
    }
    if (isInTransaction(this.#database)) {
      throw invalid('database', 'must not be in a transaction', 'one that is')
    }
    this.#marks.carryOut(act, () => undefined)
    this.#marks.carryOut(act, () => replace(file, content))
  }

  /** See `CheckArguments`. */
  check(...asked: CheckArguments): true {
    this.#marks.carryOut(readCheck(asked, READING), () => undefined)
    return true
  }
}

function resourceOf(text: unknown): Resource {
  const resource = parseResource(text)
  if (!resource.startsWith(FILE_PREFIX)) return resource
  const [found] = spellings(nameIn(text))
  return parseResource(`${FILE_PREFIX}${follow('resource', found)}`)
}

/** The file that is written. `text`: the resource as the caller spelt it. */
function fileOf({ target }: Act, text: string, given: string | undefined): string {
  const isFile = target.resource.startsWith(FILE_PREFIX)
  if (isFile && target.extent === 'subtree') {
    throw invalid('resource', 'must name the file to be written below', target.resource)
  }
  if (isFile && given === undefined) return follow('resource', onlyOne(spellings(nameIn(text))))
  if (typeof given !== 'string' || !path.isAbsolute(given)) {
    throw invalid('path', `must be an absolute path for ${target.resource}`, given)
  }
  const file = follow('path', given)
  if (!isFile || parseResource(`${FILE_PREFIX}${file}`) === target.resource) return file
  throw invalid('path', `must be that of ${target.resource}`, given)
}

function nameIn(text: unknown): string {
  return String(text).slice(FILE_PREFIX.length)
}

function follow(field: string, given: string): string {
  try {
    return canonicalPath(given)
  } catch (cause) {
    throw pathError(field, given, cause)
  }
}

type Spellings = readonly [string, ...string[]]

/** How a composed path is spelt on the disk; a path that the caller spells otherwise is taken at its word. */
function spellings(given: string): Spellings {
  if (given !== given.normalize('NFC')) return [given]
  let found: Spellings = ['']
  for (const name of given.split('/').slice(1)) {
    const [first, ...others] = found.flatMap((directory) => {
      return entriesNamed(directory, name).map((entry) => `${directory}/${entry}`)
    })
    found = [first ?? given, ...others]
  }
  return found
}

/** As the directory has it, or as it was given where the directory has no such name. */
function entriesNamed(directory: string, name: string): readonly string[] {
  // Nearly all names are plain, and have one spelling.
  if (/^[ -~]*$/.test(name)) return [name]
  const isMeant = (entry: string): boolean => entry.normalize('NFC') === name
  try {
    const found = ifThere(() => fs.readdirSync(`${directory}/`).filter(isMeant))
    return found === null || found.length === 0 ? [name] : found
  } catch (cause) {
    throw pathError('resource', directory, cause)
  }
}

function onlyOne([first, ...others]: Spellings): string {
  if (others.length === 0) return first
  const names = [first, ...others].join(', ')
  throw invalid('path', `must say which of ${others.length + 1} files is meant`, names)
}

function replace(file: string, content: string | Uint8Array): void {
  const draft = draftOf(file)
  try {
    fs.rmSync(draft, { recursive: true, force: true })
    const before = fs.statSync(file, { throwIfNoEntry: false })
    writeDurably(draft, content, before === undefined ? null : before.mode & 0o7777)
    // Another program may have put a link in the way since the name was read.
    const now = follow('path', file)
    if (now !== file) throw movedError(file, now)
    fs.renameSync(draft, file)
  } catch (error) {
    removeDraft(draft)
    throw error
  }
  syncDirectory(path.dirname(file))
}

/** What stays is replaced by the next write; the caller hears why this one failed. */
function removeDraft(draft: string): void {
  try {
    fs.rmSync(draft, { force: true })
  } catch (error) {
    report('guard/file-draft', error)
  }
}

/** Beside the file, because a rename is atomic within one file system only; no longer than any other name. */
function draftOf(file: string): string {
  const hash = createHash('sha256').update(path.basename(file)).digest('hex').slice(0, 32)
  return path.join(path.dirname(file), `.tenure-${hash}`)
}

function movedError(file: string, now: string): LeaseError {
  const message = `${file} leads elsewhere now, to ${now}`
  return new LeaseError('SCOPE_VIOLATION', message, { details: { path: file } })
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
