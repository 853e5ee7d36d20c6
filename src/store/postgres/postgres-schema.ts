/**
 * The tables, as a person with `psql` sees them, and the migrations that make them. Everything is in the schema
 * `tenure`. Each migration is one transaction under one advisory lock, so that any number of processes may start at
 * once: one of them makes the tables, the others wait for it and find them.
 *
 * Times are integers in milliseconds (`…_at`, `…_ms`), ticks in microseconds (`…_us`), both of the server's clock. A
 * row names its namespace by number. What is compared or ordered by bytes has the collation "C".
 */
import { LeaseError } from '../../core/errors.ts'
import type { PostgresConnection } from '../../drivers/postgres-driver.ts'
import { ATTEMPT_FUNCTIONS } from './postgres-functions.ts'
import { LONE_FUNCTIONS } from './postgres-lone-functions.ts'
import { PLACE_FUNCTIONS } from './postgres-place-functions.ts'
import { PLAIN_FUNCTIONS } from './postgres-plain-functions.ts'
import { PRUNE_FUNCTIONS } from './postgres-prune-functions.ts'
import { VIEW_FUNCTIONS } from './postgres-view-functions.ts'

export interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

/**
 * `due_us` of a live entry is never later than `live_until_us`, and mostly stands still while a lease is renewed: so a
 * renewal changes no index, and the search for what is over still finds its way through one. Of an ended entry it is
 * the end, by which pruning goes.
 */
const LEASES = `
CREATE TABLE tenure.namespaces (
  number smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  config_revision bigint NOT NULL DEFAULT 1,
  watched_until_us bigint NOT NULL DEFAULT 0,
  fence_floor bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE tenure.realms (
  last_fence bigint NOT NULL DEFAULT 0,
  last_wall_ms bigint NOT NULL DEFAULT 0,
  last_us bigint NOT NULL DEFAULT 0,
  epoch bigint,
  namespace smallint NOT NULL,
  realm text COLLATE "C" NOT NULL,
  PRIMARY KEY (realm, namespace)
) WITH (fillfactor = 90);
CREATE SEQUENCE tenure.entry_number;
CREATE TABLE tenure.leases (
  id uuid NOT NULL,
  deadline_us bigint NOT NULL,
  live_until_us bigint,
  due_us bigint NOT NULL,
  number bigint NOT NULL,
  fence bigint,
  ttl_ms bigint NOT NULL,
  created_at bigint NOT NULL,
  granted_at bigint,
  renewed_at bigint,
  expires_at bigint,
  terminated_at bigint,
  ended_at bigint,
  version integer NOT NULL,
  claim integer NOT NULL,
  renewals integer NOT NULL,
  max_renewals integer NOT NULL,
  namespace smallint NOT NULL,
  live boolean GENERATED ALWAYS AS (live_until_us IS NOT NULL) STORED,
  resource text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  state text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL,
  extent text COLLATE "C" NOT NULL,
  release_reason text COLLATE "C",
  reason text,
  detail jsonb,
  PRIMARY KEY (id, namespace)
) WITH (fillfactor = 92);
CREATE INDEX leases_resource ON tenure.leases (resource, live, namespace);
CREATE INDEX leases_holder ON tenure.leases (holder, live, namespace);
CREATE INDEX leases_due ON tenure.leases (live, due_us);
CREATE INDEX leases_order ON tenure.leases (live, number);
CREATE INDEX leases_delayed ON tenure.leases (number) WHERE live AND terminated_at IS NOT NULL;
CREATE INDEX leases_subtree ON tenure.leases (resource, namespace)
  WHERE live AND extent = 'subtree';
CREATE INDEX leases_tickets ON tenure.leases (resource, namespace) WHERE state = 'pending';
CREATE INDEX leases_session ON tenure.leases (session) WHERE state = 'pending';`

const LEDGER = `
CREATE SEQUENCE tenure.ledger_seq;
CREATE TABLE tenure.ledger (
  seq bigint PRIMARY KEY,
  at_ms bigint NOT NULL,
  lease_id uuid NOT NULL,
  request_id uuid,
  fence bigint,
  ttl_ms bigint,
  deadline_us bigint,
  expires_at bigint,
  renewals integer NOT NULL,
  namespace smallint NOT NULL,
  type text COLLATE "C" NOT NULL,
  before text COLLATE "C",
  after text COLLATE "C" NOT NULL,
  resource text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  session text COLLATE "C" NOT NULL,
  release_reason text COLLATE "C",
  reason text,
  data jsonb
);
CREATE INDEX ledger_lease ON tenure.ledger (lease_id);
CREATE INDEX ledger_request ON tenure.ledger (request_id) WHERE request_id IS NOT NULL;
CREATE TABLE tenure.requests (
  namespace smallint NOT NULL,
  id uuid NOT NULL,
  lease_id uuid NOT NULL,
  type text COLLATE "C" NOT NULL,
  keep_until bigint NOT NULL,
  PRIMARY KEY (id, namespace)
);
CREATE INDEX requests_keep_until ON tenure.requests (keep_until);`

