/**
 * Whose file it is, told from its bytes alone. SQLite itself must not be asked: opening a database in WAL mode makes files
 * beside it, and closing it again may move what another program left in its WAL. A file that is refused here was read,
 * and nothing else.
 *
 * Ours are files that bear our application id, and those that older releases made, which have our columns instead. The
 * id is written before a new database gets its WAL, so that the file itself has it from the first commit on. Its
 * `user_version` is the version of the tables.
 */
import { LeaseError } from '../../core/errors.ts'
import { inWriteTransaction, type SqliteDatabase, withAccess } from '../../drivers/sqlite-driver.ts'
import { fs, ifThere, readKeepingLocks } from '../../runtime/file-system.ts'
import {
  APPLICATION_ID,
  MIGRATION_TABLE,
  newerError,
  notOurs,
  SCHEMA_VERSION,
  versionOf,
} from './sqlite-schema.ts'

/** A column that no other program's table has; in `leases` from the first release on. */
const OUR_COLUMN = 'live_until_us INTEGER'

const MAGIC = 'SQLite format 3\0'
const HEADER_BYTES = 100
const INTERIOR_PAGE = 0x05
const LEAF_PAGE = 0x0d

/** A schema is listed on a few pages at the front; a file with more of them has tables of another program. */
const SCHEMA_PAGES_MAX = 64

/** The header of a WAL; one that is no longer holds nothing. */
const WAL_HEADER_BYTES = 32

/** The first release wrote its tables first of all, so they are at the front of a WAL that was never moved. */
const WAL_BYTES_READ_MAX = 1_048_576

