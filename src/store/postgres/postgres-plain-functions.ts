/**
 * What the server does for one plain attempt, alone in its call: the leanest way, because somebody waits for nothing
 * else. Plain is what concerns one entry alone: see `plainOf` in postgres-plain.ts. The comparisons are those of
 * `tenure.attempt_one`, and the locks are taken in the same order.
 *
 * Since nothing but the own entry is claimed, exactly the believed claims are there if the own entry has the believed
 * version and no other entry is live at the resource.
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

/** What a plain attempt consists of; the columns of the type `tenure.plain`. */
export const PLAIN_COLUMNS: readonly string[] = [
  ...['realm text', 'resource text', 'id uuid', 'own integer', 'claims boolean', 'request uuid'],
  ...['prior boolean', 'from_us bigint', 'before_us bigint', 'wall bigint', 'first bigint'],
  ...['holder text', 'session text', 'state text', 'mode text', 'extent text', 'fence bigint'],
  ...['ttl_ms bigint', 'created_at bigint', 'granted_at bigint', 'renewed_at bigint'],
  ...['expires_at bigint', 'terminated_at bigint', 'ended_at bigint', 'renewals integer'],
  ...['max_renewals integer', 'release_reason text', 'reason text', 'deadline_us bigint'],
  ...['live_until_us bigint', 'version integer', 'claim integer', 'detail jsonb'],
  ...['event_type text', 'at_ms bigint', 'before text', 'after text', 'event_renewals integer'],
  ...['event_reason text', 'request_id uuid', 'event_fence bigint', 'takes integer', 'data jsonb'],
]

/** What the event of a plain attempt has in common with the entry that it leaves; sums of these. */
export const TAKES_TERM = 1
export const TAKES_EXPIRY = 2
export const TAKES_RELEASE_REASON = 4

export const LEDGER_COLUMNS = `seq, namespace, lease_id, type, at_ms, before, after, renewals,
      reason, request_id, fence, resource, holder, session, ttl_ms, deadline_us, expires_at,
      release_reason, data`

/** `of` names a column of the attempt. */
export function ledgerValues(of: (name: string) => string): string {
  const take = (bit: number, name: string): string => {
    return `CASE WHEN ${of('takes')} & ${bit} <> 0 THEN ${of(name)} END`
  }
  return [
    ...[`nextval('tenure.ledger_seq')`, 'p_namespace', of('id'), of('event_type'), of('at_ms')],
    ...[of('before'), of('after'), of('event_renewals'), of('event_reason'), of('request_id')],
    ...[of('event_fence'), of('resource'), of('holder'), of('session')],
    ...[take(TAKES_TERM, 'ttl_ms'), take(TAKES_TERM, 'deadline_us')],
    ...[take(TAKES_EXPIRY, 'expires_at'), take(TAKES_RELEASE_REASON, 'release_reason')],
    of('data'),
  ].join(', ')
}

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
 * What is locked is read in the same step, and cannot change any more.
 */
const HOLD = `
  IF p_claims THEN
    ${readRealm('FOR UPDATE')}
    IF NOT FOUND THEN
      PERFORM tenure.hold(p_namespace, ARRAY[p_realm], NULL);
      ${readRealm('')}
    END IF;
  ELSE
    ${readRealm('')}
  END IF;
  IF p_own > 0 THEN
    SELECT l.version, l.renewed_at INTO own, renewed FROM tenure.leases AS l
      WHERE l.id = p_id AND l.namespace = p_namespace FOR NO KEY UPDATE;
  END IF;`

/**
 * One look at everything else that is compared, and at the clock. One statement, because whatever is decided in between
 * costs as much as one.
 */
const LOOK = `
  ${LOOK_AT_TIME}
        OR wall > p_wall OR renewed > p_wall OR epoch <> 0
        OR (p_own <> 0 AND own IS DISTINCT FROM p_own)
        OR (p_claims AND EXISTS (SELECT 1 FROM tenure.leases AS l WHERE l.resource = p_resource
          AND l.namespace = p_namespace AND l.live AND l.id <> p_id))
        OR (p_own = 0 AND EXISTS (SELECT 1 FROM tenure.leases AS l
          WHERE l.id = p_id AND l.namespace = p_namespace))
        OR ${IS_OTHER_PRIOR}
        OR (p_realm <> p_resource AND tenure.epoch_of(p_namespace, p_resource) <> 0) THEN -1
      ${MOVED_BY}
    WHERE n.number = p_namespace;`

const TOLD = ledgerValues((name) => {
  return name === 'event_fence' ? movedFence('p_event_fence') : `p_${name}`
})

const WRITE = `
  IF p_own = 0 THEN
    INSERT INTO tenure.leases (namespace, id, number, due_us, fence, ${TO_STATE})
      VALUES (p_namespace, p_id, nextval('tenure.entry_number'),
        coalesce(p_live_until_us, p_ended_at * 1000), ${movedFence('p_fence')}, ${FROM_STATE});
  ELSE
    UPDATE tenure.leases AS l SET fence = ${movedFence('p_fence')},
        due_us = ${dueOf('p').replaceAll('p.', 'p_')}, ${SET_STATE}
      WHERE l.id = p_id AND l.namespace = p_namespace;
  END IF;
  IF p_event_type IS NOT NULL THEN
    INSERT INTO tenure.ledger (${LEDGER_COLUMNS}) SELECT ${TOLD}
      FROM ${ANNOUNCED};
    ${TELL_WATCHERS}
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
  wall bigint;
  latest bigint;
  epoch bigint;
  own integer;
  renewed bigint;
  answer bigint;
  marked record;
BEGIN
  ${HOLD}
  ${LOOK}
  IF answer >= 0 THEN
    ${WRITE}
  ELSIF answer = -1 AND p_claims THEN
    ${tellFlat({ isSeen: false })}
  ELSIF answer = -1 THEN
    views := json_build_array(json_build_array(tenure.view_of(p_namespace, jsonb_strip_nulls(
      jsonb_build_object('realm', p_realm, 'resource', p_resource, 'id', p_id,
        'request', p_request)), now_us)));
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
