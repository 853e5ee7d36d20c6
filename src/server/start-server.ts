/**
 * A server as an object: what `tenure serve` starts, and what a program can start for itself. It keeps nothing of its own:
 * any number of servers may stand before one store, and one that dies takes nothing with it.
 */
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions as HttpOptions,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { invalid } from '../core/errors.ts'
import type { KeyRing } from '../registrar/key-ring.ts'
import { onFault, reportTo } from '../runtime/diagnostics.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { hasCode } from '../runtime/file-system.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { version } from '../runtime/version.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { application, type LedgerStanding, type OnRequest } from './application.ts'
import { refuseExposure } from './host-check.ts'
import type { PollFleet } from './call.ts'
import type { McpRoute } from './mcp-route.ts'
import { ServerMetrics } from './metrics.ts'
import { httpError, problemOf } from './problem.ts'
import { RequestLimiter } from './request-limiter.ts'
import { ServedStores } from './served-store.ts'
import { ServerStreams } from './server-streams.ts'
import { TokenFile } from './token-file.ts'

export const PORT_DEFAULT = 7420
export const HOST_DEFAULT = '127.0.0.1'

export interface ServerOptions {
  /** Opens the store of a namespace; a request for one that cannot be opened is answered with 503. */
  readonly open: (namespace: string) => Promise<LeaseApi>
  /** The address to listen on. Default 127.0.0.1. */
  readonly host?: string
  /** The port to listen on; 0: any that is free. Default 7420. */
  readonly port?: number
  /** The file of tokens. Without it only programs of this host may use the server, and need no token. */
  readonly tokens?: string
  /** HTTPS with this certificate and key, as PEM. Default: HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string }
  /** Whether a proxy in front ends TLS. Default false. */
  readonly behindProxy?: boolean
  /** Without tokens: what everybody may. Default `holder`. */
  readonly role?: 'holder' | 'operator'
  /** The keys of the registrar whose grants are believed, read whenever they are needed. */
  readonly keys?: () => KeyRing
  /** The server's name: a grant whose audience it is counts as a credential. Default: no grant does. */
  readonly name?: string
  /** The tops of repositories by name: what Git LFS locks there (`/lfs/NAMESPACE/NAME`) is the file itself. */
  readonly repositories?: Readonly<Record<string, string>>
  /** How the sealed ledger stands; default: the server knows of none. */
  readonly ledger?: () => Promise<LedgerStanding>
  /** Reads a fleet on keys of polling services; default: the server knows of none. */
  readonly pollFleet?: PollFleet
  /** Hears of every request when its answer has ended. */
  readonly onRequest?: OnRequest
  /** How many requests a second a token may make that has no limit of its own. Default 5,000. */
  readonly requestsPerSecond?: number
  /** Event streams of one token at once. Default 1,000. */
  readonly streamsPerToken?: number
  /** For tests: time, timers and ids to go by instead of the real ones, such as `FakeRuntime`. Default: the real ones. */
  readonly runtime?: Runtime
}

export interface TenureServer {
  /** Where it can be reached. */
  readonly url: string
  /** Takes no new requests, lets those under way end, ends waits and streams; done in ten seconds. No lease is touched. */
  close(): Promise<void>
}

const REQUESTS_PER_SECOND = 5_000
const STREAMS_PER_TOKEN = 1_000
const HEADERS_WITHIN_MS = 10_000
const BODY_WITHIN_MS = 30_000
/** Longer than proxies keep a connection: who closes first must not be the one that the next request is sent to. */
const IDLE_MS_MAX = 75_000
/** What is under way ends within the first, all of it within the second. */
const CLOSE_WITHIN_MS = 8_000
const DONE_WITHIN_MS = 10_000
/** Connections that the kernel takes while this process is busy: as many as Linux allows by default. */
const BACKLOG = 4_096
const HEADER_BYTES_MAX = 32 * 1024
const MCP_PACKAGE = '@modelcontextprotocol/server'

