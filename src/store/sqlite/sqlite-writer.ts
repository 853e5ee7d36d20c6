/**
 * Writes commits and prunes, inside the caller's transaction.
 */
import type { Commit, EntryChange } from '../../core/commit.ts'
import type { Entry } from '../../core/lease.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import { SETTING_TABLE } from '../../core/settings.ts'
import type { PrunePolicy, Pruned, SettingChange } from '../../store-port/store.ts'
import type { SqliteDatabase, SqliteStatement } from '../../drivers/sqlite-driver.ts'
import type { PendingEvents } from './pending-events.ts'
import { wordOf } from './sqlite-events.ts'
import {
  dueValues,
  idOf,
  inNamespace,
  keyOf,
  leaseNumberOf,
  grantValues,
  INSERT_ENTRY,
  isSameGrant,
  isSameStanding,
  nameValues,
  renewalValues,
  stateValues,
  UPDATE_DUE,
  UPDATE_GRANT,
  UPDATE_RENEWAL,
  UPDATE_STATE,
} from './sqlite-rows.ts'
import type { SqliteState } from './sqlite-state.ts'

export interface SqliteWriterOptions {
  readonly database: SqliteDatabase
  readonly state: SqliteState
  readonly events: PendingEvents
}

export class SqliteWriter {
  readonly #database: SqliteDatabase
  readonly #namespace: string
  readonly #state: SqliteState
  readonly #events: PendingEvents
  readonly #insertEntry: SqliteStatement
  readonly #updateGrant: SqliteStatement
  readonly #updateState: SqliteStatement
  readonly #updateRenewal: SqliteStatement
  readonly #updateDue: SqliteStatement
  readonly #deleteEntry: SqliteStatement
  readonly #deleteEvents: SqliteStatement
  readonly #insertRequest: SqliteStatement
  readonly #putEpoch: SqliteStatement

