/**
 * Writes down what the clock has already decided, and removes what retention no longer keeps. Nothing depends on it
 * being run: expired means free at the moment of the check.
 */
import type { Entry } from '../core/lease.ts'
import type { Resource } from '../core/resource.ts'
import { resolveSettings, retentionMs } from '../core/settings.ts'
import type { Store } from '../store-port/store.ts'
import type { CleanupResult } from './lease-api.ts'

const PRUNE_BATCH = 1_000

export type SettleBatch = () => Promise<{ readonly expired: number; readonly more: boolean }>

export async function cleanUp(store: Store, settleBatch: SettleBatch): Promise<CleanupResult> {
  let expired = 0
  for (;;) {
    const batch = await settleBatch()
    expired += batch.expired
    if (!batch.more) break
  }
  const { prunedLeases, prunedEvents } = await pruneAll(store)
  return { expired, prunedLeases, prunedEvents }
}

/**
 * One entry for each place at which something is over. Whatever was derived from another that is over ends with it, and
 * whoever looks at a directory with all that is below it sees what is at its own name.
 */
export function placesToSettle(entries: readonly Entry[]): readonly Entry[] {
  const over = new Set(entries.map(({ id }) => id))
  const places = new Map<Resource, Entry>()
  for (const entry of entries) {
    if (entry.delegation?.line.some((ancestor) => over.has(ancestor)) === true) continue
    const known = places.get(entry.resource)
    if (known?.extent !== 'subtree') places.set(entry.resource, entry)
  }
  return [...places.values()]
}

async function pruneAll(store: Store): Promise<Omit<CleanupResult, 'expired'>> {
  const { history_retention_days: days } = resolveSettings(await store.settings(), null)
  const { now } = await store.find({ ids: [], limit: 1 })
  const policy = {
    endedBeforeMs: now.wallMs - retentionMs(days),
    nowMs: now.wallMs,
    batch: PRUNE_BATCH,
  }
  let prunedLeases = 0
  let prunedEvents = 0
  for (;;) {
    const pruned = await store.prune(policy)
    prunedLeases += pruned.leases
    prunedEvents += pruned.events
    if (!pruned.more) return { prunedLeases, prunedEvents }
  }
}
