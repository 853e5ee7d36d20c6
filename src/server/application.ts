/**
 * From a request of HTTP to an answer: who asks, what it is, whether that one may, and what comes of it. Routes are lines of
 * a table (`routes.ts`); what is the same for all of them is here, once.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import path from 'node:path'
import { getRequestListener, RequestError, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono, type Context } from 'hono'
import type { CallerConnection } from '../client/caller-connection.ts'
import { invalid, isLeaseError, LeaseError } from '../core/errors.ts'
import { parseNamespace } from '../core/resource.ts'
import { verifyGrant, type Grant } from '../registrar/grant.ts'
import type { KeyRing } from '../registrar/key-ring.ts'
import {
  EVENTS_PATH,
  NAMESPACE_HEADER,
  SESSION_HEADER,
  SESSIONS_PER_STREAM_MAX,
  WAKES_PATH,
} from '../protocol/http.ts'
import { readHttpRequest, REQUESTS, type RequestOf } from '../protocol/requests.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { complete, isCounted } from './api-calls.ts'
import { authorise, shownError } from './authorise.ts'
import type { Call, Fields, PollFleet, Route } from './call.ts'
import {
  callerOf,
  callerOfGrant,
  localCaller,
  namespaceFor,
  refuseGrant,
  requireRole,
  type Caller,
} from './caller.ts'
import { refuseForeignPages } from './host-check.ts'
import { answerLfsRequest } from './lfs.ts'
import { LFS_MEDIA_TYPE, lfsCaller, lfsProblem, lfsResponse } from './lfs-http.ts'
import type { McpRoute } from './mcp-route.ts'
import type { ServerMetrics } from './metrics.ts'
import { openApiDocument } from './openapi.ts'
import { httpError, HttpError, problemResponse, unauthenticated, unreadableUrl } from './problem.ts'
import { fieldsOfQuery, readJsonBody } from './wire/request-fields.ts'
import type { RequestLimiter } from './request-limiter.ts'
import { fieldsOfPath, ROUTES } from './routes.ts'
import type { ServedStores } from './served-store.ts'
import { stoppingError } from './server-waits.ts'
import type { Opening, ServerStreams } from './server-streams.ts'
import type { Role } from './token.ts'
import type { TokenFile } from './token-file.ts'
import { endsWithin } from '../runtime/ends-within.ts'
import { ifThere } from '../runtime/file-system.ts'

const BODY_BYTES_MAX = 64 * 1024
const URL_BYTES_MAX = 8 * 1024
const KEY_BYTES_MAX = 128
const READY_WITHIN_MS = 2_000
/** No lease has it: asking for it shows that the store answers. */
const NO_LEASE = '00000000-0000-0000-0000-000000000000'

/** What is told of each request, for the server's log. */
export interface AccessEntry {
  readonly atMs: number
  readonly method: string
  /** Without its query. */
  readonly path: string
  /** 499: the caller had gone. */
  readonly status: number
  readonly tookMs: number
  /** The name of the token, never the token; null where nobody was identified. */
  readonly token: string | null
}

export type OnRequest = (entry: AccessEntry) => void

/** How a sealed ledger stands, for those who look at it through a server. */
export interface LedgerStanding {
  /** The last checkpoint: its number, when it was signed, and how many events it seals; null: nothing is sealed yet. */
  readonly checkpoint: {
    readonly sequence: number
    readonly atMs: number
    readonly events: number
  } | null
  /** When the ledger was last compared with its checkpoints and with the store. */
  readonly verifiedAtMs: number
  /** What was wrong then, in one line; null: nothing. */
  readonly problem: string | null
}

export interface ApplicationParts {
  readonly runtime: Runtime
  readonly stores: ServedStores
  readonly streams: ServerStreams
  readonly metrics: ServerMetrics
  readonly limiter: RequestLimiter
  /** Null: nobody needs a token, and everybody has this role. */
  readonly tokens: TokenFile | null
  readonly localRole: Role
  readonly keys: (() => KeyRing) | null
  /** The audience of grants that are credentials here; null: none are. */
  readonly name: string | null
  /** Loaded when it is first asked for: what it needs may not be installed. */
  readonly mcp: () => Promise<McpRoute>
  /** The tops of the repositories whose files can be locked by Git LFS, by name. */
  readonly repositories: ReadonlyMap<string, string>
  /** How the sealed ledger stands; null: there is none to look at. */
  readonly ledger: (() => Promise<LedgerStanding>) | null
  readonly pollFleet: PollFleet | null
  readonly onRequest: OnRequest
  readonly isStopping: () => boolean
}

