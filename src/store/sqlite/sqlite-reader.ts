/**
 * Reads the views that decisions are made on. Everything runs inside the caller's write transaction, so that what is
 * read together belongs together and is still true when it is written back.
 *
 * The live entries of recently used resources are remembered, because each of a thousand tickets in one queue is decided on
 * all the others (0.9 s of processor instead of 14), while `data_version` says that no other connection has committed since:
 * then what this connection saw and wrote is all there is.
 */
import type { Commit } from '../../core/commit.ts'
import { isLive, isWaiting, type Entry, type LeaseId } from '../../core/lease.ts'
import type { ReadSet, PriorEffect, RealmView } from '../../core/realm.ts'
import { hasEpoch, isTree, type Resource } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { ResolvedSettings } from '../resolved-settings.ts'
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

const RESOURCES_MAX = 20_000

export class SqliteReader {
  readonly #state: SqliteState
  readonly #finder: SqliteFinder
  readonly #ledger: SqliteHistory
  readonly #live = new Map<Resource, Map<LeaseId, Entry>>()
  #dataVersion: unknown = null
  #settings = new ResolvedSettings([])

  constructor(state: SqliteState, finder: SqliteFinder, ledger: SqliteHistory) {
    this.#state = state
    this.#finder = finder
    this.#ledger = ledger
  }

  /** To be called inside each write transaction before its first view. */
  begin(): void {
    this.#state.load()
    const [version] = this.#state.statements.get('PRAGMA data_version').get() as SqliteRow
    if (version !== this.#dataVersion) this.#live.clear()
    this.#dataVersion = version
  }

  /** What this connection has just written, whether or not it is committed in the end. */
  note({ changes }: Commit): void {
    for (const { id, before, after } of changes) {
      const entry = after ?? before
      const known = entry === undefined ? undefined : this.#live.get(entry.resource)
      if (after !== null && isLive(after)) known?.set(id, after)
      else known?.delete(id)
    }
  }

  /** After a rollback nothing that was noted is true. */
  forget(): void {
    this.#live.clear()
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
    const known = this.#live.get(resource)
    if (known !== undefined) return new Map(known)
    const entries = this.#finder.overlapping(readSet).map((entry) => [entry.id, entry] as const)
    if (isTree(resource)) return new Map(entries)
    if (this.#live.size >= RESOURCES_MAX) this.#live.clear()
    this.#live.set(resource, new Map(entries))
    return new Map(entries)
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
