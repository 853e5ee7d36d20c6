/**
 * What a file of ours is recognised by, and which version its tables have. The tables themselves are in
 * sqlite-migrations.ts, which is loaded only where they are to be made or changed.
 */
import { LeaseError } from '../../core/errors.ts'
import { fs, readKeepingLocks } from '../../runtime/file-system.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'

/** The newest version of the tables that this program knows: as many migrations as there are. */
export const SCHEMA_VERSION = 13

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
    const header = Buffer.alloc(HEADER_BYTES)
    readKeepingLocks(file, (handle) => fs.readSync(handle, header, 0, HEADER_BYTES, 0))
    const [version, applicationId] = [header.readUInt32BE(60), header.readUInt32BE(68)]
    return applicationId === APPLICATION_ID && version === SCHEMA_VERSION
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
  const done = `SELECT ifnull(max(version), 0), count(*) FROM migrations WHERE status = 'success'`
  const [newest, count] = database.prepare(done).raw().get() as readonly [number, number]
  if (newest > SCHEMA_VERSION) throw newerError(file, newest)
  return newest === count ? count : 0
}
