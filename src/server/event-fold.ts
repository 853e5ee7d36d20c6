/**
 * Events of the ledger as readers of a stream get them: each with the lease as it was after that event, folded from the
 * ledger, and not as it is by the time that a reader hears of it.
 */
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import { describeEntry, isLive, type Entry, type LeaseId, type LeaseInfo } from '../core/lease.ts'
import { US_PER_MS, type Now } from '../core/time.ts'
import type { LeaseApi, LedgerEntry, Position } from '../service/lease-api.ts'
import { frameOf } from './event-stream.ts'

export interface StreamedEvent extends LedgerEntry {
  /** As it was after the event; null where the ledger does not tell. */
  readonly lease: LeaseInfo | null
  /** All of this as it is sent to a reader who may see all of it. */
  readonly frame: string
}

const PAGE = 500
/** Live leases whose state is remembered for the next event; beyond it, they are folded anew. */
const REMEMBERED_MAX = 50_000

export class EventFold {
  readonly #api: Pick<LeaseApi, 'history'>
  /** How live leases stand at `foldedUpTo`. */
  #states = new Map<LeaseId, Entry>()
  #foldedUpTo: Position | null = null

  constructor(api: Pick<LeaseApi, 'history'>) {
    this.#api = api
  }

  /** The entries follow `after` in the ledger. */
  async fold(after: Position, entries: readonly LedgerEntry[]): Promise<readonly StreamedEvent[]> {
    const last = entries.at(-1)
    if (last === undefined) return []
    // Only one caller at a time may be the one that carries the states on.
    const isNext = after === this.#foldedUpTo && this.#states.size <= REMEMBERED_MAX
    const states = isNext ? this.#states : new Map<LeaseId, Entry>()
    this.#foldedUpTo = null
    const events: StreamedEvent[] = []
    for (const entry of entries) {
      const lease = await this.#after(states, entry)
      events.push({ ...entry, lease, frame: eventFrame({ ...entry, lease }) })
    }
    this.#states = states
    this.#foldedUpTo = last.position
    return events
  }

  async #after(states: Map<LeaseId, Entry>, entry: LedgerEntry): Promise<LeaseInfo | null> {
    const { event } = entry
    const { leaseId } = event
    const before = states.get(leaseId) ?? (begins(event) ? undefined : await this.#before(entry))
    if (before === null) return null
    const after = evolveEntry(before, event)
    if (isLive(after)) states.set(leaseId, after)
    else states.delete(leaseId)
    return describeEntry(after, momentOf(after, event))
  }

  /** The lease as all its events before this one left it; null where some of them are not kept. */
  async #before({ event, position }: LedgerEntry): Promise<Entry | null> {
    const { leaseId } = event
    let entry: Entry | undefined
    let after: Position | undefined
    for (;;) {
      const where = after === undefined ? { id: leaseId } : { id: leaseId, after }
      const events = await this.#api.history({ ...where, limit: PAGE, refusals: false })
      for (const one of events) {
        if (one.position === position) return entry ?? null
        if (entry === undefined && !begins(one.event)) return null
        entry = evolveEntry(entry, one.event)
        after = one.position
      }
      if (events.length < PAGE) return null
    }
  }
}

export function eventFrame({ position, event, lease }: Omit<StreamedEvent, 'frame'>): string {
  const data = JSON.stringify({ position, event, lease })
  return frameOf({ id: position, type: event.type, data })
}

/** Events that tell all there is to know of their entry. */
function begins({ type }: LeaseEvent): boolean {
  return type === 'lease.issued' || type === 'lease.queued' || type === 'lease.denied'
}

/** The clock as it was when the event happened: a deadline is as far away as its wall time says. */
function momentOf(entry: Entry, { atMs }: LeaseEvent): Now {
  const { deadline } = entry
  const leftMs = entry.kind === 'lease' ? entry.expiresAtMs - atMs : 1
  const tick = { domain: deadline.domain, us: deadline.us - leftMs * US_PER_MS }
  return { tick, wallMs: atMs, domainSinceUs: 0, toleranceUs: 0 }
}
