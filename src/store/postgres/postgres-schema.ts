/**
 * The schema `tenure`, made by the first process that opens the store and brought up to date by migrations. Every
 * table knows its namespace by number. What is compared or ordered by bytes has the collation "C".
 *
 * The number of a namespace is random: after a restore of an older database no namespace is given a number that a process still
 * uses for another namespace.
 */
import { LeaseError } from '../../core/errors.ts'
import type { PostgresConnection } from '../../drivers/postgres-driver.ts'
import { isLockTimeout } from '../../drivers/postgres-errors.ts'
import { OWN_ID } from './postgres-columns.ts'
import {
  convertBatch,
  REMOVE_OLD_LAYOUT,
  refuseWhileHeld,
  takeAwayOldLayout,
} from './postgres-conversion.ts'
import { ATTEMPT_FUNCTIONS, PRUNE_FUNCTIONS } from './postgres-functions.ts'

const NAMESPACES = `
CREATE TABLE tenure.namespaces (
  number integer PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  config_revision bigint NOT NULL DEFAULT 1,
  watched_until_us bigint NOT NULL DEFAULT 0,
  fence_floor bigint NOT NULL DEFAULT 0,
  pruned_at bigint,
  pruned_believed bigint,
  pruned_up_to bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE tenure.realms (
  last_fence bigint NOT NULL DEFAULT 0,
  last_wall_ms bigint NOT NULL DEFAULT 0,
  last_us bigint NOT NULL DEFAULT 0,
  epoch bigint,
  namespace integer NOT NULL,
  realm text COLLATE "C" NOT NULL,
  PRIMARY KEY (realm, namespace)
) WITH (fillfactor = 90);
CREATE TABLE tenure.requests (
  namespace integer NOT NULL,
  id uuid NOT NULL,
  lease_id uuid NOT NULL,
  type text COLLATE "C" NOT NULL,
  keep_until bigint NOT NULL,
  PRIMARY KEY (id, namespace)
);
CREATE INDEX requests_keep_until ON tenure.requests (keep_until);
CREATE TABLE tenure.config (
  number bigint GENERATED ALWAYS AS IDENTITY,
  namespace integer NOT NULL,
  key text COLLATE "C" NOT NULL,
  value text NOT NULL,
  scope text COLLATE "C" NOT NULL DEFAULT 'global',
  resource_id text COLLATE "C" NOT NULL DEFAULT '',
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (key, scope, resource_id, namespace)
);
CREATE FUNCTION tenure.config_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE tenure.namespaces SET config_revision = config_revision + 1
    WHERE number = coalesce(new.namespace, old.namespace);
  RETURN NULL;
END $$;
CREATE TRIGGER config_changed AFTER INSERT OR UPDATE OR DELETE ON tenure.config
  FOR EACH ROW EXECUTE FUNCTION tenure.config_changed();
CREATE SEQUENCE tenure.entry_number;
CREATE SEQUENCE tenure.ledger_seq;`

/**
 * What is live, and nothing that has ended. \`due_us\` is never later than \`live_until_us\`, and mostly stands still while
 * a lease is renewed: so a renewal changes no index, and the search for what is over still finds its way through one.
 *
 * One index for one question. A planner that has met no live lease would take any index for whatever asks for live ones,
 * or none, and walk all that come later. So the index of what is due begins with a word that only the question meant for
 * it says, and no index but the first has the namespace.
 */
const LIVE_LEASES = `
CREATE TABLE tenure.live_leases (
  id uuid NOT NULL,
  live_until_us bigint NOT NULL,
  due_us bigint NOT NULL,
  number bigint NOT NULL DEFAULT nextval('tenure.entry_number'),
  fence bigint NOT NULL,
  renewed_at bigint,
  version integer NOT NULL,
  claim integer NOT NULL,
  namespace integer NOT NULL,
  resource text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  extent text COLLATE "C" NOT NULL,
  body json NOT NULL,
  PRIMARY KEY (id, namespace)
) WITH (fillfactor = 90);
CREATE INDEX live_resource ON tenure.live_leases (resource);
CREATE INDEX live_holder ON tenure.live_leases (holder);
CREATE INDEX live_due ON tenure.live_leases (((due_us IS NULL)::integer), due_us);
CREATE INDEX live_order ON tenure.live_leases (number);
CREATE INDEX live_subtree ON tenure.live_leases (resource) WHERE extent = 'subtree';
CREATE INDEX live_pending ON tenure.live_leases (resource) WHERE state = 'pending';
CREATE INDEX live_session ON tenure.live_leases (session) WHERE state = 'pending';
CREATE INDEX live_delayed ON tenure.live_leases (number) WHERE state NOT IN ('active', 'pending');`

/**
 * One row per event; the one that ended an entry says in which state, when and as which version. Its indexes grow at their
 * ends, as positions and the ids of leases do. Of names there is a summary per stretch of pages (BRIN), which the server makes
 * when a stretch is full, so that no write pays for it.
 */
