/**
 * The counters and clocks of one namespace, read at the start of a transaction and written at its end, and the
 * configuration, read again only when its revision moved.
 */
import {
  SETTING_KEYS,
  SETTING_SCOPES,
  SETTING_TABLE,
  type SettingRow,
} from '../../core/settings.ts'
import type { PruneClock } from '../../core/retention.ts'
import { advance, domainName, type ClockReading, type ClockState } from '../embedded-clock.ts'
import type { SqliteDatabase, SqliteRow, SqliteStatement } from '../../drivers/sqlite-driver.ts'
import type { RowNames } from './sqlite-columns.ts'
import { newerError, SCHEMA_VERSION } from './sqlite-schema.ts'

interface Domain {
  readonly name: string
  readonly base: string
  readonly sinceUs: number
}

export interface SqliteStateOptions {
  readonly database: SqliteDatabase
  readonly namespace: string
  readonly path: string
}

export class SqliteState implements RowNames {
  readonly namespace: string
  namespaceNumber = 0
  readonly #file: string
  readonly #readVersion: SqliteStatement
  readonly #readState: SqliteStatement
  readonly #writeState: SqliteStatement
  readonly #readDomain: SqliteStatement
  readonly #findForeign: SqliteStatement
  readonly #lowestDomain: SqliteStatement
  readonly #addDomain: SqliteStatement
  readonly #readSettings: SqliteStatement
  readonly #domains = new Map<number, Domain>()
  /** Another object whenever one of them may differ. */
  settingRows: readonly SettingRow[] = []
  #configRevision = -1
  #clockBefore: ClockState | null = null
  #lastDomain = ''
  #lastGeneration = 0

  lastFence = 0
  lastSequence = 0
  clock: ClockState | null = null
  /** Null before the first commit. */
  pruneClock: PruneClock | null = null
  /** Whether this transaction is the first in a clock domain; that must be committed even if nothing else happens. */
  metDomain = false

