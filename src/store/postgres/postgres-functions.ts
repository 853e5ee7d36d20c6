/**
 * The functions on the server. `tenure.attempt_v13` is the one that compares, writes and appends; there are no rules about
 * leases in it. It carries out all attempts of a call together, each of its statements for all of them, because
 * a statement costs more than what it does to a row. So the attempts of one call must be independent of each other
 * (postgres-attempt.ts sees to that).
 *
 *  1. Lock, in one order everywhere so that no two calls wait for each other: realms by name, then entries by id. A realm that
 *     is not there yet is made at the end, when all locks are held, in one row with what the attempt leaves there. If two calls
 *     make it, the second INSERT waits for the first call and fails; the store sends that call again, which finds the realm.
 *  2. Read the clock.
 *  3. Compare what each attempt was decided on with what is there, after all locks are held: each statement of a VOLATILE
 *     function sees what was committed before it began.
 *  4. Write what the attempts say whose preconditions hold: entries, events, request marks, realms, epochs.
 *  5. Answer the others with the current state.
 *
 * Every query is a few index lookups, however small or new a table is: the planner is told so (FORCE_INDEX_SCANS), and
 * the namespace is hidden from it in joins (`namespace + 0`), or it would scan all rows of the namespace in a table that
 * it has no statistics of. For the same reason nothing is asked with EXISTS, of which it may make a list of all rows.
 *
 * Functions are named by version and never dropped or changed while processes of that version may run: a connection
 * that has called a function would fail at its next call.
 */
import { STORE_CLOCK_BEHIND_US_MAX, TTL_MS_MAX } from '../../core/limits.ts'
import { EVENT_COLUMNS, LIVE_COLUMNS, NOW_US, OWN_ID } from './postgres-columns.ts'

/** The first key of the advisory locks of appenders. */
const APPENDER_LOCK_CLASS = 1_952_804_469

const FORCE_INDEX_SCANS = `SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET plan_cache_mode = force_generic_plan SET jit = off`

/** The namespace was there when the store was opened, and is not there now: the database is another, or an older one. */
export const NAMESPACE_GONE = 'TN001'

/**
 * The ledger is numbered by a sequence, and numbers do not become visible in order: a transaction may take a lower one
 * and commit later. So each transaction that appends first takes a number and announces it by an advisory lock which it
 * holds to its end; a reader stops below the lowest number announced. An order by transaction id would not do: of two
 * that changed one realm, the later may have the lower id.
 */
const LEDGER_END = `
CREATE OR REPLACE FUNCTION tenure.announce() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(${APPENDER_LOCK_CLASS},
    (nextval('tenure.ledger_seq') % 2147483648)::integer);
END $$;
-- First the sequence, then the locks: an appender that announces itself after the first look takes higher numbers.
CREATE OR REPLACE FUNCTION tenure.ledger_end() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  highest bigint;
  announced bigint;
BEGIN
  SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO highest FROM tenure.ledger_seq;
  SELECT max((highest - objid::bigint + 4294967296) % 2147483648) INTO announced FROM pg_locks
    WHERE locktype = 'advisory' AND classid = ${APPENDER_LOCK_CLASS} AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND (highest - objid::bigint + 4294967296) % 2147483648 < 1073741824;
  RETURN highest - coalesce(announced, 0);
END $$;`

/** Live entries that overlap a place: at it, below it if it is a subtree (\`stem\`), and subtrees above it. */
const OVERLAPPING = `
CREATE OR REPLACE FUNCTION tenure.overlapping_v9(
  p_namespace integer, p_resource text, p_stem text, p_above text[]
) RETURNS SETOF tenure.live_leases LANGUAGE sql STABLE ROWS 5 AS $$
  SELECT * FROM tenure.live_leases WHERE namespace + 0 = p_namespace AND resource = p_resource
  UNION ALL
  SELECT * FROM tenure.live_leases
    WHERE namespace + 0 = p_namespace AND p_stem IS NOT NULL
      AND resource > p_stem || '/' COLLATE "C" AND resource < p_stem || '0' COLLATE "C"
  UNION ALL
  SELECT * FROM tenure.live_leases
    WHERE namespace + 0 = p_namespace AND resource = ANY (p_above) AND extent = 'subtree'
$$;`

