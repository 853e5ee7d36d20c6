/** `proper-lockfile`: a directory per resource, its age as the sign of life. */
import path from 'node:path'
import { NOTHING, type SystemUnderTest } from '../system.ts'
import { loadPeer } from './load-peer.ts'

type Release = () => Promise<void>

interface LockfileModule {
  readonly default: {
    lock(file: string, options: Readonly<Record<string, unknown>>): Promise<Release>
  }
}

const RETRY_MS = 2

export const properLockfileSystem: SystemUnderTest<Release> = {
  ...{ name: 'proper-lockfile', store: 'sqlite', role: 'peer', contends: true },
  settings: `realpath false, retries for ever every ${RETRY_MS} ms (default none); renews itself, not on demand; not in SQLite`,
  offers: { ...NOTHING, ttl: true },
  open: async (place) => {
    const { default: lockfile } = await loadPeer<LockfileModule>('proper-lockfile')
    const retries = { forever: true, factor: 1, minTimeout: RETRY_MS, maxTimeout: RETRY_MS }
    return {
      acquire: async (resource, { ttlMs: stale }) =>
        lockfile.lock(path.join(place.at, resource), { realpath: false, stale, retries }),
      release: (release) => release(),
      close: async () => {},
    }
  },
}
