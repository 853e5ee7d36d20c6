/**
 * What the server does for one attempt after another: lock, read the clock, compare, store, append. There are no rules
 * about leases here.
 *
 * Locks are taken in one order everywhere, so that no two calls wait for each other: realms in order of name, whether they
 * are made or locked, then entries in order of id. The clock is read after that, and each statement of a VOLATILE
 * function sees what was committed before it began.
 *
 * The ledger is numbered by a sequence, and numbers do not become visible in order: a transaction may take a lower one
 * and commit later. So each transaction that appends first takes a number and announces it by an advisory lock which it
 * holds to its end; a reader stops below the lowest number announced (`tenure.ledger_end`). An order by transaction id
 * would not do: of two that changed one realm, the later may have the lower id.
 */
import { LEASE_COLUMNS } from './postgres-view-functions.ts'

/** The first key of the advisory locks of appenders. */
export const APPENDING = 1_952_804_469

/**
 * Every question is a few looks into an index, however small or new a table is. Left to itself the planner walks a
 * table that it has no statistics of, and keeps doing so when it has grown.
 */
export const BY_INDEX = `SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan SET jit = off`

const LEDGER_END = `
CREATE FUNCTION tenure.announce() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(${APPENDING},
    (nextval('tenure.ledger_seq') % 2147483648)::integer);
END $$;
-- First the sequence, then the locks: whoever announces itself after the first look takes higher numbers.
CREATE FUNCTION tenure.ledger_end() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  highest bigint;
  announced bigint;
BEGIN
  SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO highest FROM tenure.ledger_seq;
  SELECT max((highest - objid::bigint + 4294967296) % 2147483648) INTO announced FROM pg_locks
    WHERE locktype = 'advisory' AND classid = ${APPENDING} AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (highest - objid::bigint + 4294967296) % 2147483648 < 1073741824;
  RETURN highest - coalesce(announced, 0);
END $$;`

/**
 * In order of id. The namespace is hidden from the planner (`namespace + 0`): of a table that it has no statistics of it
 * believes that few rows are of one namespace, and walks them all through whatever index has that column.
 */
export function lockEntries(ids: string): string {
  return `PERFORM 1 FROM tenure.leases WHERE id = ANY (${ids}) AND namespace + 0 = p_namespace
      ORDER BY id FOR UPDATE;`
}

/** Makes or locks each realm, in order of name. What is only locked is not written (`WHERE false`). */
const HOLD = `
CREATE FUNCTION tenure.hold(p_namespace smallint, p_realms text[], p_ids uuid[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF cardinality(p_realms) > 0 THEN
    INSERT INTO tenure.realms AS r (namespace, realm, last_fence)
      SELECT p_namespace, wanted, fence_floor FROM unnest(p_realms) AS wanted, tenure.namespaces
      WHERE number = p_namespace ORDER BY wanted COLLATE "C"
      ON CONFLICT (realm, namespace) DO UPDATE SET last_fence = r.last_fence WHERE false;
  END IF;
  IF cardinality(p_ids) > 0 THEN
    ${lockEntries('p_ids')}
  END IF;
END $$;`

/**
 * Compares one place with what was believed of it. For a sign of life (`alive`) it is enough that the entry itself is as
 * it was, that the time of no other has run out, and that its holder was not given anything; so it locks no realm.
 */
