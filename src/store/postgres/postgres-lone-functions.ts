/**
 * What the server does for one plain attempt alone in its call: the leanest way, because somebody waits for nothing
 * else. The comparisons and the locks are those of `tenure.attempt_plain`, of which this is the case of one; but a few
 * short statements cost one attempt less than one long statement, which is worth its preparation for many.
 */
import { BY_INDEX, dueOf } from './postgres-functions.ts'
import { ANNOUNCED, readRealm, TELL_WATCHERS } from './postgres-lone-parts.ts'
import {
  AHEAD_MS_MAX,
  CHANGE_COLUMNS,
  hasPrior,
  leaveAt,
  LOOK_BEFORE,
  NEW_COLUMNS,
  TAKES_RELEASE_REASON,
  TAKES_TERM,
} from './postgres-plain-functions.ts'
import { tellFlat } from './postgres-view-functions.ts'

const PLACE = 'r.realm = p_realm AND r.namespace = p_namespace'
const NOW_US = '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint'

/** What is left at the realm is written first, because that locks it. */
function leave(fence: string): string {
  return `${LOOK_BEFORE}
    UPDATE tenure.realms AS r SET last_us = greatest(r.last_us, asked_us),
        last_wall_ms = greatest(r.last_wall_ms, least(p_wall, asked_us / 1000 + ${AHEAD_MS_MAX}))${fence}
      WHERE ${PLACE}
      RETURNING r.last_fence, r.last_wall_ms, r.last_us, r.epoch
        INTO highest, wall, latest, epoch;`
}

/** Everything else that is compared; `otherwise` is the answer if all is as it was believed to be. */
function look(differs: string, otherwise: string): string {
  return `now_us := coalesce(p_now_us, ${NOW_US});
  SELECT n.config_revision, n.watched_until_us, CASE WHEN latest - now_us > 5000000 THEN -2
      WHEN n.config_revision <> p_revision OR now_us < p_from_us OR now_us >= p_before_us
        OR wall > p_wall OR ${differs} THEN -1 ELSE ${otherwise} END
    INTO revision, watched, answer FROM tenure.namespaces AS n WHERE n.number = p_namespace;`
}

const LOOK_AT_NEW = look(
  `epoch <> 0
        OR (SELECT true FROM tenure.leases AS l WHERE l.resource = p_realm
          AND l.namespace = p_namespace AND l.live LIMIT 1)
        OR (SELECT true FROM tenure.leases AS l WHERE l.id = p_id AND l.namespace = p_namespace)
        OR ${hasPrior('p_request')}`,
  'highest - p_fence',
)

const LOOK_AT_CHANGED = look(
  `renewed > p_wall OR own IS DISTINCT FROM p_own
        OR CASE WHEN p_realm = p_resource THEN epoch
          ELSE tenure.epoch_of(p_namespace, p_resource) END <> 0
        OR (p_claims AND (SELECT true FROM tenure.leases AS l WHERE l.resource = p_resource
          AND l.namespace = p_namespace AND l.live AND l.id <> p_id LIMIT 1))
        OR ${hasPrior('p_request')}`,
  '0',
)

const WRITE_NEW = `
    WITH entry AS (
      INSERT INTO tenure.leases (namespace, id, number, due_us, deadline_us, live_until_us, fence,
          ttl_ms, created_at, granted_at, expires_at, version, claim, renewals, max_renewals,
          resource, holder, session, state, mode, extent, reason, detail)
        VALUES (p_namespace, p_id, nextval('tenure.entry_number'), p_deadline_us, p_deadline_us,
          p_deadline_us, highest, p_ttl_ms, p_wall, p_wall, p_expires_at, p_version, p_version, 0,
          p_max_renewals, p_realm, p_holder, p_session, 'active', p_mode, p_extent, p_reason,
          p_detail))
    INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, after, renewals, reason,
        request_id, fence, resource, holder, session, ttl_ms, deadline_us, expires_at, data)
      SELECT nextval('tenure.ledger_seq'), p_namespace, p_id, 'issued', p_wall, 'active', 0,
        p_event_reason, p_event_request, highest, p_realm, p_holder, p_session, p_ttl_ms,
        p_deadline_us, p_expires_at, p_data
      FROM ${ANNOUNCED};
    ${TELL_WATCHERS}`

const WRITE_CHANGED = `
    WITH entry AS (
      UPDATE tenure.leases AS l SET due_us = ${dueOf('p').replaceAll('p.', 'p_')},
          state = p_state, ttl_ms = p_ttl_ms, renewed_at = p_renewed_at,
          expires_at = p_expires_at, terminated_at = p_terminated_at, ended_at = p_ended_at,
          renewals = p_renewals, release_reason = p_release_reason, deadline_us = p_deadline_us,
          live_until_us = p_live_until_us, version = p_own + 1, claim = p_claim, detail = p_detail
        WHERE l.id = p_id AND l.namespace = p_namespace)
    INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
        reason, request_id, resource, holder, session, ttl_ms, deadline_us, expires_at,
        release_reason)
      SELECT nextval('tenure.ledger_seq'), p_namespace, p_id, p_event_type, p_wall, was, p_state,
        p_renewals, p_event_reason, p_request, p_resource, held_by, held_in,
        ${['ttl_ms', 'deadline_us', 'expires_at'].map((name) => taken(TAKES_TERM, name)).join()},
        ${taken(TAKES_RELEASE_REASON, 'release_reason')}
      FROM ${ANNOUNCED} WHERE p_event_type IS NOT NULL;
    ${TELL_WATCHERS}`

