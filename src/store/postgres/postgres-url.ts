/**
 * Reads `postgres://user:password@host:port/database?parameters`. Parameters of Tenure are taken out; those of the
 * driver that make sense for a store are passed on; any other is refused, because a misspelt one would go unnoticed.
 */
import { invalid } from '../../core/errors.ts'
import { requireText } from '../../core/text.ts'

export interface PostgresAddress {
  /** What the driver gets. */
  readonly connectionString: string
  /** What people see: no password. */
  readonly shown: string
  readonly parameters: PostgresParameters
}

export interface PostgresParameters {
  readonly namespace?: string
  readonly connectMs?: number
  readonly callMs?: number
  readonly poolSize?: number
  readonly prepare?: boolean
  readonly convert?: 'force'
}

/** Of Tenure, and how each is read. */
const OWN_PARAMETERS: Readonly<Record<string, (value: string) => unknown>> = {
  namespace: (value) => value,
  connectMs: (value) => readSpanMs('connectMs', value),
  callMs: (value) => readSpanMs('callMs', value),
  poolSize: readPoolSize,
  prepare: readPrepare,
  convert: readConvert,
}
const DRIVER_PARAMETERS: readonly string[] = [
  ...['sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'application_name', 'options', 'host'],
  'uselibpqcompat',
]

const SPAN_MS_MAX = 600_000
const POOL_SIZE_MAX = 100

export function readPostgresUrl(text: unknown): PostgresAddress {
  const url = parseUrl(requireText('store', text))
  const parameters: Record<string, unknown> = {}
  const known = [...Object.keys(OWN_PARAMETERS), ...DRIVER_PARAMETERS]
  for (const [name, value] of [...url.searchParams]) {
    if (!known.includes(name)) {
      throw invalid('store', `parameters must be among ${known.join(', ')}`, name)
    }
    const read = OWN_PARAMETERS[name]
    if (read === undefined) continue
    parameters[name] = read(value)
    url.searchParams.delete(name)
  }
  const shown = new URL(url)
  shown.password = ''
  shown.search = ''
  return { connectionString: url.href, shown: shown.href, parameters }
}

/** Never shows what was given: it may hold a password. */
function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url !== null && /^postgres(ql)?:$/.test(url.protocol)) return url
  throw invalid('store', 'must be postgres://user@host:port/database', text.split(/[/@?]/, 1)[0])
}

export function readSpanMs(field: string, value: unknown): number {
  return readInteger(field, value, SPAN_MS_MAX)
}

export function readPoolSize(value: unknown): number {
  return readInteger('poolSize', value, POOL_SIZE_MAX)
}

function readInteger(field: string, value: unknown, max: number): number {
  const number = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
  if (typeof number === 'number' && Number.isInteger(number) && number >= 1 && number <= max) {
    return number
  }
  throw invalid(field, `must be an integer 1..${max}`, value)
}

function readPrepare(value: string): boolean {
  if (value === 'true' || value === 'false') return value === 'true'
  throw invalid('prepare', 'must be true or false', value)
}

export function readConvert(value: unknown): 'force' {
  if (value === 'force') return value
  throw invalid('convert', 'must be force', value)
}