const COMPARE = `
CREATE FUNCTION tenure.is_news(p_namespace smallint, place jsonb, p_now_us bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  own uuid := (place->>'id')::uuid;
  wanted text := place->>'resource';
  alive text := place->>'alive';
  is_due boolean;
  is_own boolean;
  mine text;
BEGIN
  SELECT bool_or(live_until_us <= p_now_us),
      bool_or(id = own AND version = (place->>'own')::integer),
      string_agg(id::text || ':' || claim, ',' ORDER BY id) FILTER (WHERE holder = alive)
    INTO is_due, is_own, mine FROM tenure.leases
    WHERE namespace = p_namespace AND resource = wanted AND live;
  RETURN coalesce(is_due OR NOT is_own OR mine <> place->>'mine', true);
END $$;
CREATE FUNCTION tenure.differs(
  p_namespace smallint, place jsonb, at tenure.realms, wall bigint, p_now_us bigint
) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  own uuid := (place->>'id')::uuid;
  wanted text := place->>'resource';
  stem text := place->>'stem';
  above text[];
  seen text;
  newest bigint;
  epoch bigint := at.epoch;
BEGIN
  IF place->'alive' IS NOT NULL THEN RETURN tenure.is_news(p_namespace, place, p_now_us); END IF;
  IF at.last_wall_ms > wall THEN RETURN true; END IF;
  IF coalesce((SELECT version FROM tenure.leases WHERE namespace = p_namespace AND id = own), 0)
    <> (place->>'own')::integer THEN RETURN true; END IF;
  IF place->'behind' IS NOT NULL THEN
    SELECT id::text || ':' || claim INTO seen FROM tenure.leases
      WHERE namespace = p_namespace AND resource = wanted AND live ORDER BY number DESC LIMIT 1;
    IF seen IS DISTINCT FROM place->>'behind' THEN RETURN true; END IF;
  ELSIF place->'claims' IS NOT NULL THEN
    IF place->'above' IS NULL THEN
      SELECT string_agg(id::text || ':' || claim, ',' ORDER BY id), max(renewed_at)
        INTO seen, newest FROM tenure.leases WHERE namespace = p_namespace
        AND resource = wanted AND live;
    ELSE
      above := ARRAY(SELECT jsonb_array_elements_text(place->'above'));
      SELECT string_agg(id::text || ':' || claim, ',' ORDER BY id), max(renewed_at)
        INTO seen, newest FROM tenure.overlapping(p_namespace, wanted, stem, above);
    END IF;
    IF coalesce(seen, '') <> place->>'claims' OR newest > wall THEN RETURN true; END IF;
  END IF;
  IF place->'request' IS NOT NULL AND (place->'prior' IS NOT NULL) <> EXISTS (
      SELECT 1 FROM tenure.prior(p_namespace, (place->>'request')::uuid) AS p
      WHERE p.lease_id IS NOT NULL) THEN RETURN true; END IF;
  IF place->'above' IS NOT NULL THEN epoch := tenure.epoch_of(p_namespace, wanted); END IF;
  RETURN coalesce(epoch, 0) <> coalesce((place->>'epoch')::bigint, 0);
END $$;`

const ROW_COLUMNS = LEASE_COLUMNS.split(',')
  .map((column) => `r.${column.trim()}`)
  .join(', ')

/** Stands still while that is at least half a TTL away from the new end. `l` is the row as it was. */
export function dueOf(row: string): string {
  return `CASE WHEN l.live AND l.due_us <= ${row}.live_until_us
      AND l.due_us > ${row}.live_until_us - ${row}.ttl_ms * 500 THEN l.due_us
    ELSE coalesce(${row}.live_until_us, ${row}.ended_at * 1000) END`
}

/** A fence that is new moves up with the others; see \`Attempt.fences\`. */
const MOVED_FENCE = 'CASE WHEN r.fence >= first THEN r.fence + moved ELSE r.fence END'

