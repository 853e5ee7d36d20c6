/**
 * The order in which a process with a backlog sends it: renewals first, because a healthy holder loses its lease with one
 * that is late, then what keeps the places of waiters, who would have to be filed anew. Whatever else is late costs time
 * alone. None overtakes an earlier request for the same entry.
 */
import type { LeaseId } from '../core/lease.ts'
import type { ReadSet, Urgency } from '../core/realm.ts'

/** A new array; of those that are equally urgent each keeps its place. */
export function urgentFirst<Item extends { readonly readSets: readonly ReadSet[] }>(
  waiting: readonly Item[],
): Item[] {
  const order: Record<Urgency | 'none', Item[]> = { lease: [], place: [], none: [] }
  const ids = new Set<LeaseId>()
  for (const item of waiting) {
    const { readSets } = item
    const isFirst = !readSets.some(({ leaseId }) => ids.has(leaseId))
    const urgent = isFirst ? readSets.find(({ urgency }) => urgency !== undefined) : undefined
    const urgency = urgent?.urgency ?? 'none'
    order[urgency].push(item)
    if (urgency !== 'lease') for (const { leaseId } of readSets) ids.add(leaseId)
  }
  return [...order.lease, ...order.place, ...order.none]
}
