/**
 * What the server does for one plain attempt, alone in its call: the leanest way, because somebody waits for nothing
 * else. Plain is what concerns one entry alone: see `plainOf` in postgres-plain.ts. The comparisons are those of
 * `tenure.attempt_one`, and the locks are taken in the same order.
 *
 * Since nothing but the own entry is claimed, exactly the believed claims are there if the own entry has the believed
 * version and no other entry is live at the resource.
 */
import { APPENDING, BY_INDEX, dueOf } from './postgres-functions.ts'

/** What a plain attempt consists of. */
export const PLAIN_COLUMNS: readonly string[] = [
  ...['realm text', 'resource text', 'id uuid', 'own integer', 'claims boolean', 'request uuid'],
  ...['prior boolean', 'from_us bigint', 'before_us bigint', 'wall bigint', 'first bigint'],
  ...['holder text', 'session text', 'state text', 'mode text', 'extent text', 'fence bigint'],
  ...['ttl_ms bigint', 'created_at bigint', 'granted_at bigint', 'renewed_at bigint'],
  ...['expires_at bigint', 'terminated_at bigint', 'ended_at bigint', 'renewals integer'],
  ...['max_renewals integer', 'release_reason text', 'reason text', 'deadline_us bigint'],
  ...['live_until_us bigint', 'version integer', 'claim integer', 'detail jsonb'],
  ...['event_type text', 'at_ms bigint', 'before text', 'after text', 'event_renewals integer'],
  ...['event_reason text', 'request_id uuid', 'event_fence bigint', 'data jsonb'],
]

export const STATE_COLUMNS: readonly string[] = [
  ...['deadline_us', 'live_until_us', 'ttl_ms', 'created_at', 'granted_at', 'renewed_at'],
  ...['expires_at', 'terminated_at', 'ended_at', 'version', 'claim', 'renewals', 'max_renewals'],
  ...['resource', 'holder', 'session', 'state', 'mode', 'extent', 'release_reason', 'reason'],
  'detail',
]

const PARAMETERS = PLAIN_COLUMNS.map((column) => `p_${column}`).join(', ')
const TO_STATE = STATE_COLUMNS.join(', ')
const FROM_STATE = STATE_COLUMNS.map((name) => `p_${name}`).join(', ')
const SET_STATE = STATE_COLUMNS.map((name) => `${name} = p_${name}`).join(', ')

const HOLD = `
  IF p_claims THEN
    SELECT r.last_fence, r.last_wall_ms, r.last_us, r.epoch INTO at FROM tenure.realms AS r
      WHERE r.realm = p_realm AND r.namespace = p_namespace FOR UPDATE;
    IF NOT FOUND THEN
      PERFORM tenure.hold(p_namespace, ARRAY[p_realm], NULL);
      SELECT r.last_fence, r.last_wall_ms, r.last_us, r.epoch INTO at FROM tenure.realms AS r
        WHERE r.realm = p_realm AND r.namespace = p_namespace;
    END IF;
  ELSE
    SELECT r.last_fence, r.last_wall_ms, r.last_us, r.epoch INTO at FROM tenure.realms AS r
      WHERE r.realm = p_realm AND r.namespace = p_namespace;
  END IF;
  SELECT l.version, l.renewed_at INTO kept FROM tenure.leases AS l
    WHERE l.id = p_id AND l.namespace = p_namespace FOR UPDATE;`

