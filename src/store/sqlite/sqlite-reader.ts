/**
 * Reads the views that decisions are made on. Everything runs inside the caller's write transaction, so that what is
 * read together belongs together and is still true when it is written back.
 */
import type { Commit } from '../../core/commit.ts'
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { ReadSet, PriorEffect, RealmView } from '../../core/realm.ts'
import { isTree, type Resource } from '../../core/resource.ts'
import type { Settings } from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import { LazyView } from '../lazy-view.ts'
import { ResolvedSettings } from '../resolved-settings.ts'
import { LiveCache } from './live-cache.ts'
import type { PendingEvents } from './pending-events.ts'
import type { SqliteRow, StatementCache } from '../../drivers/sqlite-driver.ts'
import { idOf, keyOf, leaseNumberOf, pathOf } from './sqlite-columns.ts'
import { EVENT_COLUMNS, eventOf, typeOf } from './sqlite-event-columns.ts'
import type { SqliteFinder } from './sqlite-finder.ts'
import type { SqliteHistory } from './sqlite-history.ts'
import type { SqliteState } from './sqlite-state.ts'

const ANY_REQUEST = 'SELECT 1 FROM requests LIMIT 1'
const EVENT_BY_REQUEST = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE request_id = ? AND request_id > '' LIMIT 1`
const EVENT_BY_OWN_ID = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ? AND request_id = '' LIMIT 1`
const REQUEST_BY_ID = 'SELECT lease_id, event_type FROM requests WHERE id = ?'
const EPOCH_OF = 'SELECT epoch FROM epochs WHERE namespace = ? AND resource = ?'
/** Left to itself the planner counts among all that is live. */
const COUNT_TICKETS = `SELECT count(*) FROM live_leases INDEXED BY idx_live_pending
  WHERE status = 'pending' AND file_path >= ? AND file_path < ?
    AND namespace = ? AND clock = ? AND live_until_us > ?`

export interface SqliteReaderOptions {
  readonly statements: StatementCache
  readonly state: SqliteState
  readonly finder: SqliteFinder
  readonly ledger: SqliteHistory
  readonly events: PendingEvents
}

export class SqliteReader {
  readonly #statements: StatementCache
  readonly #state: SqliteState
  readonly #finder: SqliteFinder
  readonly #ledger: SqliteHistory
  readonly #events: PendingEvents
  readonly #cache: LiveCache
  #hasRequests = true
  #settings = new ResolvedSettings([])

  constructor({ statements, state, finder, ledger, events }: SqliteReaderOptions) {
    this.#statements = statements
    this.#state = state
    this.#finder = finder
    this.#ledger = ledger
    this.#events = events
    this.#cache = new LiveCache(statements)
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

  view(readSet: ReadSet, now: Now): RealmView {
    const { resource, leaseId, requestId } = readSet
    const entries = new Map<LeaseId, Entry>()
    if (readSet.depth === 'claims') this.#finder.collect(entries, readSet, this.#liveCached)
    const prior = requestId === null ? null : this.#prior(requestId)
    for (const id of prior === null ? [leaseId] : [leaseId, prior.leaseId]) {
      if (entries.has(id)) continue
      const entry =
        this.#cache.entry(pathOf(resource), id) ??
        this.#events.endedOf(id) ??
        this.#ledger.entry(id)
      if (entry !== undefined) entries.set(id, entry)
    }
    return new LazyView({
      entries,
      lastFence: this.#state.lastFence,
      countTickets: this.#countTickets,
      readEpoch: this.#readEpoch,
      readSet,
      now,
      prior,
      settings: this.#settingsFor(resource),
    })
  }

  #settingsFor(resource: Resource): Settings {
    const { settingRows } = this.#state
    if (this.#settings.rows !== settingRows) this.#settings = new ResolvedSettings(settingRows)
    return this.#settings.for(resource)
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
    const pending = this.#events.effectOf(requestId)
    if (pending !== undefined) return pending
    const key = keyOf(requestId, this.#state)
    const event = (this.#statements.get(EVENT_BY_REQUEST).get(key) ??
      this.#statements.get(EVENT_BY_OWN_ID).get(leaseNumberOf(requestId), key)) as
      SqliteRow | undefined
    if (event !== undefined) {
      const { leaseId, type } = eventOf(event, this.#state).event
      return { leaseId, type }
    }
    const mark = (this.#hasRequests ? this.#statements.get(REQUEST_BY_ID).get(key) : undefined) as
      SqliteRow | undefined
    if (mark === undefined) return null
    return { leaseId: idOf(mark[0] as string), type: typeOf(mark[1] as string) }
  }
}
