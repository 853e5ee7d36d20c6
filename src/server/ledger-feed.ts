/**
 * The ledger of one namespace, read once for all who follow it. One watch brings what is new: it is encoded once and kept for a
 * while, so that no stream near the end of the ledger reads the store. A stream that is further behind reads pages after its
 * own position, which streams at the same position share; nothing is lost or repeated.
 *
 * Streams are told of an event at once if none came shortly before it, else of all that came meanwhile together: what a
 * stream costs grows with time, not with the events in it.
 */
import { closedError } from '../core/errors.ts'
import type { LeaseEvent } from '../core/event.ts'
import { RepeatedFault, reportTo } from '../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import type { LeaseApi, LedgerEntry, Position, Unsubscribe } from '../service/lease-api.ts'
import { EventFold, type StreamedEvent } from './event-fold.ts'
import { isForeignPosition } from './problem.ts'

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

export class LedgerFeed {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #stop = new AbortController()
  readonly #fault: RepeatedFault
  readonly #listeners = new Set<() => void>()
  readonly #observers = new Set<(event: LeaseEvent) => void>()
  /** Pages by the position that they begin after, until the ledger grows. */
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

  /** What comes after a position, or the beginning of it; nothing yet: empty. */
  async pageAfter(after: Position): Promise<readonly StreamedEvent[]> {
    if (after === this.#recentAfter) return this.#recent
    const at = this.#recent.findLastIndex(({ position }) => position === after)
    if (at !== -1) return this.#recent.slice(at + 1)
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
        // The store has lost what was read of it: whoever follows begins anew.
        if (isForeignPosition(error)) {
          this.#position = null
          this.#forget()
        }
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
    const where = { after, unbroken: true, refusals: false }
    return this.#past.fold(after, await this.#api.history({ ...where, limit: PAGE }))
  }
}
