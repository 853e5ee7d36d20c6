/**
 * Questions about entries, the ledger and refusals as statements, and the statements that count and remove refusals. Names reach SQL as data only. A question about entries reads the
 * live set and the ledger in one statement, and so in one snapshot, and the ledger as far as it is committed: an entry that
 * has just ended is found in one of them. Only followers stop at the end of what is complete (`LEDGER_END`).
 */
import type { Entry, EntryState } from '../../core/lease.ts'
import { REFUSALS_MAX } from '../../core/limits.ts'
import { refusalOf, refusalRow, type CountedRefusal, type RefusalRow } from '../../core/refusal.ts'
import { ancestorsOf, isTree, type Reach } from '../../core/resource.ts'
import { parsePosition } from '../position.ts'
import type { EntryQuery, HistoryQuery, RefusalQuery } from '../../store-port/store.ts'
import type { PostgresRow, PostgresValue, Statement } from '../../drivers/postgres-driver.ts'
import type { FoundEntries } from '../optimistic/backend.ts'
import { isAboutEnded, matchesEntry } from '../query-matching.ts'
import { arrayText } from './postgres-attempt.ts'
import {
  CLOCK_DOMAIN,
  endedEntry,
  EVENT_COLUMNS,
  keptOf,
  LIVE_COLUMNS,
  NOW_US,
  wordOf,
  type EventRow,
  type LiveRow,
} from './postgres-columns.ts'

/** A condition in the making, with its values beside it. The namespace is hidden from the planner: see postgres-functions.ts. */
class Where {
  #sql: string
  readonly values: PostgresValue[]

  constructor(namespace: number) {
    this.#sql = 'namespace + 0 = $1::integer'
    this.values = [namespace]
  }

  get sql(): string {
    return this.#sql
  }

  /** `?` stands for the value. */
  and(condition: string, value: PostgresValue = null): void {
    const sql = condition.includes('?') ? condition.replace('?', this.value(value)) : condition
    this.#sql += ` AND ${sql}`
  }

  /** A value that stands elsewhere in the statement. */
  value(value: PostgresValue): string {
    this.values.push(value)
    return `$${this.values.length}`
  }
}

export interface ReadContext {
  readonly namespace: number
  /** A clock that stands in for the server's; null: the server's. */
  readonly nowUs: number | null
}

/**
 * Rows: the server's clock; the number of a live entry in the order of creation, or the position of the event that ended
 * it; then that row as JSON, live or ended. There is always one row, if need be with the clock alone.
 */
export function findStatement(query: EntryQuery, context: ReadContext): Statement {
  const where = new Where(context.namespace)
  const now = where.value(context.nowUs)
  const text = `WITH clock AS MATERIALIZED (SELECT coalesce(${now}::bigint, ${NOW_US}) AS us),
      found AS (${foundBy(query, where)})
    SELECT clock.us, found.number, found.position, found.live, found.ended
    FROM clock LEFT JOIN found ON true
    ORDER BY found.position NULLS LAST, found.number`
  return { text, values: where.values, writes: false }
}

export function foundIn(rows: readonly PostgresRow[], query: EntryQuery): FoundEntries {
  const nowUs = Number(rows[0]?.[0])
  const found = rows.filter((row) => row[1] != null || row[2] != null)
  const tick = { domain: CLOCK_DOMAIN, us: nowUs }
  const matching = found
    .map(entryIn)
    .filter((entry) => query.ids === undefined || matchesEntry(entry, query, tick))
  const more = matching.length > query.limit
  const last = more && query.ids === undefined ? found[query.limit - 1] : undefined
  const next = last?.[2] ?? last?.[1] ?? null
  const lastEnd = found.slice(0, query.limit).findLast((row) => row[2] != null)?.[2] ?? null
  return { nowUs, entries: matching.slice(0, query.limit), more, next, lastEnd }
}

function entryIn([, , , live, ended]: PostgresRow): Entry {
  if (live != null) return keptOf(JSON.parse(live) as LiveRow).entry
  return endedEntry(JSON.parse(ended ?? '') as EventRow)
}

/** A value that an index can be searched for, whatever the planner thinks of joining. */
const CLOCK_US = '(SELECT us FROM clock)'
/** In the words of the index that is meant for this question; always true. */
const BY_DUE = '(due_us IS NULL)::integer = 0'

const AS_LIVE = `l.number, NULL::bigint AS position, ${jsonOf(LIVE_COLUMNS)} AS live, NULL::json AS ended`
const AS_ENDED = `NULL::bigint AS number, l.seq AS position, NULL::json AS live, ${jsonOf(EVENT_COLUMNS)} AS ended`

/** A row of these columns as JSON. */
function jsonOf(columns: string): string {
  const named = columns.split(', ').map((column) => `l.${column}`)
  return `(SELECT row_to_json(r) FROM (SELECT ${named.join(', ')}) AS r)`
}

