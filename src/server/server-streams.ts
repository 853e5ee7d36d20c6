/** The answers that go on: events as they are committed, and wake-ups of sessions that wait. */
import type { ServerResponse } from 'node:http'
import type { LeaseEvent } from '../core/event.ts'
import { kindOf } from '../core/resource.ts'
import type { HttpRequestOf, RequestOf } from '../protocol/requests.ts'
import { report, reportTo } from '../runtime/diagnostics.ts'
import { pause } from '../runtime/pause.ts'
import type { Runtime, Timer } from '../runtime/runtime.ts'
import { sessionDigest } from '../service/session-digest.ts'
import type { Position } from '../service/lease-api.ts'
import { maySee, requireResource, type Caller } from './caller.ts'
import { shownEvent } from './authorise.ts'
import { EventStream, frameOf } from './event-stream.ts'
import { eventFrame, type StreamedEvent } from './ledger-feed.ts'
import { goneIfForeign, isForeignPosition } from './problem.ts'
import { tooMany } from './request-limiter.ts'
import type { ServedStore } from './served-store.ts'
import { stoppingError } from './server-waits.ts'
import type { TokenFile } from './token-file.ts'

export interface Opening {
  readonly caller: Caller
  readonly store: ServedStore
  readonly response: ServerResponse
}

interface OpenStream {
  readonly caller: Caller
  readonly stream: EventStream
}

const CHECK_TOKENS_EVERY_MS = 1_000
/** After a store could not be read. */
const AGAIN_MS = 1_000

type WatchRequest = HttpRequestOf<'watch'>

export class ServerStreams {
  readonly #runtime: Runtime
  readonly #tokens: TokenFile | null
  readonly #perToken: number
  readonly #open = new Set<OpenStream>()
  #timer: Timer | null = null
  #isStopping = false

  constructor(runtime: Runtime, tokens: TokenFile | null, perToken: number) {
    this.#runtime = runtime
    this.#tokens = tokens
    this.#perToken = perToken
  }

  get size(): number {
    return this.#open.size
  }

