/** Removing what has ended, in batches. */
import { BY_INDEX } from './postgres-functions.ts'

/**
 * History goes with its lease, so that what is left always folds. A realm that nothing is left of goes too; its
 * highest fence becomes the least that any new realm starts from.
 *
 * Where no history is kept no ended lease leads to its realm. So each call also walks over one batch of realms, from
 * where the last one stopped: an index by time of use would have to be changed by every commit.
 */
export const PRUNE_FUNCTIONS: string = `
CREATE FUNCTION tenure.prune(
  p_namespace smallint, ended_before bigint, p_now_ms bigint, forget_before bigint, batch integer,
  p_after text, OUT leases bigint, OUT events bigint, OUT more boolean, OUT walked_to text
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  gone uuid[];
  places text[];
  unused text[];
  marks bigint;
  renewals bigint;
  advances bigint;
BEGIN
  SELECT array_agg(id), array_agg(DISTINCT resource) INTO gone, places FROM (
    SELECT id, resource FROM tenure.leases WHERE live::integer = 0
      AND due_us < ended_before * 1000 AND ended_at + ttl_ms < p_now_ms AND namespace = p_namespace
    LIMIT batch FOR UPDATE SKIP LOCKED) AS ended;
  DELETE FROM tenure.ledger WHERE lease_id = ANY (gone) AND namespace = p_namespace;
  GET DIAGNOSTICS events = ROW_COUNT;
  DELETE FROM tenure.leases WHERE id = ANY (gone) AND namespace + 0 = p_namespace;
  GET DIAGNOSTICS leases = ROW_COUNT;
  DELETE FROM tenure.requests WHERE namespace = p_namespace AND id IN (
    SELECT id FROM tenure.requests WHERE keep_until < p_now_ms AND namespace = p_namespace
    LIMIT batch);
  GET DIAGNOSTICS marks = ROW_COUNT;
  DELETE FROM tenure.ledger WHERE seq IN (
    SELECT old.seq FROM tenure.ledger AS old
    WHERE old.namespace = p_namespace AND old.type = 'renewed' AND old.at_ms < ended_before
      AND old.seq < coalesce((SELECT seq FROM tenure.ledger
        WHERE at_ms >= ended_before AND namespace = p_namespace ORDER BY seq LIMIT 1),
        9223372036854775807)
      AND (old.request_id IS NULL OR old.at_ms < forget_before)
      AND EXISTS (SELECT 1 FROM tenure.ledger AS later WHERE later.lease_id = old.lease_id
        AND later.seq > old.seq AND later.type = 'renewed')
    LIMIT batch);
  GET DIAGNOSTICS renewals = ROW_COUNT;
  -- The last advance of an epoch says how far the workflow has come, once nobody can repeat those before it.
  DELETE FROM tenure.ledger WHERE seq IN (
    SELECT old.seq FROM tenure.ledger AS old
    JOIN tenure.leases AS l ON l.id = old.lease_id AND l.namespace = p_namespace
    WHERE old.namespace = p_namespace AND old.type = 'advanced' AND old.at_ms < ended_before
      AND old.at_ms + l.ttl_ms < p_now_ms
      AND EXISTS (SELECT 1 FROM tenure.ledger AS later WHERE later.lease_id = old.lease_id
        AND later.seq > old.seq AND later.type = 'advanced')
    LIMIT batch);
  GET DIAGNOSTICS advances = ROW_COUNT;
  SELECT w.unused, w.walked_to INTO unused, walked_to
    FROM tenure.walk_realms(p_namespace, ended_before * 1000, p_after, batch) AS w;
  PERFORM tenure.forget_realms(p_namespace, places || unused);
  events := events + renewals + advances;
  more := batch IN (leases, marks, renewals, advances)
    OR (walked_to IS NOT NULL AND unused IS NOT NULL);
END $$;
-- A realm that is a whole tree (its name ends with a colon) stays: there is one for each kind.
CREATE FUNCTION tenure.walk_realms(
  p_namespace smallint, used_before_us bigint, p_after text, batch integer,
  OUT unused text[], OUT walked_to text
) LANGUAGE plpgsql VOLATILE ${BY_INDEX} SET enable_sort = off AS $$
BEGIN
  SELECT array_agg(realm) FILTER (WHERE epoch IS NULL AND last_us < used_before_us
      AND realm NOT LIKE '%:'), CASE WHEN count(*) = batch THEN max(realm) END
    INTO unused, walked_to FROM (
      SELECT realm, epoch, last_us FROM tenure.realms
      WHERE namespace = p_namespace AND realm > p_after ORDER BY realm LIMIT batch) AS walked;
  SELECT array_agg(old.realm) INTO unused FROM unnest(unused) AS old(realm)
    WHERE NOT EXISTS (SELECT 1 FROM tenure.leases AS l
      WHERE l.resource = old.realm AND l.namespace = p_namespace);
END $$;
CREATE FUNCTION tenure.forget_realms(p_namespace smallint, places text[])
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  idle text[];
  highest bigint;
BEGIN
  SELECT array_agg(realm) INTO idle FROM (
    SELECT realm FROM tenure.realms WHERE namespace = p_namespace AND realm = ANY (places)
      AND epoch IS NULL ORDER BY realm FOR UPDATE SKIP LOCKED) AS candidates;
  -- A statement of its own, because only now nobody can file anything there.
  SELECT array_agg(realm), max(last_fence) INTO idle, highest FROM tenure.realms AS r
    WHERE namespace = p_namespace AND realm = ANY (idle)
    AND NOT EXISTS (SELECT 1 FROM tenure.leases AS l WHERE l.namespace = p_namespace
      AND l.resource = r.realm);
  IF idle IS NULL THEN RETURN; END IF;
  UPDATE tenure.namespaces SET fence_floor = greatest(fence_floor, highest)
    WHERE number = p_namespace;
  DELETE FROM tenure.realms WHERE namespace = p_namespace AND realm = ANY (idle);
END $$;`
