/**
 * The ledger and the refusals that are counted beside it, as one history in the order of time.
 *
 * A page has `limit` events and besides the refusals of its own stretch of time, at most as many: from its first event, if it
 * goes on after another page, up to the first event of the next one. So pages follow each other without loss or repeat. A
 * refusal has no place in the ledger; it is given the position of the event before it in the answer (of the first one, if it
 * comes before all), so that a caller that goes on after the last row goes on after the last event.
 */
import type { CountedRefusal } from '../core/refusal.ts'
import type { HistoryQuery, LedgerEntry, Position, Store } from '../store-port/store.ts'
import type { HistoryEntry } from './lease-api.ts'

type Source = Pick<Store, 'history' | 'refusals' | 'end'>

export async function historyWithRefusals(
  store: Source,
  query: HistoryQuery,
): Promise<readonly HistoryEntry[]> {
  const { limit, newestFirst = false } = query
  const found = await store.history({ ...query, limit: limit + 1 })
  const events = found.slice(0, limit)
  const [first] = events
  if (first === undefined && query.after !== undefined) return events
  const stretch = stretchOf(query, first, found[limit])
  const { leaseId, resource, holder } = query
  const where = given({ leaseId, resource, holder, ...stretch })
  const refusals = await store.refusals({ ...where, newestFirst, limit })
  if (refusals.length === 0) return events
  // Where there is no event, a caller that goes on from here hears of those that come.
  const start = first?.position ?? (await store.end())
  return merged({ events, refusals, newestFirst, start })
}

/** The times of refusals between two pages, within what was asked for. */
function stretchOf(
  { after, newestFirst = false, ...asked }: HistoryQuery,
  first: LedgerEntry | undefined,
  next: LedgerEntry | undefined,
): Pick<HistoryQuery, 'fromMs' | 'toMs'> {
  const begin = after === undefined ? undefined : first?.event.atMs
  const [earliest, latest] = newestFirst
    ? [next && next.event.atMs + 1, begin]
    : [begin, next && next.event.atMs - 1]
  const fromMs = Math.max(asked.fromMs ?? 0, earliest ?? 0)
  const toMs = Math.min(asked.toMs ?? Infinity, latest ?? Infinity)
  return { fromMs, ...(toMs === Infinity ? {} : { toMs }) }
}

interface Rows {
  readonly events: readonly LedgerEntry[]
  readonly refusals: readonly CountedRefusal[]
  readonly newestFirst: boolean
  /** The position of what comes before all events. */
  readonly start: Position
}

function merged({ events, refusals, newestFirst, start }: Rows): readonly HistoryEntry[] {
  const entries: HistoryEntry[] = []
  let position = start
  let next = 0
  const add = (isDue: (refusal: CountedRefusal) => boolean): void => {
    for (let one = refusals[next]; one !== undefined && isDue(one); one = refusals[next]) {
      entries.push({ position, event: one.event, count: one.count })
      next += 1
    }
  }
  for (const entry of events) {
    const { atMs } = entry.event
    // What was refused in the millisecond of an event was refused after it.
    add(({ event }) => (newestFirst ? event.atMs >= atMs : event.atMs < atMs))
    entries.push(entry)
    position = entry.position
  }
  add(() => true)
  return entries
}

function given<Fields extends object>(fields: Fields): Partial<Fields> {
  const there = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(there) as Partial<Fields>
}
