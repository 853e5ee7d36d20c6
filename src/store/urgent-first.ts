/**
 * The order in which a process with a backlog sends it: renewals first, because a healthy holder loses its lease with one
 * that is late, and whatever else is late costs time alone. None overtakes an earlier request for the same entry.
 */
import type { LeaseId } from '../core/lease.ts'
import type { ReadSet } from '../core/realm.ts'

export interface Sendable {
  readonly readSets: readonly ReadSet[]
}

/** A new array; of the others each keeps its place. */
export function urgentFirst<Item extends Sendable>(waiting: readonly Item[]): Item[] {
  const urgent: Item[] = []
  const others: Item[] = []
  const ids = new Set<LeaseId>()
  for (const item of waiting) {
    const { readSets } = item
    const isUrgent =
      readSets.some((one) => one.isUrgent) && !readSets.some((one) => ids.has(one.leaseId))
    if (isUrgent) {
      urgent.push(item)
      continue
    }
    others.push(item)
    for (const { leaseId } of readSets) ids.add(leaseId)
  }
  return [...urgent, ...others]
}
