/**
 * Finds what is live by name, state, deadline or reach. Everything runs inside the caller's transaction, so that what is
 * read together belongs together. Every question of the hot path is one look into one index of what is live.
 */
import type { Entry, LeaseId } from '../../core/lease.ts'
import { ancestorsOf, isTree, type Reach } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { EntryQuery } from '../../store-port/store.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { ENTRY_COLUMNS, entryOf, keyOf, pathOf } from './sqlite-columns.ts'
import { Where, type SqliteState, type StatementCache } from './sqlite-state.ts'

const BY_ID = `SELECT ${ENTRY_COLUMNS} FROM live_leases WHERE id = ?`
const LIVE_AT = `SELECT ${ENTRY_COLUMNS} FROM live_leases WHERE file_path = ? AND namespace = ?`
/** Left to itself the planner walks all that is live when there is no subtree among it. */
const ANY_SUBTREE = `SELECT 1 FROM live_leases INDEXED BY idx_live_subtree
  WHERE extent = 'subtree' LIMIT 1`
const BELOW = `SELECT ${ENTRY_COLUMNS} FROM live_leases
  WHERE file_path > ? AND file_path < ? AND namespace = ?`
const ABOVE = `SELECT ${ENTRY_COLUMNS} FROM live_leases
  WHERE file_path IN (SELECT value FROM json_each(?)) AND extent = 'subtree' AND namespace = ?`

export interface FoundRows {
  readonly entries: readonly Entry[]
  readonly next: string | null
}

export interface LiveRows {
  readonly entries: readonly Entry[]
  readonly numbers: readonly number[]
}

export class SqliteFinder {
  readonly #statements: StatementCache
  readonly #state: SqliteState

  constructor(state: SqliteState) {
    this.#statements = state.statements
    this.#state = state
  }

  /** One more than the limit, if there is one; `next` goes on behind the limit. */
  find(query: EntryQuery, now: Now): FoundRows {
    if (query.overlapping !== undefined) {
      return { entries: this.overlapping(query.overlapping).slice(0, query.limit + 1), next: null }
    }
    const { entries, numbers } = this.live(query, now, query.limit + 1)
    const last = entries.length > query.limit ? numbers[query.limit - 1] : undefined
    return { entries, next: last === undefined ? null : String(last) }
  }

  entry(id: LeaseId): Entry | undefined {
    const row = this.#statements.get(BY_ID).get(keyOf(id, this.#state)) as SqliteRow | undefined
    return row === undefined ? undefined : entryOf(row, this.#state)
  }

  /** In order of creation, with the number of each. */
  live(query: EntryQuery, now: Now, limit: number): LiveRows {
    const where = new Where('namespace = ?', [this.#state.namespace])
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
    const order = isNarrow(query) ? '+number' : 'number'
    if (query.after !== undefined) where.and(`${order} > ?`, Number(query.after))
    const sql = `SELECT ${ENTRY_COLUMNS}, number FROM live_leases WHERE ${where.sql}
      ORDER BY ${order} LIMIT ?`
    const rows = this.#statements.get(sql).all(...where.values, limit) as SqliteRow[]
    return {
      entries: rows.map((row) => entryOf(row, this.#state)),
      numbers: rows.map((row) => row.at(-1) as number),
    }
  }

  /** Ticks of an earlier clock have always passed. Where no name narrows the question, it starts from the deadlines. */
  #addDeadline(where: Where, query: EntryQuery, now: Now): void {
    if (query.deadline === undefined) return
    const generation = this.#state.ownGenerationOf(now.tick.domain)
    if (query.deadline === 'running') {
      where.and('+clock = ? AND live_until_us > ?', generation, now.tick.us)
    } else if (isNarrow(query) || query.states !== undefined) {
      where.and('(+clock < ? OR live_until_us <= ?)', generation, now.tick.us)
    } else {
      const most = query.limit + 1
      where.and(
        `number IN (
          SELECT number FROM (SELECT number FROM live_leases
            WHERE clock = ? AND due_us <= ? AND live_until_us <= ? LIMIT ?)
          UNION ALL
          SELECT number FROM (SELECT number FROM live_leases WHERE clock < ? LIMIT ?))`,
        ...[generation, now.tick.us, now.tick.us, most, generation, most],
      )
    }
  }

  /** All that is live and touches the reach. */
  overlapping({ resource, extent }: Reach): readonly Entry[] {
    const path = pathOf(resource)
    const rows = this.#rows(LIVE_AT, path)
    if (isTree(resource)) {
      // The names between `path/` and `path0`, `0` being next after `/`.
      const stem = path === '/' ? '' : path
      if (extent === 'subtree') rows.push(...this.#rows(BELOW, `${stem}/`, `${stem}0`))
      if (this.#statements.get(ANY_SUBTREE).get() !== undefined) {
        rows.push(...this.#rows(ABOVE, JSON.stringify(ancestorsOf(resource).map(pathOf))))
      }
    }
    return rows.map((row) => entryOf(row, this.#state))
  }

  #rows(sql: string, ...names: readonly string[]): SqliteRow[] {
    return this.#statements.get(sql).all(...names, this.#state.namespace) as SqliteRow[]
  }
}

/** Whether a name makes the answer small, however many leases there are. */
function isNarrow({ resource, holder, session }: EntryQuery): boolean {
  return [resource, holder, session].some((name) => name !== undefined)
}
