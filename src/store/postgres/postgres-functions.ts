/**
 * What the server does for one attempt after another: lock, read the clock, compare, store, append. There are no rules
 * about leases here.
 *
 * Locks are taken in one order everywhere, so that no two calls wait for each other: missing realms are made (in order
 * of name), then realms are locked (in order of name), then entries (in order of id). The clock is read after that,
 * and each statement of a VOLATILE function sees what was committed before it began.
 *
 * The ledger is numbered by a sequence, and numbers do not become visible in order: a transaction may take a lower one
 * and commit later. So each transaction that appends first takes a number and announces it by an advisory lock which it
 * holds to its end; a reader stops below the lowest number announced (`tenure.ledger_end`). An order by transaction id
 * would not do: of two that changed one realm, the later may have the lower id.
 */

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

/** Live entries that overlap a place: at it, below it if it is a subtree, and subtrees above it. */
const OVERLAPPING = `
CREATE FUNCTION tenure.overlapping(
  p_namespace smallint, p_resource text, p_stem text, p_above text[]
) RETURNS SETOF tenure.leases LANGUAGE sql STABLE ROWS 5 AS $$
  SELECT * FROM tenure.leases
    WHERE namespace = p_namespace AND resource = p_resource AND live
  UNION ALL
  SELECT * FROM tenure.leases
    WHERE namespace = p_namespace AND p_stem IS NOT NULL AND live
      AND resource > p_stem || '/' COLLATE "C" AND resource < p_stem || '0' COLLATE "C"
  UNION ALL
  SELECT * FROM tenure.leases
    WHERE namespace = p_namespace AND resource = ANY (p_above) AND extent = 'subtree'
      AND live
$$;`

const PRIOR = `
CREATE FUNCTION tenure.prior(p_namespace smallint, p_request uuid, OUT lease_id uuid, OUT type text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_request IS NULL THEN RETURN; END IF;
  SELECT l.lease_id, l.type INTO lease_id, type FROM tenure.ledger l
    WHERE l.request_id = p_request AND l.namespace = p_namespace LIMIT 1;
  IF FOUND THEN RETURN; END IF;
  SELECT r.lease_id, r.type INTO lease_id, type FROM tenure.requests r
    WHERE r.namespace = p_namespace AND r.id = p_request;
END $$;`

/** What is really at a place, for whoever missed. */
const VIEW = `
CREATE FUNCTION tenure.view_of(p_namespace smallint, place jsonb, p_now_us bigint)
RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept jsonb;
  at tenure.realms;
  marked record;
  tickets bigint;
  newest bigint;
  named text := place->>'realm';
BEGIN
  SELECT * INTO marked FROM tenure.prior(p_namespace, (place->>'request')::uuid);
  SELECT jsonb_agg(to_jsonb(present) - 'number' - 'namespace' - 'due_us' - 'live'), max(present.renewed_at)
    INTO kept, newest FROM (
    SELECT * FROM tenure.overlapping(p_namespace, place->>'resource', place->>'stem',
      ARRAY(SELECT jsonb_array_elements_text(place->'above'))) WHERE place->>'claims' IS NOT NULL
    UNION
    SELECT * FROM tenure.leases WHERE namespace = p_namespace
      AND id = ANY (ARRAY[(place->>'id')::uuid, marked.lease_id])
  ) AS present;
  SELECT * INTO at FROM tenure.realms WHERE namespace = p_namespace AND realm = named;
  IF named = place->>'resource' THEN
    SELECT count(*) INTO tickets FROM tenure.leases WHERE namespace = p_namespace
      AND resource = named AND state = 'pending' AND live_until_us > p_now_us;
  ELSE
    SELECT count(*) INTO tickets FROM tenure.leases WHERE namespace = p_namespace
      AND resource >= named COLLATE "C" AND resource < rtrim(named, ':') || ';' COLLATE "C"
      AND state = 'pending' AND live_until_us > p_now_us;
  END IF;
  RETURN jsonb_build_object('entries', coalesce(kept, '[]'), 'tickets', tickets,
    'fence', greatest(at.last_fence,
      (SELECT fence_floor FROM tenure.namespaces WHERE number = p_namespace)),
    'wall', greatest(at.last_wall_ms, newest, 0), 'prior_id', marked.lease_id,
    'prior_type', marked.type, 'epoch', tenure.epoch_of(p_namespace, place->>'resource'));
END $$;
CREATE FUNCTION tenure.epoch_of(p_namespace smallint, p_resource text)
RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT epoch FROM tenure.realms
    WHERE namespace = p_namespace AND realm = p_resource), 0)
$$;`

