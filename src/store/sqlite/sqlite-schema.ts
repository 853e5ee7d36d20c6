/**
 * What a file of ours is recognised by, which version its tables have, how ids, resources and positions are written in all
 * of them, and the rows with which a namespace begins. The tables themselves are in sqlite-migrations.ts, which is loaded
 * only where they are to be made or changed.
 */
import { LeaseError } from '../../core/errors.ts'
import { fs } from '../../runtime/file-system.ts'
import { SETTING_KEYS, SETTING_TABLE } from '../../core/settings.ts'
import type { Resource } from '../../core/resource.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'

/** The newest version of the tables that this program knows: as many migrations as there are. */
export const SCHEMA_VERSION = 12

export const MIGRATION_TABLE: string = `
CREATE TABLE IF NOT EXISTS migrations (
  version INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  description TEXT,
  applied_at INTEGER NOT NULL,
  status TEXT DEFAULT 'success',
  error_message TEXT
)`

/** "Tenu" */
export const APPLICATION_ID = 0x54_65_6e_75

const HEADER_BYTES = 100

/** Whether the header of a file has our mark, and the present version of the tables. */
export function isPlainlyOurs(file: string): boolean {
  try {
    const status = fs.statSync(file)
    if (!status.isFile() || status.nlink > 1) return false
    const handle = fs.openSync(file, 'r')
    try {
      const header = Buffer.alloc(HEADER_BYTES)
      fs.readSync(handle, header, 0, HEADER_BYTES, 0)
      const [version, applicationId] = [header.readUInt32BE(60), header.readUInt32BE(68)]
      return applicationId === APPLICATION_ID && version === SCHEMA_VERSION
    } finally {
      fs.closeSync(handle)
    }
  } catch {
    // No fault: a caller that gets no header here reads the file again, and says what is wrong with it.
    return false
  }
}

export function newerError(file: string, found: number): LeaseError {
  const supported = SCHEMA_VERSION
  return notOurs(
    file,
    `schema version must be at most ${supported} for this version of Tenure, got ${found}`,
    { supported, found },
  )
}

export function notOurs(
  file: string,
  why: string,
  details: Readonly<Record<string, unknown>> = {},
): LeaseError {
  const store = `sqlite:${file}`
  return new LeaseError('STORE_SCHEMA', `${store} is not a Tenure store: ${why}`, {
    details: { store, ...details },
  })
}

/** The version up to which all migrations have succeeded; throws `STORE_SCHEMA` for one from the future. */
export function versionOf(database: SqliteDatabase, file: string): number {
  const table = database.prepare(
    `SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'`,
  )
  if (table.get() === undefined) return 0
  const rows = database
    .prepare(`SELECT version FROM migrations WHERE status = 'success' ORDER BY version`)
    .raw()
    .all() as (readonly [number])[]
  const newest = rows.at(-1)?.[0] ?? 0
  if (newest > SCHEMA_VERSION) throw newerError(file, newest)
  return rows.findIndex(([version], index) => version !== index + 1) === -1 ? rows.length : 0
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

export const DEFAULT_NAMESPACE = 'default'

/** Ids as they are kept: bare in the default namespace, so that a person can use them, marked in any other. */
export function keyOf(id: string, { namespace }: Pick<RowNames, 'namespace'>): string {
  return namespace === DEFAULT_NAMESPACE ? id : `${namespace}/${id}`
}

export function idOf(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/** Positions of one namespace are below it, and those of the next one above. */
export const POSITIONS_PER_NAMESPACE: number = 2 ** 40
export const NAMESPACES_MAX: number = 2 ** 13

/** The number of an event in the table, of all namespaces, from its number in its own. */
export function sequenceOf(number: number, { namespaceNumber }: RowNames): number {
  return namespaceNumber * POSITIONS_PER_NAMESPACE + number
}

export function numberOf(sequence: number): number {
  return sequence % POSITIONS_PER_NAMESPACE
}

/**
 * A number by which the events of a lease are found, made of the front of its id, which grows with time in those that
 * Tenure makes. Two leases may share one, so the id is compared as well.
 */
export function leaseNumberOf(id: string): number {
  const digits = id.slice(0, 8) + id.slice(9, 13) + id.slice(15, 16)
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

/** Makes the row of counters and the default configuration of a namespace, once. */
export function createNamespace(database: SqliteDatabase, namespace: string, wallMs: number): void {
  const exists = database.prepare('SELECT 1 FROM store_state WHERE namespace = ?').get(namespace)
  if (exists !== undefined) return
  // The default namespace has the number 0, whether or not it is the first.
  const number =
    namespace === DEFAULT_NAMESPACE
      ? '0'
      : `(SELECT max(1, ifnull(max(number), 0) + 1) FROM store_state)`
  const { changes } = database
    .prepare(`INSERT OR IGNORE INTO store_state SELECT ?, 0, 0, 0, 0, 0, 0, ${number}, 0, 0, 0`)
    .run(namespace)
  if (changes === 0) return
  const [made] = database
    .prepare('SELECT number FROM store_state WHERE namespace = ?')
    .raw()
    .get(namespace) as readonly [number]
  if (made >= NAMESPACES_MAX) {
    database.prepare('DELETE FROM store_state WHERE namespace = ?').run(namespace)
    throw new LeaseError(
      'LIMIT_EXCEEDED',
      `namespaces of one database must be at most ${NAMESPACES_MAX}, got another: ${namespace}`,
    )
  }
  const insert = database.prepare(
    `INSERT OR IGNORE INTO lease_configs VALUES (?, ?, ?, ?, ?, 'global', NULL, 0, ?, ?, ?)`,
  )
  for (const key of SETTING_KEYS) {
    const { initial, type, description } = SETTING_TABLE[key]
    const id = `${namespace}/${key}`
    insert.run(id, key, String(initial), type, description, wallMs, wallMs, namespace)
  }
}
