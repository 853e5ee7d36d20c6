/** Reads the ledger, inside the caller's transaction. Loaded by those who ask for it and by those who write it. */
import type { LeaseEventType } from '../../core/event.ts'
import { parsePosition } from '../../store-port/position.ts'
import type { HistoryQuery, LedgerEntry } from '../../store-port/store.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { Where, type StatementCache } from '../../drivers/sqlite-driver.ts'
import { EVENT_COLUMNS, eventOf, wordOf } from './sqlite-events.ts'
import { inNamespace, keyOf, leaseNumberOf, pathOf, type RowNames } from './sqlite-rows.ts'

export function readHistory(
  statements: StatementCache,
  names: RowNames,
  query: HistoryQuery,
): readonly LedgerEntry[] {
  // The sign keeps the planner from walking the whole ledger for one lease because it is in the right order.
  const where =
    query.leaseId === undefined
      ? new Where(inNamespace(names), [])
      : new Where('+namespace = ?', [names.namespace])
  const descending = query.newestFirst === true
  if (query.after !== undefined) {
    where.and(descending ? 'seq < ?' : 'seq > ?', parsePosition(query.after))
  }
  if (query.leaseId !== undefined) {
    where.and('lease_number = ?', leaseNumberOf(query.leaseId))
    where.and('lease_id = ?', keyOf(query.leaseId, names))
  }
  if (query.resource !== undefined) where.and('file_path = ?', pathOf(query.resource))
  if (query.kinds !== undefined) addKinds(where, query.kinds)
  if (query.holder !== undefined) where.and('agent_id = ?', query.holder)
  if (query.fromMs !== undefined) where.and('event_at >= ?', query.fromMs)
  if (query.toMs !== undefined) where.and('event_at <= ?', query.toMs)
  if (query.types !== undefined) addTypes(where, query.types)
  const sql = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE ${where.sql}
    ORDER BY seq ${descending ? 'DESC' : ''} LIMIT ?`
  const rows = statements.get(sql).all(...where.values, query.limit)
  return rows.map((row) => {
    const values = row as SqliteRow
    return { position: String(values[10]), event: eventOf(values, names) }
  })
}

/** A file stands there as its path, without its kind. */
function addKinds(where: Where, kinds: readonly string[]): void {
  const named = `substr(file_path, 1, instr(file_path, ':') - 1)`
  const kind = `CASE WHEN file_path LIKE '/%' THEN 'file' ELSE ${named} END`
  where.and(`${kind} IN (${kinds.map(() => '?').join(', ')})`, ...kinds)
}

/** Two types share the word `failed`; the rarer of them says so beside it. */
function addTypes(where: Where, types: readonly LeaseEventType[]): void {
  const marks = types.map(() => '?').join(', ')
  where.and(`event_type IN (${marks})`, ...types.map(wordOf))
  const exact = `ifnull(json_extract(data, '$.type'), 'lease.failed')`
  where.and(`(event_type <> 'failed' OR ${exact} IN (${marks}))`, ...types)
}