/** Writes what an attempt says. Every write was compared before, and is locked. */
const STORE = `
CREATE FUNCTION tenure.store(
  p_namespace smallint, a jsonb, first bigint, moved bigint, is_announced boolean
) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  changed tenure.leases;
BEGIN
  IF a->'insert' IS NOT NULL THEN
    INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${LEASE_COLUMNS})
      SELECT p_namespace, r.id, nextval('tenure.entry_number'),
        coalesce(r.live_until_us, r.ended_at * 1000), ${MOVED_FENCE},
        ${ROW_COLUMNS}
      FROM jsonb_populate_recordset(null::tenure.leases, a->'insert') AS r;
  END IF;
  -- One by one: the planner may take a join the wrong way round, and walk all leases.
  FOR i IN 0 .. coalesce(jsonb_array_length(a->'update'), 0) - 1 LOOP
    changed := jsonb_populate_record(null::tenure.leases, a->'update'->i);
    UPDATE tenure.leases AS l SET (fence, due_us, ${LEASE_COLUMNS}) = ROW (
        ${MOVED_FENCE.replaceAll('r.', 'changed.')}, ${dueOf('changed')},
        ${ROW_COLUMNS.replaceAll('r.', 'changed.')})
      WHERE l.id = changed.id AND l.namespace = p_namespace;
  END LOOP;
  IF a->'remove' IS NOT NULL THEN
    DELETE FROM tenure.leases WHERE namespace = p_namespace
      AND id IN (SELECT (jsonb_array_elements_text(a->'remove'))::uuid);
    DELETE FROM tenure.ledger WHERE namespace = p_namespace
      AND lease_id IN (SELECT (jsonb_array_elements_text(a->'remove'))::uuid);
  END IF;
  IF a->'events' IS NOT NULL THEN
    IF NOT is_announced THEN
      PERFORM tenure.announce();
    END IF;
    INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
        reason, request_id, fence, resource, holder, session, ttl_ms, deadline_us, expires_at,
        release_reason, data)
      SELECT nextval('tenure.ledger_seq'), p_namespace, r.lease_id, r.type, r.at_ms, r.before,
        r.after, r.renewals, r.reason, r.request_id, ${MOVED_FENCE}, r.resource, r.holder,
        r.session, r.ttl_ms, r.deadline_us, r.expires_at, r.release_reason, r.data
      FROM jsonb_populate_recordset(null::tenure.ledger, a->'events') AS r;
  END IF;
  IF a->'marks' IS NOT NULL THEN
    INSERT INTO tenure.requests
      SELECT p_namespace, r.id, r.lease_id, r.type, r.keep_until
      FROM jsonb_populate_recordset(null::tenure.requests, a->'marks') AS r
      ON CONFLICT (namespace, id) DO UPDATE
        SET lease_id = excluded.lease_id, type = excluded.type, keep_until = excluded.keep_until;
  END IF;
  IF a->'epochs' IS NOT NULL THEN
    INSERT INTO tenure.realms (namespace, realm, epoch)
      SELECT p_namespace, r.realm, r.epoch
      FROM jsonb_populate_recordset(null::tenure.realms, a->'epochs') AS r
      ON CONFLICT (namespace, realm) DO UPDATE SET epoch = excluded.epoch;
  END IF;
END $$;`

/**
 * One attempt, whatever it consists of. Returns by how much its fences were moved, -1 for a miss, -2 for a clock that
 * is behind.
 */
