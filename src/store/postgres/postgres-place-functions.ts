/**
 * What the server does for one attempt at one flat resource, whoever else is there: the steps of a queue. The
 * comparisons are those of `tenure.attempt_one`; what is compared and written comes as rows and arrays instead of JSON,
 * and each table is visited once, because a statement costs more than what it does to a row or two.
 */
import { BY_INDEX, dueOf } from './postgres-functions.ts'
import {
  ANNOUNCED,
  IS_OTHER_PRIOR,
  LOOK_AT_TIME,
  MOVED_BY,
  movedFence,
  readRealm,
  TELL_WATCHERS,
} from './postgres-lone-parts.ts'
import { tellFlat } from './postgres-view-functions.ts'

/** An entry as an attempt gives it; the columns of the type `tenure.entry`. */
const ENTRY_COLUMNS: readonly string[] = [
  ...['id uuid', 'fence bigint', 'deadline_us bigint', 'live_until_us bigint', 'ttl_ms bigint'],
  ...['created_at bigint', 'granted_at bigint', 'renewed_at bigint', 'expires_at bigint'],
  ...['terminated_at bigint', 'ended_at bigint', 'version integer', 'claim integer'],
  ...['renewals integer', 'max_renewals integer', 'resource text', 'holder text', 'session text'],
  ...['state text', 'mode text', 'extent text', 'release_reason text', 'reason text'],
  'detail jsonb',
]

/** An event as an attempt gives it; the columns of the type `tenure.event`. */
const EVENT_COLUMNS: readonly string[] = [
  ...['lease_id uuid', 'type text', 'at_ms bigint', 'before text', 'after text'],
  ...['renewals integer', 'reason text', 'request_id uuid', 'fence bigint', 'resource text'],
  ...['holder text', 'session text', 'ttl_ms bigint', 'deadline_us bigint', 'expires_at bigint'],
  ...['release_reason text', 'data jsonb'],
]

/** One attempt, besides the namespace, the revision of the settings, and a clock for tests. */
const PLACE_COLUMNS: readonly string[] = [
  ...['realm text', 'id uuid', 'own integer', 'seen uuid[]', 'claims integer[]'],
  ...['versions integer[]', 'request uuid', 'prior boolean', 'from_us bigint', 'before_us bigint'],
  ...['wall bigint', 'first bigint', 'last bigint', 'inserted tenure.entry[]'],
  ...['changed tenure.entry[]', 'changed_ids uuid[]', 'changed_versions integer[]'],
  ...['events tenure.event[]', 'channels text[]', 'payloads text[]'],
]

/** Their names alone. */
export const ENTRY_FIELDS: readonly string[] = ENTRY_COLUMNS.map(nameOf)
export const EVENT_FIELDS: readonly string[] = EVENT_COLUMNS.map(nameOf)

const PARAMETERS = PLACE_COLUMNS.map((column) => `p_${column}`).join(', ')

/** Without the id and the fence, which are treated apart. */
const STATE = ENTRY_FIELDS.slice(2)
const TO_STATE = STATE.join(', ')
const FROM_STATE = STATE.map((name) => `u.${name}`).join(', ')
const TO_EVENT = EVENT_FIELDS.join(', ')
const FROM_EVENT = EVENT_FIELDS.map((name) => {
  return name === 'fence' ? movedFence('u.fence') : `u.${name}`
}).join(', ')

function nameOf(column: string): string {
  return column.slice(0, column.indexOf(' '))
}

/** The realm, then the entries that change: their renewals lock no realm. What is locked cannot change any more. */
const HOLD = `
  ${readRealm('FOR UPDATE')}
  IF NOT FOUND THEN
    PERFORM tenure.hold(p_namespace, ARRAY[p_realm], NULL);
    ${readRealm('')}
  END IF;
  IF p_changed_ids IS NOT NULL THEN
    SELECT array_agg(o.version) INTO versions FROM (SELECT l.version FROM tenure.leases AS l
      WHERE l.id = ANY (p_changed_ids) AND l.namespace + 0 = p_namespace
      ORDER BY l.id FOR NO KEY UPDATE) AS o;
  END IF;`