/** What is live, or has ended in a state, in order: through the index that has it, whatever the planner thinks of sorting. */
const LISTED = `
CREATE OR REPLACE FUNCTION tenure.listed_v9(
  p_namespace integer, p_after bigint, p_states text[], p_running_us bigint, p_limit bigint
) RETURNS SETOF tenure.live_leases LANGUAGE plpgsql STABLE ${FORCE_INDEX_SCANS} SET enable_sort = off AS $$
BEGIN
  RETURN QUERY SELECT * FROM tenure.live_leases AS l
    WHERE l.number > p_after AND l.namespace + 0 = p_namespace
      AND (p_states IS NULL OR l.state = ANY (p_states))
      AND (p_running_us IS NULL OR l.live_until_us > p_running_us)
    ORDER BY l.number LIMIT p_limit;
END $$;
CREATE OR REPLACE FUNCTION tenure.ended_v9(
  p_namespace integer, p_state text, p_after bigint, p_limit bigint
) RETURNS SETOF tenure.ledger LANGUAGE plpgsql STABLE ${FORCE_INDEX_SCANS} SET enable_sort = off AS $$
BEGIN
  RETURN QUERY SELECT * FROM tenure.ledger AS e
    WHERE e.ended = p_state AND e.seq + 0 > p_after AND e.namespace + 0 = p_namespace
      -- An id that failed may have come back.
      AND (p_state <> 'failed' OR (SELECT true FROM tenure.ledger AS later
        WHERE later.lease_id = e.lease_id AND later.namespace + 0 = p_namespace
          AND later.seq > e.seq LIMIT 1) IS NULL)
    ORDER BY e.seq + 0 LIMIT p_limit;
END $$;`

/** What a place of an attempt says; see `placeRow` in postgres-attempt.ts. */
const PLACE = `p(attempt integer, realm text, resource text, id uuid, own integer, depends_on text,
      claims text, holder text, above text[], stem text, request uuid, has_prior boolean,
      epoch bigint, from_us bigint, before_us bigint, wall_ms bigint, lowest_fence bigint,
      last_fence bigint, updates_realm boolean)`

/** The entry of an id that is not live is what the last event that ended it has left; such events have a version. */
function versionOf(id: string): string {
  return `coalesce(
          (SELECT l.version FROM tenure.live_leases AS l
            WHERE l.id = ${id} AND l.namespace + 0 = p_namespace),
          (SELECT e.version FROM tenure.ledger AS e
            WHERE e.lease_id = ${id} AND e.version IS NOT NULL AND e.namespace + 0 = p_namespace
            ORDER BY e.seq + 0 DESC LIMIT 1),
          0)`
}

/** What a request has done: it is in the ledger, by its own id or by that of its lease, or there is a mark. */
function priorOf(request: string): string {
  return `(SELECT e.lease_id, e.type FROM tenure.ledger AS e WHERE e.request_id = ${request}
            AND e.request_id <> '${OWN_ID}' AND e.namespace + 0 = p_namespace
          UNION ALL
          SELECT e.lease_id, e.type FROM tenure.ledger AS e WHERE e.lease_id = ${request}
            AND e.request_id = '${OWN_ID}' AND e.namespace + 0 = p_namespace
          UNION ALL
          SELECT m.lease_id, m.type FROM tenure.requests AS m
            WHERE m.id = ${request} AND m.namespace = p_namespace) AS f LIMIT 1`
}

const CLAIMS = `string_agg(l.id::text || ':' || l.claim, ',' ORDER BY l.id)`
const LIVE_HERE = `tenure.live_leases AS l
            WHERE l.resource = p.resource AND l.namespace + 0 = p_namespace`

/** Whether the entries that a place depends on differ from what the attempt has seen, or were renewed after its wall time. */
const CLAIMS_DIFFER = `CASE p.depends_on
          -- All live entries that overlap a flat resource, or one of a tree, none renewed later than
          -- the attempt's wall time.
          WHEN 'flat' THEN (SELECT coalesce(${CLAIMS}, '') <> p.claims OR max(l.renewed_at) > p.wall_ms
            FROM ${LIVE_HERE})
          WHEN 'tree' THEN (SELECT coalesce(${CLAIMS}, '') <> p.claims OR max(l.renewed_at) > p.wall_ms
            FROM tenure.overlapping_v9(p_namespace, p.resource, p.stem, p.above) AS l)
          -- The claim that was filed last, which the new ticket goes behind.
          WHEN 'behind' THEN (SELECT l.id::text || ':' || l.claim FROM ${LIVE_HERE}
            ORDER BY l.number + 0 DESC LIMIT 1) IS DISTINCT FROM p.claims
          -- A keep-alive: what its holder has there, and that the time of no entry has run out.
          WHEN 'keep_alive' THEN (SELECT coalesce(${CLAIMS} FILTER (WHERE l.holder = p.holder), '')
              <> p.claims OR bool_or(l.live_until_us <= now_us)
            FROM ${LIVE_HERE})
          -- Its own entry alone: its version is compared apart, and here that it was not renewed later.
          WHEN 'entry' THEN (SELECT l.renewed_at > p.wall_ms FROM tenure.live_leases AS l
            WHERE l.id = p.id AND l.namespace + 0 = p_namespace)
          ELSE true
        END`

