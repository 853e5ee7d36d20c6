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

/**
 * A renewal locks its own entry alone. The change of the entry would lock it as well, but only after the clock was read:
 * should it wait there for somebody who then takes everything back, a lease that has ended meanwhile would live again.
 */
const HOLD = `
  IF p_claims THEN
    PERFORM 1 FROM tenure.realms AS r
      WHERE r.realm = p_realm AND r.namespace = p_namespace FOR UPDATE;
    IF NOT FOUND THEN PERFORM tenure.hold(p_namespace, ARRAY[p_realm], NULL); END IF;
  END IF;
  IF p_own > 0 THEN
    PERFORM 1 FROM tenure.leases AS l
      WHERE l.id = p_id AND l.namespace = p_namespace FOR NO KEY UPDATE;
  END IF;`

/** One look at everything that is compared, but for the version of the own entry, which its change compares. */
const LOOK = `
  SELECT n.config_revision, n.watched_until_us, r.last_fence, r.last_us,
      n.config_revision <> p_revision OR r.last_wall_ms > p_wall OR coalesce(r.epoch, 0) <> 0
        OR (p_claims AND EXISTS (SELECT 1 FROM tenure.leases AS l WHERE l.resource = p_resource
          AND l.namespace = p_namespace AND l.live AND l.id <> p_id))
        OR (p_own = 0 AND EXISTS (SELECT 1 FROM tenure.leases AS l
          WHERE l.id = p_id AND l.namespace = p_namespace))
        OR (p_request IS NOT NULL AND (
          EXISTS (SELECT 1 FROM tenure.ledger AS l
            WHERE l.request_id = p_request AND l.namespace = p_namespace)
          OR EXISTS (SELECT 1 FROM tenure.requests AS q
            WHERE q.id = p_request AND q.namespace = p_namespace)) <> p_prior)
        OR (p_realm <> p_resource AND tenure.epoch_of(p_namespace, p_resource) <> 0)
    INTO revision, watched, highest, latest, is_other
    FROM tenure.namespaces AS n
    LEFT JOIN tenure.realms AS r ON r.realm = p_realm AND r.namespace + 0 = n.number
    WHERE n.number = p_namespace;`

const COMPARE = `
  IF latest - now_us > 5000000 THEN
    answer := -2;
  ELSIF is_other OR now_us < p_from_us OR now_us >= p_before_us THEN
    answer := -1;
  ELSE
    IF p_first IS NOT NULL THEN
      answer := greatest(0, coalesce(highest, 0) + 1 - p_first);
      IF p_fence >= p_first THEN p_fence := p_fence + answer; END IF;
      IF p_event_fence >= p_first THEN p_event_fence := p_event_fence + answer; END IF;
    END IF;
    IF p_own > 0 THEN
      UPDATE tenure.leases AS l SET fence = p_fence, due_us = ${dueOf('p').replaceAll('p.', 'p_')},
          ${SET_STATE}
        WHERE l.id = p_id AND l.namespace = p_namespace AND l.version = p_own
          AND coalesce(l.renewed_at, 0) <= p_wall;
      IF NOT FOUND THEN answer := -1; END IF;
    END IF;
  END IF;`

const WRITE = `
  IF p_own = 0 THEN
    INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${TO_STATE})
      VALUES (p_namespace, p_id, nextval('tenure.entry_number'),
        coalesce(p_live_until_us, p_ended_at * 1000), p_fence, ${FROM_STATE});
  END IF;
  IF p_event_type IS NOT NULL THEN
    is_announced := pg_advisory_xact_lock_shared(${APPENDING},
      (nextval('tenure.ledger_seq') % 2147483648)::integer) IS NULL;
  END IF;
  INSERT INTO tenure.ledger (seq, namespace, lease_id, type, at_ms, before, after, renewals,
      reason, request_id, fence, resource, holder, session, data)
    SELECT nextval('tenure.ledger_seq'), p_namespace, p_id, p_event_type, p_at_ms, p_before,
      p_after, p_event_renewals, p_event_reason, p_request_id, p_event_fence, p_resource,
      p_holder, p_session, p_data
    WHERE p_event_type IS NOT NULL;
  IF FOUND AND watched > now_us THEN
    PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
  END IF;
  IF p_claims THEN
    UPDATE tenure.realms AS r SET last_wall_ms = p_wall, last_us = greatest(r.last_us, now_us),
        last_fence = greatest(r.last_fence, p_first + answer)
      WHERE r.realm = p_realm AND r.namespace = p_namespace;
  END IF;`

