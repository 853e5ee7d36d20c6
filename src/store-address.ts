/**
 * Where a store is: from a URL, or from a driver's own client, to how it is opened. What the URL says and what the
 * options say must not be two different things, and an option of another kind of store is refused, because it
 * would have no effect.
 *
 * Stores are loaded when they are opened: a program loads only the stores that it uses.
 */
import path from 'node:path'
import { invalid, pathError, show } from './core/errors.ts'
import { parseNamespace } from './core/resource.ts'
import { requireShortText, requireText } from './core/input.ts'
import { fs, hasCode } from './runtime/file-system.ts'
import type { Runtime } from './runtime/runtime.ts'
import { systemRuntime } from './runtime/system-runtime.ts'
import type { LeaseApi } from './service/lease-api.ts'
import type { Checkup, Store, StoreQuestions } from './store-port/store.ts'
import type { PostgresPool } from './drivers/postgres-driver.ts'
import type { RedisClient } from './drivers/redis-driver.ts'
import { accessError, withAccess } from './drivers/sqlite-driver.ts'

/** A URL, or a connection that the program already has and closes itself. */
export type StoreSource =
  string | { readonly postgres: PostgresPool } | { readonly redis: RedisClient }

export interface StoreOptions {
  /** `[a-z0-9._-]{1,64}`; nothing crosses namespaces. Default `default`. */
  readonly namespace?: string
  /** SQLite only. `full` (the default): a granted lease survives power loss. `normal`: the last ones may not. */
  readonly synchronous?: 'full' | 'normal'
  /** `force`: a store of an older layout is converted although processes may still hold leases in it. */
  readonly convert?: 'force'
  /** PostgreSQL and Redis: how long connecting may take, 1..600000, default 5000. */
  readonly connectMs?: number
  /** PostgreSQL, Redis and servers of Tenure: how long one call may take, 1..600000, default 5000. */
  readonly callMs?: number
  /** PostgreSQL by URL: how many connections, 1..100, default 4. */
  readonly poolSize?: number
  /** PostgreSQL: false where connections are shared statement by statement (PgBouncer). Default true. */
  readonly prepare?: boolean
  /** Redis: into how many slots of a Cluster a namespace is divided; fixed when it is first used. */
  readonly buckets?: number
  /** Servers of Tenure (`http://`) only: a token of `tenure tokens`. */
  readonly token?: string
}

export const STORE_OPTIONS: readonly (keyof StoreOptions)[] = [
  'namespace',
  'synchronous',
  'convert',
  'connectMs',
  'callMs',
  'poolSize',
  'prepare',
  'buckets',
  'token',
]

export interface Address {
  /** Clients with the same key share the store; null: it is not shared. */
  readonly key: string | null
  open(): Promise<Store>
  /** Where the store is behind a server, which decides there: then there is none to open here. */
  readonly openApi?: () => Promise<LeaseApi>
  /** For callers that only read. Null where it is the same. */
  readonly openToLook: (() => Promise<StoreQuestions>) | null
  /** What to look at besides, where that takes a connection of its own. */
  readonly openCheckup?: () => Promise<Checkup>
  /** Which file it is at this moment; null for a store that is none. */
  identity(): string | null
  /** The file, when it has yet to be made; null where there is one, and for a store that is none. */
  readonly missingFile?: () => string | null
  /** What the store goes by, if not the real time. */
  readonly runtime?: Runtime
}

type Kind = 'memory' | 'sqlite' | 'postgres' | 'redis' | 'http'

const KINDS: Readonly<Record<string, Kind>> = {
  memory: 'memory',
  sqlite: 'sqlite',
  postgres: 'postgres',
  postgresql: 'postgres',
  redis: 'redis',
  rediss: 'redis',
  http: 'http',
  https: 'http',
}

