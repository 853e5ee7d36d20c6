/**
 * The file that keys are kept in. Where it holds a secret only its owner may read it; one that others can read is not
 * used. It is replaced as a whole, so that a crash leaves the old keys or the new ones.
 */
import path from 'node:path'
import { invalid, LeaseError } from '../core/errors.ts'
import { EMPTY_KEY_RING, formatKeyRing, parseKeyRing, type KeyRing } from '../registrar/key-ring.ts'
import { fs } from '../runtime/file-system.ts'
import { hasFileModes, ownProcessId } from '../runtime/system-runtime.ts'

const OWNER_ONLY = 0o600
const OTHERS = 0o077
/** As many as Linux follows. */
const LINKS_MAX = 40

/** An empty ring where there is no file yet. */
export function readKeyFile(file: string): KeyRing {
  const status = using(file, () => fs.statSync(file, { throwIfNoEntry: false }))
  if (status === undefined) return EMPTY_KEY_RING
  const ring = parseKeyRing(readText(file))
  if (ring.keys.some(({ signing }) => signing !== null)) requirePrivate('keys', file, status.mode)
  return ring
}

/** A secret that others can read is none. */
export function requirePrivate(field: string, file: string, mode: number): void {
  if (!hasFileModes() || (mode & OTHERS) === 0) return
  throw invalid(field, `must be readable by its owner only (chmod 600)`, file)
}

/** The file that is meant, whatever symbolic links lead to it, also when it is yet to be made. */
export function linkedFile(name: string): string {
  return using(name, () => {
    let file = name
    for (let links = 0; links < LINKS_MAX; links += 1) {
      const status = fs.lstatSync(file, { throwIfNoEntry: false })
      if (status?.isSymbolicLink() !== true) return file
      file = path.resolve(path.dirname(file), fs.readlinkSync(file))
    }
    throw new Error('its symbolic links lead round and round')
  })
}

/** A ring that could not be read again is not written. */
export function writeKeyFile(name: string, ring: KeyRing): void {
  const text = formatKeyRing(ring, { secrets: true })
  parseKeyRing(text)
  replacePrivateFile(name, text)
}

/** Readable by its owner only, and replaced as a whole. A symbolic link stays, and the file that it leads to is replaced. */
export function replacePrivateFile(name: string, text: string): void {
  const file = linkedFile(name)
  makeDirectoryFor(file)
  const temporary = `${file}.${ownProcessId()}.new`
  try {
    fs.rmSync(temporary, { force: true })
    const descriptor = fs.openSync(temporary, 'wx', OWNER_ONLY)
    fs.writeFileSync(descriptor, text)
    fs.fsyncSync(descriptor)
    fs.closeSync(descriptor)
    fs.renameSync(temporary, file)
  } catch (cause) {
    fs.rmSync(temporary, { force: true })
    throw unusable(file, cause)
  }
}

export function makeDirectoryFor(file: string): void {
  using(file, () => fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 }))
}

export function readText(file: string): string {
  return using(file, () => fs.readFileSync(file, 'utf8'))
}

/** What the work comes to; what it throws says that the file cannot be used. */
export function using<Result>(file: string, work: () => Result): Result {
  try {
    return work()
  } catch (cause) {
    throw unusable(file, cause)
  }
}

/** Why the named file cannot be used. */
export function unusable(file: string, cause: unknown): LeaseError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LeaseError('INVALID_INPUT', `file must be usable, got ${file}: ${why}`, {
    details: { field: 'file' },
    cause,
  })
}
