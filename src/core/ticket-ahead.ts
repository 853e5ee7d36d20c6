/**
 * What a ticket at the end of a queue depends on: the youngest before it. While that one stands there unserved and no other
 * has come after it, the resource is not free, and the ticket is the last, whatever else has changed.
 */
import type { Commit } from './commit.ts'
import { arrivedUs } from './conflict.ts'
import { isLive, type Entry, type Ticket } from './lease.ts'

/** Null if a commit does anything else, or the youngest there is not known to wait. */
export function ticketAhead(commit: Commit, entries: Iterable<Entry>): Ticket | null {
  if (!isQueuedTicket(commit)) return null
  let youngest: Entry | null = null
  for (const entry of entries) {
    if (!isLive(entry)) continue
    if (youngest === null || placeOf(entry) > placeOf(youngest)) youngest = entry
  }
  return youngest !== null && isUnserved(youngest) ? youngest : null
}

/** Whether a commit is nothing but a ticket, be it one that has failed before. A request to share may be served although another waits before it. */
function isQueuedTicket({ changes, requests, epochs, wakes, firstFence }: Commit): boolean {
  const [change] = changes
  if (change === undefined || changes.length > 1) return false
  if (change.before !== undefined && isLive(change.before)) return false
  if (requests.length + epochs.length + wakes.length > 0 || firstFence !== 0) return false
  const { after } = change
  return after !== null && isUnserved(after) && after.mode === 'exclusive'
}

/** A lease was there before every ticket that waits for it. */
function placeOf(entry: Entry): number {
  return entry.kind === 'ticket' ? arrivedUs(entry) : 0
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
