/**
 * Reads the views that decisions are made on. Everything runs inside the caller's write transaction, so that what is
 * read together belongs together and is still true when it is written back.
 */
import type { Commit } from '../../core/commit.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { Footprint, PriorEffect, RealmView } from '../../core/realm.ts'
import { isTree, type Resource } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import { LazyView } from '../lazy-view.ts'
import { LiveCache } from './live-cache.ts'
import type { PendingEvents } from './pending-events.ts'
import type { SqliteDatabase, SqliteRow } from '../../drivers/sqlite-driver.ts'
import type { StatementCache } from '../../drivers/sqlite-driver.ts'
import { typeOf } from './sqlite-events.ts'
import type { SqliteFinder } from './sqlite-finder.ts'
import { idOf, keyOf, pathOf, ENTRY_COLUMNS, entryOf } from './sqlite-rows.ts'
import type { SqliteState } from './sqlite-state.ts'

const BY_ID = `SELECT ${ENTRY_COLUMNS} FROM leases WHERE id = ? AND namespace = ?`
const ANY_REQUEST = 'SELECT 1 FROM requests LIMIT 1'
const EVENT_BY_ID = 'SELECT lease_id, event_type FROM lease_history WHERE id = ?'
const REQUEST_BY_ID = 'SELECT lease_id, event_type FROM requests WHERE id = ?'
const EPOCH_OF = 'SELECT epoch FROM epochs WHERE namespace = ? AND resource = ?'
/** Left to itself the planner counts among all that is live. */
const COUNT_TICKETS = `SELECT count(*) FROM leases INDEXED BY idx_leases_pending
  WHERE status = 'pending' AND file_path >= ? AND file_path < ?
    AND namespace = ? AND live_clock = ? AND live_until_us > ?`

export interface SqliteReaderOptions {
  readonly database: SqliteDatabase
  readonly statements: StatementCache
  readonly state: SqliteState
  readonly finder: SqliteFinder
  readonly events: PendingEvents
}

export class SqliteReader {
  readonly #statements: StatementCache
  readonly #state: SqliteState
  readonly #finder: SqliteFinder
  readonly #events: PendingEvents
  readonly #cache: LiveCache
  #hasRequests = true

  constructor({ database, statements, state, finder, events }: SqliteReaderOptions) {
    this.#statements = statements
    this.#state = state
    this.#finder = finder
    this.#events = events
    this.#cache = new LiveCache(database)
  }

  /** To be called inside each write transaction before its first view. Reads again only what others may have changed. */
  begin(): void {
    if (this.#cache.validate()) return this.#state.goOn()
    this.#state.load()
    this.#hasRequests = this.#statements.get(ANY_REQUEST).get() !== undefined
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
    if (footprint.depth === 'claims') this.#finder.collect(entries, footprint, this.#liveCached)
    const prior = requestId === null ? null : this.#prior(requestId)
    for (const id of prior === null ? [leaseId] : [leaseId, prior.leaseId]) {
      if (entries.has(id)) continue
      const entry = this.#cache.entry(pathOf(resource), id) ?? this.#entryOf(id)
      if (entry !== undefined) entries.set(id, entry)
    }
    return new LazyView({
      entries,
      lastFence: this.#state.lastFence,
      countTickets: this.#countTickets,
      readEpoch: this.#readEpoch,
      footprint,
      now,
      prior,
      settings: this.#state.settingsFor(resource),
    })
  }

  #entryOf(id: LeaseId): Entry | undefined {
    const key = keyOf(id, this.#state)
    const row = this.#statements.get(BY_ID).get(key, this.#state.namespace)
    return row === undefined ? undefined : entryOf(row as SqliteRow, this.#state)
  }

  readonly #liveCached = (path: string): Iterable<Entry> => {
    const known = this.#cache.get(path)
    if (known !== null) return known
    const entries = this.#finder.liveAt(path)
    this.#cache.set(path, entries)
    return entries
  }

  readonly #countTickets = (resource: Resource, now: Now): number => {
    const path = pathOf(resource)
    const [from, to] = isTree(resource) ? ['/', '0'] : [path, `${path}\u0000`]
    const generation = this.#state.ownGenerationOf(now.tick.domain)
    const row = this.#statements
      .get(COUNT_TICKETS)
      .get(from, to, this.#state.namespace, generation, now.tick.us) as SqliteRow
    return row[0] as number
  }

  readonly #readEpoch = (resource: Resource): number => {
    const { namespace } = this.#state
    const row = this.#statements.get(EPOCH_OF).get(namespace, resource) as SqliteRow | undefined
    return (row?.[0] as number | undefined) ?? 0
  }

  #prior(requestId: string): PriorEffect | null {
    const key = keyOf(requestId, this.#state)
    const recorded = (this.#events.effectOf(key) ??
      this.#statements.get(EVENT_BY_ID).get(key) ??
      (this.#hasRequests ? this.#statements.get(REQUEST_BY_ID).get(key) : undefined)) as
      SqliteRow | undefined
    if (recorded === undefined) return null
    return { leaseId: idOf(recorded[0] as string), type: typeOf(recorded[1] as string) }
  }
}
