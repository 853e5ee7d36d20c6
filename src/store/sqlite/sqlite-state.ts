/**
 * A namespace: the rows with which it begins; its counters and clocks, read at the start of a transaction and written at its
 * end; its configuration, read again only when its revision moved; how ids, resources and positions are written in all
 * tables; and the statements by which a connection reads and writes.
 */
import { LeaseError } from '../../core/errors.ts'
import type { Resource } from '../../core/resource.ts'
import {
  SETTING_KEYS,
  SETTING_SCOPES,
  SETTING_TABLE,
  type SettingRow,
} from '../../core/settings.ts'
import type { PruneClock } from '../../core/retention.ts'
import { advance, domainName, type ClockState } from '../embedded-clock.ts'
import {
  inWriteTransaction,
  type SqliteDatabase,
  type SqliteRow,
  type SqliteStatement,
  type SqliteValue,
} from '../../drivers/sqlite-driver.ts'
import type { SettingChange } from '../../store-port/store.ts'
import type { SqliteConnection } from './sqlite-connection.ts'
import { newerError, SCHEMA_VERSION } from './sqlite-schema.ts'

/** What is written down of a clock. */
type Domain = Omit<ClockState, 'lastUs' | 'lastWallMs'>

const READ_VERSION = 'PRAGMA user_version'
const READ_STATE = `SELECT last_fence, last_seq, clock, last_us, last_wall_ms, config_revision, number,
    pruned_at, pruned_believed, pruned_up_to FROM store_state WHERE namespace = ?`
const WRITE_STATE = `UPDATE store_state SET last_fence = ?, last_seq = ?, clock = ?, last_us = ?,
    last_wall_ms = ?, pruned_at = ?, pruned_believed = ?, pruned_up_to = ? WHERE namespace = ?`
const READ_DOMAIN =
  'SELECT base, since_us FROM clock_domains WHERE namespace = ? AND generation = ?'
const FIND_FOREIGN =
  'SELECT generation FROM clock_domains WHERE namespace = ? AND base = ? AND generation < 0'
const LOWEST_DOMAIN = 'SELECT min(generation) FROM clock_domains WHERE namespace = ?'
const ADD_DOMAIN = 'INSERT OR IGNORE INTO clock_domains VALUES (?, ?, ?, ?, ?)'
const READ_SETTINGS = `SELECT config_key, config_value, scope, resource_id, updated_at = created_at
  FROM lease_configs WHERE namespace = ? ORDER BY rowid`
const ADD_SETTING = 'INSERT INTO lease_configs VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)'
const ADD_DEFAULT = ADD_SETTING.replace('INSERT', 'INSERT OR IGNORE')
const READ_NUMBER = 'SELECT number FROM store_state WHERE namespace = ?'

export class SqliteState implements RowNames {
  readonly namespace: string
  namespaceNumber = 0
  readonly #connection: SqliteConnection
  readonly statements: StatementCache
  readonly #domains = new Map<number, Domain>()
  settingRows: readonly SettingRow[] = []
  #configRevision = -1

  lastFence = 0
  lastSequence = 0
  clock: ClockState | null = null
  /** Null before the first commit. */
  pruneClock: PruneClock | null = null
  /** The position of the last event of the entries that were pruned. */
  prunedUpTo = 0

  constructor(connection: SqliteConnection) {
    this.namespace = connection.namespace
    this.#connection = connection
    this.statements = new StatementCache(connection.database)
  }

