/**
 * Getting in line behind somebody. A ticket that is filed behind the youngest depends on that one alone: while it stands there
 * unserved and nobody has come after it, the resource is not free, and the ticket is the last, whatever else has changed. So does whoever has missed again and again: a process that
 * hands a lease on within itself changes the queue so often that nobody else would ever get in.
 */
import type { Commit } from '../../core/commit.ts'
import { priorityUs } from '../../core/conflict.ts'
import { isLive, type Entry, type Ticket } from '../../core/lease.ts'
import { TICKETS_PER_REALM_MAX } from '../../core/limits.ts'
import { isTree } from '../../core/resource.ts'
import type { Kept, SeenClaim } from './backend.ts'
import type { Belief } from './belief.ts'

/** How many tickets may be believed to be there: a count that is not confirmed must not lead past the limit. */
const TICKETS_MAX = TICKETS_PER_REALM_MAX / 2

/** The claim behind which a ticket gets in line; null if the decision is another one, or nobody is known to wait there. */
export function claimAhead(commit: Commit, beliefs: readonly Belief[]): SeenClaim | null {
  const [belief] = beliefs
  if (belief === undefined || beliefs.length > 1 || !isFiling(commit)) return null
  const { footprint, ticketCount } = belief
  if (footprint.depth !== 'claims' || isTree(footprint.resource)) return null
  if (belief.isDoubtful || ticketCount > TICKETS_MAX) return null
  const youngest = youngestOf(belief.kept.values())
  if (youngest === null || !isUnserved(youngest.entry)) return null
  return { id: youngest.entry.id, claim: youngest.claim }
}

/** Whether a commit is nothing but a ticket. Whoever shares may be served although somebody waits before it. */
function isFiling({ changes, requests, epochs, wakes, firstFence }: Commit): boolean {
  const [change] = changes
  if (change === undefined || changes.length > 1 || change.before !== undefined) return false
  if (requests.length + epochs.length + wakes.length > 0 || firstFence !== 0) return false
  const { after } = change
  return after !== null && isUnserved(after) && after.mode === 'exclusive'
}

/** Whoever came last: nobody has been let in after it, whatever its priority. */
function youngestOf(kept: Iterable<Kept>): Kept | null {
  let youngest: Kept | null = null
  for (const one of kept) {
    if (!isLive(one.entry)) continue
    if (youngest === null || arrivalOf(one.entry) > arrivalOf(youngest.entry)) youngest = one
  }
  return youngest
}

/** A lease was there before everybody who waits for it. */
function arrivalOf(entry: Entry): number {
  return entry.kind === 'ticket' ? entry.orderUs + priorityUs(entry.priority) : 0
}

/** One of several that are served together is not offered anything, and may wait for something else. */
function isUnserved(entry: Entry): entry is Ticket {
  return (
    entry.kind === 'ticket' &&
    entry.state === 'pending' &&
    entry.offer === null &&
    entry.group === null
  )
}