/** Makes the realms that are missing, then locks all of them; both in order of name. */
const HOLD = `
CREATE FUNCTION tenure.hold(p_namespace smallint, p_realms text[], p_ids uuid[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  there integer;
BEGIN
  IF cardinality(p_realms) > 0 THEN
    SELECT count(*) INTO there FROM tenure.realms
      WHERE namespace = p_namespace AND realm = ANY (p_realms);
    IF there < cardinality(p_realms) THEN
      INSERT INTO tenure.realms (namespace, realm, last_fence)
        SELECT p_namespace, wanted, fence_floor FROM unnest(p_realms) AS wanted, tenure.namespaces
        WHERE number = p_namespace ORDER BY wanted COLLATE "C" ON CONFLICT DO NOTHING;
    END IF;
    PERFORM 1 FROM tenure.realms WHERE namespace = p_namespace AND realm = ANY (p_realms)
      ORDER BY realm FOR UPDATE;
    GET DIAGNOSTICS there = ROW_COUNT;
    IF there < cardinality(p_realms) THEN
      RAISE EXCEPTION 'a realm was removed while it was waited for' USING ERRCODE = 'TN001';
    END IF;
  END IF;
  IF cardinality(p_ids) > 0 THEN
    PERFORM 1 FROM tenure.leases WHERE namespace = p_namespace AND id = ANY (p_ids)
      ORDER BY id FOR UPDATE;
  END IF;
END $$;`

/** Compares one place with what was believed of it. Returns null if all is as believed, else why not. */
const COMPARE = `
CREATE FUNCTION tenure.differs(p_namespace smallint, place jsonb, wall bigint, p_now_us bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  believed text := place->>'claims';
  seen text;
  newest bigint;
  at tenure.realms;
  marked record;
BEGIN
  SELECT * INTO at FROM tenure.realms
    WHERE namespace = p_namespace AND realm = place->>'realm';
  IF at.last_wall_ms > wall THEN RETURN true; END IF;
  IF coalesce((SELECT version FROM tenure.leases
      WHERE namespace = p_namespace AND id = (place->>'id')::uuid), 0)
    <> (place->>'own')::integer THEN RETURN true; END IF;
  IF believed IS NOT NULL THEN
    IF place->'above' IS NULL THEN
      SELECT string_agg(id::text || ':' || claim, ',' ORDER BY id), max(renewed_at)
        INTO seen, newest FROM tenure.leases WHERE namespace = p_namespace
        AND resource = place->>'resource' AND live;
    ELSE
      SELECT string_agg(id::text || ':' || claim, ',' ORDER BY id), max(renewed_at)
        INTO seen, newest FROM tenure.overlapping(p_namespace, place->>'resource',
          place->>'stem', ARRAY(SELECT jsonb_array_elements_text(place->'above')));
    END IF;
    IF coalesce(seen, '') <> believed OR newest > wall THEN RETURN true; END IF;
  END IF;
  IF place->'request' IS NOT NULL THEN
    SELECT * INTO marked FROM tenure.prior(p_namespace, (place->>'request')::uuid);
    IF (marked.lease_id IS NOT NULL) <> (place->'prior' IS NOT NULL) THEN RETURN true; END IF;
  END IF;
  IF place->'above' IS NOT NULL THEN
    at.epoch := tenure.epoch_of(p_namespace, place->>'resource');
  END IF;
  RETURN coalesce(at.epoch, 0) <> coalesce((place->>'epoch')::bigint, 0);
END $$;`

