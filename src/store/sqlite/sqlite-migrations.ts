/**
 * The tables, as a person with `sqlite3` sees them, and the migrations that make them. Each migration is one
 * transaction; one that fails is rolled back and recorded with its error, and tried again by the next opener.
 *
 * Times are integers in milliseconds, ticks in microseconds. A tick means nothing without its clock, which is the
 * `generation` of a row in `clock_domains`.
 */
import { LeaseError } from '../../core/errors.ts'
import { LEASE_EVENT_TYPES } from '../../core/event.ts'
import { USUAL_STATES } from '../../core/record.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import { inWriteTransaction, sqliteCode, type SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import { convertRows, refuseWhileHeld, type RunningLeases } from './sqlite-conversion.ts'
import { wordOf } from './sqlite-history.ts'
import { MIGRATION_TABLE } from './sqlite-schema.ts'
import { idOf, leaseNumberOf, POSITIONS_PER_NAMESPACE } from './sqlite-state.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  readonly description: string
  readonly sql: string
  /**
   * Where the leases are that processes of the version before could not renew any more: it waits until none runs. A process
   * can use tables of its own version alone, so a migration waits as well that would be taken before another which waits.
   */
  readonly held?: RunningLeases
  /** What SQL cannot do, after it and in the same transaction. */
  readonly convert?: (database: SqliteDatabase) => void
}

/** In which tables are brought up to date. */
export interface Circumstances {
  readonly url: string
  readonly wallMs: number
  readonly ticks: TickSource
  /** Whether tables that running processes know otherwise are converted all the same. */
  readonly isForced: boolean
}

/** For migrations: SQL cannot read a number that is written in base 16. */
const LEASE_NUMBER_FUNCTION = 'tenure_lease_number'

const LEASES = `
CREATE TABLE leases (
  id TEXT PRIMARY KEY,
  file_path TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ttl_seconds INTEGER NOT NULL,
  status TEXT NOT NULL,
  renewal_count INTEGER DEFAULT 0,
  max_renewals INTEGER DEFAULT -1,
  updated_at INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  session TEXT NOT NULL,
  mode TEXT NOT NULL,
  extent TEXT NOT NULL,
  fence INTEGER,
  ttl_ms INTEGER NOT NULL,
  granted_at INTEGER,
  renewed_at INTEGER,
  terminated_at INTEGER,
  ended_at INTEGER,
  release_reason TEXT,
  reason TEXT,
  metadata TEXT,
  clock INTEGER NOT NULL,
  deadline_us INTEGER NOT NULL,
  live_clock INTEGER,
  live_until_us INTEGER,
  detail TEXT
);
CREATE INDEX idx_leases_file_path ON leases(file_path);
CREATE INDEX idx_leases_agent_id ON leases(agent_id);
CREATE INDEX idx_leases_expires_at ON leases(live_clock, live_until_us)
  WHERE live_until_us IS NOT NULL;
CREATE INDEX idx_leases_file_status ON leases(file_path, status) WHERE live_until_us IS NOT NULL;
CREATE INDEX idx_leases_agent_status ON leases(agent_id, status) WHERE live_until_us IS NOT NULL;
CREATE INDEX idx_leases_session ON leases(session) WHERE status = 'pending';
CREATE INDEX idx_leases_pending ON leases(file_path) WHERE status = 'pending';
CREATE INDEX idx_leases_subtree ON leases(file_path)
  WHERE live_until_us IS NOT NULL AND extent = 'subtree';
CREATE INDEX idx_leases_ended_at ON leases(ended_at) WHERE ended_at IS NOT NULL;`

const HISTORY = `
CREATE TABLE lease_history (
  id TEXT PRIMARY KEY,
  lease_id TEXT NOT NULL REFERENCES leases(id) ON DELETE CASCADE,
  agent_id TEXT NOT NULL,
  file_path TEXT NOT NULL,
  event_type TEXT NOT NULL,
  status_before TEXT,
  status_after TEXT,
  renewal_count INTEGER,
  event_at INTEGER NOT NULL,
  reason TEXT,
  seq INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  session TEXT NOT NULL,
  data TEXT
);
CREATE UNIQUE INDEX idx_lease_history_seq ON lease_history(namespace, seq);
CREATE INDEX idx_lease_history_lease_id ON lease_history(lease_id, seq);
CREATE TABLE requests (
  id TEXT PRIMARY KEY,
  lease_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  keep_until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX idx_requests_keep_until ON requests(keep_until);`