function foundBy(query: EntryQuery, where: Where): string {
  if (query.ids !== undefined) return byIds(query.ids, where)
  return isAboutEnded(query) ? endedQuery(query, where) : liveQuery(query, where)
}

/** In whatever state: what is not live is what the last event that ended it has left. */
function byIds(ids: readonly string[], where: Where): string {
  const asked = where.value(arrayText(ids))
  return `SELECT ${AS_LIVE} FROM tenure.live_leases AS l
      WHERE l.id = ANY (${asked}::uuid[]) AND l.namespace + 0 = $1::integer
    UNION ALL
    SELECT ${AS_ENDED} FROM unnest(${asked}::uuid[]) AS asked(id)
      CROSS JOIN LATERAL (SELECT * FROM tenure.ledger AS e
        WHERE e.lease_id = asked.id AND e.version IS NOT NULL AND e.namespace + 0 = $1::integer
        ORDER BY e.seq + 0 DESC LIMIT 1) AS l
      WHERE NOT EXISTS (SELECT 1 FROM tenure.live_leases AS r
        WHERE r.id = asked.id AND r.namespace + 0 = $1::integer)`
}

function liveQuery(query: EntryQuery, where: Where): string {
  const limit = where.value(query.limit + 1)
  const after = where.value(query.after ?? '-1')
  if (!isSelective(query))
    return `SELECT ${AS_LIVE} FROM ${listed(query, where, { limit, after })} AS l`
  const { overlapping: reach } = query
  const source = reach === undefined ? 'tenure.live_leases' : overlapping(where, reach)
  addNames(where, query)
  if (query.states !== undefined) addStates(where, query.states)
  if (query.delayed === true) where.and(`state NOT IN ('active', 'pending')`)
  addDeadline(where, query)
  // Computed, the order is no reason for the planner to walk all entries in search of a few.
  return `SELECT ${AS_LIVE} FROM ${source} AS l WHERE ${where.sql} AND l.number + 0 > ${after}::bigint
    ORDER BY l.number + 0 LIMIT ${limit}::bigint`
}

/** All that is live, in order of creation. */
function listed(
  { states, deadline }: EntryQuery,
  where: Where,
  { limit, after }: { readonly limit: string; readonly after: string },
): string {
  const wanted = where.value(states === undefined ? null : arrayText(states))
  const runningAt = deadline === 'running' ? CLOCK_US : 'NULL'
  return `tenure.listed_v9($1::integer, ${after}::bigint, ${wanted}::text[], ${runningAt}, ${limit}::bigint)`
}

/** In the order of the ends. A cursor is the position of one. */
function endedQuery(query: EntryQuery, where: Where): string {
  const { after = '0', states = [] } = query
  const limit = where.value(query.limit + 1)
  addNames(where, query)
  const position = where.value(after)
  // One ordered search per state: together they come in order too, as far as the limit goes.
  const ends = states.map((state) => {
    if (!isSelective(query)) {
      return `(SELECT * FROM tenure.ended_v9($1::integer, '${state}', ${position}::bigint, ${limit}::bigint))`
    }
    return `(SELECT l.* FROM tenure.ledger AS l WHERE ${where.sql} AND l.ended = '${state}'
      AND l.seq > ${position}::bigint ${state === 'failed' ? `AND ${IS_LAST}` : ''}
      ORDER BY l.seq + 0 LIMIT ${limit}::bigint)`
  })
  return `SELECT ${AS_ENDED} FROM (${ends.join(' UNION ALL ')}) AS l
    ORDER BY l.seq LIMIT ${limit}::bigint`
}

/** An id that failed may have come back. */
const IS_LAST = `NOT EXISTS (SELECT 1 FROM tenure.ledger AS later
  WHERE later.lease_id = l.lease_id AND later.namespace = l.namespace AND later.seq > l.seq)`

/** Whether an index leads to what is asked for, so that there is little to sort. */
function isSelective(query: EntryQuery): boolean {
  const { resource, overlapping: reach, holder, session, delayed, deadline } = query
  const names = [resource, reach, holder, session, delayed]
  return names.some((name) => name !== undefined) || deadline === 'passed' || onlyPending(query)
}

function onlyPending({ states }: EntryQuery): boolean {
  return states?.every((state) => state === 'pending') === true
}

type Names = Pick<EntryQuery, 'resource' | 'holder' | 'session'>

function addNames(where: Where, { resource, holder, session }: Names): void {
  if (resource !== undefined) where.and('resource = ?', resource)
  if (holder !== undefined) where.and('holder = ?', holder)
  if (session !== undefined) where.and('session = ?', session)
}

function addStates(where: Where, states: readonly EntryState[]): void {
  const [state, ...others] = states
  // In the words of the indexes of what waits.
  if (others.length === 0) where.and(`state = '${state}'`)
  else where.and('state = ANY (?::text[])', arrayText(states))
}

