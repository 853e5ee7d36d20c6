/** Reads `redis://` URLs, and shows them without user and password. */
import { invalid } from '../../core/errors.ts'

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