/** Everything else that is compared, and the clock. */
const LOOK = `
  ${LOOK_AT_TIME}
        OR wall > p_wall OR epoch <> 0 OR versions IS DISTINCT FROM p_changed_versions
        OR s.ids IS DISTINCT FROM p_seen OR s.claims IS DISTINCT FROM p_claims
        OR s.newest > p_wall
        OR p_own IS DISTINCT FROM coalesce((SELECT l.version FROM tenure.leases AS l
          WHERE l.id = p_id AND l.namespace = p_namespace), 0)
        OR ${IS_OTHER_PRIOR} THEN -1
      ${MOVED_BY},
      (SELECT array_agg(o.id) AS ids, array_agg(o.claim) AS claims, max(o.renewed_at) AS newest
        FROM (SELECT l.id, l.claim, l.renewed_at FROM tenure.leases AS l
          WHERE l.resource = p_realm AND l.namespace = p_namespace AND l.live ORDER BY l.id) AS o
      ) AS s
    WHERE n.number = p_namespace;`

const WRITE = `
  IF p_inserted IS NOT NULL THEN
    INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${TO_STATE})
      SELECT p_namespace, u.id, nextval('tenure.entry_number'),
        coalesce(u.live_until_us, u.ended_at * 1000), ${movedFence('u.fence')}, ${FROM_STATE}
      FROM unnest(p_inserted) AS u;
  END IF;
  IF p_changed IS NOT NULL THEN
    UPDATE tenure.leases AS l SET (fence, due_us, ${TO_STATE}) = ROW (${movedFence('u.fence')},
        ${dueOf('u')}, ${FROM_STATE})
      FROM unnest(p_changed) AS u WHERE l.id = u.id AND l.namespace + 0 = p_namespace;
  END IF;
  IF p_events IS NOT NULL THEN
    INSERT INTO tenure.ledger (seq, namespace, ${TO_EVENT})
      SELECT nextval('tenure.ledger_seq'), p_namespace, ${FROM_EVENT}
      FROM ${ANNOUNCED},
        unnest(p_events) AS u;
    ${TELL_WATCHERS}
  END IF;
  UPDATE tenure.realms AS r SET last_wall_ms = p_wall, last_us = greatest(r.last_us, now_us),
      last_fence = greatest(r.last_fence, p_last + answer)
    WHERE r.realm = p_realm AND r.namespace = p_namespace;
  IF p_channels IS NOT NULL THEN
    PERFORM pg_notify(w.channel, w.payload) FROM unnest(p_channels, p_payloads) AS w(channel, payload);
  END IF;`

export const PLACE_FUNCTIONS: string = `
CREATE TYPE tenure.entry AS (${ENTRY_COLUMNS.join(', ')});
CREATE TYPE tenure.event AS (${EVENT_COLUMNS.join(', ')});
CREATE FUNCTION tenure.attempt_place(
  p_namespace smallint, p_revision bigint, p_now_us bigint, ${PARAMETERS},
  OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views json
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
#variable_conflict use_column
DECLARE
  watched bigint;
  highest bigint;
  wall bigint;
  latest bigint;
  epoch bigint;
  versions integer[];
  answer bigint;
  marked record;
BEGIN
  ${HOLD}
  ${LOOK}
  IF answer >= 0 THEN
    ${WRITE}
  ELSIF answer = -1 THEN
    ${tellFlat({ isSeen: true })}
  ELSE
    views := json_build_array((latest - now_us + 999) / 1000);
  END IF;
  moved := ARRAY[answer];
END $$;`

/** The statement that calls it. */
export const ATTEMPT_PLACE: string = `SELECT now_us, revision, moved, views
  FROM tenure.attempt_place($1::smallint, $2::bigint, $3::bigint,
    ${PLACE_COLUMNS.map((column, index) => `$${index + 4}::${column.split(' ')[1]}`).join(', ')})`
