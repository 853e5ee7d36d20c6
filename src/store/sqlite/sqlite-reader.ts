/**
 * Reads views, entries and history. Everything runs inside the caller's transaction, so that what is read together
 * belongs together. Every question of the hot path is one look into one index.
 */
import type { Commit } from '../../core/commit.ts'
import type { LeaseEventType } from '../../core/event.ts'
import { LEASE_EVENT_TYPES } from '../../core/event.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { Footprint, PriorEffect, RealmView } from '../../core/realm.ts'
import { ancestorsOf, isTree, type Reach, type Resource } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import { parsePosition } from '../../store-port/position.ts'
import type { EntryQuery, HistoryQuery, LedgerEntry } from '../../store-port/store.ts'
import { LiveCache } from './live-cache.ts'
import type { SqliteDatabase, SqliteRow, SqliteStatement, SqliteValue } from './sqlite-client.ts'
import { EVENT_COLUMNS, eventOf, wordOf } from './sqlite-events.ts'
import { ENTRY_COLUMNS, entryOf, idOf, keyOf, pathOf } from './sqlite-rows.ts'
import type { SqliteState } from './sqlite-state.ts'

const STATEMENTS_CACHED_MAX = 200

export class SqliteReader {
  readonly #database: SqliteDatabase
  readonly #namespace: string
  readonly #state: SqliteState
  readonly #statements = new Map<string, SqliteStatement>()
  readonly #byId: SqliteStatement
  readonly #liveAt: SqliteStatement
  readonly #anySubtree: SqliteStatement
  readonly #anyRequest: SqliteStatement
  readonly #eventById: SqliteStatement
  readonly #requestById: SqliteStatement
  readonly #epochOf: SqliteStatement
  readonly #cache: LiveCache
  #hasRequests = true

