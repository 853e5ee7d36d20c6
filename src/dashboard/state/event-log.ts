/** The events of the stream since the page was opened: the last ones, and how many of each series in each second. */
import type { LeaseEvent } from '../../core/event.ts'
import type { LedgerRow } from '../wire/answers.ts'

/** What is plotted. */
export type Series =
  'grants' | 'releases' | 'expiries' | 'revocations' | 'waits' | 'refusals' | 'renewals'

export const SERIES: readonly Series[] = [
  ...(['grants', 'releases', 'expiries', 'revocations', 'waits', 'refusals', 'renewals'] as const),
]

const SERIES_OF: Readonly<Partial<Record<LeaseEvent['type'], Series>>> = {
  'lease.issued': 'grants',
  'lease.released': 'releases',
  'lease.transferred': 'releases',
  'lease.expired': 'expiries',
  'lease.revoked': 'revocations',
  'lease.queued': 'waits',
  'lease.denied': 'refusals',
  'lease.failed': 'refusals',
  'lease.renewed': 'renewals',
}

export const RATE_SECONDS = 300
const ROWS_MAX = 5_000

export class EventLog {
  readonly #counts = new Map<number, Partial<Record<Series, number>>>()
  /** The newest last. */
  #rows: LedgerRow[] = []
  #deadlocks: LedgerRow[] = []

  get rows(): readonly LedgerRow[] {
    return this.#rows
  }

  /** Waits that were refused because they would never have ended, the newest last. */
  get deadlocks(): readonly LedgerRow[] {
    return this.#deadlocks
  }

  add(row: LedgerRow): void {
    this.#rows.push(row)
    if (this.#rows.length > 2 * ROWS_MAX) this.#rows = this.#rows.slice(-ROWS_MAX)
    if (isDeadlock(row.event)) this.#deadlocks = [...this.#deadlocks, row].slice(-ROWS_MAX)
    const series = SERIES_OF[row.event.type]
    if (series !== undefined) this.#count(Math.floor(row.event.atMs / 1_000), series)
  }

  /** How many in each of the last seconds before `nowMs`, the oldest first. */
  rates(series: Series, nowMs: number): readonly number[] {
    const last = Math.floor(nowMs / 1_000)
    return Array.from({ length: RATE_SECONDS }, (_, index) => {
      return this.#counts.get(last - RATE_SECONDS + index)?.[series] ?? 0
    })
  }

  #count(second: number, series: Series): void {
    const counts = this.#counts.get(second) ?? {}
    counts[series] = (counts[series] ?? 0) + 1
    this.#counts.set(second, counts)
    if (this.#counts.size <= 2 * RATE_SECONDS) return
    for (const old of this.#counts.keys()) if (old < second - RATE_SECONDS) this.#counts.delete(old)
  }
}

export function isDeadlock(event: LeaseEvent): boolean {
  return event.type === 'lease.failed' && event.failure === 'deadlock'
}
