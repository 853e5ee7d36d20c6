/**
 * Looks for rows that cannot be what this program wrote: edited by hand, half restored, or damaged. It only reads, and
 * looks at all namespaces. What it finds is told a row and a column at a time, as a person with `sqlite3` sees them. And
 * whether wake files work beside the database, of which a host can watch only so many.
 */
import { isLeaseError, show } from '../../core/errors.ts'
import { ENTRY_STATES } from '../../core/lease.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import { parseSettingKey, parseSettingValue, SETTING_SCOPES } from '../../core/settings.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { tryWake } from '../wake-trial.ts'
import type { SqliteDatabase, SqliteRow } from '../../drivers/sqlite-driver.ts'
import { WakeFiles } from './sqlite-wake.ts'

interface ColumnRule {
  readonly table: 'leases' | 'lease_history'
  readonly column: string
  readonly expectation: string
  /** SQL that is true of a row that is wrong. */
  readonly isWrong: string
}

/** More lines than this say no more than that something went over the table. */
const ROWS_TOLD_MAX = 5

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(', ')

const IS_TICKET = `status IN ('pending', 'failed')`

const RULES: readonly ColumnRule[] = [
  lease('status', `one of ${ENTRY_STATES.join(', ')}`, `status NOT IN (${quoted(ENTRY_STATES)})`),
  lease('mode', 'exclusive or shared', `mode NOT IN ('exclusive', 'shared')`),
  lease('extent', 'exact or subtree', `extent NOT IN ('exact', 'subtree')`),
  lease(
    'file_path',
    'an absolute path or kind:name',
    `file_path NOT GLOB '/*' AND file_path NOT GLOB '[a-z]*:?*'`,
  ),
  lease('agent_id', '1..128 bytes', 'length(CAST(agent_id AS BLOB)) NOT BETWEEN 1 AND 128'),
  lease('ttl_ms', `an integer 1..${TTL_MS_MAX}`, isNoInteger('ttl_ms', `1 AND ${TTL_MS_MAX}`)),
  lease('fence', 'an integer', `NOT ${IS_TICKET} AND typeof(fence) <> 'integer'`),
  lease('created_at', 'an integer (milliseconds)', `typeof(created_at) <> 'integer'`),
  lease('expires_at', 'an integer (milliseconds)', `typeof(expires_at) <> 'integer'`),
  lease('deadline_us', 'an integer (microseconds)', `typeof(deadline_us) <> 'integer'`),
  lease(
    'clock',
    'a generation of clock_domains',
    `NOT EXISTS (SELECT 1 FROM clock_domains AS known
       WHERE known.namespace = leases.namespace AND known.generation = leases.clock)`,
  ),
  lease(
    'live_until_us',
    'an integer while the row is active or pending',
    `status IN ('active', 'pending') AND typeof(live_until_us) <> 'integer'`,
  ),
  lease(
    'detail',
    'JSON',
    `CASE WHEN detail IS NULL THEN ${IS_TICKET} ELSE NOT json_valid(detail) END`,
  ),
  lease('metadata', 'JSON', 'metadata IS NOT NULL AND NOT json_valid(metadata)'),
  {
    table: 'lease_history',
    column: 'data',
    expectation: 'JSON',
    isWrong: 'data IS NOT NULL AND NOT json_valid(data)',
  },
  {
    table: 'lease_history',
    column: 'lease_id',
    expectation: 'the id of a row in leases',
    isWrong: 'NOT EXISTS (SELECT 1 FROM leases WHERE leases.id = lease_history.lease_id)',
  },
]

function lease(column: string, expectation: string, isWrong: string): ColumnRule {
  return { table: 'leases', column, expectation, isWrong }
}

function isNoInteger(column: string, range: string): string {
  return `(typeof(${column}) <> 'integer' OR ${column} NOT BETWEEN ${range})`
}

/** One line for each thing that is wrong; none when every row can be read. */
export function findBrokenRows(database: SqliteDatabase): readonly string[] {
  return [...RULES.flatMap((rule) => brokenBy(database, rule)), ...brokenSettings(database)]
}

function brokenBy(database: SqliteDatabase, rule: ColumnRule): readonly string[] {
  const { table, column, expectation, isWrong } = rule
  const rows = database
    .prepare(`SELECT id, ${column} FROM ${table} WHERE ${isWrong} LIMIT ${ROWS_TOLD_MAX + 1}`)
    .raw()
    .all() as SqliteRow[]
  const lines = rows.slice(0, ROWS_TOLD_MAX).map(([id, value]) => {
    return `${table} row ${String(id)}: ${column} must be ${expectation}, got ${show(value)}`
  })
  return rows.length > ROWS_TOLD_MAX
    ? [...lines, `${table}: more rows with such a ${column}`]
    : lines
}

function brokenSettings(database: SqliteDatabase): readonly string[] {
  const rows = database
    .prepare('SELECT id, config_key, config_value, scope FROM lease_configs ORDER BY rowid')
    .raw()
    .all() as SqliteRow[]
  return rows.flatMap(([id, key, value, scope]) => {
    const problem = settingProblem(key, value, scope)
    return problem === null ? [] : [`lease_configs row ${String(id)}: ${problem}`]
  })
}

function settingProblem(key: unknown, value: unknown, scope: unknown): string | null {
  try {
    parseSettingValue(parseSettingKey(key), value)
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
  if (SETTING_SCOPES.some((known) => known === scope)) return null
  return `scope must be one of ${SETTING_SCOPES.join(', ')}, got ${show(scope)}`
}

/** As a waiting session listens, and as another process that commits touches its file. */
export function tryWakeFiles(databasePath: string): Promise<string> {
  const session = systemRuntime.uuid()
  const listening = new WakeFiles(databasePath, systemRuntime)
  const sending = new WakeFiles(databasePath, systemRuntime)
  return tryWake({
    runtime: systemRuntime,
    listen: async (heard) => {
      listening.tryToListen(session, heard)
      return () => listening.close()
    },
    send: async () => sending.touch(session, systemRuntime.wallMs()),
  })
}
