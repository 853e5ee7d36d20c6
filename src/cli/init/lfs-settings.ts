/** Where Git LFS finds its locks: a section of `.lfsconfig`, which everybody who clones the repository gets. */
import path from 'node:path'
import { readIfThere, type FileChange } from '../file-change.ts'
import { projectDirectory } from './settings-file.ts'

export const LFS_FILE = '.lfsconfig'
const SERVER = 'http://127.0.0.1:7420'

/** Behind a last line without an end, the section has to end it first. */
const BEGIN = '# Locks of Tenure'
const BEGIN_BEHIND = '# Locks of Tenure, behind a line without an end'
const END = '# End of the locks of Tenure'
const SECTION = new RegExp(`(?:\\n${BEGIN_BEHIND}|${BEGIN})\\n[\\s\\S]*?${END}\\n`)
const URL_LINE = /^\turl = (.+)$/m

export async function lfsToInstall(cwd: string): Promise<readonly FileChange[]> {
  const { file, top, before } = await readLfs(cwd)
  const own = `[lfs]\n\turl = ${SERVER}/lfs/default/${path.basename(top)}\n\tlocksverify = true\n`
  const text = before?.toString() ?? ''
  // Whoever has changed the URL keeps it.
  if (SECTION.test(text)) return []
  const begin = text === '' || text.endsWith('\n') ? BEGIN : `\n${BEGIN_BEHIND}`
  const after = Buffer.concat([before ?? Buffer.of(), Buffer.from(`${begin}\n${own}${END}\n`)])
  return [{ kind: 'write', file, before, after }]
}

export async function lfsToRemove(cwd: string): Promise<readonly FileChange[]> {
  const { file, before } = await readLfs(cwd)
  const text = before?.toString('latin1') ?? ''
  const after = text.replace(SECTION, '')
  if (before === null || after === text) return []
  if (after === '') return [{ kind: 'remove', file, before }]
  return [{ kind: 'write', file, before, after: Buffer.from(after, 'latin1') }]
}

/** The URL that was set up; null where none was. */
export async function lfsUrl(cwd: string): Promise<string | null> {
  const [section] = SECTION.exec((await readLfs(cwd)).before?.toString() ?? '') ?? []
  return section === undefined ? null : (URL_LINE.exec(section)?.[1] ?? null)
}

async function readLfs(cwd: string): Promise<{
  readonly file: string
  readonly top: string
  readonly before: Buffer | null
}> {
  const top = await projectDirectory(cwd)
  const file = path.join(top, LFS_FILE)
  return { file, top, before: readIfThere(file) }
}