const CONFIG = `
CREATE TABLE tenure.config (
  number bigint GENERATED ALWAYS AS IDENTITY,
  namespace smallint NOT NULL,
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
  FOR EACH ROW EXECUTE FUNCTION tenure.config_changed();`

/**
 * One index for one question. Were all of them on `live` itself, a planner that has met no live lease would take any of
 * them for whatever asks for live ones, and walk all that come later. So each names it in words of its own, which are
 * those of the one question that is meant for it.
 */
const DISTINCT_INDEXES = `
DROP INDEX tenure.leases_due, tenure.leases_order;
CREATE INDEX leases_due ON tenure.leases ((live::integer), due_us);
CREATE INDEX leases_order ON tenure.leases ((live::text), number);`

const FUNCTIONS = [
  ...[VIEW_FUNCTIONS, ATTEMPT_FUNCTIONS, PLAIN_FUNCTIONS, LONE_FUNCTIONS, PLACE_FUNCTIONS],
  PRUNE_FUNCTIONS,
].join('\n')

/** Whatever functions a version before has made, and the types that they take; the trigger keeps its own. */
const DROP_FUNCTIONS = `
DO $$
DECLARE
  dropped text;
BEGIN
  FOR dropped IN SELECT p.oid::regprocedure FROM pg_proc AS p
    WHERE p.pronamespace = 'tenure'::regnamespace AND p.proname <> 'config_changed'
  LOOP
    EXECUTE 'DROP FUNCTION ' || dropped;
  END LOOP;
END $$;
DROP TYPE IF EXISTS tenure.plain, tenure.newcomer, tenure.change, tenure.entry, tenure.event;`

/** Functions hold nothing: whenever they change, the last migration makes all of them anew, and no other makes any. */
export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: 'leases and realms', sql: LEASES },
  { version: 2, name: 'ledger and requests', sql: LEDGER },
  { version: 3, name: 'configuration', sql: CONFIG },
  { version: 4, name: 'functions, first form', sql: '' },
  { version: 5, name: 'functions, second form', sql: '' },
  { version: 6, name: 'functions, third form', sql: '' },
  { version: 7, name: 'an index for each question', sql: DISTINCT_INDEXES },
  { version: 8, name: 'functions', sql: `${DROP_FUNCTIONS}${FUNCTIONS}` },
]

export const SCHEMA_VERSION: number = MIGRATIONS.length

/** The key of the advisory lock under which the schema is made; "tenure" in ASCII. */
const MIGRATION_LOCK = '0x74656e757265'

const CREATE = `
CREATE SCHEMA IF NOT EXISTS tenure;
CREATE TABLE IF NOT EXISTS tenure.migrations (
  version integer PRIMARY KEY,
  name text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);`

/** Brings the schema up to date. A role that may not create anything needs one that is already. */
export async function migrate(connection: PostgresConnection): Promise<void> {
  if ((await versionOf(connection)) === SCHEMA_VERSION) return
  await connection.run('BEGIN')
  try {
    await connection.run(`SELECT pg_advisory_xact_lock(${Number(MIGRATION_LOCK)})`)
    const found = await versionOf(connection)
    if (found === 0) await connection.run(CREATE)
    for (const migration of MIGRATIONS.slice(found)) {
      await connection.run(migration.sql)
      const values = [String(migration.version), migration.name]
      await connection.run('INSERT INTO tenure.migrations VALUES ($1::integer, $2)', values)
    }
    await connection.run('COMMIT')
  } catch (error) {
    await connection.run('ROLLBACK')
    throw error
  }
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
  const [known] = await connection.run(select, [namespace])
  if (known !== undefined) return Number(known[0])
  await connection.run(
    'INSERT INTO tenure.namespaces (name) VALUES ($1) ON CONFLICT (name) DO NOTHING',
    [namespace],
  )
  const [made] = await connection.run(select, [namespace])
  return Number(made?.[0])
}