const COMPARE = `
  IF at.last_us - now_us > 5000000 THEN
    answer := -2;
  ELSIF revision <> p_revision OR now_us < p_from_us OR now_us >= p_before_us
      OR at.last_wall_ms > p_wall OR kept.renewed_at > p_wall OR coalesce(kept.version, 0) <> p_own
      OR coalesce(at.epoch, 0) <> 0 THEN
    answer := -1;
  ELSIF p_claims AND EXISTS (SELECT 1 FROM tenure.leases AS l WHERE l.resource = p_resource
      AND l.namespace = p_namespace AND l.live AND l.id <> p_id) THEN
    answer := -1;
  ELSIF p_request IS NOT NULL AND (
      EXISTS (SELECT 1 FROM tenure.ledger AS l
        WHERE l.request_id = p_request AND l.namespace = p_namespace)
      OR EXISTS (SELECT 1 FROM tenure.requests AS q
        WHERE q.id = p_request AND q.namespace = p_namespace)) <> p_prior THEN
    answer := -1;
  ELSIF NOT p_claims AND p_realm <> p_resource
      AND tenure.epoch_of(p_namespace, p_resource) <> 0 THEN
    answer := -1;
  ELSIF p_first IS NOT NULL THEN
    answer := greatest(0, coalesce(at.last_fence, 0) + 1 - p_first);
    IF p_fence >= p_first THEN p_fence := p_fence + answer; END IF;
    IF p_event_fence >= p_first THEN p_event_fence := p_event_fence + answer; END IF;
  END IF;`

const WRITE = `
  IF p_own = 0 THEN
    INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${TO_STATE})
      VALUES (p_namespace, p_id, nextval('tenure.entry_number'),
        coalesce(p_live_until_us, p_ended_at * 1000), p_fence, ${FROM_STATE});
  ELSE
    UPDATE tenure.leases AS l SET fence = p_fence, due_us = ${dueOf('p').replaceAll('p.', 'p_')},
        ${SET_STATE}
      WHERE l.id = p_id AND l.namespace = p_namespace;
  END IF;
  IF p_event_type IS NOT NULL THEN
    is_announced := pg_advisory_xact_lock_shared(${APPENDING},
      (nextval('tenure.ledger_seq') % 2147483648)::integer) IS NULL;
    INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
        reason, request_id, fence, resource, holder, session, data)
      VALUES (nextval('tenure.ledger_seq'), p_namespace, p_id, p_event_type, p_at_ms, p_before,
        p_after, p_event_renewals, p_event_reason, p_request_id, p_event_fence, p_resource,
        p_holder, p_session, p_data);
    IF watched > now_us THEN PERFORM pg_notify('tenure_ledger_' || p_namespace, ''); END IF;
  END IF;
  IF p_claims THEN
    UPDATE tenure.realms AS r SET last_wall_ms = p_wall, last_us = greatest(r.last_us, now_us),
        last_fence = greatest(r.last_fence, p_first + answer)
      WHERE r.realm = p_realm AND r.namespace = p_namespace;
  END IF;`

export const PLAIN_FUNCTIONS: string = `
CREATE FUNCTION tenure.attempt_plain(
  p_namespace smallint, p_revision bigint, p_now_us bigint, ${PARAMETERS},
  OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views jsonb
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
#variable_conflict use_column
DECLARE
  at record;
  kept record;
  watched bigint;
  answer bigint := 0;
  is_announced boolean;
BEGIN
  ${HOLD}
  SELECT n.config_revision, n.watched_until_us INTO revision, watched
    FROM tenure.namespaces AS n WHERE n.number = p_namespace;
  now_us := coalesce(p_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  ${COMPARE}
  IF answer >= 0 THEN
    ${WRITE}
  ELSIF answer = -1 THEN
    views := jsonb_build_array(jsonb_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(
      jsonb_build_object('realm', p_realm, 'resource', p_resource, 'id', p_id,
        'request', p_request, 'claims', CASE WHEN p_claims THEN '' END)), now_us)));
  ELSE
    views := jsonb_build_array((at.last_us - now_us + 999) / 1000);
  END IF;
  moved := ARRAY[answer];
END $$;`

/** The statement that calls it. */
export const ATTEMPT_PLAIN: string = `SELECT now_us, revision, moved, views
  FROM tenure.attempt_plain($1::smallint, $2::bigint, $3::bigint,
    ${PLAIN_COLUMNS.map((column, index) => `$${index + 4}::${column.split(' ')[1]}`).join(', ')})`
