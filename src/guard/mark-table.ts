/**
 * The one table that a guard needs, beside what it guards, and its rows. The same columns on SQLite and PostgreSQL; in
 * PostgreSQL names compare by their bytes (`COLLATE "C"`), as everywhere else.
 */
import type { Resource } from '../core/resource.ts'
import { markKey, type Mark, type Place, type Stamp } from './marks.ts'

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
export interface MarkRow {
  readonly resource: string
  readonly place: string
  readonly exclusive_fence: number | bigint | string
  readonly exclusive_lease: string | null
  readonly shared_fence: number | bigint | string
  readonly shared_lease: string | null
}

export function marksOf(rows: readonly MarkRow[]): ReadonlyMap<string, Mark> {
  return new Map(rows.map((row) => [keyOf(row), markOf(row)]))
}

function keyOf({ resource, place }: MarkRow): string {
  return markKey({ resource: resource as Resource, place: place as Place })
}

function markOf(row: MarkRow): Mark {
  return {
    exclusive: stampOf(row.exclusive_fence, row.exclusive_lease),
    shared: stampOf(row.shared_fence, row.shared_lease),
  }
}

function stampOf(fence: number | bigint | string, leaseId: string | null): Stamp {
  return { fence: Number(fence), leaseId }
}

export type MarkValues = readonly [
  resource: string,
  place: string,
  exclusiveFence: number,
  exclusiveLease: string | null,
  sharedFence: number,
  sharedLease: string | null,
]

export function valuesOf(key: string, { exclusive, shared }: Mark): MarkValues {
  const space = key.indexOf(' ')
  const [place, resource] = [key.slice(0, space), key.slice(space + 1)]
  return [resource, place, exclusive.fence, exclusive.leaseId, shared.fence, shared.leaseId]
}
