/** Whether Git LFS would find its locks: the server that was set up is asked as the client would ask it. */
import { attempt, type Check } from '../checkup.ts'
import { lfsUrl } from '../init/lfs-settings.ts'
import { TRIAL_LIMIT_MS } from './held-file.ts'

/** Nothing where the repository does not name a server of Tenure. */
export async function proveLfs(cwd: string): Promise<readonly Check[]> {
  const found = await attempt('lfs', async () => {
    const url = await lfsUrl(cwd)
    return url === null ? '' : ask(url)
  })
  return found.detail === '' ? [] : [found]
}

/** It takes a token to be answered with locks, and none to see who answers. */
async function ask(url: string): Promise<string> {
  const response = await fetch(`${url}/locks`, {
    signal: AbortSignal.timeout(TRIAL_LIMIT_MS),
  }).catch((cause: unknown) => {
    throw new Error(`no server answers at ${url}: tenure serve --repo DIR`, { cause })
  })
  if (response.headers.get('LFS-Authenticate')?.includes('tenure') === true) {
    return `${url} has the locks`
  }
  throw new Error(`${url} is no server of Tenure: it answers with ${response.status}`)
}
