/** Where Git LFS finds its locks: a section of `.lfsconfig`, which every clone of the repository has. */
import path from 'node:path'
import { messageOf } from '../../core/errors.ts'
import { parseJson } from '../../runtime/json-text.ts'
import { LFS_ROOT_HEADER } from '../../server/lfs-http.ts'
import { attempt, type Check } from '../checkup.ts'
import { type FileChange, readIfThere } from '../file-change.ts'
import type { Identity } from '../identity.ts'
import { TRIAL_LIMIT_MS } from './held-file.ts'
import { fileToChange, projectDirectory } from './settings-file.ts'

export const LFS_FILE = '.lfsconfig'
const SERVER = 'http://127.0.0.1:7420'

/** Behind a last line without an end, the section has to end it first. */
const BEGIN = '# Locks of Tenure'
const BEGIN_BEHIND = '# Locks of Tenure, behind a line without an end'
const END = '# End of the locks of Tenure'
const SECTION = new RegExp(`(?:\\n${BEGIN_BEHIND}|${BEGIN})\\n[\\s\\S]*?${END}\\n`)
const URL_LINE = /^\turl = (.+)$/m

export async function lfsToInstall(cwd: string): Promise<readonly FileChange[]> {
  await fileToChange(cwd, LFS_FILE)
  const { file, top, before } = await readLfs(cwd)
  // Escaped, it also begins no comment of the file.
  const name = encodeURIComponent(path.basename(top))
  const own = `[lfs]\n\turl = ${SERVER}/lfs/default/${name}\n\tlocksverify = true\n`
  const text = before?.toString() ?? ''
  // Whoever has changed the URL keeps it.
  if (SECTION.test(text)) return []
  const begin = text === '' || text.endsWith('\n') ? BEGIN : `\n${BEGIN_BEHIND}`
  const after = Buffer.concat([before ?? Buffer.of(), Buffer.from(`${begin}\n${own}${END}\n`)])
  return [{ kind: 'write', file, before, after }]
}

export async function lfsToRemove(cwd: string): Promise<readonly FileChange[]> {
  await fileToChange(cwd, LFS_FILE)
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

type Asker = Pick<Identity, 'holder' | 'token'>

/**
 * Whether Git LFS would find its locks: the server that was set up is asked as the client would ask it. Nothing where the
 * repository does not name a server of Tenure.
 */
export async function proveLfs(cwd: string, asker: Asker): Promise<readonly Check[]> {
  const found = await attempt('lfs', async () => {
    const url = await lfsUrl(cwd)
    if (url === null) return ''
    requireReadable(url)
    return ask(url, asker)
  })
  return found.detail === '' ? [] : [found]
}

/** A server answers for every name; only one that was told where the repository is has the locks that hooks and commands see. */
async function ask(given: string, asker: Asker): Promise<string> {
  const url = withoutCredentials(given)
  const response = await locksAt(given, asker)
  const root = response.headers.get(LFS_ROOT_HEADER)
  if (response.ok && root !== null && root !== '')
    return `${url} has the locks of ${decodeURI(root)}`
  if (response.ok && root !== null) {
    throw new Error(`the server does not know the repository of ${url}: tenure serve --repo DIR`)
  }
  const answer = parseJson(await response.text()) as { readonly message?: unknown } | undefined
  const why = typeof answer?.message === 'string' ? `: ${answer.message}` : ''
  const advice = [401, 403].includes(response.status) ? ' (TENURE_TOKEN)' : ''
  throw new Error(`${url} answers with ${response.status}${why}${advice}`)
}

/** What it says is not shown: a password may be part of it. */
function requireReadable(text: string): void {
  try {
    const { username, password } = new URL(text)
    decodeURIComponent(username + password)
  } catch (cause) {
    throw new Error(`the url in ${LFS_FILE} cannot be read: ${messageOf(cause)}`, { cause })
  }
}

function withoutCredentials(given: string): string {
  const url = new URL(given)
  url.username = ''
  url.password = ''
  return url.href
}

async function locksAt(url: string, { holder, token }: Asker): Promise<Response> {
  const place = new URL(`${url}/locks?limit=1`)
  const user = decodeURIComponent(place.username) || holder
  const password = decodeURIComponent(place.password) || (token ?? 'none')
  const basic = Buffer.from(`${user}:${password}`).toString('base64')
  const headers = { Authorization: `Basic ${basic}`, Accept: 'application/vnd.git-lfs+json' }
  const signal = AbortSignal.timeout(TRIAL_LIMIT_MS)
  return fetch(withoutCredentials(place.href), { headers, signal }).catch((cause: unknown) => {
    throw new Error(`no server answers at ${withoutCredentials(url)}: tenure serve --repo DIR`, {
      cause,
    })
  })
}
