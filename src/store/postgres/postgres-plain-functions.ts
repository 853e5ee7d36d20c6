/**
 * What the server does for plain attempts, many at once: a statement that locks, and one that compares and writes. Plain is what concerns one entry alone: see postgres-plain.ts. The attempts are independent of each other, so
 * that their order does not matter.
 *
 * The comparisons are those of `tenure.attempt_one`. Since nothing but the own entry is claimed, exactly the believed
 * claims are there if the own entry has the believed version and no other entry is live at the resource.
 *
 * Realms are locked by writing to them what the attempts would leave there, because a lock alone costs as much as a
 * change. So a miss leaves traces: a wall time, which no event may go back behind, and a fence that nobody gets.
 *
 * Entries that are locked do not move any more, and are written by their place (`ctid`) instead of being looked for
 * again. Joins hide the namespace from the planner, like `lockEntries`. For the same reason nothing is asked with
 * `EXISTS`, of which it may make a list of all rows of the namespace.
 */
import { APPENDING, BY_INDEX, dueOf, lockEntries } from './postgres-functions.ts'

/**
 * An entry that is new where nobody else is; the columns of the type `tenure.newcomer`. Without a `request` its id is
 * the id of the request.
 */
export const NEW_COLUMNS: readonly string[] = [
  ...['resource text', 'id uuid', 'request uuid', 'from_us bigint', 'before_us bigint'],
  ...['wall bigint', 'fence bigint', 'holder text', 'session text', 'mode text', 'extent text'],
  ...['ttl_ms bigint', 'expires_at bigint', 'deadline_us bigint', 'version integer'],
  ...['max_renewals integer', 'reason text', 'detail jsonb', 'event_reason text'],
  ...['event_request uuid', 'data jsonb'],
]

/** How an entry that stays changes; the columns of the type `tenure.change`. */
export const CHANGE_COLUMNS: readonly string[] = [
  ...['realm text', 'resource text', 'id uuid', 'own integer', 'claims boolean', 'request uuid'],
  ...['from_us bigint', 'before_us bigint', 'wall bigint', 'state text', 'ttl_ms bigint'],
  ...['renewed_at bigint', 'expires_at bigint', 'terminated_at bigint', 'ended_at bigint'],
  ...['renewals integer', 'release_reason text', 'deadline_us bigint', 'live_until_us bigint'],
  ...['claim integer', 'detail jsonb', 'event_type text', 'event_reason text', 'takes integer'],
]

/** What the event of a change has in common with the entry that it leaves; sums of these. */
export const TAKES_TERM = 1
export const TAKES_RELEASE_REASON = 2

/** A wall time that is further ahead of the clock than this belongs to an attempt that misses, and is not kept. */
export const AHEAD_MS_MAX = 5_000

/**
 * Makes and changes realms in order of name, like everybody who locks them. A fence that is given is above the floor, so
 * that one at the floor means that none is.
 */
export function leaveAt(places: string): string {
  return `INSERT INTO tenure.realms AS r (namespace, realm, last_fence, last_wall_ms, last_us)
      SELECT p_namespace, w.realm, greatest(w.fence, n.fence_floor + (w.fence > 0)::integer),
        least(w.wall, asked_us / 1000 + ${AHEAD_MS_MAX}), asked_us
      FROM unnest(${places}) AS w(realm, fence, wall), tenure.namespaces AS n
      WHERE n.number = p_namespace ORDER BY w.realm COLLATE "C"
      ON CONFLICT (realm, namespace) DO UPDATE
        SET last_wall_ms = greatest(r.last_wall_ms, excluded.last_wall_ms),
          last_us = greatest(r.last_us, excluded.last_us),
          last_fence = CASE WHEN excluded.last_fence > (SELECT n.fence_floor
              FROM tenure.namespaces AS n WHERE n.number = p_namespace)
            THEN greatest(r.last_fence + 1, excluded.last_fence) ELSE r.last_fence END;`
}

/** What the clock says before anything is locked: good enough for what is left at the realms. */
export const LOOK_BEFORE: string = `asked_us := coalesce(p_now_us,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);`

/** With others in the call, all realms of it are locked before. */
const HOLD = `
  ${LOOK_BEFORE}
  IF p_others IS NOT NULL THEN
    PERFORM tenure.hold(p_namespace, p_realms, '{}');
  END IF;
  IF p_places IS NOT NULL THEN
    ${leaveAt('p_places, p_fences, p_walls')}
  END IF;
  IF p_ids <> '{}' THEN
    ${lockEntries('p_ids')}
  END IF;`

/** Time, settings, and the clock of the realm. */
const AGE = `WHEN r.last_us - now_us > 5000000 THEN -2
        WHEN n.config_revision <> p_revision OR now_us < u.from_us OR now_us >= u.before_us
          OR r.last_wall_ms > u.wall`

/** Whether a request has had its effect already. */
export function hasPrior(request: string): string {
  return `(SELECT true FROM tenure.ledger AS l
              WHERE l.request_id = ${request} AND l.namespace = p_namespace LIMIT 1)
          OR (SELECT true FROM tenure.requests AS q
              WHERE q.id = ${request} AND q.namespace = p_namespace)`
}