const LEASE_COLUMNS = `deadline_us, live_until_us, ttl_ms, created_at, granted_at, renewed_at,
  expires_at, terminated_at, ended_at, version, claim, renewals, max_renewals, resource, holder, session, state, mode,
  extent, release_reason, reason, detail`

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
BEGIN
  IF a->'insert' IS NOT NULL THEN
    INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${LEASE_COLUMNS})
      SELECT p_namespace, r.id, nextval('tenure.entry_number'),
        coalesce(r.live_until_us, r.ended_at * 1000), ${MOVED_FENCE},
        ${ROW_COLUMNS}
      FROM jsonb_populate_recordset(null::tenure.leases, a->'insert') AS r;
  END IF;
  IF a->'update' IS NOT NULL THEN
    UPDATE tenure.leases AS l SET (fence, due_us, ${LEASE_COLUMNS}) = ROW (${MOVED_FENCE},
        ${dueOf('r')}, ${ROW_COLUMNS})
      FROM jsonb_populate_recordset(null::tenure.leases, a->'update') AS r
      WHERE l.namespace + 0 = p_namespace AND l.id = r.id;
  END IF;
  IF a->'remove' IS NOT NULL THEN
    DELETE FROM tenure.leases WHERE namespace = p_namespace
      AND id IN (SELECT (jsonb_array_elements_text(a->'remove'))::uuid);
    DELETE FROM tenure.ledger WHERE namespace = p_namespace
      AND lease_id IN (SELECT (jsonb_array_elements_text(a->'remove'))::uuid);
  END IF;
  IF a->'events' IS NOT NULL THEN
    IF NOT is_announced THEN PERFORM tenure.announce(); END IF;
    INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
        reason, request_id, fence, resource, holder, session, data)
      SELECT nextval('tenure.ledger_seq'), p_namespace, r.lease_id, r.type, r.at_ms, r.before,
        r.after, r.renewals, r.reason, r.request_id, ${MOVED_FENCE}, r.resource, r.holder,
        r.session, r.data
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
  place jsonb;
  wall bigint := (a->>'wall')::bigint;
  first bigint := (a->>'first')::bigint;
  last bigint := (a->>'last')::bigint;
  moved bigint := 0;
  held text[] := '{}';
  changed text[] := '{}';
  highest bigint;
  latest bigint;
BEGIN
  FOR place IN SELECT jsonb_array_elements(a->'places') LOOP
    held := held || (place->>'realm');
    -- The wall time of a renewal is known from its entry; that of an advance is known from the realm alone.
    IF place->'claims' IS NOT NULL OR a->'epochs' IS NOT NULL THEN
      changed := changed || (place->>'realm');
    END IF;
  END LOOP;
  SELECT max(last_fence), max(last_us) INTO highest, latest FROM tenure.realms
    WHERE namespace = p_namespace AND realm = ANY (held);
  IF latest - p_now_us > 5000000 THEN RETURN -2; END IF;
  IF p_now_us < (a->>'from')::bigint OR p_now_us >= (a->>'before')::bigint THEN RETURN -1; END IF;
  FOR place IN SELECT jsonb_array_elements(a->'places') LOOP
    IF tenure.differs(p_namespace, place, wall, p_now_us) THEN RETURN -1; END IF;
  END LOOP;
  IF a->'versions' IS NOT NULL AND EXISTS (
      SELECT 1 FROM jsonb_each_text(a->'versions') AS v
      LEFT JOIN tenure.leases AS l ON l.namespace + 0 = p_namespace AND l.id = v.key::uuid
      WHERE coalesce(l.version, 0) <> v.value::integer) THEN RETURN -1; END IF;
  IF a->'idle' IS NOT NULL THEN RETURN 0; END IF;
  IF first IS NOT NULL THEN moved := greatest(0, coalesce(highest, 0) + 1 - first); END IF;
  PERFORM tenure.store(p_namespace, a, first, moved, is_announced);
  UPDATE tenure.realms SET last_fence = greatest(last_fence, last + moved),
      last_wall_ms = wall, last_us = greatest(last_us, p_now_us)
    WHERE namespace = p_namespace AND realm = ANY (changed);
  IF a->'wakes' IS NOT NULL THEN
    PERFORM pg_notify(w->>0, w->>1) FROM jsonb_array_elements(a->'wakes') AS w;
  END IF;
  RETURN moved;