const CONFIGS = `
CREATE TABLE store_state (
  namespace TEXT PRIMARY KEY,
  last_fence INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  clock INTEGER NOT NULL,
  last_us INTEGER NOT NULL,
  last_wall_ms INTEGER NOT NULL,
  config_revision INTEGER NOT NULL
);
CREATE TABLE openers (
  pid INTEGER PRIMARY KEY,
  base TEXT NOT NULL,
  tick_us INTEGER NOT NULL
);
CREATE TABLE clock_domains (
  namespace TEXT NOT NULL,
  generation INTEGER NOT NULL,
  base TEXT NOT NULL,
  since_us INTEGER NOT NULL,
  since_ms INTEGER NOT NULL,
  PRIMARY KEY (namespace, generation)
) WITHOUT ROWID;
CREATE TABLE lease_configs (
  id TEXT PRIMARY KEY,
  config_key TEXT NOT NULL,
  config_value TEXT NOT NULL,
  value_type TEXT NOT NULL,
  description TEXT,
  scope TEXT DEFAULT 'global',
  resource_id TEXT,
  requires_restart INTEGER DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  namespace TEXT NOT NULL DEFAULT 'default'
);
CREATE UNIQUE INDEX idx_lease_configs_key
  ON lease_configs(namespace, config_key, scope, ifnull(resource_id, ''));
CREATE TRIGGER lease_configs_inserted AFTER INSERT ON lease_configs BEGIN
  UPDATE store_state SET config_revision = config_revision + 1; END;
CREATE TRIGGER lease_configs_updated AFTER UPDATE ON lease_configs BEGIN
  UPDATE store_state SET config_revision = config_revision + 1; END;
CREATE TRIGGER lease_configs_deleted AFTER DELETE ON lease_configs BEGIN
  UPDATE store_state SET config_revision = config_revision + 1; END;`

const EPOCHS = `
CREATE TABLE epochs (
  namespace TEXT NOT NULL,
  resource TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (namespace, resource)
) WITHOUT ROWID;`

/** SQLite writes every index anew whose columns or condition are in what is set: a renewal must name none of them. */
const DUE = `
ALTER TABLE leases ADD COLUMN due_us INTEGER NOT NULL DEFAULT 0;
UPDATE leases SET due_us = live_until_us WHERE live_until_us IS NOT NULL;
DROP INDEX idx_leases_expires_at;
DROP INDEX idx_leases_file_status;
DROP INDEX idx_leases_agent_status;
DROP INDEX idx_leases_subtree;
CREATE INDEX idx_leases_expires_at ON leases(live_clock, due_us) WHERE live_clock IS NOT NULL;
CREATE INDEX idx_leases_file_status ON leases(file_path, status) WHERE live_clock IS NOT NULL;
CREATE INDEX idx_leases_agent_status ON leases(agent_id, status) WHERE live_clock IS NOT NULL;
CREATE INDEX idx_leases_subtree ON leases(file_path)
  WHERE live_clock IS NOT NULL AND extent = 'subtree';`

/**
 * A number finds the events of a lease in a third of the room that its id would take, which is a third of the pages to
 * write.
 */
const EVENTS_BY_NUMBER = `
ALTER TABLE lease_history ADD COLUMN lease_number INTEGER NOT NULL DEFAULT 0;
UPDATE lease_history SET lease_number = ${LEASE_NUMBER_FUNCTION}(lease_id);
DROP INDEX idx_lease_history_lease_id;
CREATE INDEX idx_lease_history_lease ON lease_history(lease_number);`

/** Nearly all events are in the default namespace, and need not name it in the index of positions. */
const SPLIT_POSITIONS = `
DROP INDEX idx_lease_history_seq;
CREATE UNIQUE INDEX idx_lease_history_seq ON lease_history(seq) WHERE namespace = 'default';
CREATE UNIQUE INDEX idx_lease_history_namespace ON lease_history(namespace, seq)
  WHERE namespace <> 'default';`