const REALM_AND_NAMESPACE = `LEFT JOIN tenure.realms AS r
          ON r.realm = coalesce(u.realm, u.resource) AND r.namespace + 0 = p_namespace
        JOIN tenure.namespaces AS n ON n.number = p_namespace`

/** A number of the ledger is announced once in a call, before any other is taken, and only if one will be. */
function announced(condition: string): string {
  return `announced AS MATERIALIZED (
      SELECT CASE WHEN NOT is_announced THEN pg_advisory_xact_lock_shared(${APPENDING},
        (nextval('tenure.ledger_seq') % 2147483648)::integer) END
      WHERE EXISTS (SELECT 1 FROM c WHERE ${condition}))`
}

/** The answers in the order of the attempts, and what is known of the namespace. */
function answer(moved: string, condition: string): string {
  return `SELECT array_agg(c.moved ORDER BY c.ordinality), min(c.config_revision),
        min(c.watched_until_us), is_announced OR bool_or(${condition})
      INTO ${moved}, revision, watched, is_announced FROM c;`
}

const IS_TOLD = 'c.moved >= 0'
const IS_CHANGE_TOLD = 'c.event_type IS NOT NULL AND c.moved >= 0'

const WRITE_NEW = `
    WITH c AS MATERIALIZED (
      SELECT u.*, n.config_revision, n.watched_until_us, CASE ${AGE} OR r.epoch <> 0
          OR (SELECT true FROM tenure.leases AS l WHERE l.resource = u.resource
            AND l.namespace = p_namespace AND l.live LIMIT 1)
          OR (SELECT true FROM tenure.leases AS l
            WHERE l.id = u.id AND l.namespace = p_namespace)
          OR ${hasPrior('coalesce(u.request, u.id)')} THEN -1
        ELSE r.last_fence - u.fence END AS moved
      FROM unnest(p_new) WITH ORDINALITY AS u
        ${REALM_AND_NAMESPACE.replace('coalesce(u.realm, u.resource)', 'u.resource')}
    ), ${announced(IS_TOLD)}, entries AS (
      INSERT INTO tenure.leases (namespace, id, number, due_us, deadline_us, live_until_us, fence,
          ttl_ms, created_at, granted_at, expires_at, version, claim, renewals, max_renewals,
          resource, holder, session, state, mode, extent, reason, detail)
        SELECT p_namespace, c.id, nextval('tenure.entry_number'), c.deadline_us, c.deadline_us,
          c.deadline_us, c.fence + c.moved, c.ttl_ms, c.wall, c.wall, c.expires_at, c.version,
          c.version, 0, c.max_renewals, c.resource, c.holder, c.session, 'active', c.mode,
          c.extent, c.reason, c.detail
        FROM c WHERE c.moved >= 0
    ), events AS (
      INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, after, renewals, reason,
          request_id, fence, resource, holder, session, ttl_ms, deadline_us, expires_at, data)
        SELECT nextval('tenure.ledger_seq'), p_namespace, c.id, 'issued', c.wall, 'active', 0,
          c.event_reason, c.event_request, c.fence + c.moved, c.resource, c.holder, c.session,
          c.ttl_ms, c.deadline_us, c.expires_at, c.data
        FROM announced, c WHERE ${IS_TOLD}
    )
    ${answer('new_moved', IS_TOLD)}`

const WRITE_CHANGED = `
    WITH c AS MATERIALIZED (
      SELECT u.*, o.ctid AS own_at, o.state AS before, o.holder, o.session, n.config_revision,
        n.watched_until_us, CASE ${AGE} OR o.renewed_at > u.wall
          OR o.version IS DISTINCT FROM u.own
          OR CASE WHEN u.realm IS NULL THEN r.epoch
            ELSE tenure.epoch_of(p_namespace, u.resource) END <> 0
          OR (u.claims AND (SELECT true FROM tenure.leases AS l WHERE l.resource = u.resource
            AND l.namespace = p_namespace AND l.live AND l.id <> u.id LIMIT 1))
          OR ${hasPrior('u.request')} THEN -1
        ELSE 0 END AS moved
      FROM unnest(p_changed) WITH ORDINALITY AS u ${REALM_AND_NAMESPACE}
        LEFT JOIN tenure.leases AS o ON o.id = u.id AND o.namespace + 0 = p_namespace
    ), ${announced(IS_CHANGE_TOLD)}, entries AS (
      UPDATE tenure.leases AS l SET due_us = ${dueOf('c')},
          state = c.state, ttl_ms = c.ttl_ms, renewed_at = c.renewed_at,
          expires_at = c.expires_at, terminated_at = c.terminated_at, ended_at = c.ended_at,
          renewals = c.renewals, release_reason = c.release_reason, deadline_us = c.deadline_us,
          live_until_us = c.live_until_us, version = c.own + 1, claim = c.claim, detail = c.detail
        FROM c WHERE l.ctid = c.own_at AND c.moved >= 0
    ), events AS (
      INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
          reason, request_id, resource, holder, session, ttl_ms, deadline_us, expires_at,
          release_reason)
        SELECT nextval('tenure.ledger_seq'), p_namespace, c.id, c.event_type, c.wall, c.before,
          c.state, c.renewals, c.event_reason, c.request, c.resource, c.holder, c.session,
          ${['ttl_ms', 'deadline_us', 'expires_at'].map((name) => taken(TAKES_TERM, name)).join()},
          ${taken(TAKES_RELEASE_REASON, 'release_reason')}
        FROM announced, c WHERE ${IS_CHANGE_TOLD}
    )
    ${answer('changed_moved', IS_CHANGE_TOLD)}`

