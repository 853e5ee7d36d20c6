/** What is at a place: looked up for whoever compares, and told to whoever missed. */

/** All that is read and written of an entry besides its id, its fence, and what leads to it. */
export const LEASE_COLUMNS: string = `deadline_us, live_until_us, ttl_ms, created_at, granted_at, renewed_at,
  expires_at, terminated_at, ended_at, version, claim, renewals, max_renewals, resource, holder, session, state, mode,
  extent, release_reason, reason, detail`

/** Live entries that overlap a place: at it, below it if it is a subtree, and subtrees above it. */
const OVERLAPPING = `
CREATE FUNCTION tenure.overlapping(
  p_namespace smallint, p_resource text, p_stem text, p_above text[]
) RETURNS SETOF tenure.leases LANGUAGE sql STABLE ROWS 5 AS $$
  SELECT * FROM tenure.leases
    WHERE namespace = p_namespace AND resource = p_resource AND live
  UNION ALL
  SELECT * FROM tenure.leases
    WHERE namespace = p_namespace AND p_stem IS NOT NULL AND live
      AND resource > p_stem || '/' COLLATE "C" AND resource < p_stem || '0' COLLATE "C"
  UNION ALL
  SELECT * FROM tenure.leases
    WHERE namespace = p_namespace AND resource = ANY (p_above) AND extent = 'subtree'
      AND live
$$;`

const PRIOR = `
CREATE FUNCTION tenure.prior(p_namespace smallint, p_request uuid, OUT lease_id uuid, OUT type text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p_request IS NULL THEN RETURN; END IF;
  SELECT found.lease_id, found.type INTO lease_id, type FROM (
    SELECT l.lease_id, l.type FROM tenure.ledger l
      WHERE l.request_id = p_request AND l.namespace = p_namespace
    UNION ALL
    SELECT r.lease_id, r.type FROM tenure.requests r
      WHERE r.namespace = p_namespace AND r.id = p_request) AS found LIMIT 1;
END $$;`

/**
 * What is really at a place, for whoever missed. Where it says which versions it has seen (`versions`, in the order of
 * `claims`), only what has changed since is told, and what is gone: in a long queue that is little.
 */
const VIEW = `
CREATE FUNCTION tenure.view_of(p_namespace smallint, place jsonb, p_now_us bigint)
RETURNS json LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  present uuid[];
  versions integer[];
  seen uuid[];
  changed uuid[];
  kept json;
  gone json;
  at tenure.realms;
  marked record;
  tickets bigint;
  newest bigint;
  named text := place->>'realm';
  wanted text := place->>'resource';
  -- Variables: given expressions, the planner would neither look into the function nor keep a plan of it.
  stem text := place->>'stem';
  above text[] := ARRAY(SELECT jsonb_array_elements_text(place->'above'));
BEGIN
  SELECT * INTO marked FROM tenure.prior(p_namespace, (place->>'request')::uuid);
  IF place->'claims' IS NOT NULL AND place->'above' IS NULL THEN
    SELECT array_agg(id), array_agg(version), max(renewed_at) INTO present, versions, newest
      FROM tenure.leases WHERE namespace = p_namespace AND resource = wanted AND live;
  ELSIF place->'claims' IS NOT NULL THEN
    SELECT array_agg(id), array_agg(version), max(renewed_at) INTO present, versions, newest
      FROM tenure.overlapping(p_namespace, wanted, stem, above);
  END IF;
  changed := present;
  IF place->'versions' IS NOT NULL THEN
    seen := ARRAY(SELECT split_part(claim, ':', 1)::uuid
      FROM unnest(string_to_array(place->>'claims', ',')) AS claim);
    changed := ARRAY(SELECT p.id FROM unnest(present, versions) AS p(id, version)
      WHERE (p.id, p.version) NOT IN (
        SELECT * FROM unnest(seen, string_to_array(place->>'versions', ',')::integer[])));
    gone := to_json(ARRAY(SELECT id FROM unnest(seen) AS id WHERE id NOT IN (
      SELECT * FROM unnest(present))));
  END IF;
  IF NOT coalesce((place->>'id')::uuid = ANY (present), false) THEN
    changed := changed || (place->>'id')::uuid;
  END IF;
  SELECT json_agg(row_to_json(l)) INTO kept FROM (SELECT id, fence, ${LEASE_COLUMNS}
    FROM tenure.leases WHERE id = ANY (changed || marked.lease_id)
      AND namespace + 0 = p_namespace) AS l;
  SELECT * INTO at FROM tenure.realms WHERE namespace = p_namespace AND realm = named;
  IF named = place->>'resource' THEN
    SELECT count(*) INTO tickets FROM tenure.leases WHERE namespace = p_namespace
      AND resource = named AND state = 'pending' AND live_until_us > p_now_us;
  ELSE
    SELECT count(*) INTO tickets FROM tenure.leases WHERE namespace = p_namespace
      AND resource >= named COLLATE "C" AND resource < rtrim(named, ':') || ';' COLLATE "C"
      AND state = 'pending' AND live_until_us > p_now_us;
  END IF;
  RETURN json_build_object('entries', coalesce(kept, '[]'), 'gone', gone, 'tickets', tickets,
    'fence', greatest(at.last_fence,
      (SELECT fence_floor FROM tenure.namespaces WHERE number = p_namespace)),
    'wall', greatest(at.last_wall_ms, newest, 0), 'prior_id', marked.lease_id,
    'prior_type', marked.type, 'epoch', tenure.epoch_of(p_namespace, place->>'resource'));
END $$;
CREATE FUNCTION tenure.epoch_of(p_namespace smallint, p_resource text)
RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT epoch FROM tenure.realms
    WHERE namespace = p_namespace AND realm = p_resource), 0)
$$;`