END $$;`

/**
 * Attempts in order. `moved` has a number per attempt, `views` those of whoever missed. The transaction announces itself
 * with the first event, if its caller has not done so: advisory locks of all connections share one table of limited size.
 */
const EACH = `
CREATE FUNCTION tenure.attempt_each(
  p_namespace smallint, is_current boolean, p_attempts jsonb, p_now_us bigint,
  is_announced boolean, OUT moved bigint[], OUT views jsonb, OUT appended boolean
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  a jsonb;
  answer bigint;
BEGIN
  appended := false;
  FOR a IN SELECT jsonb_array_elements(p_attempts) LOOP
    answer := CASE WHEN is_current
      THEN tenure.attempt_one(p_namespace, a, p_now_us, is_announced OR appended) ELSE -1 END;
    moved := moved || answer;
    IF answer >= 0 THEN
      appended := appended OR a->'events' IS NOT NULL;
    ELSIF answer = -1 THEN
      views := coalesce(views, '[]') || jsonb_build_array(
        (SELECT jsonb_agg(tenure.view_of(p_namespace, place, p_now_us))
          FROM jsonb_array_elements(a->'places') AS place));
    ELSE
      views := coalesce(views, '[]') || (SELECT to_jsonb((max(last_us) - p_now_us + 999) / 1000)
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
  OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views jsonb
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
DECLARE
  watched bigint;
  appended boolean;
BEGIN
  PERFORM tenure.hold(p_namespace, p_realms, p_ids);
  SELECT config_revision, watched_until_us INTO revision, watched
    FROM tenure.namespaces WHERE number = p_namespace;
  now_us := coalesce(p_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  SELECT e.moved, e.views, e.appended INTO moved, views, appended
    FROM tenure.attempt_each(p_namespace, revision = p_revision, p_attempts, now_us, false) AS e;
  IF appended AND watched > now_us THEN
    PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
  END IF;
END $$;`

/**
 * History goes with its lease, so that what is left always folds. A realm that nothing is left of goes too; its
 * highest fence becomes the least that any new realm starts from.
 *
 * Where no history is kept no ended lease leads to its realm. So each call also walks over one batch of realms, from
 * where the last one stopped: an index by time of use would have to be changed by every commit.
 */
const PRUNE = `
CREATE FUNCTION tenure.prune(
  p_namespace smallint, ended_before bigint, p_now_ms bigint, forget_before bigint, batch integer,
  p_after text, OUT leases bigint, OUT events bigint, OUT more boolean, OUT walked_to text
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  gone uuid[];
  places text[];
  unused text[];
  marks bigint;
  renewals bigint;
  advances bigint;
BEGIN
  SELECT array_agg(id), array_agg(DISTINCT resource) INTO gone, places FROM (
    SELECT id, resource FROM tenure.leases WHERE NOT live
      AND due_us < ended_before * 1000 AND ended_at + ttl_ms < p_now_ms AND namespace = p_namespace
    LIMIT batch FOR UPDATE SKIP LOCKED) AS ended;
  DELETE FROM tenure.ledger WHERE lease_id = ANY (gone) AND namespace = p_namespace;
  GET DIAGNOSTICS events = ROW_COUNT;
  DELETE FROM tenure.leases WHERE namespace = p_namespace AND id = ANY (gone);
  GET DIAGNOSTICS leases = ROW_COUNT;
  DELETE FROM tenure.requests WHERE namespace = p_namespace AND id IN (
    SELECT id FROM tenure.requests WHERE keep_until < p_now_ms AND namespace = p_namespace
    LIMIT batch);
  GET DIAGNOSTICS marks = ROW_COUNT;
  DELETE FROM tenure.ledger WHERE seq IN (
    SELECT old.seq FROM tenure.ledger AS old
    WHERE old.namespace = p_namespace AND old.type = 'renewed' AND old.at_ms < ended_before
      AND old.seq < coalesce((SELECT seq FROM tenure.ledger
        WHERE at_ms >= ended_before AND namespace = p_namespace ORDER BY seq LIMIT 1),
        9223372036854775807)
      AND (old.request_id IS NULL OR old.at_ms < forget_before)
      AND EXISTS (SELECT 1 FROM tenure.ledger AS later WHERE later.lease_id = old.lease_id
        AND later.seq > old.seq AND later.type = 'renewed')
    LIMIT batch);
  GET DIAGNOSTICS renewals = ROW_COUNT;
  -- The last advance of an epoch says how far the workflow has come, once nobody can repeat those before it.
  DELETE FROM tenure.ledger WHERE seq IN (
    SELECT old.seq FROM tenure.ledger AS old
    JOIN tenure.leases AS l ON l.id = old.lease_id AND l.namespace = p_namespace
    WHERE old.namespace = p_namespace AND old.type = 'advanced' AND old.at_ms < ended_before
      AND old.at_ms + l.ttl_ms < p_now_ms
      AND EXISTS (SELECT 1 FROM tenure.ledger AS later WHERE later.lease_id = old.lease_id
        AND later.seq > old.seq AND later.type = 'advanced')
    LIMIT batch);
  GET DIAGNOSTICS advances = ROW_COUNT;
  SELECT w.unused, w.walked_to INTO unused, walked_to
    FROM tenure.walk_realms(p_namespace, ended_before * 1000, p_after, batch) AS w;
  PERFORM tenure.forget_realms(p_namespace, places || unused);
  events := events + renewals + advances;
  more := batch IN (leases, marks, renewals, advances)
    OR (walked_to IS NOT NULL AND unused IS NOT NULL);
END $$;
-- A realm that is a whole tree (its name ends with a colon) stays: there is one for each kind.
CREATE FUNCTION tenure.walk_realms(
  p_namespace smallint, used_before_us bigint, p_after text, batch integer,
  OUT unused text[], OUT walked_to text
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} SET enable_sort = off AS $$
BEGIN
  SELECT array_agg(realm) FILTER (WHERE epoch = 0 AND last_us < used_before_us
      AND realm NOT LIKE '%:'), CASE WHEN count(*) = batch THEN max(realm) END
    INTO unused, walked_to FROM (
      SELECT realm, epoch, last_us FROM tenure.realms
      WHERE namespace = p_namespace AND realm > p_after ORDER BY realm LIMIT batch) AS walked;
  SELECT array_agg(old.realm) INTO unused FROM unnest(unused) AS old(realm)
    WHERE NOT EXISTS (SELECT 1 FROM tenure.leases AS l
      WHERE l.resource = old.realm AND l.namespace = p_namespace);
END $$;
CREATE FUNCTION tenure.forget_realms(p_namespace smallint, places text[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  idle text[];
  highest bigint;
BEGIN
  SELECT array_agg(realm) INTO idle FROM (
    SELECT realm FROM tenure.realms WHERE namespace = p_namespace AND realm = ANY (places)
      AND epoch = 0 ORDER BY realm FOR UPDATE SKIP LOCKED) AS candidates;
  -- A statement of its own, because only now nobody can file anything there.
  SELECT array_agg(realm), max(last_fence) INTO idle, highest FROM tenure.realms AS r
    WHERE namespace = p_namespace AND realm = ANY (idle)
    AND NOT EXISTS (SELECT 1 FROM tenure.leases AS l WHERE l.namespace = p_namespace
      AND l.resource = r.realm);
  IF idle IS NULL THEN RETURN; END IF;
  UPDATE tenure.namespaces SET fence_floor = greatest(fence_floor, highest)
    WHERE number = p_namespace;
  DELETE FROM tenure.realms WHERE namespace = p_namespace AND realm = ANY (idle);
END $$;`

export const ATTEMPT_FUNCTIONS: string = [
  LEDGER_END,
  OVERLAPPING,
  PRIOR,
  VIEW,
  HOLD,
  COMPARE,
  STORE,
  ONE,
  EACH,
  ATTEMPT,
  PRUNE,
].join('\n')
