/**
 * What the server does for many plain attempts at once, in one statement per table instead of one per attempt. Plain is
 * what concerns one entry alone: see `isPlain` in postgres-plain.ts. The attempts are independent of each other, so
 * that their order does not matter.
 *
 * The comparisons are those of `tenure.attempt_one`. Since nothing but the own entry is claimed, exactly the believed
 * claims are there if the own entry has the believed version and no other entry is live at the resource.
 *
 * Joins hide the namespace from the planner (`namespace + 0`): of a table that it has no statistics of it believes that
 * few rows are of one namespace, and walks them all.
 */
import { BY_INDEX, dueOf } from './postgres-functions.ts'
import { PLAIN_COLUMNS, STATE_COLUMNS } from './postgres-plain-functions.ts'

const PARAMETERS = PLAIN_COLUMNS.map((column) => `p_${column}[]`).join(', ')

/** The named columns of all attempts, one row each, with what became of it so far. */
function rowsOf(names: readonly string[], answers = true): string {
  const columns = answers ? [...names, 'moved'] : names
  const arrays = columns.map((name) => (name === 'moved' ? 'moved' : `p_${name}`))
  return `unnest(${arrays.join(', ')}) WITH ORDINALITY AS u(${columns.join(', ')}, i)`
}

const TO_STATE = STATE_COLUMNS.join(', ')
const FROM_STATE = STATE_COLUMNS.map((name) => `u.${name}`).join(', ')
const WRITTEN = ['id', 'own', 'first', 'fence', ...STATE_COLUMNS]
const MOVED_FENCE = 'CASE WHEN u.fence >= u.first THEN u.fence + u.moved ELSE u.fence END'

const COMPARED = [
  ...['realm', 'resource', 'id', 'own', 'claims', 'request', 'prior', 'from_us', 'before_us'],
  ...['wall', 'first'],
]
const TOLD = [
  ...['id', 'resource', 'holder', 'session', 'event_type', 'at_ms', 'before', 'after'],
  ...['event_renewals', 'event_reason', 'request_id', 'event_fence', 'first', 'data'],
]

const COMPARE = `
  SELECT array_agg(CASE
      WHEN r.last_us - now_us > 5000000 THEN -2
      WHEN revision <> p_revision OR now_us < u.from_us OR now_us >= u.before_us
        OR r.last_wall_ms > u.wall OR o.renewed_at > u.wall OR coalesce(o.version, 0) <> u.own
        OR CASE WHEN u.realm = u.resource THEN coalesce(r.epoch, 0)
          ELSE tenure.epoch_of(p_namespace, u.resource) END <> 0
        OR (u.claims AND EXISTS (SELECT 1 FROM tenure.leases AS l WHERE l.resource = u.resource
          AND l.namespace = p_namespace AND l.live AND l.id <> u.id))
        OR (u.request IS NOT NULL AND (
          EXISTS (SELECT 1 FROM tenure.ledger AS l
            WHERE l.request_id = u.request AND l.namespace = p_namespace)
          OR EXISTS (SELECT 1 FROM tenure.requests AS q
            WHERE q.id = u.request AND q.namespace = p_namespace)) <> u.prior) THEN -1
      WHEN u.first IS NULL THEN 0
      ELSE greatest(0, coalesce(r.last_fence, 0) + 1 - u.first) END ORDER BY u.i) INTO moved
    FROM ${rowsOf(COMPARED, false)}
    LEFT JOIN tenure.realms AS r ON r.realm = u.realm AND r.namespace + 0 = p_namespace
    LEFT JOIN tenure.leases AS o ON o.id = u.id AND o.namespace + 0 = p_namespace;`

const WRITE = `
  INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${TO_STATE})
    SELECT p_namespace, u.id, nextval('tenure.entry_number'),
      coalesce(u.live_until_us, u.ended_at * 1000), ${MOVED_FENCE},
      ${FROM_STATE}
    FROM ${rowsOf(WRITTEN)} WHERE u.own = 0 AND u.moved >= 0;
  UPDATE tenure.leases AS l SET (fence, due_us, ${TO_STATE}) = ROW (${MOVED_FENCE},
      ${dueOf('u')}, ${FROM_STATE})
    FROM ${rowsOf(WRITTEN)}
    WHERE l.id = u.id AND l.namespace + 0 = p_namespace AND u.own > 0 AND u.moved >= 0;
  INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
      reason, request_id, fence, resource, holder, session, data)
    SELECT nextval('tenure.ledger_seq'), p_namespace, u.id, u.event_type, u.at_ms, u.before,
      u.after, u.event_renewals, u.event_reason, u.request_id,
      CASE WHEN u.event_fence >= u.first THEN u.event_fence + u.moved ELSE u.event_fence END,
      u.resource, u.holder, u.session, u.data
    FROM ${rowsOf(TOLD)} WHERE u.event_type IS NOT NULL AND u.moved >= 0;
  UPDATE tenure.realms AS r SET last_wall_ms = u.wall, last_us = greatest(r.last_us, now_us),
      last_fence = greatest(r.last_fence, u.first + u.moved)
    FROM ${rowsOf(['realm', 'claims', 'wall', 'first'])}
    WHERE r.realm = u.realm AND r.namespace + 0 = p_namespace AND u.claims AND u.moved >= 0;`

const TELL = `
  SELECT json_agg(CASE WHEN u.moved = -1
      THEN json_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(jsonb_build_object(
        'realm', u.realm, 'resource', u.resource, 'id', u.id, 'request', u.request,
        'claims', CASE WHEN u.claims THEN '' END)), now_us))
      ELSE (SELECT to_json((r.last_us - now_us + 999) / 1000) FROM tenure.realms AS r
        WHERE r.realm = u.realm AND r.namespace = p_namespace) END ORDER BY u.i) INTO views
    FROM ${rowsOf(['realm', 'resource', 'id', 'request', 'claims'])} WHERE u.moved < 0;`

export const GROUP_FUNCTIONS: string = `
CREATE FUNCTION tenure.attempt_group(
  p_namespace smallint, p_revision bigint, p_realms text[], p_ids uuid[], p_now_us bigint,
  p_others jsonb, ${PARAMETERS},
  OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views json,
  OUT others_moved bigint[], OUT others_views json
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
#variable_conflict use_column
DECLARE
  watched bigint;
  appended boolean := true;
BEGIN
  PERFORM tenure.hold(p_namespace, p_realms, p_ids);
  SELECT n.config_revision, n.watched_until_us INTO revision, watched
    FROM tenure.namespaces AS n WHERE n.number = p_namespace;
  now_us := coalesce(p_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  ${COMPARE}
  IF 0 <= ANY (moved) THEN
    PERFORM tenure.announce();
    ${WRITE}
  END IF;
  IF 0 > ANY (moved) THEN
    ${TELL}
  END IF;
  IF p_others IS NOT NULL THEN
    SELECT e.moved, to_json(e.views) INTO others_moved, others_views
      FROM tenure.attempt_each(p_namespace, revision = p_revision, p_others, now_us,
        0 <= ANY (moved)) AS e;
  END IF;
  IF appended AND watched > now_us THEN
    PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
  END IF;
END $$;`

/** The statement that calls it. */
export const ATTEMPT_GROUP: string = `SELECT now_us, revision, moved, views, others_moved, others_views
  FROM tenure.attempt_group($1::smallint, $2::bigint, $3::text[], $4::uuid[], $5::bigint, $6::jsonb,
    ${PLAIN_COLUMNS.map((column, index) => `$${index + 7}::${column.split(' ')[1]}[]`).join(', ')})`