const OPTIONS_OF: Readonly<Record<Kind, readonly (keyof StoreOptions)[]>> = {
  memory: ['namespace'],
  sqlite: ['namespace', 'synchronous', 'convert'],
  postgres: ['namespace', 'convert', 'connectMs', 'callMs', 'poolSize', 'prepare'],
  redis: ['namespace', 'convert', 'connectMs', 'callMs', 'buckets'],
  http: ['namespace', 'callMs', 'token'],
}

/** A secret stands in no URL: those are shown. Nor is it shown in an error. */
const NOT_IN_URL: readonly (keyof StoreOptions)[] = ['token']

const EXPECTED_URL =
  'must be memory:, memory:NAME, sqlite:PATH, postgres://HOST/DATABASE, redis://HOST or http://HOST:PORT'

/** `runtime`: what an embedded store is to go by instead of the real time. */
export function readAddress(
  source: unknown,
  options: StoreOptions,
  runtime: Runtime | null = null,
): Address {
  if (typeof source === 'object' && source !== null) {
    refuseRuntime(runtime)
    return readClient(source, options)
  }
  const text = requireText('store', source)
  const [, scheme = '', rest = '', query] =
    /^([a-z][a-z0-9+.-]*):([^?]*)(?:\?(.*))?$/s.exec(text) ?? []
  const kind = Object.hasOwn(KINDS, scheme) ? KINDS[scheme] : undefined
  if (kind === undefined) throw invalid('store', EXPECTED_URL, schemeOf(text))
  if (kind === 'postgres' || kind === 'redis' || kind === 'http') {
    refuseFragment(text)
    refuseBadPort(rest)
  }
  const { own, others } = readParameters(query, urlOptionsOf(kind))
  // The driver of PostgreSQL has parameters of its own.
  if (others !== '' && kind !== 'postgres') throw unknownParameter(kind, others)
  const settled = settle(kind, own, options)
  switch (kind) {
    case 'memory':
      return memoryAddress(readName(rest, text), settled, runtime)
    case 'sqlite':
      return sqliteAddress(readPath(rest, text), settled, runtime)
    case 'postgres':
    case 'redis':
      refuseRuntime(runtime)
      if (!rest.startsWith('//')) throw invalid('store', EXPECTED_URL, schemeOf(text))
      return serverAddress(kind, `${scheme}:${rest}${others === '' ? '' : `?${others}`}`, settled)
    case 'http':
      refuseRuntime(runtime)
      return httpAddress(readServers(scheme, rest), settled, isNamespaced(own, options))
  }
}

/** Otherwise a request means the namespace of its token. */
function isNamespaced(own: Parameters, options: StoreOptions): boolean {
  return own.namespace !== undefined || options.namespace !== undefined
}

/** The clock of a server decides about its leases, and no test here can move it. */
function refuseRuntime(runtime: Runtime | null): void {
  if (runtime === null) return
  throw invalid('runtime', 'must not be given for a server, whose own clock decides', 'a runtime')
}

/** Up to what may be a password. */
function schemeOf(text: string): string {
  return text.includes('@') ? `${text.split(/[:/]/, 1)[0]}:…` : text
}

/** Not to be shown: what comes before and after it may be a password. */
function refuseFragment(text: string): void {
  if (!text.includes('#')) return
  throw invalid('store', 'must have no # in its URL (in a password write %23)', '#')
}

/** A password with a question mark in it: what follows looks like parameters, up to the host. */
function mayBePassword(parameters: string): boolean {
  return parameters.includes('%40')
}

const PORT_MAX = 65_535

/** What a URL with such a port is refused for elsewhere does not tell that it is the port. */
function refuseBadPort(rest: string): void {
  const [authority = ''] = rest.slice('//'.length).split('/', 1)
  const [, port] = /:(\d+)$/.exec(authority.slice(authority.lastIndexOf('@') + 1)) ?? []
  if (port === undefined || (Number(port) >= 1 && Number(port) <= PORT_MAX)) return
  throw invalid('store', `port must be an integer 1..${PORT_MAX}`, Number(port))
}

