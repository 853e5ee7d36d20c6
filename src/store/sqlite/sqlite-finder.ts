/**
 * Finds entries by name, state, deadline or reach. Everything runs inside the caller's transaction, so that what is
 * read together belongs together. Every question of the hot path is one look into one index.
 */
import type { Entry, LeaseId } from '../../core/lease.ts'
import { ancestorsOf, isTree, type Reach, type Resource } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { EntryQuery } from '../../store-port/store.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { Where, type StatementCache } from '../../drivers/sqlite-driver.ts'
import { keyOf, pathOf, ENTRY_COLUMNS, entryOf } from './sqlite-rows.ts'
import type { SqliteState } from './sqlite-state.ts'

const LIVE_AT = `SELECT ${ENTRY_COLUMNS} FROM leases
  WHERE file_path = ? AND live_clock IS NOT NULL AND namespace = ?`
/** Left to itself the planner walks all that is live when there is no subtree among it. */
const ANY_SUBTREE = `SELECT 1 FROM leases INDEXED BY idx_leases_subtree
  WHERE live_clock IS NOT NULL AND extent = 'subtree' LIMIT 1`
const BELOW = `SELECT ${ENTRY_COLUMNS} FROM leases
  WHERE file_path > ? AND file_path < ? AND live_clock IS NOT NULL AND namespace = ?`
const ABOVE = `SELECT ${ENTRY_COLUMNS} FROM leases
  WHERE file_path IN (SELECT value FROM json_each(?)) AND extent = 'subtree'
    AND live_clock IS NOT NULL AND namespace = ?`

export interface FoundRows {
  readonly entries: readonly Entry[]
  readonly next: string | null
}

const NOTHING: FoundRows = { entries: [], next: null }

export class SqliteFinder {
  readonly #statements: StatementCache
  readonly #state: SqliteState

  constructor(statements: StatementCache, state: SqliteState) {
    this.#statements = statements
    this.#state = state
  }

  /** One more than the limit, if there is one; `next` goes on behind the limit. */
  find(query: EntryQuery, now: Now): FoundRows {
    if (query.ids !== undefined && query.ids.length === 0) return NOTHING
    if (query.overlapping !== undefined) {
      return { entries: this.#overlapping(query.overlapping, query.limit + 1), next: null }
    }
    const where = new Where('namespace = ?', [this.#state.namespace])
    if (query.ids !== undefined) {
      const keys = query.ids.map((id) => keyOf(id, this.#state))
      where.and('id IN (SELECT value FROM json_each(?))', JSON.stringify(keys))
    }
    if (query.resource !== undefined) where.and('file_path = ?', pathOf(query.resource))
    if (query.holder !== undefined) where.and('agent_id = ?', query.holder)
    if (query.session !== undefined) where.and('session = ?', query.session)
    if (query.states !== undefined) {
      const [first, ...others] = query.states.map((state) => `'${state}'`)
      where.and(
        others.length === 0 ? `status = ${first}` : `status IN (${[first, ...others].join(', ')})`,
      )
    }
    this.#addDeadline(where, query, now)
    // The sign keeps the planner from walking the whole table just because it is in the right order.
    const order = isNarrow(query) ? '+rowid' : 'rowid'
    if (query.after !== undefined) where.and(`${order} > ?`, Number(query.after))
    const columns = `${ENTRY_COLUMNS}, rowid`
    const sql = `SELECT ${columns} FROM leases WHERE ${where.sql} ORDER BY ${order} LIMIT ?`
    const rows = this.#statements.get(sql).all(...where.values, query.limit + 1) as SqliteRow[]
    const entries = rows.map((row) => entryOf(row, this.#state))
    const last = entries.length > query.limit ? rows[query.limit - 1] : undefined
    return { entries, next: last === undefined ? null : String(last.at(-1)) }
  }

  #overlapping(reach: Reach, limit: number): readonly Entry[] {
    const entries = new Map<LeaseId, Entry>()
    this.collect(entries, reach, this.liveAt)
    return [...entries.values()].slice(0, limit)
  }

  /**
   * Ticks of an earlier clock have always passed. Where no name narrows the question, it starts from the index of
   * deadlines, because ended leases may outnumber live ones by far; where one does, from the index of that name.
   */
  #addDeadline(where: Where, query: EntryQuery, now: Now): void {
    if (query.deadline === undefined) return
    const generation = this.#state.ownGenerationOf(now.tick.domain)
    where.and('live_clock IS NOT NULL')
    if (query.deadline === 'passed' && !isNarrow(query) && query.states === undefined) {
      const most = query.limit + 1
      where.and(
        `rowid IN (
          SELECT rowid FROM (SELECT rowid FROM leases
            WHERE live_clock = ? AND due_us <= ? AND live_until_us <= ? LIMIT ?)
          UNION ALL
          SELECT rowid FROM (SELECT rowid FROM leases
            WHERE live_clock < ? LIMIT ?))`,
        ...[generation, now.tick.us, now.tick.us, most, generation, most],
      )
    } else if (query.deadline === 'passed') {
      where.and('(+live_clock < ? OR +live_until_us <= ?)', generation, now.tick.us)
    } else if (isNarrow(query)) {
      where.and('+live_clock = ? AND +live_until_us > ?', generation, now.tick.us)
    } else {
      const live = 'SELECT rowid FROM leases WHERE live_clock = ?'
      where.and(`rowid IN (${live}) AND +live_until_us > ?`, generation, now.tick.us)
    }
  }

  /** Adds all that is live and touches the reach; `liveAt` tells what is live at a path itself. */
  collect(
    entries: Map<LeaseId, Entry>,
    reach: Reach,
    liveAt: (path: string) => Iterable<Entry>,
  ): void {
    const path = pathOf(reach.resource)
    for (const entry of liveAt(path)) entries.set(entry.id, entry)
    if (!isTree(reach.resource)) return
    if (reach.extent === 'subtree') this.#add(entries, this.#below(path))
    if (this.#statements.get(ANY_SUBTREE).get() === undefined) return
    this.#add(entries, this.#above(reach.resource))
  }

  readonly liveAt = (path: string): readonly Entry[] => {
    const rows = this.#statements.get(LIVE_AT).all(path, this.#state.namespace)
    return rows.map((row) => entryOf(row as SqliteRow, this.#state))
  }

  #add(entries: Map<LeaseId, Entry>, rows: readonly unknown[]): void {
    for (const row of rows) {
      const entry = entryOf(row as SqliteRow, this.#state)
      entries.set(entry.id, entry)
    }
  }

  /** Everything live inside a directory: the names between `path/` and `path0`, `0` being next after `/`. */
  #below(path: string): readonly unknown[] {
    const stem = path === '/' ? '' : path
    return this.#statements.get(BELOW).all(`${stem}/`, `${stem}0`, this.#state.namespace)
  }

  #above(resource: Resource): readonly unknown[] {
    const ancestors = JSON.stringify(ancestorsOf(resource).map(pathOf))
    return this.#statements.get(ABOVE).all(ancestors, this.#state.namespace)
  }
}

/** Whether a name makes the answer small, however many leases there are. */
function isNarrow(query: EntryQuery): boolean {
  const { ids, resource, holder, session } = query
  return [ids, resource, holder, session].some((name) => name !== undefined)
}
