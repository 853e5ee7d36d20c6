/** The table of refusals. core/refusal.ts says what it is for. */
import { REFUSALS_MAX } from '../../core/limits.ts'
import { refusalOf, refusalRow, type CountedRefusal, type RefusalRow } from '../../core/refusal.ts'
import type { PostgresRow, Statement } from '../../drivers/postgres-driver.ts'
import type { RefusalQuery } from '../../store-port/store.ts'

/** A role that may write to the ledger may count refusals. */
export const REFUSALS_TABLE = `
CREATE TABLE tenure.refusals (
  namespace integer NOT NULL,
  count bigint NOT NULL,
  last_at bigint NOT NULL,
  lease_id uuid NOT NULL,
  resource text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  reason text COLLATE "C" NOT NULL,
  detail json NOT NULL,
  PRIMARY KEY (namespace, resource, holder, reason)
);
CREATE INDEX refusals_last_at ON tenure.refusals (namespace, last_at);
DO $$
DECLARE
  given record;
BEGIN
  FOR given IN SELECT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
    FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = 'tenure.ledger'::regclass
  LOOP
    EXECUTE format('GRANT %s ON tenure.refusals TO %s', given.privilege_type, given.grantee);
  END LOOP;
END $$;`

/** In the order of the keys, so that two processes that count the same do not wait for each other in a cycle. */
const COUNT = `INSERT INTO tenure.refusals AS kept
  (namespace, resource, holder, reason, count, last_at, lease_id, detail)
  SELECT number, resource, holder, reason, count, "lastAtMs", "leaseId", detail
  FROM tenure.namespaces, json_to_recordset($2::json) AS given (resource text, holder text,
    reason text, count bigint, "lastAtMs" bigint, "leaseId" uuid, detail json)
  WHERE number = $1::integer ORDER BY resource COLLATE "C", holder COLLATE "C", reason COLLATE "C"
  ON CONFLICT (namespace, resource, holder, reason) DO UPDATE SET
    count = kept.count + excluded.count,
    last_at = greatest(kept.last_at, excluded.last_at),
    lease_id = CASE WHEN excluded.last_at < kept.last_at THEN kept.lease_id ELSE excluded.lease_id END,
    detail = CASE WHEN excluded.last_at < kept.last_at THEN kept.detail ELSE excluded.detail END`

export const MAKE_ROOM: string = `DELETE FROM tenure.refusals
  WHERE namespace = $1::integer AND (resource, holder, reason) IN (
    SELECT resource, holder, reason FROM tenure.refusals
    WHERE namespace = $1::integer ORDER BY last_at DESC OFFSET ${REFUSALS_MAX})`

export const REMOVE_OLD = `DELETE FROM tenure.refusals
  WHERE namespace = $1::integer AND last_at < $2::bigint`

export function countStatement(refusals: readonly CountedRefusal[], namespace: number): Statement {
  const values = [String(namespace), JSON.stringify(refusals.map(refusalRow))]
  return { text: COUNT, values, writes: true }
}

export function refusalsStatement(query: RefusalQuery, namespace: number): Statement {
  const { leaseId, resource, holder, fromMs, toMs, newestFirst, limit } = query
  const order = newestFirst === true ? 'DESC' : 'ASC'
  const text = `SELECT json_build_object('resource', resource, 'holder', holder, 'reason', reason,
      'count', count, 'lastAtMs', last_at, 'leaseId', lease_id, 'detail', detail)
    FROM tenure.refusals WHERE namespace = $1::integer
      AND ($2::uuid IS NULL OR lease_id = $2::uuid) AND ($3::text IS NULL OR resource = $3)
      AND ($4::text IS NULL OR holder = $4) AND ($5::bigint IS NULL OR last_at >= $5::bigint)
      AND ($6::bigint IS NULL OR last_at <= $6::bigint)
    ORDER BY last_at ${order}, lease_id ${order}, reason ${order}, holder ${order} LIMIT $7::bigint`
  const wanted = [leaseId, resource, holder, fromMs, toMs]
  const values = wanted.map((value) => (value === undefined ? null : String(value)))
  return { text, values: [String(namespace), ...values, String(limit)], writes: false }
}

export function countedIn([json]: PostgresRow): CountedRefusal {
  return refusalOf(JSON.parse(json ?? '') as RefusalRow)
}
