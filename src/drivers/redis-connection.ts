/** Connects to `redis://` URLs, for stores and fleets alike, and shows them without user and password. */
import { invalid } from '../core/errors.ts'
import { driverFault } from './driver-fault.ts'
import type { IoredisClient, RedisDriver } from './redis-driver.ts'

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
  if (database === 'none') throw invalid('store', EXPECTED, parsed.pathname)
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1')
  return {
    host,
    port: parsed.port === '' ? PORT_DEFAULT : Number(parsed.port),
    db: Number(database),
    ...(parsed.username === '' ? {} : { username: decodeURIComponent(parsed.username) }),
    ...(parsed.password === '' ? {} : { password: decodeURIComponent(parsed.password) }),
    ...(parsed.protocol === 'rediss:' ? { tls: { servername: host } } : {}),
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
  /** Connects, and closes what could not be connected. */
  open(client: IoredisClient): Promise<RedisDriver>
}

/** Connects to one server; if it is part of a Cluster, to all of that. */
export async function dial(address: RedisAddress, dialling: Dialling): Promise<RedisDriver> {
  const { redisOptions, clusterOptions, clusterRedisOptions, retryMs } = dialling
  const { Redis, Cluster } = await loadIoredis(dialling.needed)
  const { host, port, ...rest } = address
  const lazy = { lazyConnect: true }
  const options = { ...rest, ...lazy, ...redisOptions }
  const one = await dialling.open(new Redis({ host, port, ...options, retryStrategy: retryMs }))
  if (!(await isCluster(one))) return one
  one.disconnect()
  const whole = { ...lazy, ...clusterOptions, clusterRetryStrategy: retryMs }
  const each = { ...options, ...clusterRedisOptions }
  return dialling.open(new Cluster([{ host, port }], { ...whole, redisOptions: each }))
}

async function isCluster(driver: RedisDriver): Promise<boolean> {
  try {
    const info = await driver.send(['INFO', 'cluster'])
    return String(info).includes('cluster_enabled:1')
  } catch (error) {
    driver.disconnect()
    throw error
  }
}

interface IoredisModule {
  readonly Redis: new (options: object) => IoredisClient
  readonly Cluster: new (nodes: readonly object[], options: object) => IoredisClient
}

/** Loaded when it is asked for: whoever uses another store, or a client of their own, need not have it. */
async function loadIoredis(needed: string): Promise<IoredisModule> {
  try {
    return (await import('ioredis')) as unknown as IoredisModule
  } catch (cause) {
    throw driverFault({ name: 'ioredis', needed, install: 'ioredis' }, cause)
  }
}
