/**
 * Reads the views that decisions are made on. Everything runs inside the caller's write transaction, so that what is
 * read together belongs together and is still true when it is written back.
 */
import type { Commit } from '../../core/commit.ts'
import { isWaiting, type Entry, type LeaseId } from '../../core/lease.ts'
import type { ReadSet, PriorEffect, RealmView } from '../../core/realm.ts'
import { hasEpoch, isTree, type Resource } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { ResolvedSettings } from '../resolved-settings.ts'
import { LiveCache } from './live-cache.ts'
import { EVENT_COLUMNS, eventOf, idOf, keyOf, leaseNumberOf, typeOf } from './sqlite-columns.ts'
import type { SqliteFinder } from './sqlite-finder.ts'
import type { SqliteHistory } from './sqlite-history.ts'
import type { SqliteState } from './sqlite-state.ts'

const EVENT_BY_REQUEST = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE request_id = ? AND request_id > '' LIMIT 1`
const EVENT_BY_OWN_ID = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ? AND request_id = '' LIMIT 1`
const REQUEST_BY_ID = 'SELECT lease_id, event_type FROM requests WHERE id = ?'
const EPOCH_OF = 'SELECT epoch FROM epochs WHERE namespace = ? AND resource = ?'
/** Of files, which are one realm. Left to itself the planner counts among all that is live. */
const COUNT_TICKETS = `SELECT count(*) FROM live_leases INDEXED BY idx_live_pending
  WHERE status = 'pending' AND file_path >= '/' AND file_path < '0'
    AND namespace = ? AND clock = ? AND live_until_us > ?`

export class SqliteReader {
  readonly #state: SqliteState
  readonly #finder: SqliteFinder
  readonly #ledger: SqliteHistory
  readonly #live: LiveCache
  #settings = new ResolvedSettings([])

  constructor(state: SqliteState, finder: SqliteFinder, ledger: SqliteHistory) {
    this.#state = state
    this.#finder = finder
    this.#ledger = ledger
    this.#live = new LiveCache(state.statements)
  }

  /** To be called inside each write transaction before its first view. */
  begin(): void {
    this.#state.load()
    this.#live.begin()
  }

  /** Tells what was written, so that the next views show it. */
  note({ changes }: Commit): void {
    for (const change of changes) this.#live.note(change)
  }

  forget(): void {
    this.#live.forget()
  }

  view(readSet: ReadSet, now: Now): RealmView {
    const { resource, leaseId, requestId } = readSet
    const entries = this.#claims(readSet)
    const ticketCount = readSet.depth === 'claims' ? this.#countTickets(resource, entries, now) : 0
    const prior = requestId === null ? null : this.#prior(requestId)
    for (const id of prior === null ? [leaseId] : [leaseId, prior.leaseId]) {
      const entry = entries.get(id) ?? this.#ledger.entry(id)
      if (entry !== undefined) entries.set(id, entry)
    }
    const { settingRows, lastFence } = this.#state
    if (this.#settings.rows !== settingRows) this.#settings = new ResolvedSettings(settingRows)
    return {
      ...{ entries, lastFence, ticketCount, prior, settings: this.#settings.for(resource) },
      epoch: hasEpoch(resource) ? this.#epochOf(resource) : 0,
    }
  }

  /** Changed by the caller. */
  #claims(readSet: ReadSet): Map<LeaseId, Entry> {
    const { resource, depth } = readSet
    if (depth === 'entry') return new Map()
    const read = (): readonly Entry[] => this.#finder.overlapping(readSet)
    if (isTree(resource)) return new Map(read().map((entry) => [entry.id, entry]))
    return new Map(this.#live.at(resource, read))
  }

  #countTickets(resource: Resource, claims: ReadonlyMap<LeaseId, Entry>, now: Now): number {
    if (!isTree(resource)) {
      let count = 0
      for (const entry of claims.values()) count += Number(isWaiting(entry, now))
      return count
    }
    const { namespace, statements } = this.#state
    const generation = this.#state.ownGenerationOf(now.tick.domain)
    const [count] = statements
      .get(COUNT_TICKETS)
      .get(namespace, generation, now.tick.us) as SqliteRow
    return count as number
  }

  #epochOf(resource: Resource): number {
    const { namespace, statements } = this.#state
    const row = statements.get(EPOCH_OF).get(namespace, resource) as SqliteRow | undefined
    return (row?.[0] as number | undefined) ?? 0
  }

  #prior(requestId: string): PriorEffect | null {
    const { statements } = this.#state
    const key = keyOf(requestId, this.#state)
    const event = (statements.get(EVENT_BY_REQUEST).get(key) ??
      statements.get(EVENT_BY_OWN_ID).get(leaseNumberOf(requestId), key)) as SqliteRow | undefined
    if (event !== undefined) {
      const { leaseId, type } = eventOf(event, this.#state).event
      return { leaseId, type }
    }
    const mark = statements.get(REQUEST_BY_ID).get(key) as SqliteRow | undefined
    if (mark === undefined) return null
    return { leaseId: idOf(mark[0] as string), type: typeOf(mark[1] as string) }
  }
}
