/** What `tenure init` changes in the settings of a coding agent's client. */
import { isUtf8 } from 'node:buffer'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { invalid, isLeaseError, LeaseError, show } from '../../core/errors.ts'
import { topOf } from '../../git/worktree.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { readIfThere, type FileChange } from '../file-change.ts'
import { isOwnHook, type ClientSettings } from './client-settings.ts'
import { withEntries, withoutEntries } from './hook-settings.ts'
import { JsonTextError, readJsonText, valueOf } from './json-text.ts'

const BACKUP_SUFFIX = '.before-tenure'

export async function settingsToInstall(
  client: string,
  settings: ClientSettings,
  place: { readonly cwd: string; readonly command: readonly string[] },
): Promise<readonly FileChange[]> {
  const file = path.join(await projectDirectory(place.cwd), settings.file)
  const entries = settings.entries(place.command)
  const before = readSettings(file)
  if (before === null) {
    const lists = Object.entries(entries).map(([event, entry]) => [event, [entry]])
    const value = { ...settings.head, hooks: Object.fromEntries(lists) as unknown }
    return [{ kind: 'write', file, before, after: bytesOf(`${JSON.stringify(value, null, 2)}\n`) }]
  }
  const isOwn = isOwnHook(client)
  const [after, without] = edited(file, () => [
    withEntries(before, entries, isOwn),
    withoutEntries(before, isOwn),
  ])
  if (after === before) return []
  // What has older entries of Tenure is not what it was before.
  const backup = without === before ? { backup: `${file}${BACKUP_SUFFIX}` } : {}
  return [{ kind: 'write', file, before: bytesOf(before), after: bytesOf(after), ...backup }]
}

export async function settingsToRemove(
  client: string,
  settings: ClientSettings,
  cwd: string,
): Promise<readonly FileChange[]> {
  const file = path.join(await projectDirectory(cwd), settings.file)
  const before = readSettings(file)
  if (before === null) return []
  const [after] = edited(file, () => [withoutEntries(before, isOwnHook(client))])
  if (after === before) return []
  const backup = readIfThere(`${file}${BACKUP_SUFFIX}`)
  // A file that was made here has no backup, and goes if nothing was added.
  if (backup === null && isBare(after, settings)) {
    return [{ kind: 'remove', file, before: bytesOf(before) }]
  }
  const change: FileChange = { kind: 'write', file, before: bytesOf(before), after: bytesOf(after) }
  if (backup?.equals(bytesOf(after)) !== true) return [change]
  return [change, { kind: 'remove', file: `${file}${BACKUP_SUFFIX}`, before: backup }]
}

function isBare(text: string, { head }: ClientSettings): boolean {
  const value = valueOf(readJsonText(text))
  return isDeepStrictEqual(value, head) || isDeepStrictEqual(value, { ...head, hooks: {} })
}

/** The top of the worktree; outside of a repository, the working directory. */
export async function projectDirectory(cwd: string): Promise<string> {
  try {
    return (await topOf(cwd))?.toString() ?? cwd
  } catch (error) {
    // No fault: without a repository, or without git, the project is where the command was given.
    if (isLeaseError(error, 'INVALID_INPUT')) return cwd
    throw error
  }
}

/** Null where there is none. A link may lead to what others share, and is left alone. */
export function readSettings(file: string): string | null {
  const status = ifThere(() => fs.lstatSync(file))
  if (status?.isSymbolicLink() === true) {
    throw invalid('file', `must not be a symbolic link (to ${fs.readlinkSync(file)})`, file)
  }
  const bytes = readIfThere(file)
  if (bytes !== null && !isUtf8(bytes)) throw notJson(file, 'it is no UTF-8')
  return bytes?.toString() ?? null
}

/** What is no JSON is refused, and stays as it is. */
export function edited<Result>(file: string, edit: () => Result): Result {
  try {
    return edit()
  } catch (error) {
    if (error instanceof JsonTextError) throw notJson(file, error.message)
    throw error
  }
}

function notJson(file: string, why: string): LeaseError {
  const message = `file must be JSON with the settings of hooks (comments are fine), got ${show(file)}: ${why}`
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'file' } })
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text)
}