/** What the options of a store come to, whichever way they were given. */
type Settled = Omit<StoreOptions, 'namespace'> & { readonly namespace: string }

function readClient(source: object, options: StoreOptions): Address {
  const [name, ...others] = Object.keys(source)
  if ((name !== 'postgres' && name !== 'redis') || others.length > 0) {
    throw invalid('store', 'must be a URL, { postgres: pool } or { redis: client }', source)
  }
  const settled = settle(name, {}, options)
  const client = requireClient(name, Reflect.get(source, name))
  const open = async (): Promise<Store> => {
    if (name === 'postgres') {
      const { openPostgresStore } = await import('./store/postgres/postgres-store.ts')
      return openPostgresStore({ ...settled, pool: client as PostgresPool })
    }
    const { openRedisStore } = await import('./store/redis/redis-store.ts')
    return openRedisStore({ ...settled, client: client as RedisClient })
  }
  const key = keyOf(name, `client ${numberOf(client)}`, settled)
  return { key, open, openToLook: null, identity: () => null }
}

const numbers = new WeakMap<object, number>()
let lastNumber = 0

/** One client is one place, however often it is passed in. */
function numberOf(client: object): number {
  const known = numbers.get(client)
  if (known !== undefined) return known
  lastNumber += 1
  numbers.set(client, lastNumber)
  return lastNumber
}

/** Whether it is a client of a known driver is for the store to say; that it is anything at all is said here. */
function requireClient(name: string, client: unknown): object {
  if ((typeof client === 'object' || typeof client === 'function') && client !== null) return client
  throw invalid(name, 'must be a client of its driver', client)
}

function memoryAddress(name: string, settled: Settled, runtime: Runtime | null): Address {
  const open = async (): Promise<Store> => {
    const { MemoryStore } = await import('./store/memory/memory-store.ts')
    const { hostTicks } = await import('./store/embedded-clock.ts')
    const ticks = runtime?.ticks ?? hostTicks()
    const store = new MemoryStore({ ticks, url: `memory:${name}` })
    // History that ends with the process is not worth a month of its memory: a day, for requests that are repeated.
    const key = 'history_retention_days'
    await store.configure({ key, value: '1', scope: 'global', resourceId: null })
    return store
  }
  const key = name === '' ? null : keyOf('memory', name, settled)
  const timed = runtime === null ? {} : { runtime }
  return { key, open, openToLook: null, identity: () => null, ...timed }
}

function sqliteAddress(file: string, settled: Settled, runtime: Runtime | null): Address {
  const { namespace, synchronous = 'full', convert } = settled
  const timed = runtime === null ? {} : { runtime }
  const options = {
    ...{ path: file, namespace, synchronous: readSynchronous(synchronous), ...timed },
    ...(convert === undefined ? {} : { convert }),
    ...(runtime?.ticks === undefined ? {} : { ticks: runtime.ticks }),
  }
  return {
    key: keyOf('sqlite', file, settled),
    ...timed,
    open: async () => {
      const { SqliteStore } = await import('./store/sqlite/sqlite-store.ts')
      return SqliteStore.open(options)
    },
    // Opened anew: sharing it with writers would gain nothing, and load the deciding code.
    openToLook: async () => {
      const { SqliteQuestions } = await import('./store/sqlite/sqlite-questions.ts')
      return SqliteQuestions.open(options)
    },
    openCheckup: async () => {
      const { openSqliteCheckup } = await import('./store/sqlite/sqlite-store.ts')
      return openSqliteCheckup(file)
    },
    identity: () => {
      const stat = fs.statSync(file, { throwIfNoEntry: false })
      return stat === undefined ? 'none' : `${stat.dev}/${stat.ino}`
    },
    missingFile: () => {
      const stat = withAccess(file, () => fs.statSync(file, { throwIfNoEntry: false }))
      return stat === undefined || stat.size === 0 ? file : null
    },
  }
}

