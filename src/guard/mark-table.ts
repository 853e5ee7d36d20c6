/**
 * The one table that a guard needs, beside what it guards, and its rows. The same columns on SQLite and PostgreSQL; in
 * PostgreSQL names compare by their bytes (`COLLATE "C"`), as everywhere else.
 */
import { LeaseError, show } from '../core/errors.ts'
import { markKey, type Mark, type MarkRef } from './marks.ts'

export const MARK_TABLE = 'tenure_fences'

export const SQLITE_MARK_TABLE: string = `CREATE TABLE IF NOT EXISTS ${MARK_TABLE} (
  resource TEXT NOT NULL,
  place TEXT NOT NULL CHECK (place IN ('own', 'subtree', 'below')),
  exclusive_fence INTEGER NOT NULL DEFAULT 0,
  exclusive_lease TEXT,
  shared_fence INTEGER NOT NULL DEFAULT 0,
  shared_lease TEXT,
  PRIMARY KEY (resource, place)
) WITHOUT ROWID`

export const POSTGRES_MARK_TABLE: string = `CREATE TABLE IF NOT EXISTS ${MARK_TABLE} (
  resource text COLLATE "C" NOT NULL,
  place text COLLATE "C" NOT NULL CHECK (place IN ('own', 'subtree', 'below')),
  exclusive_fence bigint NOT NULL DEFAULT 0,
  exclusive_lease text,
  shared_fence bigint NOT NULL DEFAULT 0,
  shared_lease text,
  PRIMARY KEY (place, resource)
)`

/** As a driver returns it: numbers, or text where a number may be too large for the driver's taste. */
export interface MarkRow extends MarkRef {
  readonly exclusive_fence: number | bigint | string
  readonly exclusive_lease: string | null
  readonly shared_fence: number | bigint | string
  readonly shared_lease: string | null
}

export function marksOf(rows: readonly MarkRow[]): ReadonlyMap<string, Mark> {
  return new Map(
    rows.map((row) => [
      markKey(row),
      {
        exclusive: { fence: fenceIn(row, 'exclusive_fence'), leaseId: row.exclusive_lease },
        shared: { fence: fenceIn(row, 'shared_fence'), leaseId: row.shared_lease },
      },
    ]),
  )
}

/** Every fence is above one that cannot be read, so a client that renames columns would let all pass. */
function fenceIn(row: MarkRow, column: 'exclusive_fence' | 'shared_fence'): number {
  const fence = Number(row[column])
  if (Number.isSafeInteger(fence) && fence >= 0) return fence
  const expected = 'must be an integer; the client must give rows by the names of their columns'
  const message = `${column} of ${MARK_TABLE} ${expected}, got ${show(row[column])}`
  throw new LeaseError('STORE_SCHEMA', message, { details: { table: MARK_TABLE, column } })
}

/** In the order of the columns. */
export function valuesOf(key: string, { exclusive, shared }: Mark): (string | number | null)[] {
  const space = key.indexOf(' ')
  const [place, resource] = [key.slice(0, space), key.slice(space + 1)]
  return [resource, place, exclusive.fence, exclusive.leaseId, shared.fence, shared.leaseId]
}

/** What came of asking for the table where it is not. */
export function missingTable(cause: unknown): LeaseError {
  const message = `the database has no table ${MARK_TABLE}; create it with "tenure guard init"`
  return new LeaseError('STORE_SCHEMA', message, { cause, details: { table: MARK_TABLE } })
}
