/**
 * The page's one connection to its server: who asks, the list of what is live, then the stream of events after it. A stream
 * that breaks is resumed after the last event that was read, a position that the store no longer knows begins anew with a
 * list, and a wrong token makes the page ask for another.
 *
 * A tab that is not looked at gives its connection back: a browser opens only six to one server, for all tabs together. When it
 * is shown again it resumes like after a break, or begins anew after long.
 *
 * The page reads every lease near its end again, all of them in one request: its renewals may not be recorded, and its expiry is
 * recorded only with the next command on its resource.
 */
import { batch, signal, type ReadonlySignal, type Signal } from '@preact/signals'
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { LeaseInfo } from '../../core/lease.ts'
import type { LeaseEvent } from '../../core/event.ts'
import {
  after,
  every,
  isHidden,
  monotonicMs,
  onVisibility,
  pause,
  shown,
  wallMs,
} from '../page-runtime.ts'
import { SPAN_MS } from '../parts/words.ts'
import {
  readCaller,
  readLeases,
  readPage,
  readStreamed,
  type CallerInfo,
  type LedgerRow,
} from '../wire/answers.ts'
import { pathWith, ProblemError, ServerCalls, type Credentials } from '../wire/server-calls.ts'
import { LiveLeases } from './live-leases.ts'

type Connection =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  /** Null: no token was tried yet. */
  | { readonly kind: 'token_needed'; readonly problem: string | null }
  | { readonly kind: 'away'; readonly problem: string }

const PAGE_ROWS = 1_000
const AGAIN_MS = { first: 300, most: 5_000 }
/** The server says something every 15 s. */
const SILENT_MS_MAX = 40_000
const SILENT = 'the server has said nothing for 40 s'
const GIVEN_BACK = 'the tab is not looked at'
/** After so long the list is read sooner than all that has happened. */
const HIDDEN_MS_MAX = 2 * SPAN_MS.minute
const TICK_MS = 250
const DUE_EVERY_MS = 1_000
const DUE_MAX = 200
const TICKET_CHECK_MS = 20_000
/** So many rows are laid out anew in a few milliseconds; more of them, less often. */
const MANY_ROWS = 5_000
const REFRESH_MS = { few: 80, many: 400 }

export class LiveFeed {
  readonly leases = new LiveLeases()
  readonly log = new EventLog()
  readonly clock = new StoreClock()
  readonly #connection: Signal<Connection> = signal({ kind: 'connecting' })
  readonly #caller: Signal<CallerInfo | null> = signal(null)
  readonly #version = signal(0)
  readonly #nowMs = signal(this.clock.nowMs())
  readonly #isComplete = signal(false)
  /** Becomes `isComplete` with the next refresh, so that no view shows the end of the list before the list. */
  #isWhole = false
  /** When each lease was asked for again, by the page's clock. */
  readonly #askedAtMs = new Map<string, number>()
  #calls: ServerCalls
  #stop: AbortController | null = null
  #position: string | null = null
  /** The rest of the list; null: it was read to its end. */
  #next: string | null = null
  #isRefreshing = false

  constructor(credentials: Credentials) {
    this.#calls = new ServerCalls(credentials)
  }

  get connection(): ReadonlySignal<Connection> {
    return this.#connection
  }

  get caller(): ReadonlySignal<CallerInfo | null> {
    return this.#caller
  }

  /** Grows when leases or events have changed. */
  get version(): ReadonlySignal<number> {
    return this.#version
  }

  /** The store's wall time, four times a second. */
  get nowMs(): ReadonlySignal<number> {
    return this.#nowMs
  }

  /** The whole list was read. */
  get isComplete(): ReadonlySignal<boolean> {
    return this.#isComplete
  }

  get calls(): ServerCalls {
    return this.#calls
  }

