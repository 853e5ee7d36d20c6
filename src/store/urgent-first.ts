/**
 * The order in which a process with a backlog sends it: renewals first, because a healthy holder loses its lease with one
 * that is late, then what keeps the places of waiters, who would have to be filed anew. Whatever else is late costs time
 * alone. None overtakes an earlier request for the same entry.
 */
import type { LeaseId } from '../core/lease.ts'
import type { ReadSet, Urgency } from '../core/realm.ts'

export interface Sendable {
  readonly readSets: readonly ReadSet[]
}

/** A new array; of those that are equally urgent each keeps its place. */
export function urgentFirst<Item extends Sendable>(waiting: readonly Item[]): Item[] {
  const leases: Item[] = []
  const places: Item[] = []
  const others: Item[] = []
  const ids = new Set<LeaseId>()
  for (const item of waiting) {
    const { readSets } = item
    const isFirst = !readSets.some(({ leaseId }) => ids.has(leaseId))
    const urgency = isFirst ? urgencyOf(readSets) : undefined
    if (urgency === 'lease') {
      leases.push(item)
      continue
    }
    for (const { leaseId } of readSets) ids.add(leaseId)
    if (urgency === 'place') places.push(item)
    else others.push(item)
  }
  return [...leases, ...places, ...others]
}

function urgencyOf(readSets: readonly ReadSet[]): Urgency | undefined {
  return readSets.find(({ urgency }) => urgency !== undefined)?.urgency
}