/**
 * What is live, and nothing else: what has ended is in `lease_history`, with the event that ended it. An event's number
 * is that of its namespace times 2^40, and its position.
 */
const LIVE_SET = `
DROP INDEX idx_leases_file_path;
DROP INDEX idx_leases_agent_id;
DROP INDEX idx_leases_expires_at;
DROP INDEX idx_leases_file_status;
DROP INDEX idx_leases_agent_status;
DROP INDEX idx_leases_session;
DROP INDEX idx_leases_pending;
DROP INDEX idx_leases_subtree;
DROP INDEX idx_leases_ended_at;
DROP INDEX idx_lease_history_lease;
DROP INDEX idx_lease_history_seq;
DROP INDEX idx_lease_history_namespace;
ALTER TABLE leases RENAME TO old_leases;
ALTER TABLE lease_history RENAME TO old_history;
CREATE UNIQUE INDEX old_history_seq ON old_history(namespace, seq);
CREATE INDEX old_history_lease ON old_history(lease_number);
ALTER TABLE store_state ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN pruned_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE store_state ADD COLUMN pruned_believed INTEGER NOT NULL DEFAULT 0;
UPDATE store_state SET pruned_at = last_wall_ms, pruned_believed = last_wall_ms;
UPDATE store_state SET number = (SELECT count(*) FROM store_state AS earlier
  WHERE earlier.namespace <> 'default' AND earlier.rowid <= store_state.rowid)
  WHERE namespace <> 'default';
CREATE TABLE live_leases (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  file_path TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session TEXT NOT NULL,
  status TEXT NOT NULL,
  extent TEXT NOT NULL,
  fence INTEGER NOT NULL,
  clock INTEGER NOT NULL,
  live_until_us INTEGER NOT NULL,
  body TEXT NOT NULL,
  due_us INTEGER NOT NULL,
  namespace TEXT NOT NULL
);
CREATE INDEX idx_live_file_path ON live_leases(file_path);
CREATE INDEX idx_live_agent_id ON live_leases(agent_id);
CREATE INDEX idx_live_due ON live_leases(clock, due_us);
CREATE INDEX idx_live_subtree ON live_leases(file_path) WHERE extent = 'subtree';
CREATE INDEX idx_live_pending ON live_leases(file_path) WHERE status = 'pending';
CREATE INDEX idx_live_session ON live_leases(session) WHERE status = 'pending';
CREATE TABLE lease_history (
  id TEXT AS (CASE request_id WHEN '' THEN lease_id ELSE ifnull(request_id, 'e' || seq) END),
  lease_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  file_path TEXT NOT NULL,
  event_type TEXT NOT NULL,
  status_before TEXT AS (CASE WHEN json_type(data, '$.before') IS NULL
    THEN ${caseOf(0)} ELSE data ->> '$.before' END),
  status_after TEXT AS (ifnull(data ->> '$.after', ${caseOf(1)})),
  renewal_count INTEGER AS (ifnull(data ->> '$.renewals', 0)),
  event_at INTEGER NOT NULL,
  reason TEXT AS (data ->> '$.reason'),
  seq INTEGER PRIMARY KEY,
  lease_number INTEGER NOT NULL,
  session TEXT NOT NULL,
  clock INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  request_id TEXT,
  data TEXT NOT NULL,
  ended_at INTEGER
);
CREATE INDEX idx_lease_history_lease ON lease_history(lease_number);
CREATE INDEX idx_lease_history_request ON lease_history(request_id) WHERE request_id > '';
CREATE INDEX idx_lease_history_ended_at ON lease_history(ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE history_index (
  run INTEGER NOT NULL,
  bucket INTEGER NOT NULL,
  entries BLOB NOT NULL,
  PRIMARY KEY (run, bucket)
) WITHOUT ROWID;`