function serverAddress(kind: 'postgres' | 'redis', url: string, settled: Settled): Address {
  const load = async () => {
    if (kind === 'postgres') {
      const postgres = await import('./store/postgres/postgres-store.ts')
      return { open: postgres.openPostgresStore, check: postgres.openPostgresCheckup }
    }
    const redis = await import('./store/redis/redis-store.ts')
    return { open: redis.openRedisStore, check: redis.openRedisCheckup }
  }
  const open = async (): Promise<Store> => (await load()).open({ ...settled, url })
  const openCheckup = async (): Promise<Checkup> => (await load()).check({ ...settled, url })
  const key = keyOf(kind, url, settled)
  return { key, open, openToLook: null, openCheckup, identity: () => null }
}

/** `http://a:7420,b:7420/PATH`: several servers before one store. */
function readServers(scheme: string, rest: string): readonly URL[] {
  const [, hosts = '', path = ''] = /^\/\/([^/]+)(\/.*)?$/.exec(rest) ?? []
  if (hosts.includes('@')) {
    throw invalid('store', 'must have no password in its URL: give a token', `${scheme}://…`)
  }
  return hosts.split(',').map((host) => {
    const text = `${scheme}://${host}${path}`
    if (host !== '' && URL.canParse(text)) return new URL(text)
    throw invalid('store', EXPECTED_URL, schemeOf(`${scheme}:${rest}`))
  })
}

const CALL_MS_DEFAULT = 5_000

function httpAddress(
  urls: readonly URL[],
  { namespace, callMs = CALL_MS_DEFAULT, token }: Settled,
  isNamespaced: boolean,
): Address {
  const hosts = urls.map(({ host }) => host)
  const { protocol = '', pathname = '' } = urls[0] ?? {}
  const url = `${protocol}//${hosts.join()}${pathname === '/' ? '' : pathname}`
  return {
    key: null,
    open: () => {
      throw invalid('store', 'must be the store itself, not a server before it', url)
    },
    openApi: async () => {
      const { openHttpApi } = await import('./http-client/http-api.ts')
      const where = { url, urls, namespace: isNamespaced ? namespace : null }
      return openHttpApi({ ...where, callMs, token: token ?? null, runtime: systemRuntime })
    },
    openToLook: null,
    identity: () => null,
  }
}

function keyOf(kind: Kind, place: string, settled: Settled): string {
  const options = OPTIONS_OF[kind].map((name) => settled[name] ?? null)
  return JSON.stringify([kind, place, ...options])
}

type Parameters = Readonly<Partial<Record<keyof StoreOptions, string>>>

function urlOptionsOf(kind: Kind): readonly (keyof StoreOptions)[] {
  return OPTIONS_OF[kind].filter((name) => !NOT_IN_URL.includes(name))
}

/** Those of Tenure, and what is left for the driver. */
function readParameters(
  query: string | undefined,
  known: readonly (keyof StoreOptions)[],
): { readonly own: Parameters; readonly others: string } {
  const own: Partial<Record<keyof StoreOptions, string>> = {}
  const others = new URLSearchParams()
  for (const [name, value] of new URLSearchParams(query ?? '')) {
    const option = known.find((candidate) => candidate === name)
    if (option === undefined) {
      others.append(name, value)
      continue
    }
    const before = own[option] ?? value
    if (before !== value)
      throw invalid(option, `must not differ from ${show(before)} beside it`, value)
    own[option] = value
  }
  return { own, others: others.toString() }
}

function unknownParameter(kind: Kind, others: string): Error {
  const [name = ''] = new URLSearchParams(others).keys()
  const names = urlOptionsOf(kind).join(', ')
  return invalid('store', `parameters must be among ${names}`, mayBePassword(others) ? '…' : name)
}

