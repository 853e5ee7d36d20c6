/** The single checks of `tenure doctor`. Each says what it found, good or bad, and throws nothing. */
import fs from 'node:fs'
import { isLeaseError, messageOf } from '../core/errors.ts'
import { existingDirectory, hasCode } from '../runtime/file-system.ts'
import type { Checkup } from '../store-port/store.ts'
import { useAndClose } from './store-access.ts'
import { accessError, loadSqlite, sqliteDriverName } from '../drivers/sqlite-driver.ts'

export interface Check {
  readonly name: string
  readonly ok: boolean
  readonly detail: string
}

const NODE_MINIMUM = [20, 19] as const

export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [neededMajor, neededMinor] = NODE_MINIMUM
  const ok = major > neededMajor || (major === neededMajor && minor >= neededMinor)
  const detail = ok ? version : `${version}, but ${NODE_MINIMUM.join('.')} or later is needed`
  return { name: 'node', ok, detail }
}

export async function checkDriver(): Promise<Check> {
  return attempt('driver', async () => {
    await loadSqlite()
    return `${sqliteDriverName()} loads`
  })
}

/** The nearest ancestor that exists must be writable: what is missing below it will be created. */
export async function checkDirectory(file: string): Promise<Check> {
  return attempt('directory', async () => {
    const directory = existingDirectory(file)
    try {
      fs.accessSync(directory, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK)
    } catch (error) {
      throw hasCode(error, 'EACCES', 'EROFS') ? accessError(file, error) : error
    }
    return `${directory} is writable`
  })
}

/** What the store's own checkup tells; nothing where there is none. */
export async function checkStore(open: (() => Promise<Checkup>) | undefined): Promise<Check[]> {
  if (open === undefined) return []
  const checks: Check[] = []
  const opened = await attempt('checkup', async () => {
    const checkup = await open()
    for (const one of checkup.looks) {
      const { name, ok, detail: lines } = await attempt(one.name, () => one.look())
      for (const detail of lines.split('\n')) checks.push({ name, ok, detail })
    }
    await checkup.close()
    return 'done'
  })
  return opened.ok ? checks : [...checks, opened]
}

/** What an operator may ask of a store, each by the name of its option. */
export async function acceptClock(open: (() => Promise<Checkup>) | undefined): Promise<Check> {
  return attempt('accept-clock', async () => {
    const accept = async (checkup: Checkup): Promise<string | undefined> => checkup.acceptClock?.()
    const done = open === undefined ? undefined : await useAndClose(await open(), accept)
    if (done !== undefined) return done
    throw new Error('there is nothing to do for --accept-clock on this store')
  })
}

export async function attempt(name: string, work: () => Promise<string>): Promise<Check> {
  try {
    return { name, ok: true, detail: await work() }
  } catch (error) {
    const message = messageOf(error)
    return { name, ok: false, detail: isLeaseError(error) ? `${message} (${error.code})` : message }
  }
}