export const PLAIN_FUNCTIONS: string = `
CREATE FUNCTION tenure.attempt_plain(
  p_namespace smallint, p_revision bigint, p_now_us bigint, ${PARAMETERS},
  OUT now_us bigint, OUT revision bigint, OUT moved bigint[], OUT views json
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} AS $$
#variable_conflict use_column
DECLARE
  watched bigint;
  highest bigint;
  latest bigint;
  is_other boolean;
  answer bigint := 0;
  is_announced boolean;
BEGIN
  ${HOLD}
  ${LOOK}
  now_us := coalesce(p_now_us, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
  ${COMPARE}
  IF answer >= 0 THEN
    ${WRITE}
  ELSIF answer = -1 THEN
    views := json_build_array(json_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(
      jsonb_build_object('realm', p_realm, 'resource', p_resource, 'id', p_id,
        'request', p_request, 'claims', CASE WHEN p_claims THEN '' END)), now_us)));
  ELSE
    views := json_build_array((latest - now_us + 999) / 1000);
  END IF;
  moved := ARRAY[answer];
END $$;`

/**
 * A grant, a renewal and a release that nobody will ever see; what is not named is null. They have no events: numbers of
 * the ledger cannot be taken back.
 */
const REHEARSED: readonly Readonly<Record<string, string>>[] = [
  { own: '0', version: '1', claims: 'true', first: '1', fence: '1' },
  { own: '1', version: '2', claims: 'false' },
  { own: '2', version: '3', claims: 'true' },
].map((step) => ({
  ...{ realm: 'gone::text', resource: 'gone::text', id: 'gone', request: 'gone' },
  ...{ prior: 'false', from_us: '0', before_us: '9007199254740991', wall: '0', holder: `''` },
  ...{ session: `''`, state: `'active'`, mode: `''`, extent: `''`, ttl_ms: '1', created_at: '0' },
  ...{ ended_at: '0', renewals: '0', max_renewals: '0', deadline_us: '0', claim: '1' },
  ...step,
}))

const REHEARSAL = REHEARSED.map((step) => {
  const values = PLAIN_COLUMNS.map((column) => {
    const [name = '', type] = column.split(' ')
    return `(${step[name] ?? 'NULL'})::${type}`
  })
  return `PERFORM tenure.attempt_plain(p_namespace, revision, NULL, ${values.join(', ')});`
})

/**
 * Carries out all of it once and takes it back. A connection plans each statement when it first meets it, which takes
 * many times as long as the statement; after this its first real call is as quick as any.
 */
export const REHEARSE_FUNCTION: string = `
CREATE FUNCTION tenure.rehearse(p_namespace smallint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  gone uuid := gen_random_uuid();
  revision bigint;
BEGIN
  SELECT config_revision INTO revision FROM tenure.namespaces WHERE number = p_namespace;
  ${REHEARSAL.join('\n  ')}
  RAISE EXCEPTION 'taken back' USING ERRCODE = 'TN002';
EXCEPTION WHEN SQLSTATE 'TN002' THEN
  RETURN;
END $$;`

/** The statement that calls it. */
export const ATTEMPT_PLAIN: string = `SELECT now_us, revision, moved, views
  FROM tenure.attempt_plain($1::smallint, $2::bigint, $3::bigint,
    ${PLAIN_COLUMNS.map((column, index) => `$${index + 4}::${column.split(' ')[1]}`).join(', ')})`
