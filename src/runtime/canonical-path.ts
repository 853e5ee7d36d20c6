/**
 * Makes two spellings of one file one name: the deepest ancestor that exists is resolved through symbolic links, and
 * the rest, which nobody has created yet, is kept as it is. A link whose target does not exist yet is followed all the
 * same, or the file would change its name the moment somebody creates it.
 */
import path from 'node:path'
import { fs } from './file-system.ts'

/** As many as the kernel follows before it speaks of a loop. */
const LINKS_MAX = 40

export function canonicalPath(absolutePath: string): string {
  return resolve(absolutePath, LINKS_MAX)
}

function resolve(absolutePath: string, linksLeft: number): string {
  let existing = absolutePath
  const missing: string[] = []
  for (;;) {
    const resolved = tryToRead(() => fs.realpathSync.native(existing))
    if (resolved !== null) return path.join(resolved, ...missing)
    const target = linksLeft === 0 ? null : tryToRead(() => fs.readlinkSync(existing))
    if (target !== null) {
      const followed = path.resolve(path.dirname(existing), target)
      return path.join(resolve(followed, linksLeft - 1), ...missing)
    }
    const parent = path.dirname(existing)
    if (parent === existing) return absolutePath
    missing.unshift(path.basename(existing))
    existing = parent
  }
}

/** Null when the path cannot be read, for whatever reason: the next ancestor is tried instead. */
function tryToRead(read: () => string): string | null {
  try {
    return read()
  } catch {
    return null
  }
}
