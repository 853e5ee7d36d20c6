/**
 * The directories beside a database, in which each who listens has a file. They come and go with those who listen, in
 * whatever process, so that one is missing, or not empty, is no fault; anything else is reported.
 */
import fs from 'node:fs'
import { report } from '../../runtime/diagnostics.ts'

export function namesIn(directory: string): readonly string[] {
  try {
    return fs.readdirSync(directory)
  } catch (error) {
    if (!isAbsent(error)) report('store/sqlite/directory', error)
    return []
  }
}

export function removeIfEmpty(directory: string): void {
  try {
    fs.rmdirSync(directory)
  } catch (error) {
    const isInUse = ['ENOTEMPTY', 'EEXIST'].includes(codeOf(error))
    if (!isAbsent(error) && !isInUse) report('store/sqlite/directory', error)
  }
}

/**
 * Changes the file so that whoever watches it hears of it. Only its owner may set its times; another user who may write it
 * does that instead.
 */
export function touch(file: string, wallMs: number): void {
  try {
    fs.utimesSync(file, wallMs / 1000, wallMs / 1000)
  } catch (error) {
    if (!isAnothers(error)) throw error
    const handle = fs.openSync(file, 'r+')
    try {
      fs.writeSync(handle, '.', 0)
    } finally {
      fs.closeSync(handle)
    }
  }
}

/** The file belongs to another user, and only its owner may do this. */
export function isAnothers(error: unknown): boolean {
  return codeOf(error) === 'EPERM'
}

export function isAbsent(error: unknown): boolean {
  return codeOf(error) === 'ENOENT'
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
