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
import {
  LEDGER_COLUMNS,
  ledgerValues,
  PLAIN_COLUMNS,
  STATE_COLUMNS,
} from './postgres-plain-functions.ts'

const NAMES = PLAIN_COLUMNS.map((column) => column.split(' ')[0]).join(', ')
const ROWS = `unnest(p_rows) WITH ORDINALITY AS u(${NAMES}, i)`
/** With what became of each. */
const ANSWERED = `unnest(p_rows, moved) WITH ORDINALITY AS u(${NAMES}, moved, i)`

const TO_STATE = STATE_COLUMNS.join(', ')
const FROM_STATE = STATE_COLUMNS.map((name) => `u.${name}`).join(', ')

/** A fence that is new moves up with the others; see `Attempt.fences`. */
function movedFence(name: string): string {
  return `CASE WHEN u.${name} >= u.first THEN u.${name} + u.moved ELSE u.${name} END`
}

const TOLD = ledgerValues((name) => (name === 'event_fence' ? movedFence(name) : `u.${name}`))

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
    FROM ${ROWS}
    LEFT JOIN tenure.realms AS r ON r.realm = u.realm AND r.namespace + 0 = p_namespace
    LEFT JOIN tenure.leases AS o ON o.id = u.id AND o.namespace + 0 = p_namespace;`

const WRITE = `
  INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${TO_STATE})
    SELECT p_namespace, u.id, nextval('tenure.entry_number'),
      coalesce(u.live_until_us, u.ended_at * 1000), ${movedFence('fence')},
      ${FROM_STATE}
    FROM ${ANSWERED} WHERE u.own = 0 AND u.moved >= 0;
  UPDATE tenure.leases AS l SET (fence, due_us, ${TO_STATE}) = ROW (${movedFence('fence')},
      ${dueOf('u')}, ${FROM_STATE})
    FROM ${ANSWERED}
    WHERE l.id = u.id AND l.namespace + 0 = p_namespace AND u.own > 0 AND u.moved >= 0;
  INSERT INTO tenure.ledger (${LEDGER_COLUMNS})
    SELECT ${TOLD}
    FROM ${ANSWERED} WHERE u.event_type IS NOT NULL AND u.moved >= 0;
  UPDATE tenure.realms AS r SET last_wall_ms = u.wall, last_us = greatest(r.last_us, now_us),
      last_fence = greatest(r.last_fence, u.first + u.moved)
    FROM ${ANSWERED}
    WHERE r.realm = u.realm AND r.namespace + 0 = p_namespace AND u.claims AND u.moved >= 0;`

const TELL = `
  SELECT json_agg(CASE WHEN u.moved = -1
      THEN json_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(jsonb_build_object(
        'realm', u.realm, 'resource', u.resource, 'id', u.id, 'request', u.request,
        'claims', CASE WHEN u.claims THEN '' END)), now_us))
      ELSE (SELECT to_json((r.last_us - now_us + 999) / 1000) FROM tenure.realms AS r
        WHERE r.realm = u.realm AND r.namespace = p_namespace) END ORDER BY u.i) INTO views
    FROM ${ANSWERED} WHERE u.moved < 0;`

export const GROUP_FUNCTIONS: string = `
CREATE TYPE tenure.plain AS (${PLAIN_COLUMNS.join(', ')});
CREATE FUNCTION tenure.attempt_group(
  p_namespace smallint, p_revision bigint, p_realms text[], p_ids uuid[], p_now_us bigint,
  p_others jsonb, p_rows tenure.plain[],
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
    $7::tenure.plain[])`