/** The usual state before or after an event, by its word. */
function caseOf(side: 0 | 1): string {
  const cases = LEASE_EVENT_TYPES.filter((type) => type !== 'lease.denied').map((type) => {
    const state = USUAL_STATES[type][side]
    return `WHEN '${wordOf(type)}' THEN ${state === null ? 'NULL' : `'${state}'`}`
  })
  // A request that was refused at once was never anything before.
  const failed =
    side === 0 ? `WHEN 'failed' THEN iif(data -> '$.entry' IS NULL, 'pending', NULL)` : ''
  return `CASE event_type ${failed} ${cases.join(' ')} END`
}

/** Numbers of two leases that were made in the same millisecond differ. */
const FINER_NUMBERS = `
DROP INDEX idx_lease_history_lease;
UPDATE lease_history SET lease_number = ${LEASE_NUMBER_FUNCTION}(lease_id);
CREATE INDEX idx_lease_history_lease ON lease_history(lease_number);`

const PRUNED_UP_TO = `
ALTER TABLE store_state ADD COLUMN pruned_up_to INTEGER NOT NULL DEFAULT 0;
UPDATE store_state SET pruned_up_to = ifnull((SELECT min(seq) FROM lease_history
  WHERE seq > number * ${POSITIONS_PER_NAMESPACE} AND seq <= number * ${POSITIONS_PER_NAMESPACE} + last_seq)
  - number * ${POSITIONS_PER_NAMESPACE} - 1, last_seq);`

/** For people with SQL; nothing inside reads it. */
const LEASES_VIEW = `
DROP VIEW IF EXISTS leases;
CREATE VIEW leases AS
  SELECT id, file_path, agent_id, body ->> '$.createdAtMs' AS created_at,
    CASE WHEN status = 'pending' THEN body ->> '$.createdAtMs' ELSE ifnull(body ->> '$.expiresAtMs',
      ifnull(body ->> '$.grantedAtMs', body ->> '$.createdAtMs') + (body ->> '$.ttlMs')) END
      AS expires_at,
    (body ->> '$.ttlMs' + 999) / 1000 AS ttl_seconds, status,
    ifnull(body ->> '$.renewals', 0) AS renewal_count,
    ifnull(body ->> '$.maxRenewals', -1) AS max_renewals,
    coalesce(body ->> '$.terminatedAtMs', body ->> '$.changedAtMs', body ->> '$.renewedAtMs',
      body ->> '$.grantedAtMs', body ->> '$.createdAtMs') AS updated_at,
    namespace, session, ifnull(body ->> '$.mode', 'exclusive') AS mode, extent, fence,
    body ->> '$.ttlMs' AS ttl_ms, body ->> '$.terminatedAtMs' AS terminated_at,
    body ->> '$.releaseReason' AS release_reason, body ->> '$.reason' AS reason,
    body ->> '$.metadata' AS metadata
  FROM (
    SELECT id, file_path, agent_id, status, namespace, session, extent, fence, body
    FROM live_leases
    UNION ALL
    SELECT lease_id, file_path, agent_id,
      ifnull(data ->> '$.ended.state', status_after), iif(instr(lease_id, '/') = 0, 'default',
      substr(lease_id, 1, instr(lease_id, '/') - 1)), session,
      ifnull(data ->> '$.ended.extent', 'exact'), fence, data -> '$.ended.body'
    FROM lease_history WHERE data -> '$.ended' IS NOT NULL
  );`

/** Beside the ledger, and bounded. */
const REFUSALS = `
CREATE TABLE refusals (
  id INTEGER PRIMARY KEY,
  namespace TEXT NOT NULL,
  file_path TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  reason TEXT NOT NULL,
  count INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  lease_id TEXT NOT NULL,
  detail TEXT NOT NULL,
  UNIQUE (namespace, file_path, agent_id, reason)
);
CREATE INDEX idx_refusals_last_at ON refusals(namespace, last_at);`

const IN_LEASES: RunningLeases = { table: 'leases', clock: 'live_clock' }
const IN_LIVE_SET: RunningLeases = { table: 'live_leases', clock: 'live_leases.clock' }