/**
 * An answer per attempt: by how much its new fences move up, MISSED, or CLOCK_BEHIND. Attempts that give fences in one realm
 * move by the same number, so that they stay apart.
 */
const MISSED = -1
const CLOCK_BEHIND = -2

const COMPARE = `
  SELECT array_agg(c.answer ORDER BY c.attempt) INTO answers FROM (
    SELECT p.attempt, CASE
        WHEN max(r.last_us) - now_us > ${STORE_CLOCK_BEHIND_US_MAX} THEN ${CLOCK_BEHIND}
        WHEN revision <> p_revision OR bool_or(
          now_us < p.from_us OR now_us >= p.before_us
          OR coalesce(r.last_wall_ms > p.wall_ms, false)
          OR p.own <> ${versionOf('p.id')}
          OR coalesce(${CLAIMS_DIFFER}, false)
          OR p.request IS NOT NULL AND p.has_prior = ((SELECT true FROM ${priorOf('p.request')}) IS NULL)
          OR p.epoch <> coalesce(CASE WHEN p.realm = p.resource THEN r.epoch
            ELSE (SELECT o.epoch FROM tenure.realms AS o
              WHERE o.realm = p.resource AND o.namespace = p_namespace) END, 0)
        ) THEN ${MISSED}
        ELSE greatest(0, max(coalesce(r.last_fence, floor)) + 1 - min(p.lowest_fence))
      END AS answer
    FROM jsonb_to_recordset(p_places) AS ${PLACE}
      LEFT JOIN tenure.realms AS r ON r.realm = p.realm AND r.namespace + 0 = p_namespace
    GROUP BY p.attempt) AS c;
  -- Entries that an attempt writes, and that are no place's own.
  IF p_versions IS NOT NULL THEN
    FOR missed_attempt IN SELECT DISTINCT v.attempt
      FROM jsonb_to_recordset(p_versions) AS v(attempt integer, id uuid, version integer)
      WHERE v.version <> ${versionOf('v.id')} AND answers[v.attempt] <> ${CLOCK_BEHIND}
    LOOP
      answers[missed_attempt] := ${MISSED};
    END LOOP;
  END IF;`

const ENTRY = `u(attempt integer, id uuid, resource text, holder text, session text, state text,
        extent text, fence bigint, is_new_fence boolean, version integer, claim integer,
        live_until_us bigint, earliest_due_us bigint, renewed_at bigint, body text)`

const MOVED_FENCE = `u.fence + CASE WHEN u.is_new_fence THEN answers[u.attempt] ELSE 0 END`

/**
 * \`due_us\` of an entry is never later than \`live_until_us\`, and is left unchanged while it lies within half a TTL
 * before it: so a renewal changes no index. A locked row does not move, and is updated by its row address (\`ctid\`), or the planner may join in
 * the wrong order.
 */