export async function startServer(options: ServerOptions): Promise<TenureServer> {
  const { host = HOST_DEFAULT, port = PORT_DEFAULT, runtime = systemRuntime, tls } = options
  refuseExposure({
    host,
    hasTokens: options.tokens !== undefined,
    hasTls: tls !== undefined,
    behindProxy: options.behindProxy === true,
  })
  const tokens = options.tokens === undefined ? null : new TokenFile(options.tokens)
  const metrics = new ServerMetrics()
  const stores = new ServedStores({
    ...{ open: options.open, runtime },
    observe: (call, seconds, answer) => metrics.called(call, seconds, answer),
    onGrant: (lease) => metrics.granted(lease),
    onOpen: (store) => metrics.follow(store),
  })
  const { streamsPerToken = STREAMS_PER_TOKEN } = options
  const streams = new ServerStreams(runtime, tokens, streamsPerToken)
  const mcp = new LoadedRoute()
  let isStopping = false
  const answer = application({
    ...{ runtime, stores, streams, metrics, tokens },
    limiter: new RequestLimiter(runtime, options.requestsPerSecond ?? REQUESTS_PER_SECOND),
    localRole: options.role ?? 'holder',
    keys: options.keys ?? null,
    name: options.name ?? null,
    ledger: options.ledger ?? null,
    pollFleet: options.pollFleet ?? null,
    onRequest: options.onRequest ?? (() => undefined),
    mcp: () => mcp.load(),
    repositories: new Map(Object.entries(options.repositories ?? {})),
    isStopping: () => isStopping,
  })
  const listener: RequestListener = (incoming, outgoing) => {
    answer(incoming, outgoing).catch(reportTo('server/answer'))
  }
  const server = httpServer(listener, tls)
  await listen(server, host, port)
  const stopListening = onFault((fault) => metrics.failed(fault))
  let closing: Promise<void> | null = null
  const close = async (): Promise<void> => {
    isStopping = true
    const endMs = runtime.monotonicMs() + DONE_WITHIN_MS
    const ended = Promise.all([closed(server), mcp.close()])
    stores.stopWaits()
    streams.stop()
    if (!(await endsWithin(runtime, CLOSE_WITHIN_MS, ended))) server.closeAllConnections()
    await stores.close(endMs - runtime.monotonicMs())
    stopListening()
  }
  return { url: urlOf(server, host, tls !== undefined), close: () => (closing ??= close()) }
}

/** `/mcp`, once somebody has asked for it. */
class LoadedRoute {
  #route: Promise<McpRoute> | null = null

  load(): Promise<McpRoute> {
    this.#route ??= loadMcp()
    return this.#route
  }

  async close(): Promise<void> {
    const [route] = await Promise.allSettled([this.#route])
    if (route.status === 'fulfilled') await route.value?.close()
  }
}

async function loadMcp(): Promise<McpRoute> {
  try {
    const { McpRoute: Loaded } = await import('./mcp-route.ts')
    return new Loaded(version())
  } catch (error) {
    if (!hasCode(error, 'ERR_MODULE_NOT_FOUND')) throw error
    throw httpError(501, `/mcp needs a package that is not installed: ${MCP_PACKAGE}`)
  }
}

function httpServer(listener: RequestListener, tls: ServerOptions['tls']): Server {
  const options: HttpOptions = {
    headersTimeout: HEADERS_WITHIN_MS,
    requestTimeout: BODY_WITHIN_MS,
    keepAliveTimeout: IDLE_MS_MAX,
    connectionsCheckingInterval: 1_000,
    maxHeaderSize: HEADER_BYTES_MAX,
    // Node's own answer to a request without one has no body: ours says what is wrong.
    requireHostHeader: false,
  }
  const server =
    tls === undefined
      ? createServer(options, listener)
      : createTlsServer({ ...options, ...tls }, listener)
  const underWay = new WeakMap<Duplex, ServerResponse>()
  server.on('clientError', (error, socket) => {
    const response = underWay.get(socket)
    // What is refused came behind a request whose answer this would be taken for.
    const isBehind = response?.headersSent === true || response?.req.complete === true
    if (isBehind || !socket.writable) socket.destroy()
    else refuse(error, socket)
  })
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    underWay.set(socket, response)
    response.once('close', () => underWay.get(socket) === response && underWay.delete(socket))
    const closeIdle = (): void => {
      if (!server.listening) server.closeIdleConnections()
    }
    // A connection counts as idle only after its response has told everybody of its end.
    response.once('close', () => void setImmediate(closeIdle))
  })
  // Nobody is told to send a body that would be refused anyhow.
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    write(response, httpError(417, 'Expect must be 100-continue or nothing'))
  })
  return server
}

const STATUS_OF: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, `the headers must be at most ${HEADER_BYTES_MAX} bytes`],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the request must arrive in time'],
}

/** What is no HTTP, or comes too slowly, is answered in the same shape as everything else. */
function refuse(error: Error & { readonly code?: string }, socket: Duplex): void {
  const [status, message] = STATUS_OF[error.code ?? ''] ?? [400, 'the request must be HTTP/1.1']
  const { problem } = problemOf(httpError(status, message))
  const body = `${JSON.stringify(problem)}\n`
  const head = [
    `HTTP/1.1 ${status} Refused`,
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
}

function write(response: ServerResponse, thrown: unknown): void {
  const { problem, headers } = problemOf(thrown)
  response.writeHead(problem.status, { 'Content-Type': 'application/problem+json', ...headers })
  response.end(`${JSON.stringify(problem)}\n`)
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      reject(
        invalid('listen', `must be an address that is free (${error.message})`, `${host}:${port}`),
      )
    })
    server.listen({ host, port, backlog: BACKLOG }, resolve)
  })
}

/** Connections that have nothing to say are closed at once, the others when their answer has ended. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
}

function urlOf(server: Server, host: string, hasTls: boolean): string {
  const { port } = server.address() as AddressInfo
  return `${hasTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`
}
