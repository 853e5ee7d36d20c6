/**
 * The tables of the schema `tenure`. Every table knows its namespace by number. What is compared or ordered by bytes has
 * the collation "C".
 *
 * The number of a namespace is random: after a restore of an older database no namespace is given a number that a process still
 * uses for another namespace.
 */
import type { PostgresConnection } from '../../drivers/postgres-driver.ts'
import { OWN_ID } from './postgres-columns.ts'

export const SCHEMA_VERSION = 13

export const NAMESPACES: string = `
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
export const LIVE_LEASES: string = `
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
export const LEDGER: string = `
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
export const REFUSALS_TABLE: string = `
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

/** The number of a namespace, which is made when it is first opened. */
export async function numberOf(connection: PostgresConnection, namespace: string): Promise<number> {
  const select = 'SELECT number FROM tenure.namespaces WHERE name = $1'
  for (;;) {
    const [known] = await connection.run(select, [namespace])
    if (known !== undefined) return Number(known[0])
    // In any other isolation a process that makes it at the same moment as another would fail, and not find it.
    await connection.run('BEGIN ISOLATION LEVEL READ COMMITTED')
    await connection.run(
      `INSERT INTO tenure.namespaces (number, name)
        VALUES (1 + floor(random() * 2147483646)::integer, $1) ON CONFLICT DO NOTHING`,
      [namespace],
    )
    await connection.run('COMMIT')
  }
}