function taken(bit: number, name: string): string {
  return `CASE WHEN c.takes & ${bit} <> 0 THEN c.${name} END`
}

/** Tells whoever missed what is there, and whoever met a clock that is behind by how much. */
function tell(rows: string, of: Readonly<Record<'moved' | TellColumn, string>>): string {
  return `SELECT json_agg(CASE WHEN m.moved = -1
        THEN json_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(jsonb_build_object(
          'realm', ${of.realm}, 'resource', u.resource, 'id', u.id, 'request', ${of.request},
          'claims', ${of.claims})), now_us))
        ELSE (SELECT to_json((r.last_us - now_us + 999) / 1000) FROM tenure.realms AS r
          WHERE r.realm = ${of.realm} AND r.namespace = p_namespace) END ORDER BY m.i)
      FROM unnest(${rows}) WITH ORDINALITY AS u
        JOIN unnest(${of.moved}) WITH ORDINALITY AS m(moved, i) ON m.i = u.ordinality
      WHERE m.moved < 0`
}

type TellColumn = 'realm' | 'request' | 'claims'

const TELL_NEW = tell('p_new', {
  ...{
    moved: 'new_moved',
    realm: 'u.resource',
    request: 'coalesce(u.request, u.id)',
    claims: `''`,
  },
})
const TELL_CHANGED = tell('p_changed', {
  ...{ moved: 'changed_moved', realm: 'coalesce(u.realm, u.resource)', request: 'u.request' },
  claims: `CASE WHEN u.claims THEN '' END`,
})

/** The fences that were taken for those who missed are free again. */
const GIVE_BACK = `
      UPDATE tenure.realms AS r SET last_fence = r.last_fence - 1
        WHERE r.namespace = p_namespace AND r.realm = ANY (ARRAY(SELECT u.resource
          FROM unnest(p_new) WITH ORDINALITY AS u
            JOIN unnest(new_moved) WITH ORDINALITY AS m(moved, i) ON m.i = u.ordinality
          WHERE m.moved < 0));`

export const PLAIN_FUNCTIONS: string = `
CREATE TYPE tenure.newcomer AS (${NEW_COLUMNS.join(', ')});
CREATE TYPE tenure.change AS (${CHANGE_COLUMNS.join(', ')});
CREATE FUNCTION tenure.attempt_plain(
  p_namespace smallint, p_revision bigint, p_now_us bigint, p_places text[], p_fences bigint[],
  p_walls bigint[], p_ids uuid[], p_new tenure.newcomer[], p_changed tenure.change[],
  p_realms text[], p_others jsonb,
  OUT now_us bigint, OUT revision bigint, OUT new_moved bigint[], OUT new_views json,
  OUT changed_moved bigint[], OUT changed_views json, OUT others_moved bigint[],
  OUT others_views json
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
#variable_conflict use_column
DECLARE
  watched bigint;
  asked_us bigint;
  is_announced boolean := false;
BEGIN
  ${HOLD}
  now_us := coalesce(p_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  IF p_new IS NOT NULL THEN
    ${WRITE_NEW}
    IF 0 > ANY (new_moved) THEN
      ${GIVE_BACK}
      new_views := (${TELL_NEW});
    END IF;
  END IF;
  IF p_changed IS NOT NULL THEN
    ${WRITE_CHANGED}
    IF 0 > ANY (changed_moved) THEN
      changed_views := (${TELL_CHANGED});
    END IF;
  END IF;
  IF p_others IS NOT NULL THEN
    SELECT e.moved, to_json(e.views) INTO others_moved, others_views
      FROM tenure.attempt_each(p_namespace, revision = p_revision, p_others, now_us,
        is_announced) AS e;
  END IF;
  IF watched > now_us THEN
    PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
  END IF;
END $$;`

/** The statement that calls it. */
export const ATTEMPT_PLAIN: string = `SELECT now_us, revision, new_moved, new_views, changed_moved,
    changed_views, others_moved, others_views
  FROM tenure.attempt_plain($1::smallint, $2::bigint, $3::bigint, $4::text[], $5::bigint[],
    $6::bigint[], $7::uuid[], $8::tenure.newcomer[], $9::tenure.change[], $10::text[], $11::jsonb)`