const WRITE_ENTRIES = `
  IF p_inserted IS NOT NULL THEN
    INSERT INTO tenure.live_leases (namespace, id, resource, holder, session, state, extent, fence,
        version, claim, live_until_us, due_us, renewed_at, body)
      SELECT p_namespace, u.id, u.resource, u.holder, u.session, u.state, u.extent, ${MOVED_FENCE},
        u.version, u.claim, u.live_until_us, u.live_until_us, u.renewed_at, u.body::json
      FROM jsonb_to_recordset(p_inserted) AS ${ENTRY} WHERE answers[u.attempt] >= 0;
  END IF;
  IF p_updated IS NOT NULL THEN
    WITH changed AS MATERIALIZED (
      SELECT u.*, o.ctid AS row_address FROM jsonb_to_recordset(p_updated) AS ${ENTRY}
        LEFT JOIN tenure.live_leases AS o ON o.id = u.id AND o.namespace + 0 = p_namespace
      WHERE answers[u.attempt] >= 0)
    UPDATE tenure.live_leases AS l SET holder = u.holder, session = u.session, state = u.state,
        extent = u.extent, fence = ${MOVED_FENCE}, version = u.version, claim = u.claim,
        live_until_us = u.live_until_us, renewed_at = u.renewed_at, body = u.body::json,
        due_us = CASE WHEN l.due_us BETWEEN u.earliest_due_us AND u.live_until_us THEN l.due_us
          ELSE u.live_until_us END
      FROM changed AS u WHERE l.ctid = u.row_address;
  END IF;
  -- Rows to be deleted are not locked first, because lock and delete would both write the row; so a renewal may have come in
  -- between.
  IF p_removed IS NOT NULL THEN
    WITH asked AS MATERIALIZED (
      SELECT d.id, d.version FROM jsonb_to_recordset(p_removed)
        AS d(attempt integer, id uuid, version integer) WHERE answers[d.attempt] >= 0 ORDER BY d.id),
    gone AS (
      DELETE FROM tenure.live_leases AS l USING asked
        WHERE l.id = asked.id AND l.namespace + 0 = p_namespace AND l.version = asked.version
        RETURNING l.id)
    SELECT (SELECT count(*) FROM asked) - (SELECT count(*) FROM gone) INTO not_removed;
    IF not_removed > 0 THEN
      RAISE EXCEPTION 'an entry was renewed while it was removed' USING ERRCODE = '40001';
    END IF;
  END IF;
  -- Entries of which nothing is kept.
  IF p_forgotten IS NOT NULL THEN
    DELETE FROM tenure.ledger WHERE namespace + 0 = p_namespace AND lease_id = ANY (ARRAY(
      SELECT d.id FROM jsonb_to_recordset(p_forgotten) AS d(attempt integer, id uuid)
      WHERE answers[d.attempt] >= 0));
  END IF;`

/** If any event is to be written, the call first takes one ledger number and announces it. */
const APPEND = `
  IF p_events IS NOT NULL THEN
    PERFORM tenure.announce();
    INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, request_id, fence, resource,
        holder, session, ended, ended_at, version, data)
      SELECT nextval('tenure.ledger_seq'), p_namespace, u.lease_id, u.type, u.at_ms, u.request_id,
        ${MOVED_FENCE}, u.resource, u.holder, u.session, u.ended, u.ended_at, u.version, u.data::json
      FROM jsonb_to_recordset(p_events) AS u(attempt integer, lease_id uuid, type text,
        at_ms bigint, request_id uuid, fence bigint, is_new_fence boolean, resource text,
        holder text, session text, ended text, ended_at bigint, version integer, data text)
      WHERE answers[u.attempt] >= 0;
    IF watched > now_us THEN
      PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
    END IF;
  END IF;
  IF p_marks IS NOT NULL THEN
    INSERT INTO tenure.requests (namespace, id, lease_id, type, keep_until)
      SELECT p_namespace, m.id, m.lease_id, m.type, m.keep_until
      FROM jsonb_to_recordset(p_marks)
        AS m(attempt integer, id uuid, lease_id uuid, type text, keep_until bigint)
      WHERE answers[m.attempt] >= 0
      ON CONFLICT (id, namespace) DO UPDATE SET lease_id = excluded.lease_id,
        type = excluded.type, keep_until = excluded.keep_until;
  END IF;`

const REALM_UPDATES = `SELECT p.realm, max(p.last_fence + answers[p.attempt]) AS last_fence,
        max(p.wall_ms) AS wall_ms
      FROM jsonb_to_recordset(p_places) AS ${PLACE}
      WHERE p.updates_realm AND answers[p.attempt] >= 0 GROUP BY p.realm`

/**
 * What stays of an attempt in its realms: the last fence, the wall time and the time of its commit, and epochs. A realm is
 * locked since the first step, or was not there then: it begins at the floor, with an INSERT that fails (23505) if
 * another call has made it meanwhile.
 */