type Env = { Bindings: HttpBindings; Variables: { route: string; caller: string | null } }
type Ctx = Context<Env>

/** Answers a request of Node's server. */
export type Answer = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>

export function application(parts: ApplicationParts): Answer {
  const app = new Hono<Env>()
  app.use('*', async (c, next) => {
    // What comes after this parses the URL again and again, also where nothing would catch a mistake.
    if (!URL.canParse(c.req.url)) throw unreadableUrl()
    observe(parts, c)
    requireEscapedUtf8(c.req.url)
    if (parts.isStopping()) {
      // Or a client that asks again at once would keep its connection, and the server with it.
      c.env.outgoing.setHeader('Connection', 'close')
      throw stoppingError()
    }
    if ((c.env.incoming.url ?? '').length > URL_BYTES_MAX) {
      throw httpError(414, `the URL must be at most ${URL_BYTES_MAX} bytes`, {
        limit: URL_BYTES_MAX,
      })
    }
    await next()
  })
  openRoutes(app, parts)
  app.get(EVENTS_PATH, async (c, next) => {
    const wantsStream = c.req.header('accept')?.includes('text/event-stream') === true
    if (!wantsStream || c.req.method !== 'GET') return next()
    return named(c, EVENTS_PATH, () => refusalsCounted(parts, watchStream(parts, c)))
  })
  // Hono takes HEAD for GET, and would answer once more where the stream is the answer already.
  app.get(WAKES_PATH, async (c, next) => {
    if (c.req.method !== 'GET') return next()
    return named(c, WAKES_PATH, () => refusalsCounted(parts, wakeStream(parts, c)))
  })
  app.all('/lfs/:namespace/:repository/*', (c) => named(c, '/lfs', () => answerLfs(parts, c)))
  app.post('/mcp', (c) => {
    return named(c, '/mcp', () => refusalsCounted(parts, answerMcp(parts, c)))
  })
  for (const route of ROUTES) {
    app.on(route.method, pattern(route.path), (c) => {
      return named(c, route.path, () => refusalsCounted(parts, answer(parts, c, route)))
    })
  }
  refuseOtherMethods(app)
  app.notFound(() => problemResponse(httpError(404, 'the path must be one of a route')))
  app.onError((error) => problemResponse(error))
  return getRequestListener(app.fetch, {
    errorHandler: (error) =>
      problemResponse(error instanceof RequestError ? unreadableUrl() : error),
  })
}

/** A name that is not escaped as UTF-8 would become another name, whose answer is true of another resource. */
function requireEscapedUtf8(url: string): void {
  try {
    decodeURIComponent(url)
  } catch {
    // No fault: this is the answer.
    throw httpError(400, 'the URL must be escaped UTF-8')
  }
}

/** `{id}` as Hono spells it. */
function pattern(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1')
}