  constructor({ database, namespace, path }: SqliteStateOptions) {
    this.namespace = namespace
    this.#file = path
    this.#readVersion = database.prepare('PRAGMA user_version').raw()
    this.#readState = database
      .prepare(
        `SELECT last_fence, last_seq, clock, last_us, last_wall_ms, config_revision, number,
           pruned_at, pruned_believed
         FROM store_state WHERE namespace = ?`,
      )
      .raw()
    this.#writeState = database.prepare(
      `UPDATE store_state SET last_fence = ?, last_seq = ?, clock = ?, last_us = ?, last_wall_ms = ?,
         pruned_at = ?, pruned_believed = ? WHERE namespace = ?`,
    )
    this.#readDomain = database
      .prepare('SELECT base, since_us FROM clock_domains WHERE namespace = ? AND generation = ?')
      .raw()
    this.#findForeign = database
      .prepare(
        'SELECT generation FROM clock_domains WHERE namespace = ? AND base = ? AND generation < 0',
      )
      .raw()
    this.#lowestDomain = database
      .prepare('SELECT min(generation) FROM clock_domains WHERE namespace = ?')
      .raw()
    this.#addDomain = database.prepare('INSERT OR IGNORE INTO clock_domains VALUES (?, ?, ?, ?, ?)')
    this.#readSettings = database
      .prepare(
        `SELECT config_key, config_value, scope, resource_id, updated_at = created_at
         FROM lease_configs WHERE namespace = ? ORDER BY rowid`,
      )
      .raw()
  }

  /**
   * Reads everything anew; to be called inside the transaction that will use it. Refuses tables that a later version has
   * converted meanwhile.
   */
  load(): void {
    const [version] = this.#readVersion.get() as readonly [number]
    if (version !== SCHEMA_VERSION) {
      throw newerError(this.#file, { found: version, supported: SCHEMA_VERSION })
    }
    const row = this.#readState.get(this.namespace) as readonly number[] | undefined
    if (row === undefined) throw new Error(`namespace ${this.namespace} has no counters`)
    const [lastFence = 0, lastSequence = 0, generation = 0, lastUs = 0, lastWallMs = 0] = row
    this.metDomain = false
    this.namespaceNumber = row[6] ?? 0
    const [readingMs = 0, believedMs = 0] = row.slice(7)
    this.pruneClock = readingMs === 0 ? null : { readingMs, believedMs }
    this.lastFence = lastFence
    this.lastSequence = lastSequence
    this.clock = generation === 0 ? null : this.#clockOf({ generation, lastUs, lastWallMs })
    this.#clockBefore = this.clock
    if (row[5] !== this.#configRevision) this.#loadSettings(row[5] ?? 0)
  }

  /** For a transaction before which nobody else has committed: what is known is what was read, and written since. */
  goOn(): void {
    this.metDomain = false
    this.#clockBefore = this.clock
  }

  /** Decisions of which nothing is committed leave the clock where it was. */
  goBack(): void {
    this.clock = this.#clockBefore
  }

  /** A store that has only been configured has no clock yet, and nothing to count. */
  save(): void {
    const { clock } = this
    if (clock === null) return
    const { generation, lastUs, lastWallMs } = clock
    const counters = [this.lastFence, this.lastSequence, generation, lastUs, lastWallMs]
    this.pruneClock ??= { readingMs: lastWallMs, believedMs: lastWallMs }
    const { readingMs, believedMs } = this.pruneClock
    this.#writeState.run(...counters, readingMs, believedMs, this.namespace)
  }

  /** Forgets what a transaction that was rolled back may have brought in. */
  reset(): void {
    this.#domains.clear()
    this.#lastDomain = ''
    this.#configRevision = -1
  }

  /** Moves the clock to the next decision; a domain met for the first time is written down with it. */
  tick(reading: ClockReading): ClockState {
    const known = this.clock
    const next = advance(known, reading)
    if (next.generation !== known?.generation) {
      this.#meetDomain(next)
      this.metDomain = true
    }
    this.clock = next
    return next
  }

  /** The clock as it would be at this moment, for a look that changes nothing. */
  peek(reading: ClockReading): ClockState {
    return advance(this.clock, reading)
  }

  domainOf(generation: number): string {
    return this.#domain(generation).name
  }

  generationOf(domain: string): number {
    if (domain !== this.#lastDomain) {
      this.#lastGeneration = this.#generationOf(domain)
      this.#lastDomain = domain
    }
    return this.#lastGeneration
  }

  /** Of the clock that this store goes by, or is about to: it need not be written down yet. */
  ownGenerationOf(domain: string): number {
    return Number(domain.slice(domain.lastIndexOf('#') + 1))
  }

  /** A clock of another store, of which a rebuilt one tells, is written down under a number below 0. */
  #generationOf(domain: string): number {
    const generation = this.ownGenerationOf(domain)
    if (this.#domains.get(generation)?.name === domain) return generation
    const own = this.#readDomain.get(this.namespace, generation) as SqliteRow | undefined
    if (own !== undefined && domainName(own[0] as string, generation) === domain) return generation
    const foreign = this.#findForeign.get(this.namespace, domain) as SqliteRow | undefined
    if (foreign !== undefined) return foreign[0] as number
    const [lowest] = this.#lowestDomain.get(this.namespace) as SqliteRow
    const next = Math.min(0, (lowest as number | null) ?? 0) - 1
    this.#addDomain.run(this.namespace, next, domain, 0, 0)
    return next
  }

  #clockOf(kept: { generation: number; lastUs: number; lastWallMs: number }): ClockState {
    const { name, base, sinceUs } = this.#domain(kept.generation)
    const { generation, lastUs, lastWallMs } = kept
    return { base, generation, domain: name, sinceUs, lastUs, lastWallMs }
  }

  #domain(generation: number): Domain {
    const known = this.#domains.get(generation)
    if (known !== undefined) return known
    const row = this.#readDomain.get(this.namespace, generation) as SqliteRow | undefined
    if (row === undefined) throw new Error(`clock ${generation} was never written down`)
    const base = row[0] as string
    const name = generation < 0 ? base : domainName(base, generation)
    const domain = { name, base, sinceUs: row[1] as number }
    this.#domains.set(generation, domain)
    return domain
  }

  #meetDomain(clock: ClockState): void {
    const { generation, base, domain, sinceUs, lastWallMs } = clock
    this.#addDomain.run(this.namespace, generation, base, sinceUs, lastWallMs)
    this.#domains.set(generation, { name: domain, base, sinceUs })
  }

  #loadSettings(revision: number): void {
    const rows = this.#readSettings.all(this.namespace) as SqliteRow[]
    this.settingRows = rows.flatMap(settingOf)
    this.#configRevision = revision
  }
}

/** Rows that state a default which nobody has set, and rows of keys that this version does not know, say nothing. */
function settingOf(row: SqliteRow): readonly SettingRow[] {
  const [name, value, scopeText, resourceId] = row as readonly (string | null)[]
  const isUntouched = row[4] === 1
  const key = SETTING_KEYS.find((candidate) => candidate === name)
  const scope = SETTING_SCOPES.find((candidate) => candidate === scopeText)
  if (key === undefined || scope === undefined) return []
  const text = value ?? ''
  const isInitial = scope === 'global' && text === String(SETTING_TABLE[key].initial)
  if (isInitial && isUntouched) return []
  return [{ key, value: text, scope, resourceId: resourceId ?? null }]
}
