/** What the functions for one attempt alone in its call have in common: the comparisons must be the same in both. */
import { APPENDING } from './postgres-functions.ts'

/** What is known of the realm of the attempt. */
export function readRealm(lock: string): string {
  return `SELECT r.last_fence, r.last_wall_ms, r.last_us, r.epoch INTO highest, wall, latest, epoch
      FROM tenure.realms AS r WHERE r.realm = p_realm AND r.namespace = p_namespace ${lock};`
}

/** How it stands with the clock and the settings, and whether the time of the attempt is right. */
export const LOOK_AT_TIME = `SELECT c.now_us, n.config_revision, n.watched_until_us, CASE
      WHEN latest - c.now_us > 5000000 THEN -2
      WHEN n.config_revision <> p_revision OR c.now_us < p_from_us OR c.now_us >= p_before_us`

/** Whether the request has had its effect already, or has not, otherwise than was expected. */
export const IS_OTHER_PRIOR = `(p_request IS NOT NULL AND (
          EXISTS (SELECT 1 FROM tenure.ledger AS l
            WHERE l.request_id = p_request AND l.namespace = p_namespace)
          OR EXISTS (SELECT 1 FROM tenure.requests AS q
            WHERE q.id = p_request AND q.namespace = p_namespace)) <> p_prior)`

/** By how much the fences of an attempt that holds must move up. */
export const MOVED_BY = `WHEN p_first IS NULL THEN 0
      ELSE greatest(0, coalesce(highest, 0) + 1 - p_first) END
    INTO now_us, revision, watched, answer
    FROM tenure.namespaces AS n, (SELECT coalesce(p_now_us,
      (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now_us OFFSET 0) AS c`

/** A fence that is new moves up with the others; see `Attempt.fences`. */
export function movedFence(name: string): string {
  return `CASE WHEN ${name} >= p_first THEN ${name} + answer ELSE ${name} END`
}

/** A number of the ledger is announced before any other is taken. */
export const ANNOUNCED: string = `(SELECT pg_advisory_xact_lock_shared(${APPENDING},
        (nextval('tenure.ledger_seq') % 2147483648)::integer) OFFSET 0) AS announced`

export const TELL_WATCHERS = `IF watched > now_us THEN
      PERFORM pg_notify('tenure_ledger_' || p_namespace, '');
    END IF;`
