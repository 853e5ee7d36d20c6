/**
 * The ledger of one namespace, read once for all who follow it. One watch brings what is new: it is encoded once and kept for a
 * while, so that no stream near the end of the ledger reads the store. A stream that is further behind reads pages after its
 * own position, which streams at the same position share; nothing is lost or repeated.
 *
 * Each event comes with the lease as it was after it, folded from the ledger, and not as it is by the time that a reader hears
 * of it.
 *
 * Streams are told of an event at once if none came shortly before it, else of all that came meanwhile together: what a
 * stream costs grows with time, not with the events in it.
 */
import { closedError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { evolveEntry } from '../core/evolve.ts'
import { describeEntry, isLive, type Entry, type LeaseId, type LeaseInfo } from '../core/lease.ts'
import { US_PER_MS, type Now } from '../core/time.ts'
import { RepeatedFault, reportTo } from '../runtime/diagnostics.ts'
import { pause } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { LeaseApi, LedgerEntry, Position, Unsubscribe } from '../service/lease-api.ts'
import { frameOf } from './event-stream.ts'
import { isForeignPosition } from './problem.ts'

export interface StreamedEvent extends LedgerEntry {
  /** As it was after the event; null where the ledger does not tell. */
  readonly lease: LeaseInfo | null
  /** All of this as it is sent to a reader who may see all of it. */
  readonly frame: string
}

interface Waiting {
  readonly resolve: (position: Position) => void
  readonly reject: (error: unknown) => void
}

const PAGE = 500
const AGAIN_MS = 1_000
/** Between two times that streams are told of events. */
const TOGETHER_MS = 25
/** Of very many it takes longer to tell them all: they are told less often. */
const LISTENERS_PER_MS = 50
const RECENT_MAX = 500
/** A reader of a long ledger that does not grow would else have all of it kept. */
const PAGES_MAX = 16

export class LedgerFeed {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #stop = new AbortController()
  readonly #fault: RepeatedFault
  readonly #listeners = new Set<() => void>()
  readonly #observers = new Set<(event: LeaseEvent) => void>()
  readonly #lossObservers = new Set<() => void>()
  /** The pages that were read last, by the position that they begin after, until the ledger grows. */
  #pages = new Map<Position, Promise<readonly StreamedEvent[]>>()
  readonly #past: EventFold
  readonly #newest: EventFold
  /** The newest events, none left out, of which the first comes after this position. */
  #recent: readonly StreamedEvent[] = []
  #recentAfter: Position | null = null
  /** What comes after them, and no stream was told of. */
  #fresh: LedgerEntry[] = []
  /** Streams were told of events just now, or will be. */
  #telling = false
  #position: Position | null = null
  #following: Promise<void> | null = null
  #pausing: Timer | null = null
  /** Who wants to know the first position. */
  readonly #waiting = new Set<Waiting>()

  constructor(api: LeaseApi, runtime: Runtime) {
    this.#api = api
    this.#runtime = runtime
    this.#past = new EventFold(api)
    this.#newest = new EventFold(api)
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

  /** Hears that the store has lost its data: the events from now on begin anew. */
  onLoss(observer: () => void): void {
    this.#lossObservers.add(observer)
  }

  /** What comes after a position, or the beginning of it; nothing yet: empty. */
  async pageAfter(after: Position): Promise<readonly StreamedEvent[]> {
    if (after === this.#recentAfter) return this.#recent
    const at = this.#recent.findLastIndex(({ position }) => position === after)
    if (at !== -1) return this.#recent.slice(at + 1)
    const known = this.#pages.get(after)
    if (known !== undefined) return known
    const page = this.#read(after)
    const [oldest] = this.#pages.keys()
    if (oldest !== undefined && this.#pages.size >= PAGES_MAX) this.#pages.delete(oldest)
    this.#pages.set(after, page)
    // No fault: whoever asked for the page hears it; the next one asks anew.
    page.catch(() => this.#pages.delete(after))
    return page
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#pausing?.cancel()
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
        for await (const entry of this.#api.watch(after, { observer, signal })) this.#grown(entry)
        return
      } catch (error) {
        this.#fault.failed(error)
        this.#settle(({ reject }) => reject(error))
        // The store has lost what was read of it: whoever follows begins anew.
        if (isForeignPosition(error)) {
          this.#position = null
          this.#forget()
          for (const observer of this.#lossObservers) observer()
        }
        await pause(this.#runtime, AGAIN_MS, { keepAlive: false, signal })
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

  #grown(entry: LedgerEntry): void {
    this.#pages = new Map()
    for (const observer of this.#observers) observer(entry.event)
    if (this.#listeners.size === 0) return this.#forget()
    this.#recentAfter ??= this.#position
    this.#fresh.push(entry)
    if (!this.#telling) this.#tell().catch(reportTo('server/feed'))
  }

  /** The next event is not the one after the last that was kept. */
  #forget(): void {
    this.#recent = []
    this.#recentAfter = null
    this.#fresh = []
  }

  async #tell(): Promise<void> {
    if (this.#fresh.length === 0) return
    this.#telling = true
    await this.#keepFresh()
    if (this.#stop.signal.aborted) return
    for (const listener of [...this.#listeners]) listener()
    const pauseMs = Math.max(TOGETHER_MS, Math.floor(this.#listeners.size / LISTENERS_PER_MS))
    const goOn = (): void => {
      this.#telling = false
      this.#tell().catch(reportTo('server/feed'))
    }
    this.#pausing = this.#runtime.setTimer(pauseMs, goOn, { keepAlive: false })
  }

  async #keepFresh(): Promise<void> {
    const [before, fresh] = [this.#recent, this.#fresh]
    const after = before.at(-1)?.position ?? this.#recentAfter
    this.#fresh = []
    // No fault: every stream reads the page itself, and hears what is wrong.
    const events = after === null ? null : await this.#newest.fold(after, fresh).catch(() => null)
    // Forgotten meanwhile: what was kept may not be what comes before these.
    if (this.#recent !== before) return
    if (events === null) return this.#forget()
    const all = [...before, ...events]
    const dropped = all.length - Math.max(RECENT_MAX, events.length)
    this.#recentAfter = all[dropped - 1]?.position ?? this.#recentAfter
    this.#recent = all.slice(Math.max(0, dropped))
  }

  async #read(after: Position): Promise<readonly StreamedEvent[]> {
    const where = { after, unbroken: true, refusals: false }
    return this.#past.fold(after, await this.#api.history({ ...where, limit: PAGE }))
  }
}

/** Live leases whose state is remembered for the next event; beyond it, they are folded anew. */
const REMEMBERED_MAX = 50_000

class EventFold {
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
