/**
 * The file system: what is there, what is not, and under which one name a file is known.
 *
 * Node's own module is not imported. An `import` of `node:fs` names all that is in it, which loads all of Node's streams:
 * 3 ms of every start-up.
 */
import type nodeFs from 'node:fs'
import path from 'node:path'

export const fs: typeof nodeFs = process.getBuiltinModule('node:fs')

/** Whether an error of Node or of the system is one of these. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  if (typeof error !== 'object' || error === null || !('code' in error)) return false
  return codes.some((code) => code === error.code)
}

/**
 * What `read` gives, or null when there is no such file. One that is there and cannot be read is not absent: that is
 * thrown.
 */
export function ifThere<Result>(read: () => Result): Result | null {
  try {
    return read()
  } catch (error) {
    if (isAbsence(error)) return null
    throw error
  }
}

/** The file is not there, or what should be a directory above it is none. */
export function isAbsence(error: unknown): boolean {
  return hasCode(error, 'ENOENT', 'ENOTDIR')
}

/**
 * Reads a file that may be a database in use. The locks on it are those of the whole process, and the system gives all of
 * them up when the process closes any descriptor of the file: SQLite would go on without its lock, and another process take
 * itself for the last and remove the log. So a file that is open here is read by a descriptor which it has, and which stays.
 */
export function readKeepingLocks<Result>(file: string, read: (handle: number) => Result): Result {
  const inUse = handleOf(fs.statSync(file))
  if (inUse !== null) return read(inUse)
  const handle = fs.openSync(file, 'r')
  try {
    return read(handle)
  } finally {
    fs.closeSync(handle)
  }
}

/** One that this process has of the file, in whatever thread; null if there is none, or the system does not tell. */
function handleOf({ dev, ino }: nodeFs.Stats): number | null {
  let handles: readonly string[]
  try {
    handles = fs.readdirSync('/dev/fd')
  } catch {
    // No fault: where there is no such directory locks go with the descriptor, or nothing can be known.
    return null
  }
  const handle = handles.map(Number).find((number) => {
    const status = statusOf(number)
    return status !== null && status.dev === dev && status.ino === ino
  })
  return handle ?? null
}

/** Null for a descriptor that was closed since it was listed: that of the list itself, for one. */
function statusOf(handle: number): nodeFs.Stats | null {
  try {
    return fs.fstatSync(handle)
  } catch (error) {
    if (hasCode(error, 'EBADF')) return null
    throw error
  }
}

const PERMISSION_BITS = 0o7777

/**
 * Whose a place is and what its mode allows, in words, which is what a person needs to know when it is another user's: of the
 * first of these places that is there and closed to this process, or else of the first that is there. Empty if nothing can
 * be said.
 */
export function ownership(places: readonly string[]): string {
  const there = places.filter((place) => fs.existsSync(place))
  const place = there.find(isClosed) ?? there[0]
  const status = place === undefined ? null : ifThere(() => fs.statSync(place))
  if (status === null) return ''
  const mode = (status.mode & PERMISSION_BITS).toString(8).padStart(4, '0')
  const owner = `${place} belongs to user ${status.uid}, group ${status.gid}, mode ${mode}`
  return ` (${owner}; this process is user ${process.geteuid?.() ?? 'unknown'})`
}

function isClosed(place: string): boolean {
  const { R_OK, W_OK, X_OK } = fs.constants
  try {
    fs.accessSync(place, R_OK | W_OK | (fs.statSync(place).isDirectory() ? X_OK : 0))
    return false
  } catch {
    // No fault: that the system refuses is the answer.
    return true
  }
}

/** The deepest directory above a file that is there; what is missing below it can be made in it. */
export function existingDirectory(file: string): string {
  let directory = path.dirname(path.resolve(file))
  while (!fs.existsSync(directory)) directory = path.dirname(directory)
  return directory
}

/** As many as the kernel follows before it speaks of a loop. */
const LINKS_MAX = 40

/**
 * Makes two spellings of one file one name: the deepest ancestor that exists is resolved through symbolic links, and
 * the rest, which does not exist yet, stays as it is. A link whose target does not exist yet is followed as well;
 * otherwise the file would change its name when it is created.
 *
 * Throws the system's error for a path that exists and cannot be followed. Treating it as missing would leave its links
 * unresolved: one file under two names, and both granted.
 */
export function canonicalPath(absolutePath: string): string {
  return resolve(absolutePath, { linksLeft: LINKS_MAX })
}

function resolve(absolutePath: string, budget: { linksLeft: number }): string {
  // With a slash behind it, a link whose target does not exist is none.
  let existing = absolutePath.replace(/(?<=.)\/+$/, '')
  const missing: string[] = []
  for (;;) {
    const found = ifThere(() => fs.realpathSync.native(existing)) ?? followLink(existing, budget)
    if (found !== null) {
      const name = path.join(found, ...missing)
      // Behind what does not exist yet, `..` leads back to what may be a link.
      return missing.includes('..') ? resolve(name, budget) : name
    }
    const parent = path.dirname(existing)
    if (parent === existing) return absolutePath
    missing.unshift(path.basename(existing))
    existing = parent
  }
}

/** Where a link leads whose target does not exist; null for what is no link. */
function followLink(name: string, budget: { linksLeft: number }): string | null {
  const target = ifThere(() => linkAt(name))
  if (target === null) return null
  if (budget.linksLeft === 0) throw loopError(name)
  budget.linksLeft -= 1
  // Not by `path.resolve`: it takes `..` out by the spelling, and a directory before it may be a link to elsewhere.
  const followed = path.isAbsolute(target) ? target : `${path.dirname(name)}/${target}`
  return resolve(followed, budget)
}

/** Where a link leads; null for what is no link, as when another process has just made a file of that name. */
function linkAt(name: string): string | null {
  try {
    return fs.readlinkSync(name)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EINVAL') return null
    throw error
  }
}

/** As the system says it of links that exist. */
function loopError(name: string): Error {
  const error = new Error(`ELOOP: too many symbolic links encountered, readlink '${name}'`)
  return Object.assign(error, { code: 'ELOOP', syscall: 'readlink', path: name })
}
