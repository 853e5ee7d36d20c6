/**
 * What servers tell without being asked each time, over server-sent events (the HTML standard's `text/event-stream`): the
 * events of the ledger, and wake-ups. A stream that is cut is opened again, at the same server or the next one.
 */
import type { IncomingMessage } from 'node:http'
import { closedError, isLeaseError, LeaseError } from '../core/errors.ts'
import { readAnswer } from '../protocol/answers.ts'
import {
  EVENTS_PATH,
  SESSION_HEADER,
  SESSIONS_PER_STREAM_MAX,
  WAKES_PATH,
} from '../protocol/http.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { parseJson } from '../runtime/json-text.ts'
import { pause } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { afterTurn } from '../runtime/system-runtime.ts'
import { sessionDigest } from '../service/session-digest.ts'
import type {
  LedgerEntry,
  Position,
  Unsubscribe,
  WakeSignal,
  WatchFilter,
  WatchObserver,
} from '../service/lease-api.ts'
import { Outage } from '../service/watch.ts'
import { isAway, retryMs, type HttpServers, type OpenStream } from './http-servers.ts'

const QUICK_CUT_MS = 1_000

export interface EventWatchSources {
  readonly servers: HttpServers
  readonly runtime: Runtime
  readonly signal: AbortSignal
  readonly observer: WatchObserver | undefined
}

/**
 * Follows the ledger. The stream is opened again after its last position, so that nothing is lost or repeated. A watch that has
 * read once does not end when servers fail later.
 */
export async function* watchEvents(
  sources: EventWatchSources,
  filter: WatchFilter,
): AsyncGenerator<LedgerEntry, void, undefined> {
  const { servers, runtime, signal, observer } = sources
  const outage = new Outage('http-client/watch', sources)
  const cuts = new QuickCuts(runtime)
  let { after } = filter
  let hasRead = false
  while (!signal.aborted) {
    const path = pathOf(filter, after)
    const stream = await servers
      .stream({ path, headers: {}, keepAlive: true, signal })
      .catch((error: unknown) => {
        return signal.aborted ? null : outage.survive(hasRead ? asAway(error) : error)
      })
    if (stream !== null) {
      let hasBegun = false
      cuts.open()
      for await (const { id, data } of untilCut(stream)) {
        hasBegun = hasRead = true
        outage.end()
        if (data !== null) {
          const { position, event } = readAnswer('watch', parseJson(data)) as LedgerEntry
          yield { position, event }
        }
        if (signal.aborted) return
        after = id ?? after
        if (after !== undefined) observer?.onPosition(after)
      }
      cuts.cut()
      if (!hasBegun && !signal.aborted) outage.survive(emptyStreamError())
    }
    const pauseMs = retryMs(Math.max(outage.count, cuts.repeated), runtime)
    if (pauseMs > 0) await pause(runtime, pauseMs, { keepAlive: true, signal })
  }
}

/**
 * Streams that are cut soon after they stood, one after the other: of a server that stops, or of a proxy that lets none
 * stand. The first is opened again at once.
 */
class QuickCuts {
  readonly #runtime: Runtime
  #openedMs = 0
  #count = 0

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  open(): void {
    this.#openedMs = this.#runtime.monotonicMs()
  }

  cut(): void {
    const isQuick = this.#runtime.monotonicMs() - this.#openedMs < QUICK_CUT_MS
    this.#count = isQuick ? this.#count + 1 : 0
  }

  get repeated(): number {
    return Math.max(0, this.#count - 1)
  }
}

async function* untilCut({ response }: OpenStream): AsyncGenerator<SentEvent> {
  try {
    yield* readEvents(response)
  } catch (error) {
    // A cut is no fault: the stream goes on elsewhere, and an outage is told where it cannot be opened.
    if (!isLeaseError(error) || !isAway(error)) throw error
  } finally {
    response.destroy()
  }
}

/** A server that has too many requests or streams of the token at this moment is asked again like one that is away. */
function asAway(error: unknown): unknown {
  if (!isLeaseError(error, 'LIMIT_EXCEEDED') || !error.retryable) return error
  return new LeaseError('STORE_UNAVAILABLE', error.message, { cause: error })
}

/** A server of ours says at once where its stream begins. What answers with less would else be asked again without a pause. */
function emptyStreamError(): LeaseError {
  return new LeaseError('STORE_UNAVAILABLE', 'the stream ended before it began')
}

/** The filter as a query: lists are separated by commas. */
function pathOf(filter: WatchFilter, after: Position | undefined): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries({ ...filter, after })) {
    if (value !== undefined) query.set(name, String(value))
  }
  return `${EVENTS_PATH}?${query.toString()}`
}