const UPDATE_REALMS = `
  IF cardinality(locked) < cardinality(p_realms) THEN
    INSERT INTO tenure.realms (namespace, realm, last_fence, last_wall_ms, last_us)
      SELECT p_namespace, t.realm, greatest(floor, t.last_fence), t.wall_ms, now_us
      FROM (${REALM_UPDATES}) AS t WHERE t.realm <> ALL (locked) ORDER BY t.realm COLLATE "C";
  END IF;
  UPDATE tenure.realms AS r SET
      last_fence = greatest(r.last_fence, t.last_fence),
      last_wall_ms = greatest(r.last_wall_ms, t.wall_ms),
      last_us = greatest(r.last_us, now_us)
    FROM (${REALM_UPDATES}) AS t
    WHERE r.realm = t.realm AND r.realm = ANY (locked) AND r.namespace + 0 = p_namespace;
  IF p_epochs IS NOT NULL THEN
    INSERT INTO tenure.realms (namespace, realm, epoch)
      SELECT p_namespace, e.realm, e.epoch
      FROM jsonb_to_recordset(p_epochs) AS e(attempt integer, realm text, epoch bigint)
      WHERE answers[e.attempt] >= 0
      ON CONFLICT (realm, namespace) DO UPDATE SET epoch = excluded.epoch;
  END IF;
  IF p_wakes IS NOT NULL THEN
    PERFORM pg_notify(w.channel, w.payload)
      FROM jsonb_to_recordset(p_wakes) AS w(attempt integer, channel text, payload text)
      WHERE answers[w.attempt] >= 0;
  END IF;`

/** For each attempt that missed its views; for each that met a clock that is behind, by how many milliseconds it is. */
const TELL = `
  SELECT json_agg(t.told ORDER BY t.attempt) INTO told FROM (
    SELECT p.attempt, CASE WHEN answers[p.attempt] = ${MISSED}
        THEN json_agg(tenure.view_v13(p_namespace, place, now_us) ORDER BY ordinality)
        ELSE to_json((max(r.last_us) - now_us + 999) / 1000) END AS told
    FROM jsonb_array_elements(p_places) WITH ORDINALITY AS places(place, ordinality)
      CROSS JOIN LATERAL (SELECT (place->>'attempt')::integer AS attempt,
        place->>'realm' AS realm) AS p
      LEFT JOIN tenure.realms AS r ON r.realm = p.realm AND r.namespace + 0 = p_namespace
    WHERE answers[p.attempt] < 0 GROUP BY p.attempt) AS t;`

const ATTEMPT = `
CREATE OR REPLACE FUNCTION tenure.attempt_v13(
  p_namespace integer, p_revision bigint, p_now_us bigint, p_realms text[], p_ids uuid[],
  p_places jsonb, p_versions jsonb, p_inserted jsonb, p_updated jsonb, p_removed jsonb,
  p_forgotten jsonb, p_events jsonb, p_marks jsonb, p_epochs jsonb, p_wakes jsonb,
  OUT now_us bigint, OUT revision bigint, OUT answers bigint[], OUT told json
) LANGUAGE plpgsql VOLATILE ${FORCE_INDEX_SCANS} AS $$
#variable_conflict use_variable
DECLARE
  watched bigint;
  floor bigint;
  missed_attempt integer;
  not_removed bigint;
  locked text[];
BEGIN
  -- Lock.
  IF p_realms IS NOT NULL THEN
    SELECT coalesce(array_agg(l.realm), '{}') INTO locked FROM (
      SELECT r.realm FROM tenure.realms AS r WHERE r.realm = ANY (p_realms)
        AND r.namespace + 0 = p_namespace ORDER BY r.realm FOR UPDATE) AS l;
  END IF;
  IF p_ids IS NOT NULL THEN
    PERFORM 1 FROM tenure.live_leases AS l WHERE l.id = ANY (p_ids)
      AND l.namespace + 0 = p_namespace ORDER BY l.id FOR UPDATE;
  END IF;
  -- Read the clock.
  now_us := coalesce(p_now_us, ${NOW_US});
  SELECT n.config_revision, n.watched_until_us, n.fence_floor INTO revision, watched, floor
    FROM tenure.namespaces AS n WHERE n.number = p_namespace;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no namespace %', p_namespace USING ERRCODE = '${NAMESPACE_GONE}';
  END IF;
  IF p_places IS NULL THEN RETURN; END IF;
  -- Compare.
  ${COMPARE}
  -- Write.
  IF 0 <= ANY (answers) THEN
    ${WRITE_ENTRIES}
    ${APPEND}
    ${UPDATE_REALMS}
  END IF;
  -- Tell.
  IF 0 > ANY (answers) THEN
    ${TELL}
  END IF;
END $$;`

/**
 * What is really at a place. Where its ticket goes behind an entry (`behind`) whose claim number is still the same, only that
 * entry and what was made later is shown; the ticket depends on nothing else. Where it says which versions it has seen
 * (`versions`, in the order of `seen`), only what has changed since is shown, and which ids are gone: in a long queue that is little.
 */