function addDeadline(where: Where, { deadline }: EntryQuery): void {
  if (deadline === 'passed') {
    where.and(`${BY_DUE} AND due_us <= ${CLOCK_US} AND live_until_us <= ${CLOCK_US}`)
  }
  if (deadline === 'running') where.and(`live_until_us > ${CLOCK_US}`)
}

function overlapping(where: Where, { resource, extent }: Reach): string {
  const isSubtree = isTree(resource) && extent === 'subtree'
  const stem = isSubtree ? resource.replace(/\/$/, '') : null
  const values = [resource, stem, arrayText(ancestorsOf(resource))].map((one) => where.value(one))
  return `tenure.overlapping_v9($1::integer, ${values.join(', ')}::text[])`
}

/**
 * How far the ledger can be followed: beyond it a transaction under way may still append. To be asked before the ledger is
 * read, in a statement of its own: one that did both would look at the ledger first. With it the last number that was given.
 */
export const LEDGER_END: Statement = {
  text: 'SELECT tenure.ledger_end(), last_value FROM tenure.ledger_seq',
  ...{ values: [], name: 'tenure_end_and_last', writes: false },
}

/** Above every position that was ever given; it may be beyond `LEDGER_END`, which can go back a little. */
export const LEDGER_LAST: Statement = {
  text: 'SELECT last_value FROM tenure.ledger_seq',
  ...{ values: [], name: 'tenure_last', writes: false },
}

/** Positions, both included, in the order in which they are read. */
export interface Stretch {
  readonly from: number
  readonly to: number
}

/**
 * The newest of the ledger, or the oldest, is read in order, which takes 0.3 µs for each event; beyond it names lead to events, by
 * the summary of each stretch of pages: quick for a name that is hardly ever used.
 */
const READ_IN_ORDER = 110_000

/** Whether no index leads to what is asked for, but the summaries of pages. */
export function isByName({ leaseId, resource, holder }: HistoryQuery): boolean {
  return leaseId === undefined && (resource ?? holder) !== undefined
}

/** The parts of the ledger that a question is about, in the order in which they are to be read. */
export function stretchesOf(query: HistoryQuery, end: number): readonly Stretch[] {
  const { newestFirst = false } = query
  const after = query.after === undefined ? null : parsePosition(query.after)
  const from = newestFirst || after === null ? 0 : after + 1
  const to = newestFirst && after !== null ? Math.min(end, after - 1) : end
  if (!isByName(query) || to - from < READ_IN_ORDER) return [{ from, to }]
  const cut = newestFirst ? to - READ_IN_ORDER : from + READ_IN_ORDER
  const [older, newer] = [
    { from, to: cut },
    { from: cut + 1, to },
  ]
  return newestFirst ? [newer, older] : [older, newer]
}

/** Rows: position, then the event as JSON. */
export function historyStatement(
  query: HistoryQuery,
  { namespace, stretch }: { readonly namespace: number; readonly stretch: Stretch },
): Statement {
  const where = new Where(namespace)
  const isLong = stretch.to - stretch.from > READ_IN_ORDER
  // Computed, neither order nor range is a reason for the planner to walk the whole ledger in search of a few.
  const seq = isLong && isByName(query) ? 'seq + 0' : 'seq'
  where.and(`${seq} >= ?::bigint`, stretch.from)
  where.and(`${seq} <= ?::bigint`, stretch.to)
  if (query.leaseId !== undefined) where.and('lease_id = ?::uuid', query.leaseId)
  addNames(where, query)
  if (query.kinds !== undefined) {
    where.and(`split_part(resource, ':', 1) = ANY (?::text[])`, arrayText(query.kinds))
  }
  if (query.fromMs !== undefined) where.and('at_ms >= ?::bigint', query.fromMs)
  if (query.toMs !== undefined) where.and('at_ms <= ?::bigint', query.toMs)
  if (query.types !== undefined) {
    where.and('type = ANY (?::text[])', arrayText(query.types.map((type) => wordOf(type))))
  }
  const limit = where.value(query.limit)
  const text = `SELECT seq, ${jsonOf(EVENT_COLUMNS)} FROM tenure.ledger AS l WHERE ${where.sql}
    ORDER BY ${seq} ${query.newestFirst === true ? 'DESC' : 'ASC'} LIMIT ${limit}::bigint`
  return { text, values: where.values, writes: false }
}

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
  const values = [namespace, JSON.stringify(refusals.map(refusalRow))]
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
  const values = wanted.map((value) => value ?? null)
  return { text, values: [namespace, ...values, limit], writes: false }
}

export function countedIn([json]: PostgresRow): CountedRefusal {
  return refusalOf(JSON.parse(json ?? '') as RefusalRow)
}
