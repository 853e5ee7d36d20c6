/**
 * The servers before one store, any of which will do: a request that one of them does not answer goes on with the next,
 * and whatever comes later stays there.
 *
 * Node's `http` and not its `fetch`: it tells whether a request had left when its connection broke, which is what "was it
 * committed?" hangs on, and a stream of wake-ups must not keep a process alive.
 */
import http, { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import https from 'node:https'
import { ERROR_CODES, invalid, isLeaseError, LeaseError, type ErrorCode } from '../core/errors.ts'
import { STREAM_COMMENT_EVERY_MS } from '../protocol/http.ts'
import { parseJson } from '../runtime/json-text.ts'
import { backOffMs } from '../runtime/pause.ts'
import type { Runtime } from '../runtime/runtime.ts'

export interface HttpServersOptions {
  /** Without credentials; at least one. */
  readonly urls: readonly URL[]
  /** Of every request. */
  readonly headers: Readonly<Record<string, string>>
  /** How long one call may take, at however many servers. */
  readonly callMs: number
  readonly runtime: Runtime
}

/** Of what has no effect, or the same one however often it is sent, a lost answer is asked for again. */
export type RequestEffect = 'none' | 'repeatable' | 'once'

export interface Body {
  readonly text: string
  readonly effect: RequestEffect
}

export interface StreamRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Whether the open stream keeps the process alive. */
  readonly keepAlive: boolean
  /** Ends it, open or not. */
  readonly signal?: AbortSignal
}

export interface OpenStream {
  readonly response: IncomingMessage
  /** Which server it comes from. */
  readonly url: URL
}

interface RequestOptions {
  readonly method?: 'POST'
  readonly headers: OutgoingHttpHeaders
  readonly agent?: false
  readonly signal?: AbortSignal
}

/** A stream on which nothing came for so long, not even a comment, has lost its server without hearing of it. */
const SILENCE_MS = STREAM_COMMENT_EVERY_MS * 3
const RETRY = { firstMs: 100, maxMs: 2_000 }

/** Requests under way at one server at once; each may carry a thousand calls. */
const CONNECTIONS_MAX = 64

export class HttpServers {
  readonly #options: HttpServersOptions
  readonly #agent: http.Agent
  readonly #moves = new Set<() => void>()
  #current = 0

  constructor(options: HttpServersOptions) {
    this.#options = options
    const { Agent } = options.urls[0]?.protocol === 'https:' ? https : http
    this.#agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS_MAX })
  }

