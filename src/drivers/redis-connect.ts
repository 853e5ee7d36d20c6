/**
 * Connects to a Redis server by URL, or takes a client that the caller has: in bounded time, with errors that name the server
 * and no secret, and so that a call is never sent twice without its caller's knowledge. Fleets connect in ways of their own
 * (`dial`).
 */
import { invalid } from '../core/errors.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import { within } from './bounded-call.ts'
import { driverFault } from './driver-fault.ts'
import {
  driverOf,
  hearErrors,
  letProcessEnd,
  RedisCalls,
  type IoredisClient,
  type RedisClient,
  type RedisDriver,
} from './redis-driver.ts'
import { redisError } from './redis-errors.ts'

export interface RedisConnectOptions {
  /** `redis://[user[:password]@]host[:port][/database]`, or `rediss://` for TLS. This or `client`. */
  readonly url?: string
  /** A connected client of ioredis (also a Cluster) or node-redis. It is not closed with the store. */
  readonly client?: RedisClient
  /** How long one call may take. Default 5 s. */
  readonly callMs?: number
  /** How long connecting may take. Default 5 s. */
  readonly connectMs?: number
  readonly runtime?: Runtime
}

const CALL_MS_DEFAULT = 5_000
const CONNECT_MS_DEFAULT = 5_000
/** More than the server is ever asked to wait before it answers. */
const SILENCE_MS_MIN = 5_000
const RECONNECT_MS_MAX = 2_000

/** A client that was passed in is not closed with the calls. */
export async function connectRedis(options: RedisConnectOptions): Promise<RedisCalls> {
  const { client, url, runtime = systemRuntime, callMs = CALL_MS_DEFAULT } = options
  if (client !== undefined) {
    if (url !== undefined) throw invalid('client', 'must not be given together with url', url)
    const driver = driverOf(client)
    if (!driver.isReady) await bounded(driver.connect(), 'redis:', options)
    return new RedisCalls(driver, { url: 'redis: (a client of the caller)', runtime, callMs })
  }
  const address = addressOf(url)
  const shown = showUrl(address)
  const driver = await connectTo(address, shown, options)
  return new RedisCalls(driver, { url: shown, runtime, callMs, ownsDriver: true })
}

async function connectTo(
  address: RedisAddress,
  shown: string,
  options: RedisConnectOptions,
): Promise<RedisDriver> {
  const { connectMs = CONNECT_MS_DEFAULT, callMs = CALL_MS_DEFAULT } = options
  // While a client opens, only the event tells why a connection was not made; afterwards its errors are reported.
  let lastError: unknown = null
  const hear = (client: IoredisClient): void => {
    let isOpen = false
    client.on('error', (error: unknown) => {
      lastError = error
    })
    letProcessEnd(client)
    client.on('ready', () => {
      if (!isOpen) hearErrors(client)
      isOpen = true
    })
  }
  const connect = async (driver: RedisDriver): Promise<void> => {
    await bounded(driver.connect(), shown, options)
    // The driver asks for the database by itself, but goes on in database 0 when the server refuses.
    const select = ['SELECT', String(address.db)]
    if (address.db !== 0) await bounded(driver.send(select), shown, options)
  }
  try {
    return await dial(address, {
      needed: 'redis: stores',
      redisOptions: {
        // A call fails at once while there is no connection, and is never sent a second time behind our back.
        ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false },
        ...{ maxRetriesPerRequest: 0, connectTimeout: connectMs },
        // A connection that has gone silent is given up and opened anew: it may never be heard of again.
        socketTimeout: Math.max(SILENCE_MS_MIN, callMs),
      },
      clusterOptions: { enableOfflineQueue: false },
      clusterRedisOptions: {},
      retryMs: (attempt) => Math.min(RECONNECT_MS_MAX, 25 * 2 ** Math.min(attempt, 8)),
      ...{ hear, connect },
    })
  } catch (error) {
    throw redisError(lastError ?? error, { url: shown, effect: 'reads' })
  }
}

