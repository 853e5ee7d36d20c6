/** `tenure guard init`: the one table that a guard needs, in the database that is guarded. */
import { invalid, LeaseError } from '../../core/errors.ts'
import {
  guard,
  MARK_TABLE,
  POSTGRES_MARK_TABLE,
  SQLITE_MARK_TABLE,
  type PostgresClientLike,
} from '../../guard/index.ts'
import { CONNECT_MS_DEFAULT, loadPostgres } from '../../drivers/postgres-driver.ts'
import { loadSqlite, sqliteError } from '../../drivers/sqlite-driver.ts'
import { readWord } from '../arguments.ts'
import { defineCommand, type CliCommand } from '../command.ts'
import { visible } from '../output.ts'

const STATEMENTS: Readonly<Record<string, string>> = {
  sqlite: SQLITE_MARK_TABLE,
  postgres: POSTGRES_MARK_TABLE,
}

export const guardCommand: CliCommand = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'init' },
    {
      name: 'DATABASE',
      help: 'sqlite or postgres prints the statement; sqlite:PATH or postgres://… carries it out',
    },
  ],
  options: {},
  notes: [
    'A guard checks the fence of a lease inside your own write (docs/fencing.md). It keeps what it has seen in the ' +
      'database that it guards, not in the store of the leases.',
  ],
  examples: [
    'tenure guard init sqlite:app.db',
    'tenure guard init postgres >> migrations/017_fences.sql',
  ],
  run: async ({ positionals, printer }) => {
    const [action, database = ''] = positionals
    readWord('ACTION', ['init'], action)
    const sql = Object.hasOwn(STATEMENTS, database) ? STATEMENTS[database] : undefined
    if (sql !== undefined) {
      printer.answer({ sql: `${sql};` }, () => `${sql};`)
      return 0
    }
    await apply(database)
    const shown = withoutPassword(database)
    const effect = `${shown} has the table ${MARK_TABLE}`
    printer.effect(effect, { table: MARK_TABLE, database: shown }, () => visible(effect))
    return 0
  },
})

async function apply(database: string): Promise<void> {
  const [, file] = /^sqlite:(.+)$/s.exec(database) ?? []
  if (file !== undefined) return applyToSqlite(file, database)
  if (/^postgres(ql)?:\/\//.test(database)) return applyToPostgres(database)
  throw invalid(
    'DATABASE',
    'must be sqlite, postgres, sqlite:PATH or postgres://…',
    withoutPassword(database),
  )
}

async function applyToSqlite(file: string, url: string): Promise<void> {
  const Driver = await loadSqlite()
  try {
    const database = new Driver(file)
    try {
      guard.sqlite(database).init()
    } finally {
      database.close()
    }
  } catch (error) {
    throw error instanceof TypeError ? unavailable(url, error) : sqliteError(error, url)
  }
}

async function applyToPostgres(url: string): Promise<void> {
  const Pool = await loadPostgres()
  // Without it the driver waits for ever for a server that takes the connection and says nothing.
  const connectionTimeoutMillis = CONNECT_MS_DEFAULT
  const options = { connectionString: url, connectionTimeoutMillis, max: 1 }
  const pool = new Pool(options)
  try {
    const client = await pool.connect()
    // A client of pg takes plain text as well.
    const writing = guard.postgres(client as unknown as PostgresClientLike).init()
    await writing.finally(() => client.release(true))
  } catch (error) {
    throw error instanceof LeaseError ? error : unavailable(withoutPassword(url), error)
  } finally {
    await pool.end()
  }
}

function unavailable(url: string, cause: unknown): LeaseError {
  const why = cause instanceof Error ? cause.message || cause.name : String(cause)
  return new LeaseError('STORE_UNAVAILABLE', `${url} cannot be used: ${why}`, { cause })
}

/** Of a URL only what may be seen: a parameter can be a password as well. */
function withoutPassword(text: string): string {
  if (text.startsWith('sqlite:') || !/[@?]/.test(text)) return text
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || url.host === '') return `${text.split(/[:/@?]/, 1)[0]}:…`
  url.password = ''
  url.search = ''
  return url.href
}
