/**
 * Getting in line behind somebody, for whoever has missed again and again, and in every long queue: a process that hands
 * a lease on within itself changes the queue so often that nobody else would ever get in, and thousands who compare all
 * who wait before them cost the square of that. What such a ticket depends on, the core says.
 */
import type { Commit } from '../../core/commit.ts'
import { ticketAhead } from '../../core/filing.ts'
import type { Entry } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import { isTree } from '../../core/resource.ts'
import type { Kept, SeenClaim } from './backend.ts'
import type { Belief } from './belief.ts'

/** From so many entries on it is cheaper to depend on one of them than to compare all. */
const CROWD_MIN = 64

/** Whether so many stand at the only place of a decision that a ticket there need not compare them all. */
export function isCrowded([belief, ...others]: readonly Belief[]): boolean {
  return belief !== undefined && others.length === 0 && belief.kept.size >= CROWD_MIN
}

/** The claim behind which a ticket gets in line; null if the decision is another one, or nobody is known to wait there. */
export function claimAhead(commit: Commit, beliefs: readonly Belief[]): SeenClaim | null {
  const [belief] = beliefs
  if (belief === undefined || beliefs.length > 1) return null
  const { readSet, ticketCount, kept } = belief
  if (readSet.depth !== 'claims' || isTree(readSet.resource)) return null
  // While nobody has come after the youngest, there are no more tickets than were believed to be there.
  if (belief.isDoubtful || Math.max(ticketCount, kept.size) >= TICKETS_PER_REALM_MAX) return null
  const ahead = ticketAhead(commit, entriesOf(kept.values()))
  const seen = ahead === null ? undefined : kept.get(ahead.id)
  return seen === undefined ? null : { id: seen.entry.id, claim: seen.claim }
}

function* entriesOf(kept: Iterable<Kept>): Iterable<Entry> {
  for (const { entry } of kept) yield entry
}
