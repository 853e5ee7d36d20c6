/**
 * Writes commits and prunes, inside the caller's transaction.
 */
import { recordedEvents, type Commit, type EntryChange } from '../../core/commit.ts'
import { isLive, type Entry, type LeaseId } from '../../core/lease.ts'
import {
  boundedCut,
  firstPruneClock,
  isSuperseded,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneCut,
} from '../../core/retention.ts'
import { SETTING_TABLE } from '../../core/settings.ts'
import type { PrunePolicy, Pruned, SettingChange } from '../../store-port/store.ts'
import type { SqliteDatabase, SqliteRow, SqliteStatement } from '../../drivers/sqlite-driver.ts'
import type { PendingEvents } from './pending-events.ts'
import {
  dueValues,
  entryValues,
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
} from './sqlite-columns.ts'
import { eventOf, EVENT_COLUMNS, wordOf } from './sqlite-event-columns.ts'
import type { HistoryRuns } from './sqlite-history-runs.ts'
import type { SqliteState } from './sqlite-state.ts'

export interface SqliteWriterOptions {
  readonly database: SqliteDatabase
  readonly state: SqliteState
  readonly events: PendingEvents
  readonly runs: HistoryRuns
}

export class SqliteWriter {
  readonly #database: SqliteDatabase
  readonly #namespace: string
  readonly #state: SqliteState
  readonly #events: PendingEvents
  readonly #runs: HistoryRuns
  readonly #insertEntry: SqliteStatement
  readonly #updateEntry: SqliteStatement
  readonly #updateRenewal: SqliteStatement
  readonly #updateDue: SqliteStatement
  readonly #deleteEntry: SqliteStatement
  readonly #deleteEvents: SqliteStatement
  readonly #deleteEvent: SqliteStatement
  readonly #insertRequest: SqliteStatement
  readonly #putEpoch: SqliteStatement

