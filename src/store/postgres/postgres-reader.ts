/**
 * Questions about entries and the ledger as statements. Names reach SQL as data only.
 */
import type { EntryState } from '../../core/lease.ts'
import { ancestorsOf, isTree, type Reach } from '../../core/resource.ts'
import { parsePosition } from '../../store-port/position.ts'
import type { EntryQuery, HistoryQuery } from '../../store-port/store.ts'
import type { Statement } from '../../drivers/postgres-driver.ts'
import { wordOf } from './postgres-events.ts'

/** A condition in the making, with its values beside it. */
class Where {
  #sql: string
  readonly values: (string | null)[]

  constructor(namespace: number) {
    this.#sql = 'namespace = $1::smallint'
    this.values = [String(namespace)]
  }

  get sql(): string {
    return this.#sql
  }

  /** `?` stands for the value. */
  and(condition: string, value: string | null = null): void {
    if (condition.includes('?')) {
      this.values.push(value)
      this.#sql += ` AND ${condition.replace('?', `$${this.values.length}`)}`
    } else this.#sql += ` AND ${condition}`
  }

  /** A value that stands elsewhere in the statement. */
  value(value: string): string {
    this.values.push(value)
    return `$${this.values.length}`
  }
}

const NOW_US = '(extract(epoch FROM clock_timestamp()) * 1000000)::bigint'

export interface ReadContext {
  readonly namespace: number
  /** A clock that stands in for the server's; null: the server's. */
  readonly nowUs: number | null
}

/** Rows: the server's clock, then one entry as JSON or null. */
export function findStatement(query: EntryQuery, context: ReadContext): Statement {
  const where = new Where(context.namespace)
  const now = where.value(context.nowUs === null ? '' : String(context.nowUs))
  const clock = `SELECT coalesce(nullif(${now}, '')::bigint, ${NOW_US}) AS us`
  const source = query.overlapping === undefined ? 'tenure.leases' : overlapping(where, query)
  addNames(where, query)
  addDeadline(where, query)
  if (query.after !== undefined) where.and('l.number > ?::bigint', query.after)
  const limit = where.value(String(query.limit + 1))
  const found = (condition: string, order: string): string => {
    return `SELECT l.* FROM ${source} AS l WHERE ${where.sql}${condition}
      ORDER BY ${order} LIMIT ${limit}::bigint`
  }
  // Computed, the order is no reason for the planner to walk all entries in search of a few.
  const all = isSelective(query)
    ? found('', 'l.number + 0')
    : `SELECT * FROM (${partsOf(query)
        .map((part) => `(${found(` AND ${part}`, 'l.number')})`)
        .join(' UNION ALL ')}) AS l ORDER BY l.number LIMIT ${limit}::bigint`
  const text = `WITH clock AS MATERIALIZED (${clock}), found AS (${all})
    SELECT clock.us, to_jsonb(found) FROM clock LEFT JOIN found ON true ORDER BY found.number`
  return { text, values: where.values, writes: false }
}

/** A value that an index can be searched for, whatever the planner thinks of joining. */
const CLOCK_US = '(SELECT us FROM clock)'
/** In the words of the index that has the order. */
const LIVE = `l.live::text = 'true'`
const ENDED = `l.live::text = 'false'`
const BEGUN: readonly EntryState[] = ['active', 'pending']

/**
 * The parts of the index that has the order. Few that have ended are live still, until their lock delay has passed: they
 * have an index of their own.
 */
function partsOf({ states, deadline }: EntryQuery): readonly string[] {
  const isAbout = (state: EntryState): boolean => BEGUN.includes(state)
  if (deadline === 'running' || states?.every(isAbout) === true) return [LIVE]
  if (states?.some(isAbout) === false) return ['l.live AND l.terminated_at IS NOT NULL', ENDED]
  return states === undefined ? [LIVE] : [LIVE, ENDED]
}

/** Whether an index leads to what is asked for, so that there is little to sort. */
function isSelective(query: EntryQuery): boolean {
  const { ids, resource, overlapping: reach, holder, session, deadline } = query
  const names = [ids, resource, reach, holder, session]
  return names.some((name) => name !== undefined) || deadline === 'passed' || onlyPending(query)
}

