/**
 * Reads the ledger, inside the caller's transaction: events, and entries that have ended or are asked for by id. It stands
 * apart from the finder so that whoever asks for what is live need not load it. A question about one resource
 * or holder goes by the index of full runs, and through the events after them; any other in order of position.
 */
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { RecordedEvent } from '../../core/record.ts'
import type { Now, Tick } from '../../core/time.ts'
import { parseReached } from '../../store-port/position.ts'
import type { EntryQuery, HistoryQuery, LedgerEntry } from '../../store-port/store.ts'
import { RUN_EVENTS, type IndexName } from '../history-index.ts'
import { matchesEntry, matchesEvent } from '../query-matching.ts'
import type { SqliteRow, StatementCache } from '../../drivers/sqlite-driver.ts'
import { keyOf, leaseNumberOf, numberOf, pathOf, sequenceOf } from './sqlite-columns.ts'
import { EVENT_COLUMNS, eventOf } from './sqlite-event-columns.ts'
import type { FoundRows, SqliteFinder } from './sqlite-finder.ts'
import { HistoryRuns } from './sqlite-history-runs.ts'
import type { SqliteState } from './sqlite-state.ts'

const LAST_OF_LEASE = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ? ORDER BY seq DESC LIMIT 1`
const ALL_OF_LEASE = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ?`
const BETWEEN = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq BETWEEN ? AND ?`
const AT = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq = ?`

/** No question about what has ended depends on the time. */
const NEVER: Tick = { domain: '', us: 0 }

/** Rows read at once while a question goes through them in order. */
const BATCH = 1_000

interface Range {
  readonly from: number
  readonly to: number
  readonly descending: boolean
}

interface Row extends RecordedEvent {
  readonly position: number
}

export interface SqliteHistoryOptions {
  readonly statements: StatementCache
  readonly state: SqliteState
  readonly finder: SqliteFinder
}

export class SqliteHistory {
  readonly runs: HistoryRuns
  readonly #statements: StatementCache
  readonly #state: SqliteState
  readonly #finder: SqliteFinder

  constructor({ statements, state, finder }: SqliteHistoryOptions) {
    this.runs = new HistoryRuns(statements, state)
    this.#statements = statements
    this.#state = state
    this.#finder = finder
  }

  read(query: HistoryQuery): readonly LedgerEntry[] {
    const found: LedgerEntry[] = []
    const range = this.#rangeOf(query)
    for (const { position, event } of this.#candidates(query, range)) {
      if (!matchesEvent(event, query)) continue
      found.push({ position: String(position), event })
      if (found.length === query.limit) break
    }
    return found
  }