function settle(kind: Kind, parameters: Parameters, options: StoreOptions): Settled {
  const settled: Record<string, unknown> = {}
  for (const name of STORE_OPTIONS) {
    const inOptions = options[name]
    if (inOptions !== undefined && !OPTIONS_OF[kind].includes(name)) {
      const got = NOT_IN_URL.includes(name) ? 'one' : inOptions
      throw invalid(name, `must not be given for a ${kind} store`, got)
    }
    const inUrl = parameters[name] === undefined ? undefined : valueOf(name, parameters[name])
    if (inUrl !== undefined && inOptions !== undefined && inUrl !== inOptions) {
      throw invalid(name, `must not differ from ${JSON.stringify(inUrl)} in the URL`, inOptions)
    }
    if ((inOptions ?? inUrl) !== undefined) settled[name] = readOption(name, inOptions ?? inUrl)
  }
  return { ...settled, namespace: parseNamespace(settled['namespace'] ?? 'default') }
}

const INTEGER_MAX: Readonly<Partial<Record<keyof StoreOptions, number>>> = {
  connectMs: 600_000,
  callMs: 600_000,
  poolSize: 100,
  buckets: 1_024,
}

function readOption(name: keyof StoreOptions, value: unknown): unknown {
  if (name === 'token' && !(typeof value === 'string' && /^[\x21-\x7e]{1,4096}$/.test(value))) {
    throw invalid(name, 'must be a token of tenure tokens', 'what is none')
  }
  if (name === 'prepare' && typeof value !== 'boolean') {
    throw invalid(name, 'must be true or false', value)
  }
  if (name === 'convert' && value !== 'force') throw invalid(name, 'must be force', value)
  const max = INTEGER_MAX[name]
  if (max === undefined) return value
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max) {
    return value
  }
  throw invalid(name, `must be an integer 1..${max}`, value)
}

const TEXT_OPTIONS: readonly (keyof StoreOptions)[] = [
  'namespace',
  'synchronous',
  'convert',
  'prepare',
]

/** Text that is no number is passed on as it is, and refused where the option is read. */
function valueOf(name: keyof StoreOptions, text: string): unknown {
  if (name === 'prepare' && (text === 'true' || text === 'false')) return text === 'true'
  if (TEXT_OPTIONS.includes(name)) return text
  return /^\d{1,9}$/.test(text) ? Number(text) : text
}

/** `memory://NAME`, as it is written for servers, would be another store than `memory:NAME`. */
function readName(name: string, url: string): string {
  if (name.startsWith('//')) throw invalid('store', EXPECTED_URL, url)
  return name === '' ? '' : requireShortText({ field: 'store', bytesMax: 128 }, name)
}

/** In the URL of a file a question mark is written `%3F`, and a percent sign that would be read so, `%25`. */
export function escapedPath(file: string): string {
  return file.replaceAll('%', '%25').replaceAll('?', '%3F')
}

export function unescapedPath(text: string): string {
  return text.replaceAll('%3F', '?').replaceAll('%25', '%')
}

/** `sqlite:a/b.db` is relative; `sqlite:/a/b.db` and `sqlite:///a/b.db` are absolute; a host makes no sense. */
function readPath(encoded: string, url: string): string {
  const text = unescapedPath(encoded)
  if (text === '' || /^\/\/[^/]/.test(text)) throw invalid('store', EXPECTED_URL, url)
  if (text === ':memory:') throw invalid('store', `${EXPECTED_URL} (a file)`, url)
  const file = canonicalFile(path.resolve(text))
  // better-sqlite3 leaves it out: it would open another file than the one that was looked at, and than `node:sqlite` opens.
  if (file === file.trim()) return file
  throw invalid('store', 'must be a file whose name does not end with white space', url)
}

function canonicalFile(file: string): string {
  try {
    return systemRuntime.canonicalPath(file)
  } catch (cause) {
    throw hasCode(cause, 'EACCES') ? accessError(file, cause) : pathError('store', file, cause)
  }
}

function readSynchronous(value: unknown): 'full' | 'normal' {
  if (value === 'full' || value === 'normal') return value
  throw invalid('synchronous', 'must be full or normal', value)
}