  constructor({ database, state, events }: SqliteWriterOptions) {
    this.#database = database
    this.#namespace = state.namespace
    this.#state = state
    this.#events = events
    this.#insertEntry = database.prepare(INSERT_ENTRY)
    this.#updateGrant = database.prepare(UPDATE_GRANT)
    this.#updateState = database.prepare(UPDATE_STATE)
    this.#updateRenewal = database.prepare(UPDATE_RENEWAL)
    this.#updateDue = database.prepare(UPDATE_DUE)
    this.#deleteEntry = database.prepare('DELETE FROM leases WHERE id = ?')
    this.#deleteEvents = database.prepare(
      'DELETE FROM lease_history WHERE lease_number = ? AND lease_id = ?',
    )
    this.#putEpoch = database.prepare('INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)')
    this.#insertRequest = database.prepare('INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)')
  }

  apply(commit: Commit, wallMs: number): void {
    for (const change of commit.changes) this.#put(change, wallMs)
    for (const event of commit.events) this.#events.add(event)
    for (const { requestId, leaseId, type, keepUntilMs } of commit.requests) {
      const keys = [keyOf(requestId, this.#state), keyOf(leaseId, this.#state)]
      this.#insertRequest.run(...keys, wordOf(type), keepUntilMs)
    }
    for (const { resource, epoch } of commit.epochs) {
      this.#putEpoch.run(this.#namespace, resource, epoch)
    }
    this.#state.lastFence = Math.max(this.#state.lastFence, commit.lastFence)
  }

  #put({ id, before, after }: EntryChange, wallMs: number): void {
    if (after === null) {
      if (before !== undefined) this.#delete(keyOf(id, this.#state))
    } else if (before === undefined) {
      const names = nameValues(after, this.#state)
      this.#insertEntry.run(
        ...names,
        ...grantValues(after),
        ...stateValues(after, wallMs, this.#state),
      )
    } else this.#update(before, after, wallMs)
  }

  #update(before: Entry, after: Entry, wallMs: number): void {
    const isSame = isSameGrant(before, after)
    if (isSame && isSameStanding(before, after)) return this.#goOn(after, wallMs)
    const key = keyOf(after.id, this.#state)
    const state = stateValues(after, wallMs, this.#state)
    if (isSame) this.#updateState.run(...state, key)
    else this.#updateGrant.run(...grantValues(after), ...state, key)
  }

  #goOn(entry: Entry, wallMs: number): void {
    const values = renewalValues(entry, wallMs, this.#state)
    const { changes } = this.#updateRenewal.run(...values)
    if (changes === 0) this.#updateDue.run(...dueValues(values))
  }

  /** Its events go with it, those included that are only about to be written; tells how many they were. */
  #delete(key: string): number {
    this.#events.write()
    const { changes } = this.#deleteEvents.run(leaseNumberOf(idOf(key)), key)
    this.#deleteEntry.run(key)
    return changes
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
  prune(policy: PrunePolicy): Pruned {
    this.#events.write()
    const { endedBeforeMs, nowMs, batch } = policy
    const rows = this.#database
      .prepare(
        `SELECT id FROM leases
         WHERE ended_at < ? AND ended_at + ttl_ms < ? AND namespace = ? LIMIT ?`,
      )
      .raw()
      .all(endedBeforeMs, nowMs, this.#namespace, batch) as (readonly [string])[]
    let gone = 0
    for (const [key] of rows) gone += this.#delete(key)
    const leases = rows.length
    const requests = this.#database
      .prepare(
        `DELETE FROM requests WHERE id IN (
           SELECT id FROM requests WHERE keep_until < ? LIMIT ?)`,
      )
      .run(nowMs, batch).changes
    const renewals = this.#pruneRenewals(policy)
    const advances = this.#pruneAdvances(policy)
    const more = [leases, requests, renewals, advances].includes(batch)
    return { leases, events: gone + renewals + advances, more }
  }

  /** Old renewals of a lease say nothing once a later one is kept, unless a request may still be repeated. */
  #pruneRenewals({ endedBeforeMs, nowMs, batch }: PrunePolicy): number {
    const anonymous = keyOf('e', this.#state)
    return this.#database
      .prepare(
        `DELETE FROM lease_history WHERE rowid IN (
           SELECT old.rowid FROM lease_history AS old
           WHERE ${inNamespace(this.#state, 'old')} AND old.seq < ?
             AND old.event_type = 'renewed'
             AND (old.id GLOB ? || '[0-9]*' OR old.event_at < ?)
             AND EXISTS (SELECT 1 FROM lease_history AS later
               WHERE later.lease_number = old.lease_number AND later.lease_id = old.lease_id
                 AND later.seq > old.seq
                 AND later.event_type = 'renewed')
           LIMIT ?)`,
      )
      .run(this.#firstSequenceAt(endedBeforeMs), anonymous, nowMs - TTL_MS_MAX, batch).changes
  }

  /** So do old advances of an epoch, once nobody can repeat them: the last one says how far the workflow has come. */
  #pruneAdvances({ endedBeforeMs, nowMs, batch }: PrunePolicy): number {
    return this.#database
      .prepare(
        `DELETE FROM lease_history WHERE rowid IN (
           SELECT old.rowid FROM lease_history AS old JOIN leases ON leases.id = old.lease_id
           WHERE ${inNamespace(this.#state, 'old')} AND old.seq < ?
             AND old.event_type = 'advanced'
             AND old.event_at + leases.ttl_ms < ?
             AND EXISTS (SELECT 1 FROM lease_history AS later
               WHERE later.lease_number = old.lease_number AND later.lease_id = old.lease_id
                 AND later.seq > old.seq
                 AND later.event_type = 'advanced')
           LIMIT ?)`,
      )
      .run(this.#firstSequenceAt(endedBeforeMs), nowMs, batch).changes
  }

  /** The first event at or after a wall time. Wall times never go back along the ledger, so halving finds it. */
  #firstSequenceAt(wallMs: number): number {
    const next = this.#database
      .prepare(
        `SELECT seq, event_at FROM lease_history WHERE ${inNamespace(this.#state)} AND seq >= ?
         ORDER BY seq LIMIT 1`,
      )
      .raw()
    let low = 0
    let high = this.#state.lastSequence + 1
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      const row = next.get(middle) as readonly [number, number] | undefined
      if (row === undefined || row[1] >= wallMs) high = middle
      else low = row[0] + 1
    }
    return low
  }
}