type Listener = (signal: WakeSignal) => void

/**
 * Wake-ups of the sessions of a process, over one stream for all of them (one for each 64): thousands of waits are one
 * connection and no open request.
 *
 * A session that is added later opens the stream anew, beside the old one, which ends when the new one stands. Whatever
 * happened while a stream was cut is made up for by one look at everything. Until then waiters look on their own.
 */
export class WakeStreams {
  readonly #servers: HttpServers
  readonly #runtime: Runtime
  readonly #streams = new Set<WakeStream>()
  #isClosed = false

  constructor(servers: HttpServers, runtime: Runtime) {
    this.#servers = servers
    this.#runtime = runtime
  }

  /** Resolves when wake-ups of the session arrive; throws when they cannot be listened for at first. */
  async subscribe(session: string, listener: Listener): Promise<Unsubscribe> {
    if (this.#isClosed) throw closedError()
    const open = [...this.#streams]
    const stream =
      open.find((one) => one.has(session)) ?? open.find((one) => one.hasRoom) ?? this.#newStream()
    return stream.subscribe(session, listener)
  }

  close(): void {
    this.#isClosed = true
    for (const stream of [...this.#streams]) stream.close()
  }

  #newStream(): WakeStream {
    const stream = new WakeStream(this.#servers, this.#runtime, () => {
      this.#streams.delete(stream)
    })
    this.#streams.add(stream)
    return stream
  }
}

/** One session and all who listen to it. */
interface Subscription {
  readonly session: string
  readonly listeners: Set<Listener>
  readonly stands: Promise<void>
  /** Whether it has been told of before: then it may have missed something. */
  hasStood: boolean
  /** Settles `stands`; without effect after the first time. */
  readonly onStands: () => void
  readonly onFailed: (error: unknown) => void
}

class WakeStream {
  readonly #servers: HttpServers
  readonly #runtime: Runtime
  readonly #onEnd: () => void
  readonly #fault: RepeatedFault
  readonly #cuts: QuickCuts
  readonly #stopMoves: () => void
  /** By the digest of the session, which is what a wake-up names. */
  readonly #subscriptions = new Map<string, Subscription>()
  #open: OpenStream | null = null
  /** The sessions that the open stream tells of. */
  #covered: ReadonlySet<string> = new Set()
  #isConnecting = false
  #isPlanned = false
  #again: Timer | null = null

  constructor(servers: HttpServers, runtime: Runtime, onEnd: () => void) {
    this.#servers = servers
    this.#runtime = runtime
    this.#onEnd = onEnd
    this.#fault = new RepeatedFault('http-client/wake-ups', runtime)
    this.#cuts = new QuickCuts(runtime)
    this.#stopMoves = servers.onMove(() => {
      if (this.#open !== null && this.#open.url !== servers.current) this.#plan()
    })
  }

  get hasRoom(): boolean {
    return this.#subscriptions.size < SESSIONS_PER_STREAM_MAX
  }

  has(session: string): boolean {
    return this.#subscriptions.has(sessionDigest(session))
  }

  async subscribe(session: string, listener: Listener): Promise<Unsubscribe> {
    const digest = sessionDigest(session)
    const subscription = this.#subscriptions.get(digest) ?? newSubscription(session)
    this.#subscriptions.set(digest, subscription)
    // A function of its own for each: the same listener may be added twice.
    const own: Listener = (signal) => listener(signal)
    subscription.listeners.add(own)
    const unsubscribe = (): void => {
      subscription.listeners.delete(own)
      if (subscription.listeners.size > 0 || this.#subscriptions.get(digest) !== subscription)
        return
      this.#subscriptions.delete(digest)
      if (this.#subscriptions.size === 0) this.close()
    }
    if (!this.#covered.has(digest)) this.#plan()
    try {
      await subscription.stands
      return unsubscribe
    } catch (error) {
      unsubscribe()
      throw error
    }
  }

  close(): void {
    this.#onEnd()
    this.#stopMoves()
    this.#again?.cancel()
    for (const { onFailed } of this.#subscriptions.values()) onFailed(closedError())
    this.#subscriptions.clear()
    this.#open?.response.destroy()
    this.#open = null
  }

  /** All sessions that are added in one turn come with one stream. */
  #plan(): void {
    if (this.#isPlanned) return
    this.#isPlanned = true
    this.#again?.cancel()
    afterTurn(() => {
      this.#isPlanned = false
      void this.#connect()
    })
  }

  async #connect(): Promise<void> {
    if (this.#isConnecting || this.#subscriptions.size === 0) return
    this.#isConnecting = true
    const asked = new Map(this.#subscriptions)
    const sessions = [...asked.values()].map(({ session }) => encodeURIComponent(session))
    try {
      const headers = { [SESSION_HEADER]: sessions.join() }
      const stream = await this.#servers
        .stream({ path: WAKES_PATH, headers, keepAlive: false })
        .finally(() => (this.#isConnecting = false))
      await this.#follow(stream, asked)
    } catch (error) {
      this.#fault.failed(error)
      for (const { onFailed } of asked.values()) onFailed(error)
      this.#tryLater()
    }
  }

  #tryLater(): void {
    if (this.#subscriptions.size === 0 || this.#open !== null) return
    const pauseMs = retryMs(Math.max(this.#fault.count, this.#cuts.repeated), this.#runtime)
    this.#again = this.#runtime.setTimer(pauseMs, () => this.#plan(), { keepAlive: false })
  }

  /** The first event says that the stream stands. Returns when it has ended, by whatever; throws if that was before. */
  async #follow(stream: OpenStream, asked: ReadonlyMap<string, Subscription>): Promise<void> {
    let isStanding = false
    let cut: Error = emptyStreamError()
    try {
      for await (const { data } of readEvents(stream.response)) {
        if (data === null) continue
        if (!isStanding) this.#standsWith(stream, asked)
        else this.#route(readAnswer('wakes', parseJson(data)))
        isStanding = true
        if (this.#open !== stream) break
      }
    } catch (error) {
      if (error instanceof Error) cut = error
      if (this.#open === stream) this.#fault.failed(error)
    }
    stream.response.destroy()
    if (!isStanding && this.#subscriptions.size > 0) throw cut
    if (this.#open !== stream) return
    this.#open = null
    this.#covered = new Set()
    this.#cuts.cut()
    this.#tryLater()
  }

  #standsWith(stream: OpenStream, asked: ReadonlyMap<string, Subscription>): void {
    if (this.#subscriptions.size === 0) return
    const before = this.#covered
    this.#open?.response.destroy()
    this.#open = stream
    this.#cuts.open()
    this.#covered = new Set(asked.keys())
    this.#fault.succeeded()
    for (const [digest, subscription] of asked) {
      const { onStands, listeners, hasStood } = subscription
      subscription.hasStood = true
      onStands()
      // What the old stream told of until now has missed nothing, and who begins to listen looks by itself.
      const hasMissed = hasStood && !before.has(digest)
      if (hasMissed) for (const listener of listeners) listener({ leaseIds: null })
    }
    const isWhole = [...this.#subscriptions.keys()].every((digest) => asked.has(digest))
    if (!isWhole || stream.url !== this.#servers.current) this.#plan()
  }

  #route({ session, leaseIds }: WakeSignal & { readonly session?: string }): void {
    const heard =
      session === undefined ? this.#subscriptions.values() : [this.#subscriptions.get(session)]
    for (const one of heard) for (const listener of one?.listeners ?? []) listener({ leaseIds })
  }
}

function newSubscription(session: string): Subscription {
  let onStands: () => void = () => undefined
  let onFailed: (error: unknown) => void = () => undefined
  const stands = new Promise<void>((resolve, reject) => {
    onStands = resolve
    onFailed = reject
  })
  return { session, listeners: new Set(), stands, hasStood: false, onStands, onFailed }
}

interface SentEvent {
  /** Up to here everything was sent; null where the stream has no positions. */
  readonly id: string | null
  /** Null: only the id was sent. */
  readonly data: string | null
}

/**
 * Ends with the answer; throws `STORE_UNAVAILABLE` when that is cut, and only then. Nothing is read ahead of who takes the
 * events.
 */
async function* readEvents(response: IncomingMessage): AsyncGenerator<SentEvent> {
  response.setEncoding('utf8')
  let rest = ''
  for await (const part of partsOf(response)) {
    const blocks = (rest + part).split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const event = readBlock(block)
      if (event.id !== null || event.data !== null) yield event
    }
  }
}

/** Whatever reading a connection throws is that connection's. */
async function* partsOf(response: IncomingMessage): AsyncGenerator<string> {
  try {
    yield* response as AsyncIterable<string>
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new LeaseError('STORE_UNAVAILABLE', `the stream was cut: ${why}`, { cause })
  }
}

/** A server of ours writes each field on one line, and separates events by one empty line. */
function readBlock(block: string): SentEvent {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    const colon = line.indexOf(': ')
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 2))
  }
  return { id: fields.get('id') ?? null, data: fields.get('data') ?? null }
}