function openRoutes(app: Hono<Env>, parts: ApplicationParts): void {
  const { stores, metrics, runtime } = parts
  app.get('/healthz', (c) => named(c, '/healthz', async () => json({ status: 'ok' })))
  app.get('/readyz', (c) =>
    named(c, '/readyz', async () => {
      const look = stores.of('default').then(({ api }) => api.get({ id: NO_LEASE }))
      if (await endsWithin(runtime, READY_WITHIN_MS, look)) return json({ status: 'ready' })
      throw new LeaseError('STORE_UNAVAILABLE', `the store did not answer in ${READY_WITHIN_MS} ms`)
    }),
  )
  app.get('/openapi.json', (c) => named(c, '/openapi.json', async () => json(openApiDocument())))
  app.get('/', (c) => named(c, '/', async () => dashboardFile('index.html', c.req.raw)))
  app.get('/assets/:file', (c) =>
    named(c, '/assets/{file}', async () => {
      return dashboardFile(`assets/${c.req.param('file')}`, c.req.raw)
    }),
  )
  app.get('/v1/caller', (c) =>
    named(c, '/v1/caller', async () => {
      const { name, role, namespace } = readerOf(parts, c)
      return json({ name, role, namespace })
    }),
  )
  app.get('/v1/ledger', (c) =>
    named(c, '/v1/ledger', async () => {
      readerOf(parts, c)
      if (parts.ledger === null) throw httpError(404, 'the server must be started with a ledger')
      return json(await parts.ledger())
    }),
  )
  app.get('/metrics', (c) =>
    named(c, '/metrics', async () => {
      readerOf(parts, c)
      const headers = { 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' }
      return new Response(await metrics.text(), { headers })
    }),
  )
}

function refuseOtherMethods(app: Hono<Env>): void {
  const allowed = new Map<string, Set<string>>()
  const open = [
    ...['/', '/healthz', '/readyz', '/openapi.json', '/metrics'],
    ...['/v1/caller', '/v1/ledger', WAKES_PATH],
  ]
  const others = [
    ...open.map((path) => ({ method: 'GET', path })),
    { method: 'POST', path: '/mcp' },
  ]
  const lines = [...ROUTES, ...others]
  for (const { method, path } of lines) {
    allowed.set(path, (allowed.get(path) ?? new Set()).add(method))
  }
  for (const [path, methods] of allowed) {
    app.all(pattern(path), (c) => {
      c.set('route', path)
      const error = httpError(405, `the method must be ${[...methods].join(' or ')}`).error
      throw new HttpError(error, { status: 405, headers: { Allow: [...methods].join(', ') } })
    })
  }
}

/** Answers, and says under which route. */
async function named(c: Ctx, route: string, work: () => Promise<Response>): Promise<Response> {
  c.set('route', route)
  return work()
}

async function answer(parts: ApplicationParts, c: Ctx, route: Route): Promise<Response> {
  const { incoming, outgoing } = c.env
  const caller = identified(parts, c)
  try {
    requireRole(caller, REQUESTS[route.name].role)
    if (isCounted(route.name)) parts.limiter.count(caller)
    const call = await callOf(parts, caller, { incoming, outgoing })
    const request = await readRequest(route, call, c)
    const full = await complete(call, route.name, request)
    await authorise(call, route.name, full)
    const given = await route.answer(call, full)
    return json(given, route.status ?? 200)
  } catch (error) {
    throw isLeaseError(error) ? shownError(caller, error) : error
  }
}

/** Also where nobody was identified. */
async function refusalsCounted(
  { metrics }: ApplicationParts,
  answered: Promise<Response>,
): Promise<Response> {
  try {
    return await answered
  } catch (error) {
    metrics.refused(error)
    throw error
  }
}

async function watchStream(parts: ApplicationParts, c: Ctx): Promise<Response> {
  const opening = await openingOf(parts, c, 'watch')
  const query = fieldsOfQuery('watch', new URL(c.req.url).searchParams)
  const after = single(c.env.incoming, 'last-event-id')
  const request = readHttpRequest('watch', { ...query, ...(after === null ? {} : { after }) })
  await parts.streams.watch(opening, request)
  return RESPONSE_ALREADY_SENT
}

async function wakeStream(parts: ApplicationParts, c: Ctx): Promise<Response> {
  const opening = await openingOf(parts, c, 'wakes')
  const query = fieldsOfQuery('wakes', new URL(c.req.url).searchParams)
  const named = single(c.env.incoming, SESSION_HEADER)?.split(',') ?? []
  const asked = named.length === 0 ? [query] : named.map((one) => ({ ...query, ...session(one) }))
  if (asked.length > SESSIONS_PER_STREAM_MAX) {
    throw invalid(SESSION_HEADER, `must name 1..${SESSIONS_PER_STREAM_MAX} sessions`, asked.length)
  }
  const requests = asked.map((one) => readHttpRequest('wakes', one) as RequestOf<'wakes'>)
  await parts.streams.wakes(opening, requests)
  return RESPONSE_ALREADY_SENT
}

async function openingOf(
  parts: ApplicationParts,
  c: Ctx,
  name: 'watch' | 'wakes',
): Promise<Opening> {
  const { incoming, outgoing } = c.env
  const caller = readerOf(parts, c, REQUESTS[name].role)
  parts.limiter.count(caller)
  const { store } = await callOf(parts, caller, { incoming, outgoing })
  return { caller, store, response: outgoing }
}

/** Whatever its method of JSON-RPC: each tool is authorised by the calls that it makes. */
async function answerMcp(parts: ApplicationParts, c: Ctx): Promise<Response> {
  const { incoming, outgoing } = c.env
  const caller = readerOf(parts, c)
  const body = await readJsonBody(incoming, BODY_BYTES_MAX)
  for (const message of [body].flat()) if (!keepsOrEnds(message)) parts.limiter.count(caller)
  const call = await callOf(parts, caller, { incoming, outgoing })
  return (await parts.mcp()).answer(call, c.req.raw, body)
}

/** Whether a message to `/mcp` is one that no limit refuses over HTTP either. */
function keepsOrEnds(message: unknown): boolean {
  const { method, params } = (message ?? {}) as Fields
  const { name } = (params ?? {}) as Fields
  return method === 'tools/call' && (name === 'lease_renew' || name === 'lease_release')
}

/** Whatever goes wrong is told in the form that its clients print. */
async function answerLfs(parts: ApplicationParts, c: Ctx): Promise<Response> {
  const { incoming, outgoing } = c.env
  try {
    const { caller, holder } = lfsCaller(parts, {
      authorization: single(incoming, 'authorization'),
      host: single(incoming, 'host'),
      origin: single(incoming, 'origin'),
    })
    c.set('caller', caller.name)
    const { namespace = '', repository: name = '' } = c.req.param()
    const call = await callOf(parts, caller, { incoming, outgoing }, namespace)
    const repository = { name, root: parts.repositories.get(name) ?? null }
    const body = await readJsonBody(incoming, BODY_BYTES_MAX, LFS_MEDIA_TYPE)
    const { pathname, searchParams: query } = new URL(c.req.url)
    const place = pathname.split('/').slice(4)
    const line = { method: c.req.method, place, query, body }
    return lfsResponse(await answerLfsRequest({ call, holder, repository }, line), repository)
  } catch (error) {
    parts.metrics.refused(error)
    return lfsProblem(error)
  }
}

/** A session is a secret, so it stands in a header and not in the URL; a header holds ASCII, so it may be escaped. */
function session(text: string): RequestOf<'wakes'> {
  try {
    return { session: decodeURIComponent(text.trim()) }
  } catch {
    // No fault: this is the answer.
    throw invalid(SESSION_HEADER, 'must be escaped as in a URL', 'what is not')
  }
}

async function readRequest(route: Route, { store, caller }: Call, c: Ctx): Promise<Fields> {
  const { incoming } = c.env
  const { name, bodyBytesMax = BODY_BYTES_MAX } = route
  const fromPath = fieldsOfPath(route, c.req.param() as Record<string, string>)
  const query = new URL(c.req.url).searchParams
  if (route.method !== 'GET' && query.size > 0) {
    throw invalid('query', 'must be empty: fields stand in the body', [...query.keys()].join())
  }
  const given =
    route.method === 'GET'
      ? fieldsOfQuery(name, query)
      : fieldsOf(await readJsonBody(incoming, bodyBytesMax))
  const twice = Object.keys(given).find((field) => Object.hasOwn(fromPath, field))
  if (twice !== undefined) throw invalid(twice, 'must be given in the path only', given[twice])
  if (Object.hasOwn(given, 'requestId')) {
    throw invalid(
      'requestId',
      'must not be given: the header Idempotency-Key names a request',
      'one',
    )
  }
  // An operator is known by its token.
  const by =
    REQUESTS[name].role === 'operator' && 'by' in REQUESTS[name].fields ? { by: caller.name } : {}
  const raw = { ...route.defaults, ...by, ...given, ...fromPath }
  const place = name === 'withdraw' ? await placeOf(store, raw) : {}
  return readHttpRequest(name, { ...raw, ...place }) as Fields
}

/** Whoever withdraws need not know what it waited for, nor what several have in common, which is their session by default. */
async function placeOf({ api }: Call['store'], given: Fields): Promise<Fields> {
  const { id, resource, session } = given
  if (resource !== undefined && session !== undefined) return {}
  const lease = await api.get({ id: readHttpRequest('get', { id }).id ?? '' })
  const group = session === undefined ? (lease?.group ?? null) : null
  const shared = group === null ? {} : { session: group }
  if (resource !== undefined) return shared
  if (lease !== null) return { resource: lease.resource, extent: lease.extent, ...shared }
  const message = `no lease or ticket has the id ${String(id)}`
  throw new LeaseError('LEASE_NOT_FOUND', message, { details: { leaseId: id } })
}

function fieldsOf(body: unknown): Fields {
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Fields
  throw invalid('body', 'must be an object', body)
}

async function callOf(
  parts: ApplicationParts,
  caller: Caller,
  { incoming, outgoing }: HttpBindings,
  named: string | null = null,
): Promise<Call> {
  const { runtime, stores, limiter, keys, metrics, pollFleet } = parts
  const asked = named ?? single(incoming, NAMESPACE_HEADER)
  const namespace = namespaceFor(caller, asked === null ? null : parseNamespace(asked))
  const key = single(incoming, 'idempotency-key')
  // Of a header each character is a byte.
  if (key !== null && (key === '' || key.length > KEY_BYTES_MAX)) {
    throw invalid('Idempotency-Key', `must be 1..${KEY_BYTES_MAX} bytes`, key)
  }
  if (caller.grant !== null && key === null) {
    throw invalid('Idempotency-Key', 'must be given with a grant', 'none')
  }
  return {
    ...{ caller, runtime, keys, pollFleet, store: await stores.of(namespace) },
    connection: new HttpConnection(outgoing),
    requestIdOf: (holder, made) => {
      if (key === null) return runtime.uuid()
      return requestId([caller.name, holder, key, ...(made === undefined ? [] : [made])])
    },
    count: () => limiter.count(caller),
    onRefused: (error) => metrics.refused(error),
  }
}

/** A UUID that no two callers have in common: each part is of a length that the text before it says. */
function requestId(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part)
  const hex = hash.digest('hex')
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16)
  const groups = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`]
  return [...groups, `${variant}${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-')
}

