/** Many who all want one resource all the time: how they are served, by their own logs and by the ledger. */
import type { LeaseEvent } from '../../src/core/event.ts'
import { openApi } from '../../src/open.ts'
import { gapsMs, quantile, takeTurns, type Turn } from './handover.ts'
import { wholeHistory } from './ledger-check.ts'

const RESOURCE = 'work:baton'

export interface ContentionOptions {
  readonly store: string
  readonly processes: number
  /** In each process. */
  readonly workers: number
  /** How many turns each takes; default: as many as it gets. */
  readonly rounds?: number
  /** No new turn begins after so long; default: only `rounds` counts. */
  readonly forMs?: number
}

export interface Contention {
  readonly turns: readonly Turn[]
  readonly events: readonly LeaseEvent[]
}

export async function contend(options: ContentionOptions): Promise<Contention> {
  const { store, processes, workers: sessions, rounds = Infinity, forMs = Infinity } = options
  const takers = Array.from({ length: processes }, (_, index) => {
    const holder = `process-${index}`
    return takeTurns({ store, resource: RESOURCE, holder, sessions, forMs, rounds })
  })
  try {
    const turns = (await Promise.all(takers.map((taker) => taker.turns))).flat()
    const api = await openApi(store)
    const history = await wholeHistory(api)
    await api.close()
    return { turns, events: history.map(({ event }) => event) }
  } finally {
    for (const taker of takers) taker.process.kill('SIGKILL')
  }
}

/** Turns that began before the one before them had ended, or with a fence that is not greater. */
export function overlaps(turns: readonly Turn[]): readonly Turn[] {
  const inOrder = turns.toSorted((a, b) => a.startUs - b.startUs)
  return inOrder.filter((turn, index) => {
    const earlier = inOrder[index - 1]
    return earlier !== undefined && (earlier.endUs > turn.startUs || earlier.fence >= turn.fence)
  })
}

/** What of an event matters here. */
interface LedgerFact {
  readonly type: string
  readonly leaseId: string
}

/** Leases that were granted while somebody who had asked before was still waiting. */
export function passed(events: readonly LedgerFact[]): readonly string[] {
  const queue: string[] = []
  const outOfTurn: string[] = []
  for (const { type, leaseId } of events) {
    if (type === 'lease.queued') queue.push(leaseId)
    if (type === 'lease.failed') queue.splice(queue.indexOf(leaseId), 1)
    if (type !== 'lease.issued') continue
    if (queue.length > 0 && queue[0] !== leaseId) outOfTurn.push(leaseId)
    if (queue.includes(leaseId)) queue.splice(queue.indexOf(leaseId), 1)
  }
  return outOfTurn
}

export interface ContentionFigures {
  readonly turns: number
  readonly medianWakeMs: number
  readonly p90WakeMs: number
  /** At most, by what the ledger tells of: a ticket filed, a release with its offer, a claim, which may have come along. */
  readonly commitsPerTurn: number
}

/** Events that a commit begins with; an offer comes with the release that it answers. */
const COMMITS: ReadonlySet<string> = new Set([
  'lease.queued',
  'lease.released',
  'lease.issued',
  'lease.expired',
  'lease.failed',
])

export function figuresOf({ turns, events }: Contention): ContentionFigures {
  const gaps = gapsMs(turns)
  return {
    turns: turns.length,
    medianWakeMs: quantile(gaps, 0.5),
    p90WakeMs: quantile(gaps, 0.9),
    commitsPerTurn: events.filter(({ type }) => COMMITS.has(type)).length / turns.length,
  }
}
