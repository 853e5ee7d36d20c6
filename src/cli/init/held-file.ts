/**
 * A file that somebody else holds, in a temporary directory with a store of its own, for as long as something is tried on it.
 * What is tried finds that store and not the user's.
 */
import os from 'node:os'
import path from 'node:path'
import { openTenure } from '../../open.ts'
import { fs } from '../../runtime/file-system.ts'
import { useAndClose } from '../store-access.ts'
import { withTemporaryDirectory } from '../temporary-directory.ts'

export interface ProofFile {
  readonly directory: string
  readonly file: string
  /** Whoever is refused is told this name. */
  readonly holder: string
  /** That of this process, without what names another repository, store or session. */
  readonly env: Readonly<Record<string, string | undefined>>
}

const HELD_MS = 600_000
/** Far more than a hook takes; one that hangs must not keep the doctor. */
export const TRIAL_LIMIT_MS = 30_000

export async function withHeldFile<Result>(
  trial: (held: ProofFile) => Promise<Result>,
): Promise<Result> {
  const make = (): string =>
    fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-doctor-')))
  return withTemporaryDirectory(make, async (directory) => {
    const work = path.join(directory, 'work')
    fs.mkdirSync(work)
    const file = path.join(work, 'held.txt')
    fs.writeFileSync(file, 'held\n')
    const holder = `somebody-else-${process.pid}`
    const store = `sqlite:${path.join(directory, 'leases.db')}`
    const options = { ttlMs: HELD_MS, autoRenew: false, reason: 'tenure doctor tries it' }
    return useAndClose(await openTenure(store, { holder }), async (tenure) => {
      await tenure.acquire(`file:${file}`, options)
      // Hooks remember what a session has read there.
      const own = { TENURE_STORE: store, XDG_STATE_HOME: path.join(directory, 'state') }
      const env = { ...cleanEnv(), ...own, TENURE_HOLDER: 'tenure-doctor' }
      return trial({ directory: work, file, holder, env })
    })
  })
}

function cleanEnv(): Readonly<Record<string, string | undefined>> {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(GIT|TENURE|CLAUDE|GEMINI)_/.test(name),
  )
  return Object.fromEntries(kept)
}