function identified(parts: ApplicationParts, c: Ctx): Caller {
  const caller = authenticate(parts, c.env.incoming)
  c.set('caller', caller.name)
  return caller
}

/** Of what a grant, which is for its lease alone, does not show. */
function readerOf(parts: ApplicationParts, c: Ctx, role: Role = 'reader'): Caller {
  const caller = identified(parts, c)
  refuseGrant(caller)
  requireRole(caller, role)
  return caller
}

type Credentials = Pick<ApplicationParts, 'tokens' | 'localRole' | 'keys' | 'name' | 'runtime'>

function authenticate(parts: Credentials, incoming: IncomingMessage): Caller {
  const { tokens, localRole } = parts
  const authorization = single(incoming, 'authorization')
  if (tokens === null) {
    refuseForeignPages(
      single(incoming, 'host') ?? undefined,
      single(incoming, 'origin') ?? undefined,
    )
    return localCaller(localRole)
  }
  if (authorization === null) {
    const how = 'Authorization: Bearer …, or TENURE_TOKEN for commands'
    throw unauthenticated(`a token must be given (${how})`)
  }
  const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization) ?? []
  if (secret?.startsWith(GRANT_PREFIX) === true) return callerOfGrant(grantOf(parts, secret))
  const token = secret === undefined ? null : tokens.tokenOf(secret)
  if (token === null) throw unauthenticated('the token must be a valid one')
  return callerOf(token)
}

