/** Whether an entry or event is what a query asks for, and how many of them; for every store that goes through them itself. */
import type { LeaseEvent } from '../core/event.ts'
import { isLive, isLiveState, liveDeadline, type Entry } from '../core/lease.ts'
import { kindOf } from '../core/resource.ts'
import type { CountedRefusal } from '../core/refusal.ts'
import { hasPassed, type Tick } from '../core/time.ts'
import type { EntryQuery, Found, HistoryQuery, RefusalQuery } from '../store-port/store.ts'

/** Whether a query is about entries that have ended and are live no longer; it then names no state of a live one. */
export function isAboutEnded(query: EntryQuery): boolean {
  const { ids, overlapping, states, delayed, deadline } = query
  if (ids !== undefined || overlapping !== undefined || delayed === true) return false
  if (states === undefined || deadline !== undefined) return false
  return !states.some(isLiveState)
}

export function matchesEntry(entry: Entry, query: EntryQuery, now: Tick): boolean {
  const { ids, resource, holder, session, states, deadline } = query
  if (resource !== undefined && entry.resource !== resource) return false
  if (holder !== undefined && entry.holder !== holder) return false
  if (session !== undefined && entry.session !== session) return false
  if (states !== undefined && !states.includes(entry.state)) return false
  if (deadline === undefined) return states !== undefined || ids !== undefined || isLive(entry)
  const live = liveDeadline(entry)
  return live !== null && hasPassed(live, now) === (deadline === 'passed')
}

/** Up to the limit, of entries that each have the cursor behind it; null where the question cannot be gone on with. */
export function firstOf(
  found: Iterable<readonly [after: string | null, Entry]>,
  limit: number,
): Omit<Found, 'now'> {
  const entries: Entry[] = []
  let next: string | null = null
  let lastEnd: string | null = null
  for (const [after, entry] of found) {
    if (entries.length === limit) return { entries, more: true, next, lastEnd }
    entries.push(entry)
    next = after
    if (!isLive(entry)) lastEnd = after
  }
  return { entries, more: false, next: null, lastEnd }
}

/** Of refusals in the order of time, those that are asked for. */
export function refusalsFor(
  refusals: readonly CountedRefusal[],
  query: RefusalQuery,
): readonly CountedRefusal[] {
  const matching = refusals.filter(({ event }) => matchesEvent(event, query))
  return (query.newestFirst === true ? matching.toReversed() : matching).slice(0, query.limit)
}

/** But for the position, by which events are read. */
export function matchesEvent(event: LeaseEvent, query: HistoryQuery): boolean {
  const { leaseId, resource, kinds, holder, types, fromMs, toMs } = query
  if (leaseId !== undefined && event.leaseId !== leaseId) return false
  if (resource !== undefined && event.resource !== resource) return false
  if (kinds !== undefined && !kinds.includes(kindOf(event.resource))) return false
  if (holder !== undefined && event.holder !== holder) return false
  if (types !== undefined && !types.includes(event.type)) return false
  if (fromMs !== undefined && event.atMs < fromMs) return false
  return toMs === undefined || event.atMs <= toMs
}
