/**
 * Node's file system for whatever every command loads. An `import` of `node:fs` names all that is in it, which loads
 * all of Node's streams: 3 ms of every start-up.
 */
import type nodeFs from 'node:fs'

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
