/** What `tenure init` changes in the settings of a client. */
import { isUtf8 } from 'node:buffer'
import path from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { invalid, isLeaseError, LeaseError, show } from '../../core/errors.ts'
import { topOf } from '../../git/repository.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { readIfThere, type FileChange } from '../file-change.ts'
import { isOwnHook, type ClientSettings } from './client-settings.ts'
import { withEntries, withoutEntries } from './hook-settings.ts'
import { JsonTextError, readJsonText, valueOf } from './json-text.ts'

const BACKUP_SUFFIX = '.before-tenure'

/** A file of settings, and what Tenure puts into it. */
export interface SettingsPlan {
  /** From the top of the worktree. */
  readonly file: string
  /** All of a file that is made. */
  readonly made: unknown
  /** What is left of such a file where nothing was added to it. */
  readonly bare: readonly unknown[]
  /** The text with what Tenure needs; the same text if it is there. */
  readonly add: (text: string) => string
  /** The text without anything of Tenure. */
  readonly remove: (text: string) => string
}

/** The hooks of a client. */
export function hooksPlan(
  client: string,
  { file, head, entries: entriesFor }: ClientSettings,
  command: readonly string[],
): SettingsPlan {
  const entries = entriesFor(command)
  const isOwn = isOwnHook(client)
  const lists = Object.entries(entries).map(([event, entry]) => [event, [entry]])
  return {
    file,
    made: { ...head, hooks: Object.fromEntries(lists) as unknown },
    bare: [head, { ...head, hooks: {} }],
    add: (text) => withEntries(text, entries, isOwn),
    remove: (text) => withoutEntries(text, isOwn),
  }
}

export async function settingsToInstall(
  { file: name, made, add, remove }: SettingsPlan,
  cwd: string,
): Promise<readonly FileChange[]> {
  const file = await fileToChange(cwd, name)
  const before = readSettingsFile(file)
  if (before === null) {
    return [{ kind: 'write', file, before, after: bytesOf(`${JSON.stringify(made, null, 2)}\n`) }]
  }
  const [after, without] = edited(file, () => [add(before), remove(before)])
  if (after === before) return []
  // What has older entries of Tenure is not what it was before.
  const backup = without === before ? { backup: `${file}${BACKUP_SUFFIX}` } : {}
  return [{ kind: 'write', file, before: bytesOf(before), after: bytesOf(after), ...backup }]
}

export async function settingsToRemove(
  { file: name, bare, remove }: SettingsPlan,
  cwd: string,
): Promise<readonly FileChange[]> {
  const file = await fileToChange(cwd, name)
  const before = readSettingsFile(file)
  if (before === null) return []
  const after = edited(file, () => remove(before))
  if (after === before) return []
  const backup = readIfThere(`${file}${BACKUP_SUFFIX}`)
  // A file that was made here has no backup, and goes if nothing was added.
  const value = valueOf(readJsonText(after))
  if (backup === null && bare.some((one) => isDeepStrictEqual(value, one))) {
    return [{ kind: 'remove', file, before: bytesOf(before) }]
  }
  const change: FileChange = { kind: 'write', file, before: bytesOf(before), after: bytesOf(after) }
  if (backup?.equals(bytesOf(after)) !== true) return [change]
  return [change, { kind: 'remove', file: `${file}${BACKUP_SUFFIX}`, before: backup }]
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

/** `name` is from the top of the worktree; its directories must be no links either. */
export async function fileToChange(cwd: string, name: string): Promise<string> {
  let place = await projectDirectory(cwd)
  for (const part of name.split('/')) {
    place = path.join(place, part)
    refuseLink(place)
  }
  return place
}

/** A link may lead to what others share, and is left alone. */
function refuseLink(file: string): void {
  if (ifThere(() => fs.lstatSync(file))?.isSymbolicLink() !== true) return
  throw invalid('file', `must not be a symbolic link (to ${fs.readlinkSync(file)})`, file)
}

/** Null where there is none. */
export function readSettingsFile(file: string): string | null {
  refuseLink(file)
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
  const message = `file must be JSON with the settings of hooks or servers (comments are fine), got ${show(file)}: ${why}`
  return new LeaseError('INVALID_INPUT', message, { details: { field: 'file' } })
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text)
}
