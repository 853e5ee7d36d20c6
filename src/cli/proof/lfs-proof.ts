/** Whether Git LFS would find its locks: the server that was set up is asked as the client would ask it. */
import { parseJson } from '../../runtime/json-text.ts'
import { LFS_ROOT_HEADER } from '../../server/lfs-http.ts'
import { attempt, type Check } from '../checkup.ts'
import type { Identity } from '../identity.ts'
import { lfsUrl } from '../init/lfs-settings.ts'
import { TRIAL_LIMIT_MS } from './held-file.ts'

type Asker = Pick<Identity, 'holder' | 'token'>

/** Nothing where the repository does not name a server of Tenure. */
export async function proveLfs(cwd: string, asker: Asker): Promise<readonly Check[]> {
  const found = await attempt('lfs', async () => {
    const url = await lfsUrl(cwd)
    return url === null ? '' : ask(url, asker)
  })
  return found.detail === '' ? [] : [found]
}

/** A server answers for every name; only one that was told where the repository is has the locks that hooks and commands see. */
async function ask(url: string, asker: Asker): Promise<string> {
  const response = await locksAt(url, asker)
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

async function locksAt(url: string, { holder, token }: Asker): Promise<Response> {
  const place = new URL(`${url}/locks?limit=1`)
  const user = decodeURIComponent(place.username) || holder
  const password = decodeURIComponent(place.password) || (token ?? 'none')
  place.username = ''
  place.password = ''
  const basic = Buffer.from(`${user}:${password}`).toString('base64')
  const headers = { Authorization: `Basic ${basic}`, Accept: 'application/vnd.git-lfs+json' }
  const signal = AbortSignal.timeout(TRIAL_LIMIT_MS)
  return fetch(place, { headers, signal }).catch((cause: unknown) => {
    throw new Error(`no server answers at ${url}: tenure serve --repo DIR`, { cause })
  })
}