  /**
   * Reads everything anew; to be called inside the transaction that will use it. Refuses tables that a later version has
   * converted meanwhile.
   */
  load(): void {
    this.statements.writes = 0
    const version = Number(this.statements.first(READ_VERSION)?.[0])
    if (version !== SCHEMA_VERSION) throw newerError(this.#connection.path, version)
    const row = this.statements.first(READ_STATE, this.namespace) as readonly number[] | undefined
    if (row === undefined) throw new Error(`namespace ${this.namespace} has no counters`)
    const [lastFence = 0, lastSequence = 0, generation = 0, lastUs = 0, lastWallMs = 0] = row
    const [revision = 0, number = 0, readingMs = 0, believedMs = 0, prunedUpTo = 0] = row.slice(5)
    this.namespaceNumber = number
    this.prunedUpTo = prunedUpTo
    this.pruneClock = readingMs === 0 ? null : { readingMs, believedMs }
    this.lastFence = lastFence
    this.lastSequence = lastSequence
    this.clock = generation === 0 ? null : { ...this.#domain(generation), lastUs, lastWallMs }
    if (revision !== this.#configRevision) this.#loadSettings(revision)
  }

  /** A store that has only been configured has no clock yet, and nothing to count. */
  save(): void {
    const { clock } = this
    if (clock === null) return
    const { generation, lastUs, lastWallMs } = clock
    const counters = [this.lastFence, this.lastSequence, generation, lastUs, lastWallMs]
    this.pruneClock ??= { readingMs: lastWallMs, believedMs: lastWallMs }
    const { readingMs, believedMs } = this.pruneClock
    const pruning = [readingMs, believedMs, this.prunedUpTo]
    this.statements.run(WRITE_STATE, ...counters, ...pruning, this.namespace)
  }

  /** Forgets what a transaction that was rolled back may have brought in. */
  reset(): void {
    this.#domains.clear()
    this.#configRevision = -1
  }

  /** Moves the clock to the next decision; a domain met for the first time is written down with it. */
  tick(): ClockState {
    const known = this.clock
    const next = this.peek()
    if (next.generation !== known?.generation) {
      const { generation, base, sinceUs, lastWallMs } = next
      this.statements.run(ADD_DOMAIN, this.namespace, generation, base, sinceUs, lastWallMs)
      this.#domains.set(generation, next)
    }
    this.clock = next
    return next
  }

  /** The clock as it would be at this moment, for a look that changes nothing. */
  peek(): ClockState {
    const { ticks, domain } = this.#connection
    return advance(this.clock, ticks, domain)
  }

  domainOf(generation: number): string {
    return this.#domain(generation).domain
  }

  /** Of the clock that this store goes by, or is about to: it need not be written down yet. */
  ownGenerationOf(domain: string): number {
    return Number(domain.slice(domain.lastIndexOf('#') + 1))
  }

  /** A clock of another store, of which a rebuilt one tells, is written down under a number below 0. */
  generationOf(domain: string): number {
    const generation = this.ownGenerationOf(domain)
    if (this.#knownDomain(generation)?.domain === domain) return generation
    const foreign = this.statements.first(FIND_FOREIGN, this.namespace, domain)
    if (foreign !== undefined) return foreign[0] as number
    const lowest = this.statements.first(LOWEST_DOMAIN, this.namespace)?.[0]
    const next = Math.min(0, Number(lowest ?? 0)) - 1
    this.statements.run(ADD_DOMAIN, this.namespace, next, domain, 0, 0)
    return next
  }

  #domain(generation: number): Domain {
    const domain = this.#knownDomain(generation)
    if (domain === undefined) throw new Error(`clock ${generation} was never written down`)
    return domain
  }

  #knownDomain(generation: number): Domain | undefined {
    const known = this.#domains.get(generation)
    if (known !== undefined) return known
    const row = this.statements.first(READ_DOMAIN, this.namespace, generation)
    if (row === undefined) return undefined
    const [base, sinceUs] = row as readonly [string, number]
    const domain = generation < 0 ? base : domainName(base, generation)
    const found = { generation, base, domain, sinceUs }
    this.#domains.set(generation, found)
    return found
  }

  #loadSettings(revision: number): void {
    this.settingRows = this.statements.all(READ_SETTINGS, this.namespace).flatMap(settingOf)
    this.#configRevision = revision
  }

  /** A global value has a row from the start. That a user set it shows in its last change, also if it is the default. */
  configure(change: SettingChange): void {
    const { key, scope, resourceId } = change
    const { initial, type, description } = SETTING_TABLE[key]
    const slot = [this.namespace, key, scope, resourceId ?? ''] as const
    const where = `namespace = ? AND config_key = ? AND scope = ? AND ifnull(resource_id, '') = ?`
    if (change.value === null && scope !== 'global') {
      this.statements.run(`DELETE FROM lease_configs WHERE ${where}`, ...slot)
      return
    }
    const wallMs = this.#connection.ticks.wallMs()
    const value = change.value ?? String(initial)
    const isSet = change.value === null ? 0 : 1
    const update = `UPDATE lease_configs SET config_value = ?,
      updated_at = iif(?, max(?, created_at + 1), created_at) WHERE ${where}`
    if (this.statements.run(update, value, isSet, wallMs, ...slot) > 0) return
    const id = [this.namespace, key, resourceId].filter((part) => part !== null).join('/')
    const row = [id, key, value, type, description, scope, resourceId]
    this.statements.run(ADD_SETTING, ...row, wallMs, wallMs + isSet, this.namespace)
  }
}

/** Rows that state a default which no user has set, and rows of keys that this version does not know, say nothing. */
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

/** Makes the row of counters and the default configuration of a namespace, once, and both or neither. */
export function createNamespace(database: SqliteDatabase, namespace: string, wallMs: number): void {
  const statements = new StatementCache(database)
  if (statements.first(READ_NUMBER, namespace) !== undefined) return
  inWriteTransaction(database, () => writeNamespace(statements, namespace, wallMs))
}

function writeNamespace(statements: StatementCache, namespace: string, wallMs: number): void {
  // The default namespace has the number 0, whether or not it is the first.
  const number =
    namespace === DEFAULT_NAMESPACE
      ? '0'
      : `(SELECT max(1, ifnull(max(number), 0) + 1) FROM store_state)`
  const insert = `INSERT OR IGNORE INTO store_state SELECT ?, 0, 0, 0, 0, 0, 0, ${number}, 0, 0, 0`
  if (statements.run(insert, namespace) === 0) return
  if (Number(statements.first(READ_NUMBER, namespace)?.[0]) >= NAMESPACES_MAX) {
    throw new LeaseError(
      'LIMIT_EXCEEDED',
      `namespaces of one database must be at most ${NAMESPACES_MAX}, got another: ${namespace}`,
    )
  }
  for (const key of SETTING_KEYS) {
    const { initial, type, description } = SETTING_TABLE[key]
    const id = `${namespace}/${key}`
    const row = [id, key, String(initial), type, description, 'global', null]
    statements.run(ADD_DEFAULT, ...row, wallMs, wallMs, namespace)
  }
}

/** How what a row holds is named outside of it. */
export interface RowNames {
  readonly namespace: string
  /** The number of the namespace, which is part of every position. */
  readonly namespaceNumber: number
  /** Clock domains by number: a row holds the number, an entry the name. */
  domainOf(generation: number): string
  generationOf(domain: string): number
}

const DEFAULT_NAMESPACE = 'default'

/** Ids as they are kept: bare in the default namespace, so that a person can use them, marked in any other. */
export function keyOf(id: string, { namespace }: Pick<RowNames, 'namespace'>): string {
  return namespace === DEFAULT_NAMESPACE ? id : `${namespace}/${id}`
}

export function idOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/** Positions of one namespace are below it, and those of the next one above. */
export const POSITIONS_PER_NAMESPACE: number = 2 ** 40
const NAMESPACES_MAX = 2 ** 13

/** The number of an event in the table, of all namespaces, from its number in its own. */
export function sequenceOf(number: number, { namespaceNumber }: RowNames): number {
  return namespaceNumber * POSITIONS_PER_NAMESPACE + number
}

export function numberOf(sequence: number): number {
  return sequence % POSITIONS_PER_NAMESPACE
}

/**
 * A number by which the events of a lease are found, made of the front of its id, which grows with time in those that
 * Tenure makes, and the count of ids in their millisecond. Without the count, a look for an id passed through the events
 * of all that were made in the same millisecond, which took a fifth of a pair. Two leases may share one, so the id is
 * compared as well.
 */
export function leaseNumberOf(id: string): number {
  const digits = id.slice(2, 8) + id.slice(9, 13) + id.slice(15, 18)
  const number = Number.parseInt(digits, 16)
  return Number.isNaN(number) ? 0 : number
}

const FILE_PREFIX = 'file:'

/** As a person would write it: a `file:` by its bare path, anything else as `kind:name`. */
export function pathOf(resource: Resource): string {
  return resource.startsWith(FILE_PREFIX) ? resource.slice(FILE_PREFIX.length) : resource
}

export function resourceOf(path: string): Resource {
  return (path.startsWith('/') ? `${FILE_PREFIX}${path}` : path) as Resource
}

const STATEMENTS_CACHED_MAX = 200

/** Statements, prepared when they are first used. Rows are arrays. */
export class StatementCache {
  /** How many were carried out that write; to be counted from 0 again by whoever wants to know. */
  writes = 0
  readonly #database: SqliteDatabase
  readonly #statements = new Map<string, SqliteStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  all<Row extends SqliteRow>(sql: string, ...values: readonly SqliteValue[]): Row[] {
    return this.#reading(sql).all(...values) as Row[]
  }

  first(sql: string, ...values: readonly SqliteValue[]): SqliteRow | undefined {
    return this.#reading(sql).get(...values) as SqliteRow | undefined
  }

  /** Carries out one that writes, and says how many rows it has changed. */
  run(sql: string, ...values: readonly SqliteValue[]): number {
    this.writes += 1
    const statement = this.#statements.get(sql) ?? this.#add(sql, this.#database.prepare(sql))
    return statement.run(...values).changes
  }

  #reading(sql: string): SqliteStatement {
    return this.#statements.get(sql) ?? this.#add(sql, this.#database.prepare(sql).raw())
  }

  #add(sql: string, statement: SqliteStatement): SqliteStatement {
    if (this.#statements.size >= STATEMENTS_CACHED_MAX) this.#statements.clear()
    this.#statements.set(sql, statement)
    return statement
  }
}

/** A condition in the making, with its values beside it: names reach SQL as data only. */
export class Where {
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