const GRANT_PREFIX = 'tenure-grant.'

/** A grant counts only where it was made for this very server: others would take what was meant for somebody else. */
function grantOf({ keys, name, runtime }: Credentials, token: string): Grant {
  if (keys === null || name === null) throw unauthenticated('the token must be no grant here')
  try {
    const grant = verifyGrant(token, keys().keys, { now: runtime.wallMs(), audience: name })
    if (grant.audience === name) return grant
  } catch (error) {
    // No fault: whoever presents what is no grant, or no longer one, is told so.
    if (!isLeaseError(error)) throw error
  }
  throw unauthenticated('the grant must be a valid one for this server')
}

/** A header that decides something must be there once: a proxy in front may have looked at another one. */
function single(incoming: IncomingMessage, name: string): string | null {
  const values = incoming.headersDistinct[name.toLowerCase()] ?? []
  if (values.length > 1) throw invalid(name, 'must be given once', `${values.length} times`)
  return values[0] ?? null
}

function json(value: object, status = 200): Response {
  return new Response(`${JSON.stringify(value)}\n`, {
    status,
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
  })
}

/** Notes when the answer has ended, however it did. */
function observe({ runtime, metrics, onRequest }: ApplicationParts, c: Ctx): void {
  const { incoming, outgoing } = c.env
  const startMs = runtime.monotonicMs()
  outgoing.setHeader('X-Content-Type-Options', 'nosniff')
  outgoing.setHeader('Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'")
  outgoing.once('close', () => {
    const tookMs = runtime.monotonicMs() - startMs
    const status = outgoing.headersSent ? outgoing.statusCode : CLIENT_GONE
    const route = c.get('route') ?? 'unknown'
    metrics.answered(route, status, tookMs / 1_000)
    const entry: AccessEntry = {
      ...{ atMs: runtime.wallMs(), method: incoming.method ?? '', status },
      // Without its query: that names resources, and whatever a caller has put there by mistake.
      path: new URL(c.req.url).pathname,
      tookMs: Math.round(tookMs * 1_000) / 1_000,
      token: c.get('caller') ?? null,
    }
    onRequest(entry)
  })
}

/** What is noted where nobody was left to answer to. */
const CLIENT_GONE = 499

class HttpConnection implements CallerConnection {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  get isOpen(): boolean {
    return !this.#response.destroyed
  }

  onEnd(listener: (wasWritten: boolean) => void): void {
    const end = (): void => listener(this.#response.writableFinished)
    if (this.#response.destroyed) end()
    else this.#response.once('close', end)
  }
}

/** The files of the dashboard, as the build has left them: each compressed beside itself. The same from `src` and from `dist`. */
const FOLDER = path.resolve(import.meta.dirname, '../../dist/dashboard')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/**
 * The page may load and ask nothing but its own server, runs no script and no style that stands in a page, and nobody may put
 * it into a frame.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

/** The page itself is asked for each time; what it names changes its name with its content, and is kept for ever. */
const PAGE_HEADERS = {
  'Content-Security-Policy': POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-cache',
}
const ASSET_HEADERS = { 'Cache-Control': 'public, max-age=31536000, immutable' }

/** In the order in which they are preferred. */
const ENCODINGS = [
  { name: 'br', ending: '.br' },
  { name: 'gzip', ending: '.gz' },
] as const

type Contents = ReadonlyMap<string, Buffer>

let contents: Contents | null = null

/** `name` is looked up among what is there: no path that a caller makes up is ever opened. */
function dashboardFile(name: string, request: Request): Response {
  contents ??= readFiles()
  const type = TYPES[path.posix.extname(name)]
  if (type === undefined || !contents.has(name)) {
    throw httpError(404, 'the path must be one of a route, or of a file of the dashboard')
  }
  const accepted = (request.headers.get('accept-encoding') ?? '').split(/\s*,\s*/)
  const files = contents
  const encoding = ENCODINGS.find((one) => {
    return accepted.includes(one.name) && files.has(`${name}${one.ending}`)
  })
  const content = contents.get(`${name}${encoding?.ending ?? ''}`)
  return new Response(new Uint8Array(content ?? []), {
    headers: {
      ...(name === 'index.html' ? PAGE_HEADERS : ASSET_HEADERS),
      'Content-Type': type,
      Vary: 'Accept-Encoding',
      ...(encoding === undefined ? {} : { 'Content-Encoding': encoding.name }),
    },
  })
}

/** A program that was bundled has the server without the files of its page. */
function readFiles(): Contents {
  const names = ifThere(() => readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })) ?? []
  const files = names.filter((name) => path.extname(name) !== '')
  return new Map(files.map((name) => [posix(name), readFileSync(path.join(FOLDER, name))]))
}

function posix(name: string): string {
  return name.replaceAll(path.sep, '/')
}
