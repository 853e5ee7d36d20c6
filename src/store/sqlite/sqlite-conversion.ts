/**
 * Brings the rows of versions 1 to 8, in which live and ended leases shared a table, into the live set and the ledger.
 * It runs inside the migration's transaction, on `old_leases` and `old_history`, and leaves both for the migration to drop.
 * Positions stay what they were; what the last event of an ended lease has left behind goes with that event.
 */
import { LeaseError } from '../../core/errors.ts'
import type { LeaseEvent } from '../../core/event.ts'
import { isLive } from '../../core/lease.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import { domainName } from '../embedded-clock.ts'
import {
  StatementCache,
  type SqliteDatabase,
  type SqliteRow,
  type SqliteStatement,
} from '../../drivers/sqlite-driver.ts'
import { HistoryIndex } from './history-index.ts'
import {
  entryValues,
  eventValues,
  idOf,
  INSERT_ENTRY,
  INSERT_EVENT,
  sequenceOf,
  type RowNames,
} from './sqlite-columns.ts'
import { eventOf as oldEventOf, OLD_EVENT_COLUMNS } from './sqlite-old-events.ts'
import { entryOf as oldEntryOf, OLD_ENTRY_COLUMNS } from './sqlite-old-rows.ts'

/** More would be no help to a person who has to end them. */
const HELD_NAMED_MAX = 5

/**
 * Refuses while a lease runs: the process that holds it is likely to be of the older version, and could not renew it any
 * more. Leases of an earlier boot are over.
 */
export function refuseWhileHeld(
  database: SqliteDatabase,
  { url, ticks }: { readonly url: string; readonly ticks: TickSource },
): void {
  const rows = database
    .prepare(
      `SELECT file_path, agent_id, live_until_us FROM old_leases
       JOIN store_state USING (namespace)
       JOIN clock_domains USING (namespace)
       WHERE status = 'active' AND generation = store_state.clock AND live_clock = generation
         AND live_until_us > ? AND base = ifnull(?, base) ORDER BY live_until_us`,
    )
    .raw()
    .all(ticks.tickUs(), ticks.domain) as (readonly [string, string, number])[]
  if (rows.length === 0) return
  const named = rows.slice(0, HELD_NAMED_MAX).map(([path, holder, untilUs]) => {
    const seconds = Math.ceil((untilUs - ticks.tickUs()) / 1_000_000)
    return `${path} of ${holder} (${seconds} s)`
  })
  const more = rows.length > named.length ? ` and ${rows.length - named.length} more` : ''
  throw new LeaseError(
    'STORE_SCHEMA',
    `${url} has the tables of an older version, whose processes may still hold ${named.join(', ')}${more}; it is converted when they have ended, or with tenure doctor --convert`,
    { details: { store: url, held: rows.length } },
  )
}

export function convertRows(database: SqliteDatabase): void {
  const namespaces = database
    .prepare('SELECT namespace, number, last_seq FROM store_state ORDER BY number')
    .raw()
    .all() as SqliteRow[]
  for (const [namespace, number, lastPosition] of namespaces) {
    const names = namesOf(database, namespace as string, number as number)
    convertLive(database, names)
    convertEvents(database, names)
    new HistoryIndex(new StatementCache(database), names).build(0, lastPosition as number)
  }
}

interface OldNames extends RowNames {
  readonly firstDomain: string
}

/** Clocks as they were written down; a conversion meets no new one. */
function namesOf(database: SqliteDatabase, namespace: string, namespaceNumber: number): OldNames {
  const rows = database
    .prepare('SELECT generation, base FROM clock_domains WHERE namespace = ?')
    .raw()
    .all(namespace) as SqliteRow[]
  const domains = new Map<number, string>()
  const generations = new Map<string, number>()
  for (const [generation, base] of rows as (readonly [number, string])[]) {
    const domain = generation < 0 ? base : domainName(base, generation)
    domains.set(generation, domain)
    generations.set(domain, generation)
  }
  const [firstDomain = ''] = domains.values()
  return {
    namespace,
    namespaceNumber,
    firstDomain,
    domainOf: (generation) => known(domains.get(generation), `clock ${generation}`),
    generationOf: (domain) => known(generations.get(domain), `clock ${domain}`),
  }
}

function known<Value>(value: Value | undefined, what: string): Value {
  if (value === undefined) throw new Error(`${what} was never written down`)
  return value
}

function convertLive(database: SqliteDatabase, names: RowNames): void {
  const insert = database.prepare(INSERT_ENTRY)
  const live = database
    .prepare(
      `SELECT ${OLD_ENTRY_COLUMNS} FROM old_leases
       WHERE live_clock IS NOT NULL AND namespace = ? ORDER BY rowid`,
    )
    .raw()
  for (const row of live.all(names.namespace)) {
    insert.run(...entryValues(oldEntryOf(row as SqliteRow, names), names))
  }
}

/** Events read at once; a ledger may be larger than memory. */
const BATCH = 5_000

function convertEvents(database: SqliteDatabase, names: OldNames): void {
  const insert = database.prepare(INSERT_EVENT)
  const read = database
    .prepare(
      `SELECT ${OLD_EVENT_COLUMNS}, seq = (SELECT max(seq) FROM old_history AS later
         WHERE later.lease_number = old_history.lease_number
           AND later.lease_id = old_history.lease_id)
       FROM old_history WHERE namespace = ? AND seq > ? ORDER BY seq LIMIT ${BATCH}`,
    )
    .raw()
  const readEntry = database
    .prepare(`SELECT ${OLD_ENTRY_COLUMNS} FROM old_leases WHERE id = ?`)
    .raw()
  for (let after = 0; ;) {
    const rows = read.all(names.namespace, after) as SqliteRow[]
    for (const row of rows) convertEvent(row, { insert, readEntry, names })
    const last = rows.at(-1)
    if (last === undefined) return
    after = last[10] as number
  }
}

interface EventConversion {
  readonly insert: SqliteStatement
  readonly readEntry: SqliteStatement
  readonly names: OldNames
}

function convertEvent(row: SqliteRow, { insert, readEntry, names }: EventConversion): void {
  const event = oldEventOf(row, names)
  const key = row[1] as string
  const found = row.at(-1) === 1 ? (readEntry.get(key) as SqliteRow | undefined) : undefined
  const entry = found === undefined ? null : oldEntryOf(found, names)
  const ended = entry !== null && !isLive(entry) && entry.id === idOf(key) ? entry : null
  const sequence = sequenceOf(row[10] as number, names)
  const domain = ended?.deadline.domain ?? domainIn(event) ?? names.firstDomain
  insert.run(...eventValues({ event, ended }, { sequence, domain }, names))
}

/** The clock of the ticks that an event tells of. */
function domainIn(event: LeaseEvent): string | null {
  if (event.type === 'lease.issued') return event.lease.deadline.domain
  if (event.type === 'lease.queued' || event.type === 'lease.denied') {
    return event.ticket?.deadline.domain ?? null
  }
  return 'deadline' in event ? event.deadline.domain : null
}
