/**
 * Writes commits and prunes, inside the caller's transaction.
 */
import { recordedEvents, type Commit, type EntryChange } from '../../core/commit.ts'
import { isLive, type Entry, type LeaseId } from '../../core/lease.ts'
import {
  boundedCut,
  isSuperseded,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneCut,
} from '../../core/retention.ts'
import { SETTING_TABLE } from '../../core/settings.ts'
import type { PrunePolicy, Pruned, SettingChange } from '../../store-port/store.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import {
  dueValues,
  entryValues,
  EVENT_COLUMNS,
  eventOf,
  idOf,
  INSERT_ENTRY,
  isSameRow,
  keyOf,
  leaseNumberOf,
  numberOf,
  renewalValues,
  sequenceOf,
  UPDATE_DUE,
  UPDATE_ENTRY,
  UPDATE_RENEWAL,
  updateValues,
  wordOf,
} from './sqlite-columns.ts'
import type { SqliteHistory } from './sqlite-history.ts'
import type { SqliteState, StatementCache } from './sqlite-state.ts'

const DELETE_ENTRY = 'DELETE FROM live_leases WHERE id = ?'
const DELETE_EVENTS = 'DELETE FROM lease_history WHERE lease_number = ? AND lease_id = ?'
const DELETE_EVENT = 'DELETE FROM lease_history WHERE seq = ?'
const PUT_EPOCH = 'INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)'
const INSERT_REQUEST = 'INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)'
const DELETE_REFUSALS = 'DELETE FROM refusals WHERE namespace = ? AND last_at < ?'
const DELETE_REQUESTS = `DELETE FROM requests WHERE id IN (
  SELECT id FROM requests WHERE keep_until < ? LIMIT ?)`
const INSERT_CONFIG = 'INSERT INTO lease_configs VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)'
/** An id that failed may have come back: only the last event of a lease tells how it ended. */
const ENDED_BEFORE = `SELECT lease_id, seq FROM lease_history AS old
  WHERE ended_at < ? AND event_at < ? AND ended_at + (data ->> '$.ended.body.ttlMs') < ? AND seq BETWEEN ? AND ?
    AND NOT EXISTS (SELECT 1 FROM lease_history AS later
      WHERE later.lease_number = old.lease_number AND later.lease_id = old.lease_id
        AND later.seq > old.seq)
  LIMIT ?`