function taken(bit: number, name: string): string {
  return `CASE WHEN p_takes & ${bit} <> 0 THEN p_${name} END`
}

const BEHIND = 'json_build_array((latest - now_us + 999) / 1000)'

const DECLARED = `watched bigint;
  asked_us bigint;
  highest bigint;
  wall bigint;
  latest bigint;
  epoch bigint;
  answer bigint;
  marked record;`

const ANSWER = `OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views json
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
#variable_conflict use_column`

const NEW = `
CREATE FUNCTION tenure.attempt_new(
  p_namespace smallint, p_revision bigint, p_now_us bigint, ${parameters(NEW_COLUMNS)}, ${ANSWER}
DECLARE
  ${DECLARED}
  p_realm text := p_resource;
BEGIN
  ${leave(`, last_fence = greatest(r.last_fence + 1, p_fence)`)}
  IF NOT FOUND THEN
    ${leaveAt('ARRAY[p_realm], ARRAY[p_fence], ARRAY[p_wall]')}
    ${readRealm('')}
  END IF;
  p_request := coalesce(p_request, p_id);
  ${LOOK_AT_NEW}
  IF answer >= 0 THEN
    ${WRITE_NEW}
  ELSE
    -- The fence that was taken is free again.
    UPDATE tenure.realms AS r SET last_fence = r.last_fence - 1 WHERE ${PLACE};
    highest := highest - 1;
    IF answer = -1 THEN
      ${tellFlat({ isSeen: false })}
    ELSE
      views := ${BEHIND};
    END IF;
  END IF;
  moved := ARRAY[answer];
END $$;`

/**
 * A renewal locks its own entry alone. The change of the entry would lock it as well, but only after the clock was read:
 * should it wait there for somebody who then takes everything back, a lease that has ended meanwhile would live again.
 * What is locked is read in the same step, and cannot change any more.
 */
const CHANGE = `
CREATE FUNCTION tenure.attempt_change(
  p_namespace smallint, p_revision bigint, p_now_us bigint, ${parameters(CHANGE_COLUMNS)}, ${ANSWER}
DECLARE
  ${DECLARED}
  own integer;
  renewed bigint;
  was text;
  held_by text;
  held_in text;
BEGIN
  p_realm := coalesce(p_realm, p_resource);
  IF p_claims THEN
    ${leave('')}
  ELSE
    ${readRealm('')}
  END IF;
  SELECT l.version, l.renewed_at, l.state, l.holder, l.session
    INTO own, renewed, was, held_by, held_in FROM tenure.leases AS l
    WHERE l.id = p_id AND l.namespace = p_namespace FOR NO KEY UPDATE;
  ${LOOK_AT_CHANGED}
  IF answer >= 0 THEN
    ${WRITE_CHANGED}
  ELSIF answer = -1 AND p_claims THEN
    ${tellFlat({ isSeen: false })}
  ELSIF answer = -1 THEN
    views := json_build_array(json_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(
      jsonb_build_object('realm', p_realm, 'resource', p_resource, 'id', p_id,
        'request', p_request)), now_us)));
  ELSE
    views := ${BEHIND};
  END IF;
  moved := ARRAY[answer];
END $$;`

function parameters(columns: readonly string[]): string {
  return columns.map((column) => `p_${column}`).join(', ')
}

/**
 * Tries to make and to change an entry that nobody will ever see, too late. A connection plans each statement when it
 * first meets it, which takes many times as long as the statement; after this its first real call is as quick as any.
 */
const REHEARSE = `
CREATE FUNCTION tenure.rehearse(p_namespace smallint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  added tenure.newcomer;
  changed tenure.change;
BEGIN
  added.resource := gen_random_uuid();
  added.id := gen_random_uuid();
  added.wall := 0;
  added.fence := 1;
  added.before_us := 0;
  changed.resource := added.resource;
  changed.id := added.id;
  changed.own := 1;
  changed.claims := true;
  changed.before_us := 0;
  PERFORM tenure.attempt_plain(p_namespace, 0, NULL, ARRAY[added.resource], '{1}', '{0}',
    ARRAY[added.id], ARRAY[added], ARRAY[changed], '{}', NULL);
  PERFORM tenure.attempt_new(p_namespace, 0, NULL, ${fields('added', NEW_COLUMNS)});
  PERFORM tenure.attempt_change(p_namespace, 0, NULL, ${fields('changed', CHANGE_COLUMNS)});
  RAISE EXCEPTION 'taken back' USING ERRCODE = 'TN002';
EXCEPTION WHEN SQLSTATE 'TN002' THEN
  RETURN;
END $$;`

function fields(record: string, columns: readonly string[]): string {
  return columns.map((column) => `${record}.${column.split(' ')[0]}`).join(', ')
}

export const LONE_FUNCTIONS: string = [NEW, CHANGE, REHEARSE].join('\n')

/** The statements that call them. */
export const ATTEMPT_NEW: string = callOf('attempt_new', NEW_COLUMNS)
export const ATTEMPT_CHANGE: string = callOf('attempt_change', CHANGE_COLUMNS)

function callOf(name: string, columns: readonly string[]): string {
  const values = columns.map((column, index) => `$${index + 4}::${column.split(' ')[1]}`)
  return `SELECT now_us, revision, moved, views
  FROM tenure.${name}($1::smallint, $2::bigint, $3::bigint, ${values.join(', ')})`
}