  constructor({ database, state, events, runs }: SqliteWriterOptions) {
    this.#database = database
    this.#namespace = state.namespace
    this.#state = state
    this.#events = events
    this.#runs = runs
    this.#insertEntry = database.prepare(INSERT_ENTRY)
    this.#updateEntry = database.prepare(UPDATE_ENTRY)
    this.#updateRenewal = database.prepare(UPDATE_RENEWAL)
    this.#updateDue = database.prepare(UPDATE_DUE)
    this.#deleteEntry = database.prepare('DELETE FROM live_leases WHERE id = ?')
    this.#deleteEvents = database.prepare(
      'DELETE FROM lease_history WHERE lease_number = ? AND lease_id = ?',
    )
    this.#deleteEvent = database.prepare('DELETE FROM lease_history WHERE seq = ?')
    this.#putEpoch = database.prepare('INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)')
    this.#insertRequest = database.prepare('INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)')
  }

  /** `domain` is the clock by which the commit was decided. */
  apply(commit: Commit, domain: string): void {
    for (const change of commit.changes) this.#put(change)
    for (const recorded of recordedEvents(commit)) this.#events.add(recorded, domain)
    for (const { requestId, leaseId, type, keepUntilMs } of commit.requests) {
      const keys = [keyOf(requestId, this.#state), keyOf(leaseId, this.#state)]
      this.#insertRequest.run(...keys, wordOf(type), keepUntilMs)
    }
    for (const { resource, epoch } of commit.epochs) {
      this.#putEpoch.run(this.#namespace, resource, epoch)
    }
    this.#state.lastFence = Math.max(this.#state.lastFence, commit.lastFence)
  }

  #put({ id, before, after }: EntryChange): void {
    const key = keyOf(id, this.#state)
    const wasLive = before !== undefined && isLive(before)
    if (after === null || !isLive(after)) {
      if (wasLive) this.#deleteEntry.run(key)
      if (after === null && before !== undefined) this.#deleteHistory(key)
    } else if (wasLive) this.#update(before, after)
    else this.#insertEntry.run(...entryValues(after, this.#state))
  }

  #update(before: Entry, after: Entry): void {
    const values = entryValues(after, this.#state)
    if (!isSameRow(before, after)) {
      this.#updateEntry.run(...updateValues(values))
      return
    }
    const renewal = renewalValues(values, after.ttlMs)
    const { changes } = this.#updateRenewal.run(...renewal)
    if (changes === 0) this.#updateDue.run(...dueValues(renewal))
  }

  /** All events of a lease, those included that are only about to be written; tells how many they were. */
  #deleteHistory(key: string): number {
    this.#events.write()
    return this.#deleteEvents.run(leaseNumberOf(idOf(key)), key).changes
  }

  /** A global value has a row from the start. That somebody set it shows in its last change, also if it is the default. */
  configure(change: SettingChange, wallMs: number): void {
    const { key, scope, resourceId } = change
    const definition = SETTING_TABLE[key]
    const slot = [this.#namespace, key, scope, resourceId ?? ''] as const
    const where = `namespace = ? AND config_key = ? AND scope = ? AND ifnull(resource_id, '') = ?`
    if (change.value === null && scope !== 'global') {
      this.#database.prepare(`DELETE FROM lease_configs WHERE ${where}`).run(...slot)
      return
    }
    const value = change.value ?? String(definition.initial)
    const changedAt = change.value === null ? 'created_at' : 'max(?, created_at + 1)'
    const times = change.value === null ? [] : [wallMs]
    const { changes } = this.#database
      .prepare(
        `UPDATE lease_configs SET config_value = ?, updated_at = ${changedAt} WHERE ${where}`,
      )
      .run(value, ...times, ...slot)
    if (changes > 0) return
    const id = [this.#namespace, key, resourceId].filter((part) => part !== null).join('/')
    this.#database
      .prepare(`INSERT INTO lease_configs VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)`)
      .run(
        id,
        key,
        value,
        definition.type,
        definition.description,
        scope,
        resourceId,
        wallMs,
        change.value === null ? wallMs : wallMs + 1,
        this.#namespace,
      )
  }

  /** History goes with its lease, so that what is left always folds. */
  prune({ batch, ...asked }: PrunePolicy): Pruned {
    this.#events.write()
    const last = this.#state.pruneClock ?? firstPruneClock(asked.nowMs)
    this.#state.pruneClock = nextPruneClock(last, asked.nowMs)
    const cut = boundedCut(asked, this.#state.pruneClock)
    const { leases, events } = this.#pruneLeases(cut, batch)
    const superseded = this.#pruneSuperseded(cut, batch)
    const requests = this.#database
      .prepare(
        `DELETE FROM requests WHERE id IN (
           SELECT id FROM requests WHERE keep_until < ? LIMIT ?)`,
      )
      .run(cut.nowMs, batch).changes
    this.#removeIndex()
    const more = [leases, superseded, requests].includes(batch)
    return { leases, events: events + superseded, more }
  }

  /** `mayBePruned` of retention.ts, as SQL. */
  #pruneLeases({ endedBeforeMs, nowMs }: PruneCut, batch: number): Omit<Pruned, 'more'> {
    // An id that failed may have come back: only the last event of a lease tells how it ended.
    const rows = this.#database
      .prepare(
        `SELECT lease_id FROM lease_history AS old
         WHERE ended_at < ? AND ended_at + (data ->> '$.ended.body.ttlMs') < ?
           AND seq BETWEEN ? AND ?
           AND NOT EXISTS (SELECT 1 FROM lease_history AS later
             WHERE later.lease_number = old.lease_number AND later.lease_id = old.lease_id
               AND later.seq > old.seq)
         LIMIT ?`,
      )
      .raw()
      .all(endedBeforeMs, nowMs, ...this.#range(), batch) as (readonly [string])[]
    let events = 0
    for (const [key] of rows) events += this.#deleteHistory(key)
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
      superseded += this.#deleteEvent.run(row[0] as number).changes
    }
    return superseded
  }

  #range(): readonly [number, number] {
    return [sequenceOf(0, this.#state), sequenceOf(this.#state.lastSequence, this.#state)]
  }

  /** Wall times of the ledger hardly ever go back, so the first event that is too young ends the search. */
  *#oldEvents(beforeMs: number): Generator<SqliteRow> {
    const read = this.#database
      .prepare(
        `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq BETWEEN ? AND ?
         ORDER BY seq LIMIT ${PRUNE_READ}`,
      )
      .raw()
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
    const row = this.#database
      .prepare(`SELECT body ->> '$.ttlMs' FROM live_leases WHERE id = ?`)
      .raw()
      .get(keyOf(id, this.#state)) as SqliteRow | undefined
    return (row?.[0] as number | undefined) ?? null
  }

  #hasLater(row: SqliteRow): boolean {
    const later = this.#database
      .prepare(
        `SELECT 1 FROM lease_history
         WHERE lease_number = ? AND lease_id = ? AND seq > ? AND event_type = ? LIMIT 1`,
      )
      .raw()
    const [sequence = null, key = null] = row
    return (
      later.get(leaseNumberOf(idOf(key as string)), key, sequence, row[5] ?? null) !== undefined
    )
  }

  #removeIndex(): void {
    const [oldest] = this.#database
      .prepare('SELECT min(seq) FROM lease_history WHERE seq BETWEEN ? AND ?')
      .raw()
      .get(...this.#range()) as SqliteRow
    this.#runs.removeBefore(oldest === null ? this.#state.lastSequence : numberOf(oldest as number))
  }
}

/** Events read at once while pruning. */
const PRUNE_READ = 1_000
