/** Whether a Redis server removes keys when its memory is short. One that does forgets leases. */
import { report } from '../../runtime/diagnostics.ts'
import type { RedisCalls } from '../../drivers/redis-driver.ts'

export const EVICTS_NOTHING = 'noeviction'

/** The server's `maxmemory-policy`; null if the server, or the user's rights, do not tell. */
export async function evictionOf(calls: RedisCalls): Promise<string | null> {
  try {
    const info = String(await calls.send(['INFO', 'memory'], 'reads'))
    return /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ?? null
  } catch (error) {
    report('store/redis/eviction', error)
    return null
  }
}