const TABLE_PATTERN = /CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?["'`[]?([\w$]+)/gi

/** What the table `leases` of the file-leasing design has, which Tenure's is made after. */
export const SEED_LEASE_COLUMNS: readonly string[] = [
  ...['id', 'file_path', 'agent_id', 'created_at', 'expires_at', 'ttl_seconds'],
  ...['status', 'renewal_count', 'max_renewals', 'updated_at'],
]

/**
 * Throws `STORE_SCHEMA` for what Tenure did not make; an empty file, or none, is Tenure's to make. `STORE_UNAVAILABLE` for a file
 * with several names: SQLite finds the log of a database by its name, so that processes that use different ones do not see each
 * other's leases, and in the end damage the file.
 */
export function refuseForeignFile(file: string): void {
  const status = ifThere(() => fs.statSync(file))
  // What is no file at all is for the driver to refuse.
  if (status === null || !status.isFile()) return
  if (status.nlink > 1) throw manyNames(file, status.nlink)
  if (status.size === 0) return
  withAccess(file, () => readKeepingLocks(file, (handle) => refuseUnlessOurs(file, handle)))
}

function manyNames(file: string, names: number): LeaseError {
  const store = `sqlite:${file}`
  const message = `${store} cannot be used: the file has ${names} names (hard links), and must have one`
  return new LeaseError('STORE_UNAVAILABLE', message, { details: { store } })
}

function refuseUnlessOurs(file: string, handle: number): void {
  const header = readAt(handle, 0, HEADER_BYTES)
  if (header.length < HEADER_BYTES || header.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    throw notOurs(file, 'it is no SQLite database')
  }
  const applicationId = header.readUInt32BE(68)
  const userVersion = header.readUInt32BE(60)
  if (applicationId === APPLICATION_ID && userVersion > SCHEMA_VERSION) {
    throw newerError(file, userVersion)
  }
  if (applicationId === APPLICATION_ID) return
  if (applicationId !== 0) {
    throw notOurs(file, `it has the application_id of another program, ${applicationId}`)
  }
  const schema = schemaText(handle, header) + startOfWal(file)
  refuseForeignSchema(file, schema)
  if (schema !== '' || userVersion === 0) return
  throw notOurs(file, `it has a user_version, ${userVersion}, and no tables`)
}

/** Of a database that is open: whether Tenure made it, in this release or an older one. */
export function isTenureStore(database: SqliteDatabase): boolean {
  if (database.pragma('application_id', { simple: true }) === APPLICATION_ID) return true
  const own = database.prepare(`SELECT 1 FROM sqlite_schema WHERE instr(sql, ?) > 0`)
  return own.get(OUR_COLUMN) !== undefined
}

/** The table that is made first, as it stands in the schema. */
const FIRST_TABLE = MIGRATION_TABLE.trim().replace('IF NOT EXISTS ', '')

/** Throws unless there is nothing in the schema, or what an older release has made, if only its very first table. */
function refuseForeignSchema(file: string, schema: string): void {
  const isOnlyTable = schema.includes(FIRST_TABLE) && tablesIn(schema).length === 1
  if (schema === '' || schema.includes(OUR_COLUMN) || isOnlyTable) return
  throw foreignTables(file, schema)
}

/**
 * Marks a file that is to be made or brought up to date as ours; to be called before the database gets its WAL, so that
 * the mark is in the file itself. What the file's bytes did not tell, because another program has written to it since they
 * were read, is noticed here, under the write lock and before anything is written.
 */
export function claimFile(database: SqliteDatabase, file: string): void {
  if (versionOf(database, file) === SCHEMA_VERSION) return
  inWriteTransaction(database, () => {
    if (database.pragma('application_id', { simple: true }) === APPLICATION_ID) return
    refuseForeignSchema(file, schemaOf(database))
    database.pragma(`application_id = ${APPLICATION_ID}`)
    database.exec(MIGRATION_TABLE)
  })
}

function schemaOf(database: SqliteDatabase): string {
  const all = `SELECT ifnull(group_concat(sql, char(10)), '') FROM sqlite_master`
  return String(database.prepare(all).raw().get())
}

function tablesIn(schema: string): readonly string[] {
  return [...new Set([...schema.matchAll(TABLE_PATTERN)].map(([, name = '']) => name))]
}

function foreignTables(file: string, schema: string): LeaseError {
  const tables = tablesIn(schema)
  const isSeed = SEED_LEASE_COLUMNS.every((column) => schema.includes(column))
  if (isSeed && tables.includes('leases')) {
    const take = `"tenure import seed-c ${file} --store sqlite:NEW" takes its leases over into a new file`
    const what = 'it is a database of the file-leasing design that Tenure follows'
    return notOurs(file, `${what}; ${take}`, { tables, takeOver: 'seed-c' })
  }
  const names = tables.slice(0, 3).join(', ')
  return notOurs(file, `it holds tables of another program: ${names}`, {
    tables: tables.slice(0, 10),
  })
}

/** The pages that list what the database holds; empty when they list nothing. */
function schemaText(handle: number, header: Buffer): string {
  const declared = header.readUInt16BE(16)
  const pageBytes = declared === 1 ? 65_536 : declared
  const pages = [1]
  let text = ''
  for (let index = 0; index < Math.min(pages.length, SCHEMA_PAGES_MAX); index += 1) {
    const number = pages[index] ?? 1
    const page = readAt(handle, (number - 1) * pageBytes, pageBytes)
    const start = number === 1 ? HEADER_BYTES : 0
    if (page.length < pageBytes || pageBytes < 512) continue
    const cells = page.readUInt16BE(start + 3)
    if (page[start] === LEAF_PAGE && cells > 0) text += page.toString('latin1', start)
    if (page[start] === INTERIOR_PAGE) pages.push(...childrenOf(page, start, cells))
  }
  return text
}

function childrenOf(page: Buffer, start: number, cells: number): readonly number[] {
  const children = [page.readUInt32BE(start + 8)]
  const last = Math.min(cells, SCHEMA_PAGES_MAX)
  for (let cell = 0; cell < last; cell += 1) {
    const offset = page.readUInt16BE(start + 12 + 2 * cell)
    if (offset + 4 <= page.length) children.push(page.readUInt32BE(offset))
  }
  return children.filter((number) => number > 1)
}

/** What was committed and not yet moved into the file; empty when there is nothing. */
function startOfWal(file: string): string {
  const handle = ifThere(() => fs.openSync(`${file}-wal`, 'r'))
  if (handle === null) return ''
  try {
    const bytes = readAt(handle, 0, WAL_BYTES_READ_MAX)
    return bytes.length > WAL_HEADER_BYTES ? bytes.toString('latin1') : ''
  } finally {
    fs.closeSync(handle)
  }
}

function readAt(handle: number, position: number, length: number): Buffer {
  const buffer = Buffer.alloc(length)
  return buffer.subarray(0, fs.readSync(handle, buffer, 0, length, position))
}