export const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: 'create_leases_table',
    description: 'leases and tickets, live and ended',
    sql: LEASES,
  },
  {
    version: 2,
    name: 'create_lease_history_table',
    description: 'the ledger, and requests that it does not carry',
    sql: HISTORY,
  },
  {
    version: 3,
    name: 'create_lease_config_table',
    description: 'configuration, clocks and counters of the store',
    sql: CONFIGS,
  },
  {
    version: 4,
    name: 'create_migration_tracking_table',
    description: 'this table; made first, because it tracks its own making',
    sql: MIGRATION_TABLE,
  },
  {
    version: 5,
    name: 'create_epochs_table',
    description: 'the epochs of workflows, which outlive their leases',
    sql: EPOCHS,
  },
  {
    version: 6,
    name: 'add_due_column',
    description: 'when a sweep has to look at a lease, so that renewals touch no index',
    sql: DUE,
    held: IN_LEASES,
  },
  {
    version: 7,
    name: 'index_events_by_number',
    description: 'the events of a lease by a number instead of its id',
    sql: EVENTS_BY_NUMBER,
    held: IN_LEASES,
  },
  {
    version: 8,
    name: 'split_index_of_positions',
    description: 'positions of the default namespace in an index without its name',
    sql: SPLIT_POSITIONS,
    held: IN_LEASES,
  },
  {
    version: 9,
    name: 'separate_live_set',
    description: 'what is live in a table of its own; what has ended is history',
    sql: LIVE_SET,
    held: IN_LEASES,
    convert(database) {
      convertRows(database)
      database.exec('DROP TABLE old_leases; DROP TABLE old_history;')
    },
  },
  {
    version: 10,
    name: 'create_refusals_table',
    description: 'how often what was refused, beside the ledger',
    sql: REFUSALS,
    held: IN_LIVE_SET,
  },
  {
    version: 11,
    name: 'create_leases_view',
    description: 'leases for people, whose updated_at is the last change of whatever kind',
    sql: LEASES_VIEW,
    held: IN_LIVE_SET,
  },
  {
    version: 12,
    name: 'remember_what_was_pruned',
    description: 'up to which position the events of ended entries were pruned',
    sql: PRUNED_UP_TO,
    held: IN_LIVE_SET,
  },
  {
    version: 13,
    name: 'tell_numbers_apart',
    description: 'numbers of leases that differ within a millisecond',
    sql: FINER_NUMBERS,
    held: IN_LIVE_SET,
  },
]

/** Brings the database up to date. The caller holds the write lock of no transaction. */
export function migrate(database: SqliteDatabase, circumstances: Circumstances): void {
  database.function(LEASE_NUMBER_FUNCTION, (key) => leaseNumberOf(idOf(String(key))))
  for (const migration of MIGRATIONS) applyOnce(database, migration, circumstances)
  // An older program reads the version from the file alone, before it opens the database.
  database.pragma('wal_checkpoint(TRUNCATE)')
}

function applyOnce(
  database: SqliteDatabase,
  migration: Migration,
  circumstances: Circumstances,
): void {
  const { wallMs } = circumstances
  try {
    inWriteTransaction(database, () => {
      const done = database
        .prepare(`SELECT 1 FROM migrations WHERE version = ? AND status = 'success'`)
        .get(migration.version)
      if (done !== undefined) return
      if (migration.held !== undefined) refuseWhileHeld(database, migration.held, circumstances)
      database.exec(migration.sql)
      migration.convert?.(database)
      database.pragma(`user_version = ${migration.version}`)
      record(database, migration, { wallMs, error: null })
    })
  } catch (cause) {
    if (sqliteCode(cause) !== 'SQLITE_ERROR') throw cause
    const error = cause instanceof Error ? cause.message : String(cause)
    record(database, migration, { wallMs, error })
    throw new LeaseError(
      'STORE_SCHEMA',
      `migration ${migration.version} (${migration.name}) failed: ${error}`,
      { cause, details: { version: migration.version } },
    )
  }
}

function record(
  database: SqliteDatabase,
  migration: Migration,
  result: { readonly wallMs: number; readonly error: string | null },
): void {
  const { version, name, description } = migration
  const status = result.error === null ? 'success' : 'failed'
  database
    .prepare(`INSERT OR REPLACE INTO migrations VALUES (?, ?, ?, ?, ?, ?)`)
    .run(version, name, description, result.wallMs, status, result.error)
}