const LEDGER = `
CREATE TABLE tenure.ledger (
  seq bigint PRIMARY KEY,
  at_ms bigint NOT NULL,
  lease_id uuid NOT NULL,
  request_id uuid,
  fence bigint NOT NULL,
  ended_at bigint,
  version integer,
  namespace integer NOT NULL,
  type text COLLATE "C" NOT NULL,
  ended text COLLATE "C",
  resource text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  data json NOT NULL
);
CREATE INDEX ledger_of_lease ON tenure.ledger (lease_id, version);
CREATE INDEX ledger_of_request ON tenure.ledger (request_id) WHERE request_id <> '${OWN_ID}';
CREATE INDEX ledger_ended ON tenure.ledger (ended, (seq + 0)) WHERE ended IS NOT NULL;
CREATE INDEX ledger_names ON tenure.ledger USING brin (resource text_bloom_ops, holder text_bloom_ops)
  WITH (pages_per_range = 32, autosummarize = on);`

/** core/refusal.ts says what they are for. A role that may write to the ledger may count refusals. */
const REFUSALS_TABLE = `
CREATE TABLE tenure.refusals (
  namespace integer NOT NULL,
  count bigint NOT NULL,
  last_at bigint NOT NULL,
  lease_id uuid NOT NULL,
  resource text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  detail json NOT NULL,
  PRIMARY KEY (namespace, resource, holder, reason)
);
CREATE INDEX refusals_last_at ON tenure.refusals (namespace, last_at);
DO $$
DECLARE
  given record;
BEGIN
  FOR given IN SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'tenure.ledger'::regclass
  LOOP
    EXECUTE format('GRANT %s ON tenure.refusals TO %s', given.privilege_type, given.grantee);
  END LOOP;
END $$;`

const FUNCTIONS = [ATTEMPT_FUNCTIONS, PRUNE_FUNCTIONS].join('\n')

const CREATE = `
CREATE SCHEMA IF NOT EXISTS tenure;
CREATE TABLE IF NOT EXISTS tenure.migrations (
  version integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);`

/**
 * The tables are of version 9; when the rows are as well they are of version 10. Version 11 has the table of refusals,
 * version 12 the position up to which a namespace was pruned, version 13 a function that writes less, beside the one before.
 */
const VERSION_OF_TABLES = 9
const VERSION_OF_ROWS = 10
const VERSION_OF_REFUSALS = 11
const VERSION_OF_PRUNED_UP_TO = 12
export const SCHEMA_VERSION = 13

/** Of earlier prunes it is only known that they have removed what lay before the first event that is kept. */
const PRUNED_UP_TO = `
ALTER TABLE tenure.namespaces ADD pruned_up_to bigint NOT NULL DEFAULT 0;
UPDATE tenure.namespaces SET pruned_up_to = coalesce((SELECT seq - 1 FROM tenure.ledger
  WHERE namespace = number ORDER BY seq LIMIT 1), 0) WHERE pruned_at IS NOT NULL;`

/** The key of the advisory lock under which the schema is made; "tenure" in ASCII. */
const MIGRATION_LOCK = '0x74656e757265'

/**
 * A step may take long: a large table, many rows. But it waits for a table no longer than this, because all other calls
 * wait behind it; then it tries again.
 */
const STEP = `BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '500ms'`
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
      await step(connection, migration, await versionOf(connection))
      await connection.run('COMMIT')
    } catch (error) {
      await connection.run('ROLLBACK')
      if (!isLockTimeout(error) || tries === LOCK_TRIES_MAX) throw error
      tries += 1
      await connection.run('SELECT pg_sleep(0.5)')
    }
  }
}

async function step(
  connection: PostgresConnection,
  { url, isForced }: Migration,
  found: number,
): Promise<void> {
  if (found === 0) {
    await connection.run(
      [CREATE, NAMESPACES, LIVE_LEASES, LEDGER, FUNCTIONS, REFUSALS_TABLE].join('\n'),
    )
    await noteVersion(connection, SCHEMA_VERSION, 'live leases, ledger and refusals')
  } else if (found < VERSION_OF_TABLES) {
    if (!isForced) await refuseWhileHeld(connection, url)
    await connection.run(takeAwayOldLayout([LIVE_LEASES, LEDGER, FUNCTIONS].join('\n')))
    await noteVersion(connection, VERSION_OF_TABLES, 'live leases and ledger: tables')
  } else if (found === VERSION_OF_TABLES && !(await convertBatch(connection))) {
    await connection.run(REMOVE_OLD_LAYOUT)
    await noteVersion(connection, VERSION_OF_ROWS, 'live leases and ledger: rows')
  } else if (found === VERSION_OF_ROWS) {
    await connection.run(REFUSALS_TABLE)
    await noteVersion(connection, VERSION_OF_REFUSALS, 'refusals')
  } else if (found === VERSION_OF_REFUSALS) {
    await connection.run(PRUNED_UP_TO)
    await noteVersion(connection, VERSION_OF_PRUNED_UP_TO, 'up to where events were pruned')
  } else if (found === VERSION_OF_PRUNED_UP_TO) {
    await connection.run(FUNCTIONS)
    await noteVersion(connection, SCHEMA_VERSION, 'an attempt writes less')
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

/** The number of a namespace, which is made when it is first opened. */
export async function numberOf(connection: PostgresConnection, namespace: string): Promise<number> {
  const select = 'SELECT number FROM tenure.namespaces WHERE name = $1'
  for (;;) {
    const [known] = await connection.run(select, [namespace])
    if (known !== undefined) return Number(known[0])
    await connection.run(
      `INSERT INTO tenure.namespaces (number, name)
        VALUES (1 + floor(random() * 2147483646)::integer, $1) ON CONFLICT DO NOTHING`,
      [namespace],
    )
  }
}