async function bounded(
  work: Promise<unknown>,
  url: string,
  { runtime = systemRuntime, connectMs = CONNECT_MS_DEFAULT }: RedisConnectOptions,
): Promise<void> {
  try {
    await within(runtime, connectMs, work, `no connection within ${connectMs} ms`)
  } catch (error) {
    throw redisError(error, { url, effect: 'reads' })
  }
}

export interface RedisAddress {
  readonly host: string
  readonly port: number
  readonly db: number
  readonly username?: string
  readonly password?: string
  readonly tls?: { readonly servername: string }
}

const PORT_DEFAULT = 6379
const EXPECTED = 'must be redis://[user[:password]@]host[:port][/database] or rediss://…'

/** Never repeats the URL in an error: it may hold a password. */
export function addressOf(url: unknown): RedisAddress {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '') {
    throw invalid('store', EXPECTED, parsed === null ? 'something else' : parsed.protocol)
  }
  const [, database = '0'] = /^\/?(\d{1,5})?$/.exec(parsed.pathname) ?? [null, 'none']
  if (database === 'none') throw invalid('store', EXPECTED, 'another path')
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1')
  return {
    host,
    port: parsed.port === '' ? PORT_DEFAULT : Number(parsed.port),
    db: Number(database),
    ...(parsed.username === '' ? {} : { username: unescaped(parsed.username) }),
    ...(parsed.password === '' ? {} : { password: unescaped(parsed.password) }),
    ...(parsed.protocol === 'rediss:' ? { tls: { servername: host } } : {}),
  }
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    // No fault: this is the answer.
    const expectation = 'must have its user and password escaped (for % write %25)'
    throw invalid('store', expectation, 'a % that escapes nothing')
  }
}

export function showUrl({ host, port, db, tls }: RedisAddress): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `${tls === undefined ? 'redis' : 'rediss'}://${name}:${port}/${db}`
}

export interface Dialling {
  /** What cannot do without the driver, as the subject of a message. */
  readonly needed: string
  /** Of every connection. */
  readonly redisOptions: object
  /** Of the client of a Cluster, and of its connections, beyond those. */
  readonly clusterOptions: object
  readonly clusterRedisOptions: object
  readonly retryMs: (attempt: number) => number
  /** An `error` event without a listener would end the process. */
  hear(client: IoredisClient): void
  connect(driver: RedisDriver): Promise<unknown>
}

/** Connects to one server; if it is part of a Cluster, to all of that. */
export async function dial(address: RedisAddress, dialling: Dialling): Promise<RedisDriver> {
  const { redisOptions, clusterOptions, clusterRedisOptions, retryMs } = dialling
  const { Redis, Cluster } = await loadIoredis(dialling.needed)
  const { host, port, ...rest } = address
  const lazy = { lazyConnect: true }
  const options = { ...rest, ...lazy, ...redisOptions }
  let isCluster = false
  const connect = async (driver: RedisDriver): Promise<void> => {
    await dialling.connect(driver)
    isCluster = String(await driver.send(['INFO', 'cluster'])).includes('cluster_enabled:1')
  }
  const single = new Redis({ host, port, ...options, retryStrategy: retryMs })
  const one = await opened(single, { ...dialling, connect })
  if (!isCluster) return one
  one.disconnect()
  const whole = { ...lazy, ...clusterOptions, clusterRetryStrategy: retryMs }
  const each = { ...options, ...clusterRedisOptions }
  return opened(new Cluster([{ host, port }], { ...whole, redisOptions: each }), dialling)
}

async function opened(
  client: IoredisClient,
  { hear, connect }: Pick<Dialling, 'hear' | 'connect'>,
): Promise<RedisDriver> {
  hear(client)
  const driver = driverOf(client)
  try {
    await connect(driver)
    return driver
  } catch (error) {
    driver.disconnect()
    throw error
  }
}

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

/** Loaded when it is asked for: a program with another store, or a client of its own, need not have it. */
async function loadIoredis(needed: string): Promise<IoredisModule> {
  try {
    return (await import('ioredis')) as unknown as IoredisModule
  } catch (cause) {
    throw driverFault({ name: 'ioredis', needed, install: 'ioredis' }, cause)
  }
}
