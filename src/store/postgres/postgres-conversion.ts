/**
 * Brings the rows of the layout before version 9 into the live set and the ledger, batch by batch, each in a transaction of the
 * caller's. There live and ended leases shared the table `leases`, and an event had a column for most of what it said. Whoever
 * is killed in the middle leaves what was converted; the next process that opens the store goes on there. Positions, numbers of
 * creation and versions stay what they were; what the last event of an ended lease has left behind goes with that event.
 */
import { LeaseError } from '../../core/errors.ts'
import {
  isLive,
  type Claim,
  type Entry,
  type EntryState,
  type Lease,
  type LeaseState,
  type ReleaseReason,
  type Ticket,
} from '../../core/lease.ts'
import type { PostgresConnection } from '../../drivers/postgres-driver.ts'
import { eventRow, liveRow, CLOCK_DOMAIN, typeOf } from './postgres-columns.ts'
import type { EventCommon, LeaseEvent } from '../../core/event.ts'
import { CLAIM_WINDOW_MS_DEFAULT } from '../../core/limits.ts'
import type { Extent, Mode, Resource } from '../../core/resource.ts'
import { US_PER_MS } from '../../core/time.ts'

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

interface OldLeaseRow {
  readonly id: string
  readonly resource: string
  readonly holder: string
  readonly session: string
  readonly state: EntryState
  readonly mode: Mode
  readonly extent: Extent
  /** Of a lease, or of the offer that a ticket has. */
  readonly fence: number | null
  readonly ttl_ms: number
  readonly created_at: number
  readonly granted_at: number | null
  readonly renewed_at: number | null
  readonly expires_at: number | null
  readonly terminated_at: number | null
  readonly ended_at: number | null
  readonly renewals: number
  readonly max_renewals: number
  readonly release_reason: ReleaseReason | null
  readonly reason: string | null
  readonly deadline_us: number
  /** Until when it can stand in somebody's way; null once it cannot. */
  readonly live_until_us: number | null
  readonly version: number
  readonly claim: number
  readonly detail: Readonly<Record<string, unknown>> | null
}

function oldEntryOf(row: OldLeaseRow): Entry {
  const entry = ordinary(row)
  return row.detail === null ? entry : ({ ...entry, ...row.detail } as Entry)
}

/** What the columns alone say. */
function ordinary(row: OldLeaseRow): Entry {
  const { state } = row
  return state === 'pending' || state === 'failed'
    ? ordinaryTicket(row, state)
    : ordinaryLease(row, state)
}

function ordinaryClaim(row: OldLeaseRow): Claim {
  return {
    id: row.id,
    resource: row.resource as Resource,
    mode: row.mode,
    extent: row.extent,
    holder: row.holder,
    session: row.session,
    ttlMs: row.ttl_ms,
    maxRenewals: row.max_renewals,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: row.reason,
    metadata: null,
    createdAtMs: row.created_at,
    recorded: true,
  }
}

function ordinaryLease(row: OldLeaseRow, state: LeaseState): Lease {
  return {
    ...ordinaryClaim(row),
    kind: 'lease',
    state,
    fence: row.fence ?? 0,
    grantedAtMs: row.granted_at ?? 0,
    renewedAtMs: row.renewed_at,
    expiresAtMs: row.expires_at ?? 0,
    terminatedAtMs: row.terminated_at,
    deadline: { domain: CLOCK_DOMAIN, us: row.deadline_us },
    holdUntilUs: null,
    renewals: row.renewals,
    releaseReason: row.release_reason,
    lockedUntil: null,
    revoking: null,
    upgrading: false,
    adopted: true,
    epoch: 0,
  }
}

function ordinaryTicket(row: OldLeaseRow, state: Ticket['state']): Ticket {
  const { fence, live_until_us: us } = row
  return {
    ...ordinaryClaim(row),
    kind: 'ticket',
    state,
    group: null,
    priority: 0,
    orderUs: row.created_at * US_PER_MS,
    deadline: { domain: CLOCK_DOMAIN, us: row.deadline_us },
    claimWindowMs: CLAIM_WINDOW_MS_DEFAULT,
    offer: fence === null || us === null ? null : { fence, deadline: { domain: CLOCK_DOMAIN, us } },
    failure: state === 'failed' ? 'denied' : null,
    cycle: null,
  }
}