/** Events read at once while pruning. */
const PRUNE_READ = 1_000
const OLD_EVENTS = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq BETWEEN ? AND ?
  ORDER BY seq LIMIT ${PRUNE_READ}`
const TTL_OF = `SELECT body ->> '$.ttlMs' FROM live_leases WHERE id = ?`
const LATER_OF_TYPE = `SELECT 1 FROM lease_history
  WHERE lease_number = ? AND lease_id = ? AND seq > ? AND event_type = ? LIMIT 1`

export class SqliteWriter {
  readonly #statements: StatementCache
  readonly #namespace: string
  readonly #state: SqliteState
  readonly #ledger: SqliteHistory

  constructor(state: SqliteState, ledger: SqliteHistory) {
    this.#statements = state.statements
    this.#namespace = state.namespace
    this.#state = state
    this.#ledger = ledger
  }

  /** `domain` is the clock by which the commit was decided. */
  apply(commit: Commit, domain: string): void {
    for (const change of commit.changes) this.#put(change)
    for (const recorded of recordedEvents(commit)) this.#ledger.append(recorded, domain)
    for (const { requestId, leaseId, type, keepUntilMs } of commit.requests) {
      const keys = [keyOf(requestId, this.#state), keyOf(leaseId, this.#state)]
      this.#statements.run(INSERT_REQUEST, ...keys, wordOf(type), keepUntilMs)
    }
    for (const { resource, epoch } of commit.epochs) {
      this.#statements.run(PUT_EPOCH, this.#namespace, resource, epoch)
    }
    this.#state.lastFence = Math.max(this.#state.lastFence, commit.lastFence)
  }

  #put({ id, before, after }: EntryChange): void {
    const key = keyOf(id, this.#state)
    const wasLive = before !== undefined && isLive(before)
    if (after === null || !isLive(after)) {
      if (wasLive) this.#statements.run(DELETE_ENTRY, key)
      if (after === null && before !== undefined) this.#deleteHistory(key)
    } else if (wasLive) this.#update(before, after)
    else this.#statements.run(INSERT_ENTRY, ...entryValues(after, this.#state))
  }

  #update(before: Entry, after: Entry): void {
    const values = entryValues(after, this.#state)
    if (!isSameRow(before, after)) {
      this.#statements.run(UPDATE_ENTRY, ...updateValues(values))
      return
    }
    const renewal = renewalValues(values, after.ttlMs)
    const changes = this.#statements.run(UPDATE_RENEWAL, ...renewal)
    if (changes === 0) this.#statements.run(UPDATE_DUE, ...dueValues(renewal))
  }

  /** All events of a lease; tells how many they were. */
  #deleteHistory(key: string): number {
    return this.#statements.run(DELETE_EVENTS, leaseNumberOf(idOf(key)), key)
  }

  /** A global value has a row from the start. That a user set it shows in its last change, also if it is the default. */
  configure(change: SettingChange, wallMs: number): void {
    const { key, scope, resourceId } = change
    const definition = SETTING_TABLE[key]
    const slot = [this.#namespace, key, scope, resourceId ?? ''] as const
    const where = `namespace = ? AND config_key = ? AND scope = ? AND ifnull(resource_id, '') = ?`
    if (change.value === null && scope !== 'global') {
      this.#statements.run(`DELETE FROM lease_configs WHERE ${where}`, ...slot)
      return
    }
    const value = change.value ?? String(definition.initial)
    const changedAt = change.value === null ? 'created_at' : 'max(?, created_at + 1)'
    const times = change.value === null ? [] : [wallMs]
    const update = `UPDATE lease_configs SET config_value = ?, updated_at = ${changedAt} WHERE ${where}`
    if (this.#statements.run(update, value, ...times, ...slot) > 0) return
    const id = [this.#namespace, key, resourceId].filter((part) => part !== null).join('/')
    const { type, description } = definition
    const changedMs = change.value === null ? wallMs : wallMs + 1
    const row = [id, key, value, type, description, scope, resourceId]
    this.#statements.run(INSERT_CONFIG, ...row, wallMs, changedMs, this.#namespace)
  }

  /** History goes with its lease, so that what is left always folds. */
  prune({ batch, ...asked }: PrunePolicy): Pruned {
    this.#state.pruneClock = nextPruneClock(this.#state.pruneClock, asked.nowMs)
    const cut = boundedCut(asked, this.#state.pruneClock)
    const { leases, events } = this.#pruneLeases(cut, batch)
    const superseded = this.#pruneSuperseded(cut, batch)
    const requests = this.#statements.run(DELETE_REQUESTS, cut.nowMs, batch)
    this.#statements.run(DELETE_REFUSALS, this.#state.namespace, cut.endedBeforeMs)
    this.#ledger.tidy()
    const more = [leases, superseded, requests].includes(batch)
    return { leases, events: events + superseded, more }
  }

  /** `mayBePruned` of retention.ts, as SQL. */
  #pruneLeases({ endedBeforeMs, nowMs }: PruneCut, batch: number): Omit<Pruned, 'more'> {
    const rows = this.#statements
      .get(ENDED_BEFORE)
      .all(endedBeforeMs, endedBeforeMs, nowMs, ...this.#range(), batch) as (readonly [
      string,
      number,
    ])[]
    let events = 0
    for (const [key, sequence] of rows) {
      events += this.#deleteHistory(key)
      this.#state.prunedUpTo = Math.max(this.#state.prunedUpTo, numberOf(sequence))
    }
    return { leases: rows.length, events }
  }

  /** Old renewals and advances of a lease say nothing once a later one is kept. */
  #pruneSuperseded(cut: PruneCut, batch: number): number {
    let superseded = 0
    for (const row of this.#oldEvents(cut.endedBeforeMs)) {
      if (superseded === batch) break
      const { event } = eventOf(row, this.#state)
      if (!SUPERSEDED_TYPES.includes(event.type)) continue
      if (!isSuperseded(event, this.#ttlMsOf(event.leaseId), cut) || !this.#hasLater(row)) continue
      superseded += this.#statements.run(DELETE_EVENT, row[0] as number)
    }
    return superseded
  }

  #range(): readonly [number, number] {
    return [sequenceOf(0, this.#state), sequenceOf(this.#state.lastSequence, this.#state)]
  }

  /** Wall times of the ledger hardly ever go back, so the first event that is too young ends the search. */
  *#oldEvents(beforeMs: number): Generator<SqliteRow> {
    const read = this.#statements.get(OLD_EVENTS)
    const [first, last] = this.#range()
    for (let from = first; ;) {
      const rows = read.all(from, last) as SqliteRow[]
      for (const row of rows) {
        if ((row[6] as number) >= beforeMs) return
        yield row
      }
      const end = rows.at(-1)
      if (end === undefined) return
      from = (end[0] as number) + 1
    }
  }

  #ttlMsOf(id: LeaseId): number | null {
    const key = keyOf(id, this.#state)
    const row = this.#statements.get(TTL_OF).get(key) as SqliteRow | undefined
    return (row?.[0] as number | undefined) ?? null
  }

  #hasLater(row: SqliteRow): boolean {
    const [sequence = null, key = null] = row
    const values = [leaseNumberOf(idOf(key as string)), key, sequence, row[5] ?? null]
    return this.#statements.get(LATER_OF_TYPE).get(...values) !== undefined
  }
}