  constructor(database: SqliteDatabase, namespace: string, state: SqliteState) {
    this.#database = database
    this.#namespace = namespace
    this.#state = state
    this.#byId = this.#statement(
      `SELECT ${ENTRY_COLUMNS} FROM leases WHERE id = ? AND namespace = ?`,
    )
    this.#liveAt = this.#statement(
      `SELECT ${ENTRY_COLUMNS} FROM leases
       WHERE file_path = ? AND live_until_us IS NOT NULL AND namespace = ?`,
    )
    this.#cache = new LiveCache(database)
    this.#anyRequest = this.#statement('SELECT 1 FROM requests LIMIT 1')
    this.#eventById = this.#statement('SELECT lease_id, event_type FROM lease_history WHERE id = ?')
    this.#requestById = this.#statement('SELECT lease_id, event_type FROM requests WHERE id = ?')
    this.#epochOf = this.#statement('SELECT epoch FROM epochs WHERE namespace = ? AND resource = ?')
    // Left to itself the planner walks all that is live when there is no subtree among it.
    this.#anySubtree = this.#statement(
      `SELECT 1 FROM leases INDEXED BY idx_leases_subtree
       WHERE live_until_us IS NOT NULL AND extent = 'subtree' LIMIT 1`,
    )
  }

  /** To be called inside each write transaction before its first view. */
  begin(): void {
    this.#cache.validate()
    this.#hasRequests = this.#anyRequest.get() !== undefined
  }

  /** Tells what was written, so that later views of the same transaction and of the next ones show it. */
  note(commit: Commit): void {
    for (const change of commit.changes) this.#cache.note(change)
    if (commit.requests.length > 0) this.#hasRequests = true
  }

  forget(): void {
    this.#cache.forget()
  }

  view(footprint: Footprint, now: Now): RealmView {
    const { resource, leaseId, requestId } = footprint
    const entries = new Map<LeaseId, Entry>()
    if (footprint.depth === 'claims') this.#collect(entries, footprint, this.#liveCached)
    if (!entries.has(leaseId))
      this.#add(entries, this.#byId.all(keyOf(leaseId, this.#state), this.#namespace))
    return new SqliteView({
      entries,
      lastFence: this.#state.lastFence,
      countTickets: this.#countTickets,
      readEpoch: this.#readEpoch,
      footprint,
      now,
      prior: requestId === null ? null : this.#prior(requestId),
      settings: this.#state.settingsFor(resource),
    })
  }

  #collect(
    entries: Map<LeaseId, Entry>,
    reach: Reach,
    liveAt: (path: string) => Iterable<Entry>,
  ): void {
    const path = pathOf(reach.resource)
    for (const entry of liveAt(path)) entries.set(entry.id, entry)
    if (!isTree(reach.resource)) return
    if (reach.extent === 'subtree') this.#add(entries, this.#below(path))
    if (this.#anySubtree.get() !== undefined) this.#add(entries, this.#above(reach.resource))
  }

  readonly #liveRead = (path: string): readonly Entry[] => {
    const rows = this.#liveAt.all(path, this.#namespace)
    return rows.map((row) => entryOf(row as SqliteRow, this.#state))
  }

  readonly #liveCached = (path: string): Iterable<Entry> => {
    const known = this.#cache.get(path)
    if (known !== null) return known
    const entries = this.#liveRead(path)
    this.#cache.set(path, entries)
    return entries
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
    return this.#statement(
      `SELECT ${ENTRY_COLUMNS} FROM leases
       WHERE file_path > ? AND file_path < ? AND live_until_us IS NOT NULL AND namespace = ?`,
    ).all(`${stem}/`, `${stem}0`, this.#namespace)
  }

  #above(resource: Resource): readonly unknown[] {
    const ancestors = JSON.stringify(ancestorsOf(resource).map(pathOf))
    return this.#statement(
      `SELECT ${ENTRY_COLUMNS} FROM leases
       WHERE file_path IN (SELECT value FROM json_each(?)) AND extent = 'subtree'
         AND live_until_us IS NOT NULL AND namespace = ?`,
    ).all(ancestors, this.#namespace)
  }

  readonly #countTickets = (resource: Resource, now: Now): number => {
    const path = pathOf(resource)
    const [from, to] = isTree(resource) ? ['/', '0'] : [path, `${path}\u0000`]
    const generation = this.#state.generationOf(now.tick.domain)
    const row = this.#statement(
      `SELECT count(*) FROM leases WHERE status = 'pending' AND file_path >= ? AND file_path < ?
         AND namespace = ? AND live_clock = ? AND live_until_us > ?`,
    ).get(from, to, this.#namespace, generation, now.tick.us) as SqliteRow
    return row[0] as number
  }

  readonly #readEpoch = (resource: Resource): number => {
    const row = this.#epochOf.get(this.#namespace, resource) as SqliteRow | undefined
    return (row?.[0] as number | undefined) ?? 0
  }

  #prior(requestId: string): PriorEffect | null {
    const key = keyOf(requestId, this.#state)
    const recorded = (this.#eventById.get(key) ??
      (this.#hasRequests ? this.#requestById.get(key) : undefined)) as SqliteRow | undefined
    if (recorded === undefined) return null
    const type = LEASE_EVENT_TYPES.find((candidate) => wordOf(candidate) === recorded[1])
    if (type === undefined) throw new Error(`event ${String(recorded[1])} is not known`)
    return { leaseId: idOf(recorded[0] as string), type: type satisfies LeaseEventType }
  }

  find(query: EntryQuery, now: Now): readonly Entry[] {
    if (query.ids !== undefined && query.ids.length === 0) return []
    if (query.overlapping !== undefined)
      return this.#overlapping(query.overlapping, query.limit + 1)
    const where = new Where('namespace = ?', [this.#namespace])
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
    const sql = `SELECT ${ENTRY_COLUMNS} FROM leases WHERE ${where.sql} ORDER BY ${order} LIMIT ?`
    const rows = this.#statement(sql).all(...where.values, query.limit + 1)
    return rows.map((row) => entryOf(row as SqliteRow, this.#state))
  }

  #overlapping(reach: Reach, limit: number): readonly Entry[] {
    const entries = new Map<LeaseId, Entry>()
    this.#collect(entries, reach, this.#liveRead)
    return [...entries.values()].slice(0, limit)
  }

  /**
   * Ticks of an earlier clock have always passed. Where no name narrows the question, it starts from the index of
   * deadlines, because ended leases may outnumber live ones by far; where one does, from the index of that name.
   */
  #addDeadline(where: Where, query: EntryQuery, now: Now): void {
    if (query.deadline === undefined) return
    const generation = this.#state.generationOf(now.tick.domain)
    where.and('live_until_us IS NOT NULL')
    if (query.deadline === 'passed' && !isNarrow(query) && query.states === undefined) {
      const most = query.limit + 1
      where.and(
        `rowid IN (
          SELECT rowid FROM (SELECT rowid FROM leases
            WHERE live_clock = ? AND live_until_us <= ? LIMIT ?)
          UNION ALL
          SELECT rowid FROM (SELECT rowid FROM leases
            WHERE live_clock < ? AND live_until_us IS NOT NULL LIMIT ?))`,
        ...[generation, now.tick.us, most, generation, most],
      )
    } else if (query.deadline === 'passed') {
      where.and('(+live_clock < ? OR +live_until_us <= ?)', generation, now.tick.us)
    } else if (isNarrow(query)) {
      where.and('+live_clock = ? AND +live_until_us > ?', generation, now.tick.us)
    } else {
      const live = 'SELECT rowid FROM leases WHERE live_clock = ? AND live_until_us > ?'
      where.and(`rowid IN (${live})`, generation, now.tick.us)
    }
  }

  history(query: HistoryQuery): readonly LedgerEntry[] {
    const where = new Where('namespace = ?', [this.#namespace])
    const descending = query.newestFirst === true
    if (query.after !== undefined) {
      where.and(descending ? 'seq < ?' : 'seq > ?', parsePosition(query.after))
    }
    if (query.leaseId !== undefined) where.and('lease_id = ?', keyOf(query.leaseId, this.#state))
    if (query.resource !== undefined) where.and('file_path = ?', pathOf(query.resource))
    if (query.holder !== undefined) where.and('agent_id = ?', query.holder)
    if (query.fromMs !== undefined) where.and('event_at >= ?', query.fromMs)
    if (query.toMs !== undefined) where.and('event_at <= ?', query.toMs)
    if (query.types !== undefined) {
      where.and(`json_extract(data, '$.type') IN (${query.types.map(() => '?').join(', ')})`)
      where.values.push(...query.types)
    }
    const sql = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE ${where.sql}
      ORDER BY seq ${descending ? 'DESC' : ''} LIMIT ?`
    const rows = this.#statement(sql).all(...where.values, query.limit)
    return rows.map((row) => {
      const values = row as SqliteRow
      return { position: String(values[10]), event: eventOf(values, this.#state) }
    })
  }

  #statement(sql: string): SqliteStatement {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    if (this.#statements.size >= STATEMENTS_CACHED_MAX) this.#statements.clear()
    const statement = this.#database.prepare(sql).raw()
    this.#statements.set(sql, statement)
    return statement
  }
}

interface ViewParts extends Pick<RealmView, 'entries' | 'lastFence' | 'prior' | 'settings'> {
  readonly countTickets: (resource: Resource, now: Now) => number
  readonly readEpoch: (resource: Resource) => number
  readonly footprint: Footprint
  readonly now: Now
}

/** A view that counts tickets and reads the epoch only if it is asked to: hardly any decision needs to know. */
class SqliteView implements RealmView {
  readonly entries: RealmView['entries']
  readonly lastFence: number
  readonly prior: PriorEffect | null
  readonly settings: RealmView['settings']
  readonly #parts: ViewParts

  constructor(parts: ViewParts) {
    this.entries = parts.entries
    this.lastFence = parts.lastFence
    this.prior = parts.prior
    this.settings = parts.settings
    this.#parts = parts
  }

  get ticketCount(): number {
    const { countTickets, footprint, now } = this.#parts
    return countTickets(footprint.resource, now)
  }

  get epoch(): number {
    const { readEpoch, footprint } = this.#parts
    return readEpoch(footprint.resource)
  }
}

/** Whether a name makes the answer small, however many leases there are. */
function isNarrow(query: EntryQuery): boolean {
  const { ids, resource, holder, session } = query
  return [ids, resource, holder, session].some((name) => name !== undefined)
}

/** A condition in the making, with its values beside it: names reach SQL as data only. */
class Where {
  sql: string
  readonly values: SqliteValue[]

  constructor(sql: string, values: SqliteValue[]) {
    this.sql = sql
    this.values = values
  }

  and(condition: string, ...values: readonly SqliteValue[]): void {
    this.sql += ` AND ${condition}`
    this.values.push(...values)
  }
}
