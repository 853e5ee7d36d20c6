/** The table of refusals, inside the caller's transaction. core/refusal.ts says what it is for. */
import { REFUSALS_MAX } from '../../core/limits.ts'
import type { RecordBody } from '../../core/record.ts'
import { refusalOf, refusalRow, type CountedRefusal } from '../../core/refusal.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import type { RefusalQuery } from '../../store-port/store.ts'
import { pathOf, resourceOf } from './sqlite-columns.ts'
import { Where, type SqliteState } from './sqlite-state.ts'

const COUNT = `INSERT INTO refusals
  (namespace, file_path, agent_id, reason, count, last_at, lease_id, detail)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (namespace, file_path, agent_id, reason) DO UPDATE SET
    count = count + excluded.count,
    lease_id = iif(excluded.last_at < last_at, lease_id, excluded.lease_id),
    detail = iif(excluded.last_at < last_at, detail, excluded.detail),
    last_at = max(last_at, excluded.last_at)`

const MAKE_ROOM = `DELETE FROM refusals WHERE id IN (
  SELECT id FROM refusals WHERE namespace = ? ORDER BY last_at DESC LIMIT -1 OFFSET ?)`

export function writeRefusals(
  { statements, namespace }: SqliteState,
  refusals: readonly CountedRefusal[],
): void {
  for (const { resource, holder, reason, count, ...last } of refusals.map(refusalRow)) {
    const key = [namespace, pathOf(resource), holder, reason]
    statements.run(COUNT, ...key, count, last.lastAtMs, last.leaseId, JSON.stringify(last.detail))
  }
  statements.run(MAKE_ROOM, namespace, REFUSALS_MAX)
}

export function readRefusals(
  { statements, namespace }: SqliteState,
  query: RefusalQuery,
): readonly CountedRefusal[] {
  const { leaseId, resource, holder, fromMs, toMs, newestFirst, limit } = query
  const where = new Where('namespace = ?', [namespace])
  if (leaseId !== undefined) where.and('lease_id = ?', leaseId)
  if (resource !== undefined) where.and('file_path = ?', pathOf(resource))
  if (holder !== undefined) where.and('agent_id = ?', holder)
  if (fromMs !== undefined) where.and('last_at >= ?', fromMs)
  if (toMs !== undefined) where.and('last_at <= ?', toMs)
  const order = newestFirst === true ? 'DESC' : 'ASC'
  const text = `SELECT file_path, agent_id, reason, count, last_at, lease_id, detail FROM refusals
    WHERE ${where.sql}
    ORDER BY last_at ${order}, lease_id ${order}, reason ${order}, agent_id ${order} LIMIT ?`
  const rows = statements.get(text).all(...where.values, limit) as SqliteRow[]
  return rows.map(countedOf)
}

function countedOf(row: SqliteRow): CountedRefusal {
  return refusalOf({
    resource: resourceOf(row[0] as string),
    holder: row[1] as string,
    reason: row[2] as string,
    count: row[3] as number,
    lastAtMs: row[4] as number,
    leaseId: row[5] as string,
    detail: JSON.parse(row[6] as string) as RecordBody,
  })
}
