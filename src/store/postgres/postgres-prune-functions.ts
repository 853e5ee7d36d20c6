/**
 * Removing what has ended, in batches: the rules of core/retention.ts (`mayBePruned`, `isSuperseded`) in SQL. How far the
 * clock is believed is decided there, before the server is asked.
 */
import { TTL_MS_MAX } from '../../core/limits.ts'

/**
 * A realm is forgotten when its last fence, its last wall time and its last commit are all further behind the clock than
 * this. A fence that is ahead of the clock came from a clock that was ahead: without its realm lower ones would be given.
 */
const REALM_MEMORY_MS = 86_400_000

/**
 * History goes with its lease, so that what is left always folds. A realm that nothing is left of goes too; first its
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
  -- Wall times of the ledger hardly ever go back, so the first event that is too young ends the search.
  young := coalesce((SELECT seq FROM tenure.ledger
    WHERE at_ms >= ended_before AND namespace = p_namespace ORDER BY seq LIMIT 1),
    9223372036854775807);
  -- An id that failed may have come back: only the last event of a lease tells how it ended.
  SELECT array_agg(lease_id) INTO gone FROM (
    SELECT e.lease_id FROM tenure.ledger AS e
    WHERE e.ended = ANY ('{released,expired,revoked,failed}') AND e.seq + 0 < young
      AND e.namespace = p_namespace AND e.ended_at < ended_before
      AND e.ended_at + (e.data->'ended'->'body'->>'ttlMs')::bigint < p_now_ms
      AND NOT EXISTS (SELECT 1 FROM tenure.ledger AS later
        WHERE later.lease_id = e.lease_id AND later.namespace = p_namespace AND later.seq > e.seq)
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

/** The statement that calls it. */
export const CALL_PRUNE = `SELECT leases, events, more, walked_to
  FROM tenure.prune_v9($1::integer, $2::bigint, $3::bigint, $4::integer, $5)`