interface OldEventRow {
  readonly lease_id: string
  readonly resource: string
  readonly holder: string
  readonly session: string
  /** The type of the event without its prefix. */
  readonly type: string
  readonly at_ms: number
  readonly before: EntryState | null
  readonly after: EntryState
  readonly renewals: number
  readonly reason: string | null
  readonly request_id: string | null
  /** The fence that the event gives, if it gives one. */
  readonly fence: number | null
  /** Of events that begin or prolong something. */
  readonly ttl_ms: number | null
  readonly deadline_us: number | null
  readonly expires_at: number | null
  readonly release_reason: string | null
  readonly data: Readonly<Record<string, unknown>> | null
}

function oldEventOf(row: OldEventRow): LeaseEvent {
  const common: EventCommon = {
    leaseId: row.lease_id,
    resource: row.resource as Resource,
    holder: row.holder,
    session: row.session,
    atMs: row.at_ms,
    before: row.before,
    after: row.after,
    renewals: row.renewals,
    reason: row.reason,
    requestId: row.request_id,
  }
  const type = typeOf(row.type)
  const { ttl_ms: ttlMs, deadline_us: us, expires_at: expiresAtMs, data } = row
  const term = { ttlMs: ttlMs ?? 0, us: us ?? 0 }
  if (type === 'lease.issued') {
    const usual = issuedLease(common, { ...term, fence: row.fence ?? 0 })
    // Rows of earlier versions have it in `data`, if it is not what the TTL says.
    const expires = expiresAtMs === null ? {} : { expiresAtMs }
    return { ...common, type, lease: { ...usual, ...expires, ...data } }
  }
  if (type === 'lease.queued' || type === 'lease.denied') {
    return { ...common, type, ticket: { ...filedTicket({ ...common, type }, term), ...data } }
  }
  const fields = {
    ...(row.fence === null ? {} : { fence: row.fence }),
    ...(ttlMs === null ? {} : { ttlMs }),
    ...(expiresAtMs === null ? {} : { expiresAtMs }),
    ...(us === null ? {} : { deadline: { domain: CLOCK_DOMAIN, us } }),
    ...(row.release_reason === null ? {} : { releaseReason: row.release_reason }),
  }
  return { ...common, type, ...fields, ...data } as LeaseEvent
}

interface Term {
  readonly ttlMs: number
  readonly us: number
}

function issuedClaim(common: EventCommon, ttlMs: number): Claim {
  return {
    id: common.leaseId,
    resource: common.resource,
    mode: 'exclusive',
    extent: 'exact',
    holder: common.holder,
    session: common.session,
    ttlMs,
    maxRenewals: -1,
    maxHoldMs: null,
    slots: null,
    lockDelayMs: 0,
    breakable: false,
    reason: common.reason,
    metadata: null,
    createdAtMs: common.atMs,
    recorded: true,
  }
}

function issuedLease(common: EventCommon, term: Term & { readonly fence: number }): Lease {
  const { ttlMs, us, fence } = term
  return {
    ...issuedClaim(common, ttlMs),
    kind: 'lease',
    state: 'active',
    fence,
    grantedAtMs: common.atMs,
    renewedAtMs: null,
    expiresAtMs: common.atMs + ttlMs,
    terminatedAtMs: null,
    deadline: { domain: CLOCK_DOMAIN, us },
    holdUntilUs: null,
    renewals: 0,
    releaseReason: null,
    lockedUntil: null,
    revoking: null,
    upgrading: false,
    adopted: true,
    epoch: 0,
  }
}

function filedTicket(common: EventCommon & { readonly type: string }, term: Term): Ticket {
  const { ttlMs, us } = term
  const denied = common.type === 'lease.denied'
  return {
    ...issuedClaim(common, ttlMs),
    kind: 'ticket',
    state: denied ? 'failed' : 'pending',
    group: null,
    priority: 0,
    orderUs: common.atMs * US_PER_MS,
    deadline: { domain: CLOCK_DOMAIN, us },
    claimWindowMs: CLAIM_WINDOW_MS_DEFAULT,
    offer: null,
    failure: denied ? 'denied' : null,
    cycle: null,
  }
}
