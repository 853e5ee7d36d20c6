/**
 * Looks for rows that cannot be what this program wrote: edited by hand, half restored, or damaged. It only reads, and
 * looks at all namespaces. What it finds is told a row and a column at a time, as a person with `sqlite3` sees them. And
 * whether wake files work beside the database, of which a host can watch only so many.
 */
import { isLeaseError, show } from '../../core/errors.ts'
import { LEASE_EVENT_TYPES } from '../../core/event.ts'
import { ENTRY_STATES } from '../../core/lease.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import { parseSettingKey, parseSettingValue, SETTING_SCOPES } from '../../core/settings.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { tryWake } from '../wake-trial.ts'
import type { SqliteDatabase, SqliteRow } from '../../drivers/sqlite-driver.ts'
import { wordOf } from './sqlite-history.ts'
import { WakeFiles } from './sqlite-listeners.ts'

interface ColumnRule {
  readonly table: 'live_leases' | 'lease_history'
  readonly column: string
  readonly expectation: string
  /** SQL that is true of a row that is wrong. */
  readonly isWrong: string
}

/** More lines than this say no more than that something went over the table. */
const ROWS_TOLD_MAX = 5

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(', ')

const RULES: readonly ColumnRule[] = [
  live('status', `one of ${ENTRY_STATES.join(', ')}`, `status NOT IN (${quoted(ENTRY_STATES)})`),
  live('extent', 'exact or subtree', `extent NOT IN ('exact', 'subtree')`),
  live(
    'file_path',
    'an absolute path or kind:name',
    `file_path NOT GLOB '/*' AND file_path NOT GLOB '[a-z]*:?*'`,
  ),
  live('agent_id', '1..128 bytes', 'length(CAST(agent_id AS BLOB)) NOT BETWEEN 1 AND 128'),
  live('fence', 'an integer', `typeof(fence) <> 'integer'`),
  live('live_until_us', 'an integer (microseconds)', `typeof(live_until_us) <> 'integer'`),
  live(
    'clock',
    'a generation of clock_domains',
    `NOT EXISTS (SELECT 1 FROM clock_domains AS known
       WHERE known.namespace = live_leases.namespace AND known.generation = live_leases.clock)`,
  ),
  live('body', 'JSON', 'NOT json_valid(body)'),
  inBody(
    'ttlMs',
    `an integer 1..${TTL_MS_MAX}`,
    (field) => `typeof(${field}) <> 'integer' OR ${field} NOT BETWEEN 1 AND ${TTL_MS_MAX}`,
  ),
  inBody('mode', 'exclusive or shared', (field) => `${field} NOT IN ('exclusive', 'shared')`),
  inBody('metadata', 'an object', (_, type) => `${type} <> 'object'`),
  history('data', 'JSON', 'NOT json_valid(data)'),
  history(
    'event_type',
    'the word of an event',
    `event_type NOT IN (${quoted(LEASE_EVENT_TYPES.map(wordOf))})`,
  ),
]

function live(column: string, expectation: string, isWrong: string): ColumnRule {
  return { table: 'live_leases', column, expectation, isWrong }
}

function history(column: string, expectation: string, isWrong: string): ColumnRule {
  return { table: 'lease_history', column, expectation, isWrong }
}

/** A field of the body; of one that is no JSON only that is told. */
function inBody(
  field: string,
  expectation: string,
  isWrong: (value: string, type: string) => string,
): ColumnRule {
  const column = `body ->> '$.${field}'`
  const wrong = isWrong(`(${column})`, `json_type(body, '$.${field}')`)
  return live(column, expectation, `CASE WHEN json_valid(body) THEN ${wrong} END`)
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
  const files = { databasePath, runtime: systemRuntime }
  const [listening, sending] = [new WakeFiles(files), new WakeFiles(files)]
  return tryWake({
    runtime: systemRuntime,
    listen: async (heard) => {
      listening.tryToListen(session, heard)
      return () => listening.close()
    },
    send: async () => sending.touch(session),
  })
}
