/** All entries that a store keeps: what is live, in order of creation, and then what has ended. */
import type { Entry, EntryState } from '../core/lease.ts'
import { LIST_LIMIT_MAX } from '../core/limits.ts'
import type { Store } from '../store-port/store.ts'

const ENDED_STATES: readonly EntryState[] = ['released', 'expired', 'revoked', 'failed']

export async function allEntries(store: Pick<Store, 'find'>): Promise<readonly Entry[]> {
  const live = await store.find({ limit: LIST_LIMIT_MAX })
  const ended = await store.find({ states: ENDED_STATES, limit: LIST_LIMIT_MAX })
  if (live.more || ended.more) throw new Error('the store keeps too much to be read in one piece')
  return [...live.entries, ...ended.entries]
}
