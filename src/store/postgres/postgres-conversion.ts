/**
 * Brings the rows of the layout before version 9 into the live set and the ledger, batch by batch, each in a transaction of the
 * caller's. Whoever is killed in the middle leaves what was converted; the next process that opens the store goes on
 * there. Positions, numbers of creation and versions stay what they were; what the last event of an ended lease has left
 * behind goes with that event.
 */
import { LeaseError } from '../../core/errors.ts'
import { isLive } from '../../core/lease.ts'
import type { PostgresConnection } from '../../drivers/postgres-driver.ts'
import { eventRow, liveRow } from './postgres-columns.ts'
import { oldEntryOf, oldEventOf, type OldEventRow, type OldLeaseRow } from './postgres-old-rows.ts'

/** More would be no help to a person who has to end them. */
const HELD_NAMED_MAX = 5

/**
 * Refuses while a lease runs: the process that holds it is likely to be of the older version, and could not renew it any
 * more.
 */
export async function refuseWhileHeld(connection: PostgresConnection, url: string): Promise<void> {
  const rows = await connection.run(`SELECT resource, holder,
      ceil(live_until_us / 1000000.0 - extract(epoch FROM clock_timestamp())), count(*) OVER ()
    FROM tenure.leases WHERE live AND state = 'active'
      AND live_until_us > extract(epoch FROM clock_timestamp()) * 1000000
    ORDER BY live_until_us LIMIT ${HELD_NAMED_MAX}`)
  const held = Number(rows[0]?.[3] ?? 0)
  if (held === 0) return
  const named = rows.map(([resource, holder, seconds]) => `${resource} of ${holder} (${seconds} s)`)
  const more = held > named.length ? ` and ${held - named.length} more` : ''
  throw new LeaseError(
    'STORE_SCHEMA',
    `${url} has the tables of an older version, whose processes may still hold ${named.join(', ')}${more}; it is converted when they have ended, or with tenure doctor --convert`,
    { details: { store: url, held } },
  )
}

/** A batch takes about a second. */
const BATCH = 5_000

/** Converts one batch; false when there is nothing left. */
export async function convertBatch(connection: PostgresConnection): Promise<boolean> {
  return (await convertLive(connection)) || (await convertEvents(connection))
}

/** What tells which namespace a row is of, and its place. */
interface Placed {
  readonly namespace: number
  readonly number: number
}

async function convertLive(connection: PostgresConnection): Promise<boolean> {
  const rows = await connection.run(`SELECT to_jsonb(l) FROM tenure.old_leases AS l
    WHERE live AND number > (SELECT coalesce(max(number), 0) FROM tenure.live_leases)
    ORDER BY number LIMIT ${BATCH}`)
  const converted = rows.map(([json]) => {
    const old = JSON.parse(json ?? '') as OldLeaseRow & Placed
    const { version, claim, namespace, number } = old
    const row = liveRow({ entry: oldEntryOf(old), version, claim })
    return { ...row, due_us: row.live_until_us, namespace, number }
  })
  if (converted.length === 0) return false
  await connection.run(
    'INSERT INTO tenure.live_leases SELECT * FROM json_populate_recordset(null::tenure.live_leases, $1::json)',
    [JSON.stringify(converted)],
  )
  return true
}

async function convertEvents(connection: PostgresConnection): Promise<boolean> {
  const rows =
    await connection.run(`SELECT to_jsonb(e), (SELECT to_jsonb(l) FROM tenure.old_leases AS l
      WHERE l.id = e.lease_id AND l.namespace = e.namespace AND NOT l.live
        AND e.seq = (SELECT max(o.seq) FROM tenure.old_ledger AS o
          WHERE o.lease_id = e.lease_id AND o.namespace = e.namespace))
    FROM tenure.old_ledger AS e
    WHERE e.seq > (SELECT coalesce(max(seq), 0) FROM tenure.ledger)
    ORDER BY e.seq LIMIT ${BATCH}`)
  const converted = rows.map(([event, ended]) => convertEvent(event ?? '', ended ?? null))
  if (converted.length === 0) return false
  await connection.run(
    'INSERT INTO tenure.ledger SELECT * FROM json_populate_recordset(null::tenure.ledger, $1::json)',
    [JSON.stringify(converted)],
  )
  return true
}

function convertEvent(event: string, ended: string | null): object {
  const old = JSON.parse(event) as OldEventRow & {
    readonly seq: number
    readonly namespace: number
  }
  const { seq, namespace } = old
  const left = ended === null ? null : (JSON.parse(ended) as OldLeaseRow)
  const entry = left === null ? null : oldEntryOf(left)
  const recorded = {
    event: oldEventOf(old),
    ended: entry !== null && !isLive(entry) ? entry : null,
  }
  return { seq, namespace, ...eventRow(recorded, left?.version ?? null) }
}

/**
 * From here on processes of earlier versions write nothing: their functions find no table \`leases\`. Whoever was granted a
 * right on the old tables has it on the new ones.
 */
export function takeAwayOldLayout(newLayout: string): string {
  return `
ALTER TABLE tenure.leases RENAME TO old_leases;
ALTER TABLE tenure.ledger RENAME TO old_ledger;
ALTER TABLE tenure.namespaces ALTER number DROP IDENTITY, ALTER number TYPE integer,
  ADD pruned_at bigint, ADD pruned_believed bigint;
ALTER TABLE tenure.realms ALTER namespace TYPE integer;
ALTER TABLE tenure.requests ALTER namespace TYPE integer;
ALTER TABLE tenure.config ALTER namespace TYPE integer;
${newLayout}
DO $$
DECLARE
  given record;
BEGIN
  FOR given IN SELECT CASE c.relname WHEN 'old_leases' THEN 'live_leases' ELSE 'ledger' END AS name,
      a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
    FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.oid IN ('tenure.old_leases'::regclass, 'tenure.old_ledger'::regclass)
  LOOP
    EXECUTE format('GRANT %s ON tenure.%I TO %s', given.privilege_type, given.name, given.grantee);
  END LOOP;
END $$;`
}

/** The functions of earlier versions, which are of no use to anybody, and the converted tables. Types stay. */
export const REMOVE_OLD_LAYOUT = `
DO $$
DECLARE
  removed text;
BEGIN
  FOR removed IN SELECT p.oid::regprocedure FROM pg_proc AS p
    WHERE p.pronamespace = 'tenure'::regnamespace AND p.proname !~ '_v[0-9]+$'
      AND p.proname NOT IN ('config_changed', 'announce', 'ledger_end')
  LOOP
    EXECUTE 'DROP FUNCTION ' || removed;
  END LOOP;
END $$;
DROP TABLE tenure.old_leases, tenure.old_ledger;`
