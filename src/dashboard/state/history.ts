/** The ledger of a span of time, read backwards from its end in pages, as far as a page can show it. */
import { LEASE_EVENT_TYPES, type LeaseEventType } from '../../core/event.ts'
import { countText } from '../parts/words.ts'
import { readEventPage, type LedgerRow } from '../wire/answers.ts'
import { pathWith, type ServerCalls } from '../wire/server-calls.ts'

export interface HistoryQuestion {
  readonly resource?: string
  readonly holder?: string
  readonly fromMs?: number
  readonly toMs?: number
  readonly types?: readonly LeaseEventType[]
  /** How many pages of 1,000 events at most. */
  readonly pagesMax: number
}

export interface History {
  /** In order of commit. */
  readonly rows: readonly LedgerRow[]
  /** There was more, before the first of them. */
  readonly isCut: boolean
}

const PAGE_ROWS = 1_000

export function newestText(pagesMax: number): string {
  return `, among the newest ${countText(pagesMax * PAGE_ROWS)} events`
}

/** Renewals are most of what happens, and change no ownership. */
const FREQUENT: ReadonlySet<LeaseEventType> = new Set<LeaseEventType>([
  ...(['lease.renewed', 'lease.waiting', 'lease.accounted', 'lease.advanced'] as const),
])
export const DECISIVE_TYPES: readonly LeaseEventType[] = LEASE_EVENT_TYPES.filter((type) => {
  return !FREQUENT.has(type)
})

/** A page that begins in the middle of a millisecond begins with some of what the page before ended with. */
export async function readHistory(
  calls: ServerCalls,
  { resource, holder, fromMs, toMs, types, pagesMax }: HistoryQuestion,
  signal: AbortSignal,
): Promise<History> {
  const rows = new Map<string, LedgerRow>()
  let untilMs = toMs
  for (let page = 0; page < pagesMax; page += 1) {
    const query = { resource, holder, fromMs, toMs: untilMs, types: types?.join(',') }
    const path = pathWith('/v1/events', {
      ...query,
      newestFirst: true,
      limit: PAGE_ROWS,
      refusals: false,
    })
    const { events } = readEventPage(await calls.json(path, { signal }))
    const before = rows.size
    for (const row of events) rows.set(row.position, row)
    if (events.length < PAGE_ROWS) return { rows: [...rows.values()].toReversed(), isCut: false }
    // More events of one millisecond than a page has: what lies before them cannot be asked for.
    if (rows.size === before) break
    untilMs = events.at(-1)?.event.atMs
  }
  return { rows: [...rows.values()].toReversed(), isCut: true }
}
