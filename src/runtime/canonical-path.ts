/**
 * Makes two spellings of one file one name: the deepest ancestor that exists is resolved through symbolic links, and
 * the rest, which nobody has created yet, is kept as it is.
 */
import fs from 'node:fs'
import path from 'node:path'

export function canonicalPath(absolutePath: string): string {
  let existing = absolutePath
  const missing: string[] = []
  for (;;) {
    const resolved = tryRealPath(existing)
    if (resolved !== null) return path.join(resolved, ...missing)
    const parent = path.dirname(existing)
    if (parent === existing) return absolutePath
    missing.unshift(path.basename(existing))
    existing = parent
  }
}

/** Null when the path cannot be resolved, for whatever reason: the next ancestor is tried instead. */
function tryRealPath(candidate: string): string | null {
  try {
    return fs.realpathSync.native(candidate)
  } catch {
    return null
  }
}
