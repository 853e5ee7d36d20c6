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

export function properLockfileSystem(pauseMs: number): SystemUnderTest<Release> {
  return {
    ...{ name: 'proper-lockfile', store: 'sqlite', role: 'peer', contends: true },
    settings: `realpath false, retries for ever every ${pauseMs}–${2 * pauseMs} ms, randomize true (default none); renews itself, not on demand; not in SQLite`,
    offers: { ...NOTHING, ttl: true },
    polling: { pauseMs, pausing: properLockfileSystem },
    open: async (place) => {
      const { default: lockfile } = await loadPeer<LockfileModule>('proper-lockfile')
      const times = { factor: 1, minTimeout: pauseMs, maxTimeout: 2 * pauseMs }
      const retries = { forever: true, randomize: true, ...times }
      return {
        acquire: async (resource, stale) =>
          lockfile.lock(path.join(place.at, resource), { realpath: false, stale, retries }),
        release: (release) => release(),
        close: async () => {},
      }
    },
  }
}