const VIEW = `
CREATE OR REPLACE FUNCTION tenure.view_v13(p_namespace integer, place jsonb, p_now_us bigint)
RETURNS json LANGUAGE plpgsql STABLE AS $$
DECLARE
  own uuid := (place->>'id')::uuid;
  named text := place->>'realm';
  wanted text := place->>'resource';
  request uuid := (place->>'request')::uuid;
  -- Variables: given expressions, the planner would neither look into the function nor keep a plan of it.
  stem text := place->>'stem';
  above text[] := ARRAY(SELECT jsonb_array_elements_text(place->'above'));
  present uuid[];
  versions integer[];
  newest bigint;
  first bigint;
  seen uuid[];
  ids_to_show uuid[];
  live_ids uuid[];
  gone json;
  marked record;
  live_rows json;
  ended_rows json;
  at tenure.realms;
  tickets bigint;
BEGIN
  SELECT f.lease_id, f.type INTO marked FROM ${priorOf('request')};
  IF place->>'depends_on' = 'tree' THEN
    SELECT array_agg(l.id), array_agg(l.version), max(l.renewed_at) INTO present, versions, newest
      FROM tenure.overlapping_v9(p_namespace, wanted, stem, above) AS l;
  ELSIF place->>'depends_on' <> 'entry' THEN
    SELECT l.number INTO first FROM tenure.live_leases AS l
      WHERE l.id = (place->>'behind')::uuid AND l.namespace + 0 = p_namespace
        AND l.id::text || ':' || l.claim = place->>'claims';
    SELECT array_agg(l.id), array_agg(l.version), max(l.renewed_at) INTO present, versions, newest
      FROM tenure.live_leases AS l WHERE l.resource = wanted AND l.namespace + 0 = p_namespace
        AND (first IS NULL OR l.number >= first);
  END IF;
  ids_to_show := present;
  IF place->'versions' IS NOT NULL THEN
    seen := ARRAY(SELECT (jsonb_array_elements_text(place->'seen'))::uuid);
    ids_to_show := ARRAY(SELECT p.id FROM unnest(present, versions) AS p(id, version)
      WHERE (p.id, p.version) NOT IN (SELECT * FROM unnest(seen,
        ARRAY(SELECT (jsonb_array_elements_text(place->'versions'))::integer))));
    gone := to_json(ARRAY(SELECT id FROM unnest(seen) AS id
      WHERE id NOT IN (SELECT * FROM unnest(present))));
  END IF;
  ids_to_show := ids_to_show || ARRAY[own, marked.lease_id];
  SELECT json_agg(row_to_json(l)), array_agg(l.id) INTO live_rows, live_ids FROM (
    SELECT ${LIVE_COLUMNS} FROM tenure.live_leases
    WHERE id = ANY (ids_to_show) AND namespace + 0 = p_namespace) AS l;
  SELECT json_agg(row_to_json(e)) INTO ended_rows FROM (
    SELECT DISTINCT ON (lease_id) ${EVENT_COLUMNS} FROM tenure.ledger
    WHERE lease_id = ANY (ARRAY[own, marked.lease_id]) AND version IS NOT NULL
      AND namespace + 0 = p_namespace AND lease_id <> ALL (coalesce(live_ids, '{}'))
    ORDER BY lease_id, seq + 0 DESC) AS e;
  SELECT * INTO at FROM tenure.realms WHERE realm = named AND namespace = p_namespace;
  -- At depth \`entry\` no decision asks how many tickets there are, and to count thousands takes long.
  IF place->>'depends_on' = 'entry' THEN
    tickets := 0;
  ELSIF named = wanted THEN
    SELECT count(*) INTO tickets FROM tenure.live_leases AS l WHERE l.namespace + 0 = p_namespace
      AND l.resource = named AND l.state = 'pending' AND l.live_until_us > p_now_us;
  ELSE
    SELECT count(*) INTO tickets FROM tenure.live_leases AS l WHERE l.namespace + 0 = p_namespace
      AND l.resource >= named COLLATE "C" AND l.resource < rtrim(named, ':') || ';' COLLATE "C"
      AND l.state = 'pending' AND l.live_until_us > p_now_us;
  END IF;
  RETURN json_build_object('live', coalesce(live_rows, '[]'), 'ended', coalesce(ended_rows, '[]'),
    'gone', gone, 'isPartial', first IS NOT NULL, 'ticketCount', tickets, 'lastFence', greatest(at.last_fence,
      (SELECT n.fence_floor FROM tenure.namespaces AS n WHERE n.number = p_namespace)),
    'lastWallMs', greatest(at.last_wall_ms, newest, 0), 'prior', CASE WHEN marked.lease_id IS NOT NULL
      THEN json_build_object('leaseId', marked.lease_id, 'type', 'lease.' || marked.type) END, 'epoch', coalesce((SELECT o.epoch FROM tenure.realms AS o
      WHERE o.realm = wanted AND o.namespace = p_namespace), 0));
END $$;`

