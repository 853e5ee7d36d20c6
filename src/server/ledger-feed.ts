/**
 * The ledger of one namespace, read once for all who follow it. One watch says when it has grown; each stream goes on from
 * its own position, so that nothing is lost or repeated, and streams that stand at the same position share one page.
 *
 * Each event comes with the lease as it was after that event, folded from the ledger: not as it is by the time that
 * somebody hears of it.
 */
import { closedError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import { describeEntry, isLive, type Entry, type LeaseId, type LeaseInfo } from '../core/lease.ts'
import { US_PER_MS, type Now } from '../core/time.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { LeaseApi, LedgerEntry, Position, Unsubscribe } from '../service/lease-api.ts'
import { isForeignPosition } from './problem.ts'

export interface StreamedEvent extends LedgerEntry {
  /** The entry as JSON, with the `lease` as it was after the event; null where the ledger does not tell. */
  readonly text: string
}

interface Waiting {
  readonly resolve: (position: Position) => void
  readonly reject: (error: unknown) => void
}

const PAGE = 500
const AGAIN_MS = 1_000
const LISTENERS_PER_MS = 50
/** Live leases whose state is remembered for the next event; beyond it, they are folded anew. */
const REMEMBERED_MAX = 50_000

export class LedgerFeed {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #stop = new AbortController()
  readonly #fault: RepeatedFault
  readonly #listeners = new Set<() => void>()
  readonly #observers = new Set<(event: LeaseEvent) => void>()
  /** Pages by the position that they begin after, until the ledger grows. */
  #pages = new Map<Position, Promise<readonly StreamedEvent[]>>()
  /** How live leases stand at `foldedUpTo`. */
  #states = new Map<LeaseId, Entry>()
  #foldedUpTo: Position | null = null
  #position: Position | null = null
  #following: Promise<void> | null = null
  #notifying: Timer | null = null
  /** Who wants to know the first position. */
  readonly #waiting = new Set<Waiting>()

  constructor(api: LeaseApi, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
    this.#fault = new RepeatedFault('server/feed', runtime)
  }

  /** Up to here everything was read; what is committed from now on comes later. Throws while the store is away. */
  async position(): Promise<Position> {
    this.#following ??= this.#follow()
    if (this.#position !== null) return this.#position
    return new Promise((resolve, reject) => this.#waiting.add({ resolve, reject }))
  }

  /** Calls back whenever there may be more to read. */
  onGrowth(listener: () => void): Unsubscribe {
    this.#following ??= this.#follow()
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Hears every event from `position` on, once. */
  onEvent(observer: (event: LeaseEvent) => void): void {
    this.#observers.add(observer)
  }

  /** What comes after a position, at most a page of it; nothing yet: empty. */
  pageAfter(after: Position): Promise<readonly StreamedEvent[]> {
    const known = this.#pages.get(after)
    if (known !== undefined) return known
    const page = this.#read(after)
    this.#pages.set(after, page)
    // No fault: whoever asked for the page hears it; the next one asks anew.
    page.catch(() => this.#pages.delete(after))
    return page
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#notifying?.cancel()
    this.#settle(({ reject }) => reject(closedError()))
    await this.#following
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop
    const observer = {
      onAway: () => undefined,
      onBack: () => undefined,
      onPosition: (position: Position) => this.#reached(position),
    }
    while (!signal.aborted) {
      const after = this.#position === null ? {} : { after: this.#position }
      try {
        for await (const { event } of this.#api.watch(after, { observer, signal })) {
          this.#grown(event)
        }
        return
      } catch (error) {
        this.#fault.failed(error)
        // The store has lost what was read of it: whoever follows begins anew.
        if (isForeignPosition(error)) this.#position = null
        this.#settle(({ reject }) => reject(error))
        await this.#pause()
      }
    }
  }

  #reached(position: Position): void {
    this.#position = position
    this.#fault.succeeded()
    this.#settle(({ resolve }) => resolve(position))
  }

  #settle(tell: (waiting: Waiting) => void): void {
    for (const waiting of this.#waiting) tell(waiting)
    this.#waiting.clear()
  }

  #grown(event: LeaseEvent): void {
    this.#pages = new Map()
    for (const observer of this.#observers) observer(event)
    this.#notify()
  }

  /** Very many are told of several events together: each of them looks through all that is new. */
  #notify(): void {
    if (this.#notifying !== null) return
    const tell = (): void => {
      this.#notifying = null
      for (const listener of [...this.#listeners]) listener()
    }
    const pauseMs = Math.floor(this.#listeners.size / LISTENERS_PER_MS)
    if (pauseMs === 0) tell()
    else this.#notifying = this.#runtime.setTimer(pauseMs, tell, { keepAlive: false })
  }

  #pause(): Promise<void> {
    const { signal } = this.#stop
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const timer = this.#runtime.setTimer(AGAIN_MS, resolve, { keepAlive: false })
      signal.addEventListener('abort', () => {
        timer.cancel()
        resolve()
      })
    })
  }

  async #read(after: Position): Promise<readonly StreamedEvent[]> {
    const entries = await this.#api.history({ after, limit: PAGE, refusals: false })
    const last = entries.at(-1)
    if (last === undefined) return []
    // Only one reader at a time may be the one that carries the states on.
    const isNext = after === this.#foldedUpTo && this.#states.size <= REMEMBERED_MAX
    const states = isNext ? this.#states : new Map<LeaseId, Entry>()
    this.#foldedUpTo = null
    const events: StreamedEvent[] = []
    for (const entry of entries) {
      const lease = await this.#after(states, entry)
      events.push({ ...entry, text: JSON.stringify({ ...entry, lease }) })
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
