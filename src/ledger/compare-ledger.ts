/**
 * Compares what a store tells of its past with what was sealed. A store may have pruned leases that have ended, all of
 * their history at once, and renewals that a later one has superseded; anything else that is missing, more, or other
 * than it was sealed is found at its position.
 */
import type { LeaseEvent } from '../core/event.ts'
import type { LeaseId } from '../core/lease.ts'
import type { LedgerEntry, Position } from '../store-port/store.ts'
import { canonicalJson } from './fold.ts'

export interface StoreDifference {
  readonly position: Position
  readonly problem: 'altered' | 'removed' | 'inserted'
}

export interface Comparison {
  readonly first: StoreDifference | null
  /** Leases that are sealed and that the store no longer has. */
  readonly prunedLeases: number
}

/** `kept`: the events of the store, up to the last position that is sealed; both in order of commit. */
export function compareLedgers(
  sealed: readonly LedgerEntry[],
  kept: readonly LedgerEntry[],
): Comparison {
  const known = new Set(sealed.map(({ position }) => position))
  const leases = new Set(kept.map(({ event }) => event.leaseId))
  const ended = endedLeases(sealed)
  const pruned = new Set<LeaseId>()
  let at = 0
  for (const { position, event } of sealed) {
    const other = kept[at]
    if (other !== undefined && !known.has(other.position)) return found(other, 'inserted', pruned)
    if (other?.position === position) {
      if (canonicalJson(other.event) !== canonicalJson(event))
        return found(other, 'altered', pruned)
      at += 1
      continue
    }
    const isPruned = !leases.has(event.leaseId) && ended.has(event.leaseId)
    if (!isPruned && event.type !== 'lease.renewed') {
      return found({ position, event }, 'removed', pruned)
    }
    if (isPruned) pruned.add(event.leaseId)
  }
  const rest = kept[at]
  if (rest !== undefined) return found(rest, 'inserted', pruned)
  return { first: null, prunedLeases: pruned.size }
}

function endedLeases(sealed: readonly LedgerEntry[]): ReadonlySet<LeaseId> {
  const last = new Map<LeaseId, LeaseEvent>()
  for (const { event } of sealed) last.set(event.leaseId, event)
  const ended = [...last.values()].filter(({ after }) => after !== 'active' && after !== 'pending')
  return new Set(ended.map(({ leaseId }) => leaseId))
}

function found(
  { position }: LedgerEntry,
  problem: StoreDifference['problem'],
  pruned: ReadonlySet<LeaseId>,
): Comparison {
  return { first: { position, problem }, prunedLeases: pruned.size }
}