  /** The one that requests go to at present. */
  get current(): URL {
    const { urls } = this.#options
    return urls[this.#current] as URL
  }

  /** Calls back when another server becomes the current one. */
  onMove(listener: () => void): () => void {
    this.#moves.add(listener)
    return () => void this.#moves.delete(listener)
  }

  /** Answers JSON, or throws what every store throws: was nothing committed, or is that unknown? */
  post(path: string, body: Body): Promise<unknown> {
    return this.#tryEach(body.effect, (url, withinMs) => {
      return this.#exchange(url, path, body, withinMs)
    })
  }

  /** Opens an answer that goes on. */
  stream(request: StreamRequest): Promise<OpenStream> {
    return this.#tryEach('none', async (url, withinMs) => {
      return { response: await this.#open(url, request, withinMs), url }
    })
  }

  close(): void {
    this.#agent.destroy()
  }

  /** Asks the current server, and the others in turn while it is away, for as long as one call may take. */
  async #tryEach<Answer>(
    effect: RequestEffect,
    ask: (url: URL, withinMs: number) => Promise<Answer>,
  ): Promise<Answer> {
    const { urls, callMs, runtime } = this.#options
    const endMs = runtime.monotonicMs() + callMs
    let doubt: LeaseError | null = null
    for (let tries = 1; ; tries += 1) {
      const url = this.current
      try {
        const leftMs = endMs - runtime.monotonicMs()
        return await ask(url, Math.min(leftMs, callMs / urls.length))
      } catch (error) {
        if (!isLeaseError(error)) throw error
        if (!isAway(error)) throw doubt === null ? error : refusedLater(doubt, error)
        const isUnknown = error.effect === 'unknown'
        if (isUnknown && effect !== 'none') doubt ??= error
        this.#leave(url)
        // The last server is asked once more where an answer was lost: its connection may just have been too old.
        const isLast = tries >= urls.length + (isUnknown ? 1 : 0)
        const isOver = runtime.monotonicMs() >= endMs
        if (isLast || isOver || (isUnknown && effect === 'once')) throw doubt ?? error
      }
    }
  }

  /** Unless another request has done so before. */
  #leave(url: URL): void {
    const { urls } = this.#options
    if (urls.length === 1 || this.current !== url) return
    this.#current = (this.#current + 1) % urls.length
    for (const listener of [...this.#moves]) listener()
  }

  async #exchange(url: URL, path: string, { text }: Body, withinMs: number): Promise<unknown> {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': String(Buffer.byteLength(text)),
    }
    const sent = this.#send(url, path, { method: 'POST', headers })
    return this.#within(sent, withinMs, async () => {
      sent.request.end(text)
      const response = await sent.answered
      const answer = parseJson(await textOf(response)) ?? null
      if (response.statusCode === 200 && answer !== null) return answer
      throw refusalOf(url, response, answer)
    })
  }

  async #open(url: URL, request: StreamRequest, withinMs: number): Promise<IncomingMessage> {
    const { path, headers, keepAlive, signal } = request
    const sent = this.#send(url, path, {
      headers: { ...headers, Accept: 'text/event-stream' },
      // A stream has a connection of its own, which ends with it.
      agent: false,
      ...(signal === undefined ? {} : { signal }),
    })
    return this.#within(sent, withinMs, async () => {
      sent.request.end()
      const response = await sent.answered
      if (response.statusCode !== 200) {
        throw refusalOf(url, response, parseJson(await textOf(response)))
      }
      if (!keepAlive) response.socket.unref()
      const onSilence = (): void => void response.destroy(new Error('the stream fell silent'))
      return response.setTimeout(SILENCE_MS, onSilence)
    })
  }

  #send(url: URL, path: string, options: RequestOptions): SentRequest {
    const { request: send } = url.protocol === 'https:' ? https : http
    const headers = { ...this.#options.headers, ...options.headers }
    // Not relative to the URL: a path that begins with two slashes would name another host, which would get the token.
    const target = new URL(`${url.origin}${url.pathname.replace(/\/$/, '')}${path}`)
    return new SentRequest(url, send(target, { agent: this.#agent, ...options, headers }))
  }

  /** Whatever breaks on the way becomes an error of a store; so does silence. */
  async #within<Answer>(
    sent: SentRequest,
    withinMs: number,
    work: () => Promise<Answer>,
  ): Promise<Answer> {
    const limitMs = Math.max(1, Math.round(withinMs))
    const giveUp = (): void => {
      sent.request.destroy(new Error(`no answer within ${limitMs} ms`))
    }
    const timer = this.#options.runtime.setTimer(limitMs, giveUp, { keepAlive: true })
    try {
      return await work()
    } catch (thrown) {
      throw isLeaseError(thrown) ? thrown : sent.errorOf(thrown)
    } finally {
      timer.cancel()
    }
  }
}

/** A request, and whether any of it may have arrived. */
class SentRequest {
  readonly request: ClientRequest
  readonly answered: Promise<IncomingMessage>
  readonly #url: URL
  #hasLeft = false

  constructor(url: URL, request: ClientRequest) {
    this.#url = url
    this.request = request
    request.once('socket', (socket) => {
      const isConnected = url.protocol === 'https:' ? 'secureConnect' : 'connect'
      if (!socket.connecting) this.#hasLeft = true
      else socket.once(isConnected, () => (this.#hasLeft = true))
    })
    this.answered = new Promise((resolve, reject) => {
      request.once('response', resolve)
      // Stays: a connection that breaks later is told by the answer that it was the connection of.
      request.on('error', reject)
    })
    // No fault: the sender of the request awaits it.
    this.answered.catch(() => undefined)
  }

  errorOf(cause: unknown): LeaseError {
    const why = wordsOf(cause)
    const code = this.#hasLeft ? 'STORE_OUTCOME_UNKNOWN' : 'STORE_UNAVAILABLE'
    const message = this.#hasLeft
      ? `the answer of ${this.#url.host} was lost: ${why}`
      : `${this.#url.host} cannot be reached: ${why}`
    return new LeaseError(code, message, { cause })
  }
}

/** What OpenSSL says of an answer in plain HTTP does not say what to do. */
function wordsOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  const { code, message } = cause as NodeJS.ErrnoException
  const isPlain = code === 'EPROTO' && /wrong version number|packet length/.test(message)
  return isPlain ? 'it does not speak TLS; http:// may be meant instead of https://' : message
}

/** Before the next try, random so that clients do not come back all at once; none after no failure. */
export function retryMs(failures: number, { random }: Pick<Runtime, 'random'>): number {
  return failures === 0 ? 0 : (backOffMs(failures, RETRY) * (1 + random())) / 2
}

/** A request that was refused may have had its effect when it was sent before. */
function refusedLater({ code, message }: LeaseError, cause: LeaseError): LeaseError {
  return new LeaseError(code, `${message}; asked again, it said: ${cause.message}`, { cause })
}

/** Another server, or a later try, may do better. */
export function isAway({ code }: LeaseError): boolean {
  return code === 'STORE_UNAVAILABLE' || code === 'STORE_OUTCOME_UNKNOWN'
}

async function textOf(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8')
  const parts: string[] = []
  for await (const part of response) parts.push(part as string)
  return parts.join('')
}

interface Told {
  readonly code?: unknown
  readonly detail?: unknown
  readonly details?: unknown
  readonly effect?: unknown
  readonly retryable?: unknown
}

/** An RFC 9457 problem of a server of ours, or what a proxy before it answered. */
function refusalOf(url: URL, { statusCode = 0 }: IncomingMessage, answer: unknown): LeaseError {
  const { code, detail, details, effect, retryable } = (answer ?? {}) as Told
  const known = ERROR_CODES.find((one) => one === code)
  if (known === undefined) return foreignRefusal(url, statusCode)
  // The paths that are asked for are right wherever the URL is that of a server.
  if (statusCode === 404 && known === 'INVALID_INPUT') {
    return invalid('store', 'must be the URL of a Tenure server', url.href)
  }
  return toldError({ code: known, message: String(detail), details, effect, retryable })
}

/**
 * What stands in the way is not Tenure. Only where it knows no such path it has not passed the request on: a 503 comes from
 * some proxies (Envoy) also when the server's connection broke before its answer.
 */
function foreignRefusal(url: URL, status: number): LeaseError {
  const code = status === 404 ? 'STORE_UNAVAILABLE' : 'STORE_OUTCOME_UNKNOWN'
  return new LeaseError(code, `${url.host} answered ${status}, not as a Tenure server does`)
}

/** An error as another process told it. */
export function toldError(told: {
  readonly code: ErrorCode
  readonly message: string
  readonly details: unknown
  readonly effect: unknown
  readonly retryable: unknown
}): LeaseError {
  const { code, message, details, effect, retryable } = told
  const facts = typeof details === 'object' && details !== null ? details : {}
  return new LeaseError(code, message, {
    details: facts as Readonly<Record<string, unknown>>,
    effect: effect === 'unknown' ? 'unknown' : 'none',
    ...(typeof retryable === 'boolean' ? { retryable } : {}),
  })
}
