/**
 * Runs a program whose wall clock another says, by the library of Debian's package `faketime`. Not by its command: that makes a
 * semaphore named by its process id, which stays when the command is killed, and a later one with the same id fails.
 */
import fs from 'node:fs'
import path from 'node:path'
import { requireTestTool } from '../scripts/test-tools.mjs'

const LIBRARIES = '/usr/lib'
const LIBRARY = path.join('faketime', 'libfaketimeMT.so.1')

export function fakeTimeLibrary(): string {
  requireTestTool('faketime')
  const folders = fs.readdirSync(LIBRARIES).map((name) => path.join(LIBRARIES, name, LIBRARY))
  const found = folders.find((file) => fs.existsSync(file))
  if (found === undefined) throw new Error(`there is no ${LIBRARY} in a folder of ${LIBRARIES}`)
  return found
}

/**
 * What goes before a command: its wall clock is set by so much (`-10d`) or to a time (`@2038-01-19 03:14:05`). Monotonic time
 * stays true: a process whose monotonic clock jumps back is aborted by Node itself.
 */
export function withWallClock(set: string): readonly string[] {
  return ['env', `LD_PRELOAD=${fakeTimeLibrary()}`, `FAKETIME=${set}`, 'DONT_FAKE_MONOTONIC=1']
}
