/**
 * Makes the schema, or brings an older one up to date, step by step. The first process that opens the store does so, and
 * all others wait for it.
 */
import { LeaseError } from '../../core/errors.ts'
import type { PostgresConnection } from '../../drivers/postgres-driver.ts'
import { isLockTimeout } from '../../drivers/postgres-errors.ts'
import {
  convertBatch,
  REMOVE_OLD_LAYOUT,
  refuseWhileHeld,
  takeAwayOldLayout,
} from './postgres-conversion.ts'
import { ATTEMPT_FUNCTIONS, PRUNE_FUNCTIONS } from './postgres-functions.ts'
import {
  LEDGER,
  LIVE_LEASES,
  NAMESPACES,
  REFUSALS_TABLE,
  SCHEMA_VERSION,
} from './postgres-schema.ts'

const FUNCTIONS = [ATTEMPT_FUNCTIONS, PRUNE_FUNCTIONS].join('\n')

const CREATE = `
CREATE SCHEMA IF NOT EXISTS tenure;
CREATE TABLE IF NOT EXISTS tenure.migrations (
  version integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);`

/** Of earlier prunes it is only known that they have removed what lay before the first event that is kept, or all there was. */
const PRUNED_UP_TO = `
ALTER TABLE tenure.namespaces ADD pruned_up_to bigint NOT NULL DEFAULT 0;
UPDATE tenure.namespaces SET pruned_up_to = coalesce(
    (SELECT seq - 1 FROM tenure.ledger WHERE namespace = number ORDER BY seq LIMIT 1),
    (SELECT last_value FROM tenure.ledger_seq))
  WHERE pruned_at IS NOT NULL;`

interface Step {
  /** That of the schema afterwards. */
  readonly version: number
  readonly name: string
  /** False: part of it is done, and the rest is left for another transaction. */
  run(connection: PostgresConnection, migration: Migration): Promise<boolean>
}

/** From any version before 9, whose tables were others. */
const STEPS: readonly Step[] = [
  {
    ...{ version: 9, name: 'live leases and ledger: tables' },
    run: async (connection, { url, isForced }) => {
      if (!isForced) await refuseWhileHeld(connection, url)
      return done(connection, takeAwayOldLayout([LIVE_LEASES, LEDGER, FUNCTIONS].join('\n')))
    },
  },
  {
    ...{ version: 10, name: 'live leases and ledger: rows' },
    run: async (connection) => {
      return !(await convertBatch(connection)) && done(connection, REMOVE_OLD_LAYOUT)
    },
  },
  { version: 11, name: 'refusals', run: (connection) => done(connection, REFUSALS_TABLE) },
  {
    ...{ version: 12, name: 'up to where events were pruned' },
    run: (connection) => done(connection, PRUNED_UP_TO),
  },
  {
    // Beside the function of the version before, which processes that are running go on with.
    ...{ version: SCHEMA_VERSION, name: 'an attempt writes less' },
    run: (connection) => done(connection, FUNCTIONS),
  },
]

async function done(connection: PostgresConnection, sql: string): Promise<true> {
  await connection.run(sql)
  return true
}

/** The key of the advisory lock under which the schema is made; "tenure" in ASCII. */
const MIGRATION_LOCK = '0x74656e757265'

/**
 * A step may take long: a large table, many rows. But it waits for a table no longer than this, because all other calls
 * wait behind it; then it tries again. Read committed, whatever the default of the role or the database is: otherwise a process
 * that had to wait for its turn would see what was there before it waited, and take the step of another once more.
 */
const STEP = `BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '500ms'`
const LOCK_TRIES_MAX = 120

export async function isCurrent(connection: PostgresConnection): Promise<boolean> {
  return (await versionOf(connection)) === SCHEMA_VERSION
}

export interface Migration {
  readonly url: string
  /** Whether a store of an older layout is converted although processes may still hold leases in it. */
  readonly isForced: boolean
}

/** Brings the schema up to date, step by step. A role that may not create anything needs one that is already. */
export async function migrate(connection: PostgresConnection, migration: Migration): Promise<void> {
  for (let tries = 1; !(await isCurrent(connection));) {
    try {
      await connection.run(STEP)
      await connection.run(`SELECT pg_advisory_xact_lock(${Number(MIGRATION_LOCK)})`)
      await takeStep(connection, migration)
      await connection.run('COMMIT')
    } catch (error) {
      await connection.run('ROLLBACK')
      if (!isLockTimeout(error) || tries === LOCK_TRIES_MAX) throw error
      tries += 1
      await connection.run('SELECT pg_sleep(0.5)')
    }
  }
}

async function takeStep(connection: PostgresConnection, migration: Migration): Promise<void> {
  const found = await versionOf(connection)
  if (found === 0) {
    const layout = [CREATE, NAMESPACES, LIVE_LEASES, LEDGER, FUNCTIONS, REFUSALS_TABLE]
    await connection.run(layout.join('\n'))
    return noteVersion(connection, SCHEMA_VERSION, 'live leases, ledger and refusals')
  }
  const step = STEPS.find(({ version }) => version > found)
  if (step !== undefined && (await step.run(connection, migration))) {
    await noteVersion(connection, step.version, step.name)
  }
}

async function noteVersion(
  connection: PostgresConnection,
  version: number,
  name: string,
): Promise<void> {
  await connection.run('INSERT INTO tenure.migrations VALUES ($1::integer, $2)', [version, name])
}

/**
 * Asks the catalogue as a table, and not `to_regclass`: that may still remember, from before the lock, that there is
 * no such schema.
 */
const IS_THERE = `SELECT count(*) FROM pg_catalog.pg_tables
  WHERE schemaname = 'tenure' AND tablename = 'migrations'`

/** The version up to which all migrations were applied; throws `STORE_SCHEMA` for one from the future. */
async function versionOf(connection: PostgresConnection): Promise<number> {
  const [there] = await connection.run(IS_THERE)
  if (there?.[0] !== '1') return 0
  const [row] = await connection.run('SELECT coalesce(max(version), 0) FROM tenure.migrations')
  const newest = Number(row?.[0] ?? 0)
  if (newest <= SCHEMA_VERSION) return newest
  throw new LeaseError(
    'STORE_SCHEMA',
    `schema version must be at most ${SCHEMA_VERSION} for this version of Tenure, got ${newest}`,
    { details: { supported: SCHEMA_VERSION, found: newest } },
  )
}