  start(): void {
    const stop = new AbortController()
    this.#stop = stop
    const timers = [
      every(TICK_MS, () => (this.#nowMs.value = this.clock.nowMs())),
      every(DUE_EVERY_MS, () => void this.#askAgain(stop.signal)),
    ]
    stop.signal.addEventListener('abort', () => {
      for (const end of timers) end()
    })
    void this.#follow(stop.signal)
  }

  /** Begins anew, as another caller or in another namespace. */
  restart(credentials: Credentials): void {
    this.#stop?.abort()
    this.#calls = new ServerCalls(credentials)
    this.#position = null
    this.#caller.value = null
    this.#isWhole = false
    this.#isComplete.value = false
    // An empty list: nothing that another may see is shown to this one.
    this.leases.beginListing()
    this.leases.endListing()
    this.#askedAtMs.clear()
    this.log.clear()
    this.#refresh()
    this.#connection.value = { kind: 'connecting' }
    this.start()
  }

  async #follow(stop: AbortSignal): Promise<void> {
    let againMs = AGAIN_MS.first
    while (!stop.aborted) {
      await this.#shown(stop)
      if (stop.aborted) return
      const problem = await this.#connect(stop).catch((error: unknown) => error)
      if (stop.aborted) return
      if (problem === null) continue
      if (this.#connection.value.kind === 'live') againMs = AGAIN_MS.first
      if (problem instanceof ProblemError && problem.status === 401) {
        const isFirst = this.#caller.value === null && this.#calls.isAnonymous
        this.#connection.value = { kind: 'token_needed', problem: isFirst ? null : problem.message }
        return
      }
      if (problem instanceof ProblemError && problem.status === 410) {
        this.#position = null
        // Of a store that has lost its data: what it told has no end any more.
        this.log.clear()
      }
      this.#connection.value = { kind: 'away', problem: messageOf(problem) }
      await pause(againMs, stop)
      againMs = Math.min(2 * againMs, AGAIN_MS.most)
    }
  }

  async #shown(stop: AbortSignal): Promise<void> {
    if (!isHidden()) return
    const fromMs = monotonicMs()
    this.#connection.value = { kind: 'connecting' }
    await shown(stop)
    if (monotonicMs() - fromMs > HIDDEN_MS_MAX) this.#position = null
  }

  /** Gives why the stream ended; null: it was given back. */
  async #connect(stop: AbortSignal): Promise<ProblemError | null> {
    const part = new AbortController()
    const ending = AbortSignal.any([stop, part.signal])
    const forget = onVisibility(() => (isHidden() ? part.abort(GIVEN_BACK) : undefined))
    try {
      this.#caller.value = readCaller(await this.#calls.json('/v1/caller', { signal: ending }))
      if (this.#position === null) await this.#readFirstPage(ending)
      await Promise.all([this.#readStream(ending, part), this.#readOtherPages(ending)])
      return new ProblemError(0, 'ended', 'the server ended the stream')
    } catch (error) {
      const { reason } = part.signal as { readonly reason: unknown }
      if (reason === GIVEN_BACK) return null
      // The browser has words of its own for what was aborted.
      throw reason instanceof ProblemError ? reason : error
    } finally {
      forget()
      part.abort()
    }
  }

  async #readFirstPage(stop: AbortSignal): Promise<void> {
    this.#isWhole = false
    this.#isComplete.value = false
    this.leases.beginListing()
    this.#next = null
    this.#position = await this.#readPage(stop)
  }

  async #readOtherPages(stop: AbortSignal): Promise<void> {
    while (this.#next !== null) await this.#readPage(stop)
    if (this.#isWhole) return
    this.leases.endListing()
    this.#isWhole = true
    this.#refresh()
  }

  async #readPage(stop: AbortSignal): Promise<string> {
    const sentMs = monotonicMs()
    const path = pathWith('/v1/leases', { limit: PAGE_ROWS, after: this.#next ?? undefined })
    const page = readPage(await this.#calls.json(path, { signal: stop }))
    if (page.nowMs !== undefined) this.clock.heard(page.nowMs, monotonicMs() - sentMs)
    this.leases.addListed(page.leases)
    this.#next = page.next ?? null
    this.#refresh()
    return page.position
  }

  async #readStream(stop: AbortSignal, part: AbortController): Promise<void> {
    const response = await this.#calls.open('/v1/events', {
      headers: { Accept: 'text/event-stream', 'Last-Event-ID': this.#position ?? '' },
      signal: stop,
    })
    this.#connection.value = { kind: 'live' }
    const giveUp = (): void => part.abort(new ProblemError(0, 'silent', SILENT))
    let silence = after(SILENT_MS_MAX, giveUp)
    try {
      for await (const { id, data } of readMessages(response)) {
        silence()
        silence = after(SILENT_MS_MAX, giveUp)
        if (data !== '') this.#apply(data)
        if (id !== null) this.#position = id
      }
    } finally {
      silence()
    }
  }

  #apply(data: string): void {
    const row = readStreamed(data)
    this.clock.heardEvent(row.event.atMs)
    this.leases.apply(row)
    this.log.add(row)
    this.#refresh()
  }

  #refresh(): void {
    const delayMs = this.leases.size > MANY_ROWS ? REFRESH_MS.many : REFRESH_MS.few
    if (this.#isRefreshing) return
    this.#isRefreshing = true
    after(delayMs, () => {
      this.#isRefreshing = false
      batch(() => {
        this.#version.value += 1
        this.#isComplete.value = this.#isWhole
      })
    })
  }

  async #askAgain(stop: AbortSignal): Promise<void> {
    if (this.#connection.value.kind !== 'live') return
    const due = this.#dueLeases()
    if (due.length === 0) return
    for (const { id } of due) this.#askedAtMs.set(id, monotonicMs())
    const calls = due.map(({ id }) => ({ call: 'get', request: { id } }))
    try {
      const asked = { method: 'POST', body: { calls }, signal: stop } as const
      const found = readLeases(await this.#calls.json('/v1/batch', asked))
      for (const [index, { id }] of due.entries()) this.#found(id, found[index])
      this.#refresh()
    } catch (error) {
      // The stream reports a server that is away and a token that is not valid; the leases stay due.
      if (!(error instanceof ProblemError) && !stop.aborted) throw error
    }
  }

  #found(id: string, lease: LeaseInfo | null | undefined): void {
    if (lease === undefined) return
    if (lease === null) this.leases.remove(id)
    else if (this.leases.get(id) !== undefined) this.leases.put(lease)
    if (this.leases.get(id) === undefined) this.#askedAtMs.delete(id)
  }

  #dueLeases(): readonly LeaseInfo[] {
    const nowMs = this.clock.nowMs()
    const due: LeaseInfo[] = []
    for (const lease of this.leases.all()) {
      if (due.length === DUE_MAX) break
      if (this.#isDue(lease, nowMs)) due.push(lease)
    }
    return due
  }

  #isDue({ id, expiresAtMs, createdAtMs, ttlMs }: LeaseInfo, nowMs: number): boolean {
    const isNear =
      expiresAtMs === null
        ? nowMs - createdAtMs > TICKET_CHECK_MS
        : expiresAtMs - nowMs < Math.min(ttlMs / 10, 2 * DUE_EVERY_MS)
    if (!isNear) return false
    const restMs = expiresAtMs === null ? TICKET_CHECK_MS : DUE_EVERY_MS / 2
    return monotonicMs() - (this.#askedAtMs.get(id) ?? -Infinity) >= restMs
  }
}

function messageOf(problem: unknown): string {
  return problem instanceof Error ? problem.message : String(problem)
}

/**
 * The wall time of the store, by the last answer and the last event. Deadlines are the store's, so bars run by this clock; the
 * browser's own may be minutes off.
 */
class StoreClock {
  #aheadMs: number = wallMs() - monotonicMs()
  #isHeard = false

  nowMs(): number {
    return monotonicMs() + this.#aheadMs
  }

  /** An answer that was under way for no more than `tookMs` said so. */
  heard(nowMs: number, tookMs: number): void {
    this.#aheadMs = nowMs + tookMs / 2 - monotonicMs()
    this.#isHeard = true
  }

  /** An event happened at this time, so that the store's clock says at least that. */
  heardEvent(atMs: number): void {
    if (!this.#isHeard) this.heard(atMs, 0)
    else this.#aheadMs = Math.max(this.#aheadMs, atMs - monotonicMs())
  }
}

interface StreamMessage {
  /** The last id that was sent, with this message or before it. */
  readonly id: string | null
  /** Empty for a message that says only up to where everything was seen. */
  readonly data: string
}

/** Yields each message as it comes; ends with the response. `EventSource` cannot send a token. */
async function* readMessages(response: Response): AsyncGenerator<StreamMessage> {
  if (response.body === null) return
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let id: string | null = null
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const blocks = `${rest}${value}`.split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const data: string[] = []
      for (const line of block.split('\n')) {
        if (line.startsWith('id: ')) id = line.slice('id: '.length)
        else if (line.startsWith('data: ')) data.push(line.slice('data: '.length))
      }
      yield { id, data: data.join('\n') }
    }
  }
}

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

class EventLog {
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

  clear(): void {
    this.#counts.clear()
    this.#rows = []
    this.#deadlocks = []
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

/** The page's one feed, for every part of it. */
const FeedContext = createContext<LiveFeed | null>(null)
export const FeedProvider = FeedContext.Provider

export function useFeed(): LiveFeed {
  const feed = useContext(FeedContext)
  if (feed === null) throw new TypeError('a part of the page must stand below its feed')
  return feed
}