export const ATTEMPT_FUNCTIONS: string = [LEDGER_END, OVERLAPPING, LISTED, VIEW, ATTEMPT].join('\n')

/** The statement that calls it, with a value for each of its parameters. */
export const CALL_ATTEMPT = `SELECT now_us, revision, answers, told FROM tenure.attempt_v13($1::integer,
  $2::bigint, $3::bigint, $4::text[], $5::uuid[], $6::jsonb, $7::jsonb, $8::jsonb, $9::jsonb,
  $10::jsonb, $11::jsonb, $12::jsonb, $13::jsonb, $14::jsonb, $15::jsonb)`

/**
 * A realm is forgotten when its last fence, its last wall time and its last commit are all further behind the clock than
 * this. A fence that is ahead of the clock came from a clock that was ahead: without its realm lower ones would be given.
 */
const REALM_MEMORY_MS = 86_400_000

/**
 * Removing what has ended, in batches: the rules of core/retention.ts (`mayBePruned`, `isSuperseded`) in SQL. How far the
 * clock is believed is decided there, before the server is asked. History goes with its lease, so that what is left always folds. A realm that nothing is left of goes too; first its
 * highest fence becomes the least that any new realm starts from. Realms with an epoch stay for ever.
 *
 * No index leads from time to realms, because every commit would have to change it: each call walks over one batch
 * of realms, from where the last one stopped.
 */
