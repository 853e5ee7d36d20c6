/**
 * Getting in line behind somebody, for whoever has missed again and again: a process that hands a lease on within itself
 * changes the queue so often that nobody else would ever get in. What such a ticket depends on, the core says.
 */
import type { Commit } from '../../core/commit.ts'
import { ticketAhead } from '../../core/filing.ts'
import type { Entry } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import { isTree } from '../../core/resource.ts'
import type { Kept, SeenClaim } from './backend.ts'
import type { Belief } from './belief.ts'

/** How many tickets may be believed to be there: a count that is not confirmed must not lead past the limit. */
const TICKETS_MAX = TICKETS_PER_REALM_MAX / 2

/** The claim behind which a ticket gets in line; null if the decision is another one, or nobody is known to wait there. */
export function claimAhead(commit: Commit, beliefs: readonly Belief[]): SeenClaim | null {
  const [belief] = beliefs
  if (belief === undefined || beliefs.length > 1) return null
  const { footprint, ticketCount, kept } = belief
  if (footprint.depth !== 'claims' || isTree(footprint.resource)) return null
  if (belief.isDoubtful || ticketCount > TICKETS_MAX) return null
  const ahead = ticketAhead(commit, entriesOf(kept.values()))
  const seen = ahead === null ? undefined : kept.get(ahead.id)
  return seen === undefined ? null : { id: seen.entry.id, claim: seen.claim }
}

function* entriesOf(kept: Iterable<Kept>): Iterable<Entry> {
  for (const { entry } of kept) yield entry
}