function onlyPending({ states }: EntryQuery): boolean {
  return states?.every((state) => state === 'pending') === true
}

function addNames(where: Where, query: EntryQuery): void {
  const { ids, resource, holder, session, states } = query
  if (ids !== undefined) where.and('id = ANY (?::uuid[])', arrayText(ids))
  if (resource !== undefined) where.and('resource = ?', resource)
  if (holder !== undefined) where.and('holder = ?', holder)
  if (session !== undefined) where.and('session = ?', session)
  if (states !== undefined) where.and('state = ANY (?::text[])', arrayText(states))
  if (onlyPending(query)) where.and(`state = 'pending'`)
  // Of what has ended only those are told that are asked for by id or state.
  if (ids === undefined && states === undefined) where.and('live')
}

function addDeadline(where: Where, query: EntryQuery): void {
  if (query.deadline === 'passed')
    where.and(`live::integer = 1 AND due_us <= ${CLOCK_US} AND live_until_us <= ${CLOCK_US}`)
  if (query.deadline === 'running') where.and(`live AND live_until_us > ${CLOCK_US}`)
}

function overlapping(where: Where, { overlapping: reach }: EntryQuery): string {
  if (reach === undefined) return 'tenure.leases'
  const { resource, stem, above } = reachValues(reach)
  const values = [where.value(resource), where.value(stem ?? ''), where.value(arrayText(above))]
  const [at, below, over] = values
  return `tenure.overlapping($1::smallint, ${at}, nullif(${below}, ''), ${over}::text[])`
}

function reachValues({ resource, extent }: Reach): {
  readonly resource: string
  readonly stem: string | null
  readonly above: readonly string[]
} {
  const isSubtree = isTree(resource) && extent === 'subtree'
  const stem = resource.endsWith('/') ? resource.slice(0, -1) : resource
  return { resource, stem: isSubtree ? stem : null, above: ancestorsOf(resource) }
}

/**
 * How far the ledger can be read: beyond it a transaction under way may still append. To be asked before the ledger is
 * read, in a statement of its own: one that did both would look at the ledger first.
 */
export const LEDGER_END: Statement = {
  ...{ text: 'SELECT tenure.ledger_end()', values: [], name: 'tenure_end', writes: false },
}

/** Rows: position, then the event as JSON. */
export function historyStatement(
  query: HistoryQuery,
  { namespace, end }: { readonly namespace: number; readonly end: string },
): Statement {
  const where = new Where(namespace)
  const descending = query.newestFirst === true
  where.and('seq <= ?::bigint', end)
  if (query.after !== undefined) {
    const position = String(parsePosition(query.after))
    where.and(descending ? 'seq < ?::bigint' : 'seq > ?::bigint', position)
  }
  if (query.leaseId !== undefined) where.and('lease_id = ?::uuid', query.leaseId)
  if (query.resource !== undefined) where.and('resource = ?', query.resource)
  if (query.kinds !== undefined) {
    where.and(`split_part(resource, ':', 1) = ANY (?::text[])`, arrayText(query.kinds))
  }
  if (query.holder !== undefined) where.and('holder = ?', query.holder)
  if (query.fromMs !== undefined) where.and('at_ms >= ?::bigint', String(query.fromMs))
  if (query.toMs !== undefined) where.and('at_ms <= ?::bigint', String(query.toMs))
  if (query.types !== undefined) {
    where.and('type = ANY (?::text[])', arrayText(query.types.map((type) => wordOf(type))))
  }
  const limit = where.value(String(query.limit))
  const text = `SELECT seq, to_jsonb(l) - 'seq' - 'namespace' FROM tenure.ledger AS l
    WHERE ${where.sql} ORDER BY seq ${descending ? 'DESC' : 'ASC'} LIMIT ${limit}::bigint`
  return { text, values: where.values, writes: false }
}

/** An array as PostgreSQL reads it, every element quoted. */
export function arrayText(values: readonly (string | null)[]): string {
  const quoted = values.map((value) => {
    return value === null ? 'NULL' : `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`
  })
  return `{${quoted.join(',')}}`
}