  /** The entry of an id in whatever state; undefined for one of which nothing is kept. */
  entry(id: LeaseId): Entry | undefined {
    const live = this.#finder.entry(id)
    if (live !== undefined) return live
    const row = this.#lastOf(id)
    return row === undefined ? undefined : (this.#rowOf(row).ended ?? undefined)
  }

  /** What is asked for by id, or has ended: one more than the limit, if there is one; `next` goes on behind the limit. */
  find(query: EntryQuery, now: Now): FoundRows {
    return query.ids === undefined
      ? this.#ended(query, now)
      : { entries: this.#byIds(query, now), next: null }
  }

  #byIds(query: EntryQuery, now: Now): readonly Entry[] {
    const entries: Entry[] = []
    for (const id of new Set(query.ids)) {
      const entry = this.entry(id)
      if (entry !== undefined && matchesEntry(entry, query, now.tick)) entries.push(entry)
    }
    return entries.slice(0, query.limit + 1)
  }

  /**
   * In the order of the ends; then what has ended and still stands in the way because of its lock delay. A cursor is the
   * position of the last end, and within the second part the number of the last row beside it.
   */
  #ended(query: EntryQuery, now: Now): FoundRows {
    const [after = '0', number] = query.after?.split(' ') ?? []
    const entries: Entry[] = []
    let place = after
    if (number === undefined) {
      for (const [position, entry] of this.#endedEntries(query, Number(after))) {
        entries.push(entry)
        if (entries.length > query.limit) return { entries, next: place }
        place = String(position)
      }
    }
    const { after: _after, ...rest } = query
    const delayed = this.#finder.live(
      number === undefined ? rest : { ...rest, after: number },
      now,
      query.limit + 1 - entries.length,
    )
    const last = delayed.numbers[query.limit - entries.length - 1]
    const isCut = entries.length + delayed.entries.length > query.limit
    const next = last === undefined ? place : `${place} ${last}`
    return { entries: [...entries, ...delayed.entries], next: isCut ? next : null }
  }

  /** Ended entries in the order of their ends, after a position, with the position of each. */
  *#endedEntries(query: EntryQuery, after: number): Generator<readonly [number, Entry]> {
    const range = { from: after + 1, to: this.#state.lastSequence, descending: false }
    const name = endedName(query)
    for (const row of name === null ? this.#inOrder(range) : this.#named(name, range)) {
      const { position, ended } = row
      if (ended === null || !matchesEntry(ended, query, NEVER)) continue
      // An id that failed may have come back.
      if (ended.state !== 'failed' || this.#isLast(row)) yield [position, ended]
    }
  }

  #isLast({ position, event }: Row): boolean {
    const last = this.#lastOf(event.leaseId)
    return last !== undefined && numberOf(last[0] as number) === position
  }

  #lastOf(id: LeaseId): SqliteRow | undefined {
    const values = [leaseNumberOf(id), keyOf(id, this.#state)]
    return this.#statements.get(LAST_OF_LEASE).get(...values) as SqliteRow | undefined
  }

  #rangeOf({ after, newestFirst }: HistoryQuery): Range {
    const last = this.#state.lastSequence
    const given = after === undefined ? null : parseReached(after, last)
    if (newestFirst === true)
      return { from: 0, to: given === null ? last : given - 1, descending: true }
    return { from: given === null ? 0 : given + 1, to: last, descending: false }
  }

  #candidates(query: HistoryQuery, range: Range): Iterable<Row> {
    if (query.leaseId !== undefined) return this.#ofLease(query.leaseId, range)
    const { resource, holder } = query
    if (resource !== undefined) {
      return this.#named({ kind: 'resource', resource: pathOf(resource), ended: false }, range)
    }
    if (holder !== undefined) return this.#named({ kind: 'holder', holder, ended: false }, range)
    return this.#inOrder(range)
  }

  #ofLease(id: LeaseId, { from, to, descending }: Range): readonly Row[] {
    const rows = this.#statements
      .get(ALL_OF_LEASE)
      .all(leaseNumberOf(id), keyOf(id, this.#state)) as SqliteRow[]
    const inRange = rows
      .map((row) => this.#rowOf(row))
      .filter(({ position }) => position >= from && position <= to)
      .toSorted((a, b) => a.position - b.position)
    return descending ? inRange.toReversed() : inRange
  }

  *#named(name: IndexName, range: Range): Generator<Row> {
    const { from, to, descending } = range
    const tail = this.runs.tailFrom(this.#state.lastSequence)
    const inTail = { from: Math.max(from, tail), to, descending }
    if (descending && to >= tail) yield* this.#inOrder(inTail, name)
    const first = Math.floor(from / RUN_EVENTS)
    const last = Math.floor(Math.min(to, tail - 1) / RUN_EVENTS)
    for (let step = 0; step <= last - first; step += 1) {
      const positions = this.runs.search(descending ? last - step : first + step, name)
      for (const position of descending ? positions.toReversed() : positions) {
        if (position < from || position > to) continue
        const row = this.#statements.get(AT).get(sequenceOf(position, this.#state))
        if (row !== undefined) yield this.#rowOf(row as SqliteRow)
      }
    }
    if (!descending && to >= tail) yield* this.#inOrder(inTail, name)
  }

  /** Only what has the name, if there is one: SQLite passes over a row in a tenth of the time that reading it takes. */
  *#inOrder({ from, to, descending }: Range, name: IndexName | null = null): Generator<Row> {
    const [condition, ...values] = name === null ? [''] : conditionOf(name)
    const sql = `${BETWEEN}${condition} ORDER BY seq${descending ? ' DESC' : ''} LIMIT ?`
    const statement = this.#statements.get(sql)
    let [low, high] = [from, to]
    while (low <= high) {
      const bounds = [sequenceOf(low, this.#state), sequenceOf(high, this.#state)]
      const rows = statement.all(...bounds, ...values, BATCH) as SqliteRow[]
      for (const row of rows) yield this.#rowOf(row)
      const last = rows.at(-1)
      if (last === undefined || rows.length < BATCH) return
      if (descending) high = numberOf(last[0] as number) - 1
      else low = numberOf(last[0] as number) + 1
    }
  }

  #rowOf(row: SqliteRow): Row {
    const { event, ended } = eventOf(row, this.#state)
    return { position: numberOf(row[0] as number), event, ended }
  }
}

function conditionOf(name: IndexName): readonly [sql: string, ...values: string[]] {
  if (name.kind === 'state') return [' AND ended_at IS NOT NULL']
  const ended = name.ended ? ' AND ended_at IS NOT NULL' : ''
  return name.kind === 'resource'
    ? [` AND file_path = ?${ended}`, name.resource]
    : [` AND agent_id = ?${ended}`, name.holder]
}

/** What narrows a question about ended entries most; null if nothing does. */
function endedName({ resource, holder, states }: EntryQuery): IndexName | null {
  if (resource !== undefined) return { kind: 'resource', resource: pathOf(resource), ended: true }
  if (holder !== undefined) return { kind: 'holder', holder, ended: true }
  const [state, ...others] = states ?? []
  return state === undefined || others.length > 0 ? null : { kind: 'state', state }
}