const TOLD_COLUMNS = `l.id, l.fence, ${LEASE_COLUMNS.split(',')
  .map((column) => `l.${column.trim()}`)
  .join(', ')}`

/** Where it says what it has seen, only what has changed since is told. */
const IS_NEWS = `AND (p_versions IS NULL OR l.id IS NOT DISTINCT FROM marked.lease_id
              OR (l.id, l.version) NOT IN (SELECT * FROM unnest(p_seen, p_versions)))`

const GONE = `CASE WHEN p_versions IS NOT NULL THEN to_json(ARRAY(
          SELECT unnest(p_seen) EXCEPT SELECT unnest(max(p.ids)))) END`

/**
 * What `tenure.view_of` tells of a flat resource, in one look at each entry, because everybody else waits for the realm
 * meanwhile. A part of functions of one attempt, in which the realm was read and the clock as well.
 */
export function tellFlat({ isSeen }: { readonly isSeen: boolean }): string {
  return `
    SELECT * INTO marked FROM tenure.prior(p_namespace, p_request);
    SELECT json_build_array(json_build_array(json_build_object(
        'entries', coalesce(json_agg(row_to_json(t)) FILTER (WHERE t.id IS NOT NULL), '[]'),
        'gone', ${isSeen ? GONE : 'NULL'},
        'tickets', max(p.tickets), 'wall', greatest(wall, max(p.newest), 0),
        'fence', greatest(highest, (SELECT fence_floor FROM tenure.namespaces
          WHERE number = p_namespace)),
        'prior_id', marked.lease_id, 'prior_type', marked.type, 'epoch', coalesce(epoch, 0))))
      INTO views
      FROM (SELECT array_agg(l.id) AS ids, max(l.renewed_at) AS newest, count(*) FILTER (
            WHERE l.state = 'pending' AND l.live_until_us > now_us) AS tickets
          FROM tenure.leases AS l
          WHERE l.resource = p_realm AND l.namespace = p_namespace AND l.live) AS p
      LEFT JOIN LATERAL (SELECT ${TOLD_COLUMNS} FROM tenure.leases AS l
          WHERE l.resource = p_realm AND l.namespace = p_namespace AND l.live
            ${isSeen ? IS_NEWS : ''}
        UNION ALL
        SELECT ${TOLD_COLUMNS} FROM tenure.leases AS l
          WHERE l.id = ANY (ARRAY[p_id, marked.lease_id])
            AND l.namespace + 0 = p_namespace
            AND NOT (l.live AND l.resource = p_realm)) AS t ON true;`
}

export const VIEW_FUNCTIONS: string = [OVERLAPPING, PRIOR, VIEW].join('\n')