export const PRUNE_FUNCTIONS: string = `
CREATE OR REPLACE FUNCTION tenure.prune_v9(
  p_namespace integer, ended_before bigint, p_now_ms bigint, batch integer, p_after text,
  OUT leases bigint, OUT events bigint, OUT more boolean, OUT walked_to text
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  young bigint;
  gone uuid[];
  marks bigint;
  superseded bigint;
  last bigint;
BEGIN
  -- Wall times of the ledger hardly ever go back, so the first end that is too young ends the search.
  young := coalesce((SELECT min(first.seq)
    FROM unnest('{released,expired,revoked,failed}'::text[]) AS states(state) CROSS JOIN LATERAL (
      SELECT e.seq FROM tenure.ledger AS e WHERE e.ended = state AND e.namespace = p_namespace
        AND e.at_ms >= ended_before ORDER BY e.seq + 0 LIMIT 1) AS first),
    9223372036854775807);
  -- An id that failed may have come back: only the last event of a lease tells how it ended.
  SELECT array_agg(lease_id) INTO gone FROM (
    SELECT e.lease_id FROM tenure.ledger AS e
    WHERE e.ended = ANY ('{released,expired,revoked,failed}') AND e.seq + 0 < young
      AND e.namespace = p_namespace AND e.ended_at < ended_before
      AND e.ended_at + (e.data->'ended'->'body'->>'ttlMs')::bigint < p_now_ms
      AND NOT EXISTS (SELECT 1 FROM tenure.ledger AS later
        WHERE later.lease_id = e.lease_id AND later.namespace = p_namespace AND later.seq + 0 > e.seq)
    LIMIT batch) AS ended;
  leases := coalesce(cardinality(gone), 0);
  WITH removed AS (DELETE FROM tenure.ledger
    WHERE lease_id = ANY (gone) AND namespace + 0 = p_namespace AND seq < young RETURNING seq)
    SELECT count(*), max(seq) INTO events, last FROM removed;
  UPDATE tenure.namespaces SET pruned_up_to = last WHERE number = p_namespace AND pruned_up_to < last;
  DELETE FROM tenure.requests WHERE namespace = p_namespace AND id IN (
    SELECT id FROM tenure.requests WHERE keep_until < p_now_ms AND namespace = p_namespace
    LIMIT batch);
  GET DIAGNOSTICS marks = ROW_COUNT;
  superseded := 0;
  -- This goes through all that is old: with what has ended still among it, each batch would take as long as the whole.
  IF leases < batch THEN
    young := coalesce((SELECT seq FROM tenure.ledger
      WHERE at_ms >= ended_before AND namespace = p_namespace ORDER BY seq LIMIT 1),
      9223372036854775807);
    -- Old renewals and advances say nothing once a later one is kept, and no client can repeat the request any more.
    DELETE FROM tenure.ledger WHERE seq IN (
      SELECT old.seq FROM tenure.ledger AS old
      WHERE old.seq < young AND old.namespace = p_namespace AND old.at_ms < ended_before
        AND CASE old.type
          WHEN 'renewed' THEN old.request_id IS NULL OR old.at_ms < p_now_ms - ${TTL_MS_MAX}
          WHEN 'advanced' THEN old.at_ms + coalesce((SELECT (l.body->>'ttlMs')::bigint
            FROM tenure.live_leases AS l WHERE l.id = old.lease_id AND l.namespace = p_namespace),
            ${TTL_MS_MAX}) < p_now_ms
          ELSE false END
        AND EXISTS (SELECT 1 FROM tenure.ledger AS later WHERE later.lease_id = old.lease_id
          AND later.namespace = p_namespace AND later.seq > old.seq AND later.type = old.type)
      LIMIT batch);
    GET DIAGNOSTICS superseded = ROW_COUNT;
  END IF;
  walked_to := tenure.forget_realms_v9(p_namespace, p_now_ms - ${REALM_MEMORY_MS}, p_after, batch);
  events := events + superseded;
  more := batch IN (leases, marks, superseded) OR walked_to IS NOT NULL;
END $$;
-- Returns where to go on, or null at the end. A realm that is a whole tree (its name ends with a colon) stays: there is
-- one for each kind.
CREATE OR REPLACE FUNCTION tenure.forget_realms_v9(
  p_namespace integer, used_before_ms bigint, p_after text, batch integer, OUT walked_to text
) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
  idle text[];
  highest bigint;
BEGIN
  SELECT array_agg(realm) FILTER (WHERE epoch IS NULL AND realm NOT LIKE '%:'
      AND last_fence < used_before_ms * 1000 AND last_wall_ms < used_before_ms
      AND last_us < used_before_ms * 1000), CASE WHEN count(*) = batch THEN max(realm) END
    INTO idle, walked_to FROM (
      SELECT realm, epoch, last_fence, last_wall_ms, last_us FROM tenure.realms
      WHERE namespace = p_namespace AND realm > p_after ORDER BY realm LIMIT batch) AS walked;
  IF idle IS NULL THEN RETURN; END IF;
  SELECT array_agg(realm) INTO idle FROM (
    SELECT realm FROM tenure.realms WHERE realm = ANY (idle) AND namespace = p_namespace
      AND last_us < used_before_ms * 1000 ORDER BY realm FOR UPDATE SKIP LOCKED) AS candidates;
  -- A statement of its own, because only now no call can file anything there.
  SELECT array_agg(r.realm), max(r.last_fence) INTO idle, highest FROM tenure.realms AS r
    WHERE r.namespace = p_namespace AND r.realm = ANY (idle)
      AND NOT EXISTS (SELECT 1 FROM tenure.live_leases AS l
        WHERE l.resource = r.realm AND l.namespace = p_namespace);
  IF idle IS NULL THEN RETURN; END IF;
  UPDATE tenure.namespaces SET fence_floor = greatest(fence_floor, highest)
    WHERE number = p_namespace;
  DELETE FROM tenure.realms WHERE namespace = p_namespace AND realm = ANY (idle);
END $$;`

/** What is remembered of the last prune; of a namespace that was never pruned, the time of its first event. */
export const READ_PRUNE_CLOCK = `SELECT coalesce(pruned_at, e.at_ms), coalesce(pruned_believed, e.at_ms)
  FROM tenure.namespaces LEFT JOIN LATERAL (SELECT at_ms FROM tenure.ledger
    WHERE namespace = $1::integer ORDER BY seq LIMIT 1) AS e ON true
  WHERE number = $1::integer`
export const WRITE_PRUNE_CLOCK = `UPDATE tenure.namespaces
  SET pruned_at = $2::bigint, pruned_believed = $3::bigint WHERE number = $1::integer`

/** Up to where events of ended entries are missing. */
export const READ_PRUNED_UP_TO = `SELECT pruned_up_to FROM tenure.namespaces WHERE number = $1::integer`

export const CALL_PRUNE = `SELECT leases, events, more, walked_to
  FROM tenure.prune_v9($1::integer, $2::bigint, $3::bigint, $4::integer, $5)`
