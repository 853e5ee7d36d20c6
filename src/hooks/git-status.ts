/** Which of some files have uncommitted changes, as git says. */
import path from 'node:path'
import { outputOf } from '../runtime/processes.ts'

const WITHIN_MS = 300

/** Absolute paths; null where git does not answer in time, is not there, or fails. */
export async function dirtyFiles(
  root: string,
  files: readonly string[],
): Promise<ReadonlySet<string> | null> {
  const args = ['status', '--porcelain', '-z', '--untracked-files=all', '--', ...files]
  const output = await outputOf('git', args, { cwd: root, withinMs: WITHIN_MS })
  if (output === null) return null
  const dirty = new Set<string>()
  const fields = output.split('\0')
  for (let index = 0; index < fields.length; index += 1) {
    const field = fields[index] ?? ''
    if (field.length < 4) continue
    dirty.add(path.join(root, field.slice(3)))
    // A rename has its old name in a field of its own.
    if (/^[RC]|^.[RC]/.test(field)) dirty.add(path.join(root, fields[(index += 1)] ?? ''))
  }
  return dirty
}