const ONE = `
CREATE FUNCTION tenure.attempt_one(
  p_namespace smallint, a jsonb, p_now_us bigint, is_announced boolean
) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  places jsonb := a->'places';
  place jsonb;
  at tenure.realms;
  wall bigint := (a->>'wall')::bigint;
  first bigint := (a->>'first')::bigint;
  last bigint := (a->>'last')::bigint;
  moved bigint := 0;
  changed text[] := '{}';
  highest bigint;
  is_other boolean := p_now_us < (a->>'from')::bigint OR p_now_us >= (a->>'before')::bigint;
BEGIN
  FOR i IN 0 .. jsonb_array_length(places) - 1 LOOP
    place := places->i;
    SELECT * INTO at FROM tenure.realms
      WHERE namespace = p_namespace AND realm = place->>'realm';
    IF at.last_us - p_now_us > 5000000 THEN RETURN -2; END IF;
    highest := greatest(highest, at.last_fence);
    is_other := is_other OR tenure.differs(p_namespace, place, at, wall, p_now_us);
    -- The wall time of a renewal is known from its entry; that of an advance is known from the realm alone.
    IF (place->'claims' IS NOT NULL AND place->'alive' IS NULL) OR a->'epochs' IS NOT NULL THEN
      changed := changed || at.realm;
    END IF;
  END LOOP;
  IF is_other THEN RETURN -1; END IF;
  IF a->'versions' IS NOT NULL AND EXISTS (
      SELECT 1 FROM jsonb_each_text(a->'versions') AS v
      LEFT JOIN tenure.leases AS l ON l.namespace + 0 = p_namespace AND l.id = v.key::uuid
      WHERE coalesce(l.version, 0) <> v.value::integer) THEN RETURN -1; END IF;
  IF a->'idle' IS NOT NULL THEN RETURN 0; END IF;
  IF first IS NOT NULL THEN moved := greatest(0, coalesce(highest, 0) + 1 - first); END IF;
  PERFORM tenure.store(p_namespace, a, first, moved, is_announced);
  IF changed <> '{}' THEN
    UPDATE tenure.realms SET last_fence = greatest(last_fence, last + moved),
        last_wall_ms = wall, last_us = greatest(last_us, p_now_us)
      WHERE namespace = p_namespace AND realm = ANY (changed);
  END IF;
  FOR i IN 0 .. coalesce(jsonb_array_length(a->'wakes'), 0) - 1 LOOP
    PERFORM pg_notify(a->'wakes'->i->>0, a->'wakes'->i->>1);
  END LOOP;
  RETURN moved;
END $$;`

/**
 * Attempts in order. `moved` has a number per attempt, `views` those of whoever missed. The transaction announces itself
 * with the first event, if its caller has not done so: advisory locks of all connections share one table of limited size.
 */
const EACH = `
CREATE FUNCTION tenure.attempt_each(
  p_namespace smallint, is_current boolean, p_attempts jsonb, p_now_us bigint,
  is_announced boolean, OUT moved bigint[], OUT views json[], OUT appended boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  a jsonb;
  answer bigint;
BEGIN
  appended := false;
  FOR i IN 0 .. jsonb_array_length(p_attempts) - 1 LOOP
    a := p_attempts->i;
    answer := CASE WHEN is_current
      THEN tenure.attempt_one(p_namespace, a, p_now_us, is_announced OR appended) ELSE -1 END;
    moved := moved || answer;
    IF answer >= 0 THEN
      appended := appended OR a->'events' IS NOT NULL;
    ELSIF answer = -1 THEN
      views := views || (SELECT json_agg(tenure.view_of(p_namespace, place, p_now_us))
          FROM jsonb_array_elements(a->'places') AS place);
    ELSE
      views := views || (SELECT to_json((max(last_us) - p_now_us + 999) / 1000)
        FROM tenure.realms WHERE namespace = p_namespace AND realm IN (
          SELECT place->>'realm' FROM jsonb_array_elements(a->'places') AS place));
    END IF;
  END LOOP;
END $$;`

/** One call: locks, then the clock, then the attempts. */
const ATTEMPT = `
CREATE FUNCTION tenure.attempt(
  p_namespace smallint, p_revision bigint, p_realms text[], p_ids uuid[], p_attempts jsonb,
  p_now_us bigint,
  OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views json
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
DECLARE
  watched bigint;
  appended boolean;
BEGIN
  PERFORM tenure.hold(p_namespace, p_realms, p_ids);
  SELECT config_revision, watched_until_us INTO revision, watched
    FROM tenure.namespaces WHERE number = p_namespace;
  now_us := coalesce(p_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  SELECT e.moved, to_json(e.views), e.appended INTO moved, views, appended
    FROM tenure.attempt_each(p_namespace, revision = p_revision, p_attempts, now_us, false) AS e;
  IF appended AND watched > now_us THEN
    PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
  END IF;
END $$;`

export const ATTEMPT_FUNCTIONS: string = [
  LEDGER_END,
  HOLD,
  COMPARE,
  STORE,
  ONE,
  EACH,
  ATTEMPT,
].join('\n')