  #refuseTooMany(caller: Caller): void {
    const own = [...this.#open].filter((one) => one.caller.name === caller.name)
    if (own.length >= this.#perToken) {
      const message = `${caller.name} must have at most ${this.#perToken} streams at once`
      throw tooMany(message, { limit: this.#perToken })
    }
  }

  /** Tells every reader that the server stops; each goes on with another one after its last event. */
  stop(): void {
    this.#isStopping = true
    for (const { stream } of this.#open) stream.end('the server is stopping')
    this.#timer?.cancel()
  }

  /** Throws before anything was written; after that, the answer is the stream's. */
  async watch({ caller, store, response }: Opening, request: WatchRequest): Promise<void> {
    this.#refuseTooMany(caller)
    const { feed } = store
    if (request.resource !== undefined) requireResource(caller, request.resource)
    let position = request.after ?? (await feed.position())
    // Listened for from before each page is read, so that no growth is missed between the two.
    let growth = onceGrown(store, response)
    let page = await feed.pageAfter(position).catch((error: unknown) => {
      growth.forget()
      throw goneIfForeign(error)
    })
    // A reader that is gone by now tells nobody of its end any more.
    if (response.destroyed) return growth.forget()
    let stream: EventStream
    try {
      stream = this.#add(caller, response, () => position)
    } catch (error) {
      growth.forget()
      throw error
    }
    // A reader that is cut off before the first event goes on from here.
    stream.mark(position)
    const follow = async (): Promise<void> => {
      while (stream.isOpen) {
        const isAtEnd = page.length === 0
        const frame = (entry: StreamedEvent): string => {
          return isWanted(caller, request, entry.event) ? frameFor(caller, entry) : ''
        }
        position = sendFrames(stream, page, frame) ?? position
        // A reader that is slow keeps no page: it is read again when the reader is ready.
        page = []
        if (stream.isFull) await stream.drained()
        else if (isAtEnd) await growth.happened
        growth.forget()
        growth = onceGrown(store, response)
        if (stream.isOpen) page = await this.#pageAfter(store, position, stream)
      }
      growth.forget()
    }
    // Nobody waits for a stream to end.
    follow().catch(reportTo('server/stream'))
  }

  /** A store that is away is waited for: the reader would only ask the same again. */
  async #pageAfter(
    { feed }: ServedStore,
    position: Position,
    stream: EventStream,
  ): Promise<readonly StreamedEvent[]> {
    try {
      return await feed.pageAfter(position)
    } catch (error) {
      report('server/stream', error)
      // The reader hears why when it comes back.
      if (isForeignPosition(error)) stream.end('the store has lost this position')
      await pause(this.#runtime, AGAIN_MS, { keepAlive: false })
      return []
    }
  }

  /** Throws before anything was written; after that, the answer is the stream's. */
  async wakes(
    { caller, store, response }: Opening,
    requests: readonly RequestOf<'wakes'>[],
  ): Promise<void> {
    this.#refuseTooMany(caller)
    let stream: EventStream | null = null
    const subscribed = await Promise.allSettled(
      requests.map(({ session }) => {
        const digest = sessionDigest(session)
        return store.api.onWake({ session }, ({ leaseIds }) => {
          stream?.send(wake({ session: digest, leaseIds }))
        })
      }),
    )
    const stop = (): void => {
      for (const one of subscribed) if (one.status === 'fulfilled') one.value()
    }
    const failed = subscribed.find((one) => one.status === 'rejected')
    if (failed !== undefined || response.destroyed) stop()
    if (failed !== undefined) throw failed.reason
    if (response.destroyed) return
    response.once('close', stop)
    stream = this.#add(caller, response, () => null)
    // Whatever happened before the subscription stood is made up for by one look.
    stream.send(wake({ leaseIds: null }))
  }

  /** Throws where others of the caller began while this one was prepared, or the server stops by now. */
  #add(caller: Caller, response: ServerResponse, idle: () => Position | null): EventStream {
    this.#refuseTooMany(caller)
    if (this.#isStopping) throw stoppingError()
    const stream = new EventStream(response, this.#runtime, idle)
    const open = { caller, stream }
    this.#open.add(open)
    response.once('close', () => this.#open.delete(open))
    this.#timer ??= this.#checkTokens()
    return stream
  }

  /** A stream ends with its token. */
  #checkTokens(): Timer | null {
    const tokens = this.#tokens
    if (tokens === null) return null
    const check = (): void => {
      for (const { caller, stream } of this.#open) {
        if (caller.token !== null && !tokens.has(caller.token)) stream.end('the token is not valid')
      }
      this.#timer = this.#open.size === 0 ? null : this.#checkTokens()
    }
    return this.#runtime.setTimer(CHECK_TOKENS_EVERY_MS, check, { keepAlive: false })
  }
}

function wake(data: object): string {
  return frameOf({ type: 'wake', data: JSON.stringify(data) })
}

/** Few writes for many events. A reader for whom more than this waits is not sent the rest of its page. */
const WRITE_CHARS = 64 * 1024

/** Gives the position up to which the reader has seen everything; null: that of before. */
function sendFrames(
  stream: EventStream,
  page: readonly StreamedEvent[],
  frame: (entry: StreamedEvent) => string,
): Position | null {
  let frames = ''
  let upTo: Position | null = null
  for (const entry of page) {
    frames += frame(entry)
    upTo = entry.position
    if (frames.length < WRITE_CHARS) continue
    stream.send(frames)
    frames = ''
    if (stream.isFull) break
  }
  if (frames !== '') stream.send(frames)
  return upTo
}

function frameFor(caller: Caller, entry: StreamedEvent): string {
  const event = shownEvent(caller, entry.event)
  return event === entry.event ? entry.frame : eventFrame({ ...entry, event })
}

function isWanted(caller: Caller, filter: WatchRequest, event: LeaseEvent): boolean {
  const { resource, kinds, holder, types } = filter
  if (resource !== undefined && event.resource !== resource) return false
  if (kinds !== undefined && !kinds.includes(kindOf(event.resource))) return false
  if (holder !== undefined && event.holder !== holder) return false
  if (types !== undefined && !types.includes(event.type)) return false
  return maySee(caller, event.resource)
}

interface Growth {
  /** The ledger may have grown, or the reader has gone. */
  readonly happened: Promise<void>
  forget(): void
}

function onceGrown({ feed }: ServedStore, response: ServerResponse): Growth {
  let happen: () => void = () => undefined
  const happened = new Promise<void>((resolve) => (happen = resolve))
  const stop = feed.onGrowth(happen)
  response.once('close', happen)
  return {
    happened,
    forget: () => {
      stop()
      response.off('close', happen)
    },
  }
}
