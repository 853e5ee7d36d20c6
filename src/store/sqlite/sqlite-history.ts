/**
 * The ledger, inside the caller's transaction: it appends events, and reads events and entries that have ended or are asked
 * for by id. It stands apart from the finder so that a command which asks for what is live does not load it. A question about
 * one resource or holder goes by the index of full runs, and through the events after them; any other in order of position.
 */
import type { Entry, LeaseId } from '../../core/lease.ts'
import type { RecordedEvent } from '../../core/record.ts'
import type { Now, Tick } from '../../core/time.ts'
import { parseReached, prunedError } from '../../store-port/position.ts'
import type { EntryQuery, HistoryQuery, LedgerEntry } from '../../store-port/store.ts'
import { matchesEntry, matchesEvent } from '../query-matching.ts'
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import {
  EVENT_COLUMNS,
  eventOf,
  eventValues,
  INSERT_EVENT,
  keyOf,
  leaseNumberOf,
  numberOf,
  pathOf,
  sequenceOf,
  type RowNames,
} from './sqlite-columns.ts'
import type { FoundRows, SqliteFinder } from './sqlite-finder.ts'
import type { SqliteState, StatementCache } from './sqlite-state.ts'

const LAST_OF_LEASE = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ? ORDER BY seq DESC LIMIT 1`
const ALL_OF_LEASE = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ?`
const BETWEEN = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq BETWEEN ? AND ?`
const OLDEST = 'SELECT min(seq) FROM lease_history WHERE seq BETWEEN ? AND ?'
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

export class SqliteHistory {
  readonly #index: HistoryIndex
  readonly #statements: StatementCache
  readonly #state: SqliteState
  readonly #finder: SqliteFinder

  constructor(state: SqliteState, finder: SqliteFinder) {
    this.#index = new HistoryIndex(state.statements, state)
    this.#statements = state.statements
    this.#state = state
    this.#finder = finder
  }

  /** Adds an event at the next position. `domain` is the clock by which it was decided. */
  append(recorded: RecordedEvent, domain: string): void {
    const last = this.#state.lastSequence
    this.#state.lastSequence += 1
    const sequence = sequenceOf(last + 1, this.#state)
    const values = eventValues(recorded, { sequence, domain }, this.#state)
    this.#statements.run(INSERT_EVENT, ...values)
    this.#index.build(last, last + 1)
  }

  /** Forgets the index of what was pruned. */
  tidy(): void {
    const [first, last] = [
      sequenceOf(0, this.#state),
      sequenceOf(this.#state.lastSequence, this.#state),
    ]
    const [oldest] = this.#statements.get(OLDEST).get(first, last) as SqliteRow
    this.#index.removeBefore(
      oldest === null ? this.#state.lastSequence : numberOf(oldest as number),
    )
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

  #rangeOf({ after, newestFirst, unbroken }: HistoryQuery): Range {
    const { lastSequence: last, prunedUpTo } = this.#state
    const given = after === undefined ? null : parseReached(after, last)
    if (unbroken === true && given !== null && given < prunedUpTo) {
      throw prunedError(String(given), String(prunedUpTo))
    }
    if (newestFirst === true)
      return { from: 0, to: given === null ? last : given - 1, descending: true }
    return { from: given === null ? 0 : given + 1, to: last, descending: false }
  }

  #candidates({ leaseId, resource, holder }: HistoryQuery, range: Range): Iterable<Row> {
    if (leaseId !== undefined) return this.#ofLease(leaseId, range)
    if (resource !== undefined) return this.#named(`r${pathOf(resource)}`, range)
    return holder === undefined ? this.#inOrder(range) : this.#named(`h${holder}`, range)
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

  *#named(name: string, range: Range): Generator<Row> {
    const { from, to, descending } = range
    // The first event that no run covers.
    const tail = Math.floor((this.#state.lastSequence + 1) / RUN_EVENTS) * RUN_EVENTS
    const inTail = { from: Math.max(from, tail), to, descending }
    if (descending && to >= tail) yield* this.#inOrder(inTail, name)
    const first = Math.floor(from / RUN_EVENTS)
    const last = Math.floor(Math.min(to, tail - 1) / RUN_EVENTS)
    for (let step = 0; step <= last - first; step += 1) {
      const positions = this.#index.search(descending ? last - step : first + step, name)
      for (const position of descending ? positions.toReversed() : positions) {
        if (position < from || position > to) continue
        const row = this.#statements.get(AT).get(sequenceOf(position, this.#state))
        if (row !== undefined) yield this.#rowOf(row as SqliteRow)
      }
    }
    if (!descending && to >= tail) yield* this.#inOrder(inTail, name)
  }

  /** Only what has the name, if there is one: SQLite passes over a row in a tenth of the time that reading it takes. */
  *#inOrder({ from, to, descending }: Range, name: string | null = null): Generator<Row> {
    const [condition, ...values] = name === null ? ['true'] : conditionOf(name)
    const sql = `${BETWEEN} AND ${condition} ORDER BY seq${descending ? ' DESC' : ''} LIMIT ?`
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

/** What narrows a question about ended entries most, as a name in the index; null if nothing does. */
function endedName({ resource, holder, states }: EntryQuery): string | null {
  if (resource !== undefined) return `R${pathOf(resource)}`
  if (holder !== undefined) return `H${holder}`
  const [state, ...others] = states ?? []
  return state === undefined || others.length > 0 ? null : `s${state}`
}

const RUN_EVENTS = 2_048
const BUCKETS = 64
const ENTRY_BYTES = 6

/** What a name in the index means: its first letter, and the condition by which SQL finds the same. */
const CONDITIONS: Readonly<Record<string, string>> = {
  r: 'file_path = ?',
  h: 'agent_id = ?',
  R: 'file_path = ? AND ended_at IS NOT NULL',
  H: 'agent_id = ? AND ended_at IS NOT NULL',
  s: `ifnull(data ->> '$.ended.state', status_after) = ? AND ended_at IS NOT NULL`,
}

/** Of a name in the index: its condition, and the value for that. */
function conditionOf(name: string): readonly [sql: string, value: string] {
  return [CONDITIONS[name[0] ?? ''] ?? 'false', name.slice(1)]
}

/** `ended`: the state in which the event left its entry behind, if it ended it. */
function namesOf(resource: string, holder: string, ended: string | null): readonly string[] {
  const all = [`r${resource}`, `h${holder}`]
  return ended === null ? all : [...all, `R${resource}`, `H${holder}`, `s${ended}`]
}

const READ_RUN = `SELECT seq, file_path, agent_id,
    iif(ended_at IS NULL, NULL, ifnull(data ->> '$.ended.state', status_after))
  FROM lease_history WHERE seq BETWEEN ? AND ?`
const INSERT = 'INSERT INTO history_index VALUES (?, ?, ?)'
const READ_BUCKET = 'SELECT entries FROM history_index WHERE run = ? AND bucket = ?'
const REMOVE = 'DELETE FROM history_index WHERE run >= ? AND run < ?'

type IndexedRow = [sequence: number, resource: string, holder: string, ended: string | null]

/**
 * Finds the events of one resource, holder or ending state in a long ledger, without an index that every write pays for.
 *
 * The ledger is cut into runs of `RUN_EVENTS` positions. When a run is full the store builds its index once, from the
 * events themselves, and appends it to `history_index`: 6 bytes per name, in buckets of which a search reads one per run.
 * The events after the last full run, fewer than `RUN_EVENTS`, have no index yet; a search reads them all. So a write costs
 * nothing, the index is never behind by more than one run, and a search among a million events reads 500 small rows.
 *
 * An index may point to an event that was pruned since, or, where two names share a hash, to one of another name: the
 * store reads the event and compares.
 */
export class HistoryIndex {
  readonly #statements: StatementCache
  readonly #names: RowNames

  constructor(statements: StatementCache, names: RowNames) {
    this.#statements = statements
    this.#names = names
  }

  /** Indexes every run that became full when the ledger grew from one position to another. */
  build(fromPosition: number, toPosition: number): void {
    const end = Math.floor((toPosition + 1) / RUN_EVENTS)
    for (let run = Math.floor((fromPosition + 1) / RUN_EVENTS); run < end; run += 1) {
      this.#buildRun(run)
    }
  }

  /** Positions within a run of what may have the name, from the oldest on. */
  search(run: number, name: string): readonly number[] {
    const hash = hashOf(name)
    const row = this.#statements.get(READ_BUCKET).get(this.#runKey(run), hash % BUCKETS) as
      SqliteRow | undefined
    if (row === undefined) return []
    return offsetsIn(row[0] as Uint8Array, hash).map((offset) => run * RUN_EVENTS + offset)
  }

  /** Forgets the runs of which no event is left. */
  removeBefore(position: number): void {
    this.#statements.run(REMOVE, this.#runKey(0), this.#runKey(Math.floor(position / RUN_EVENTS)))
  }

  #buildRun(run: number): void {
    const first = sequenceOf(run * RUN_EVENTS, this.#names)
    const buckets: number[][] = Array.from({ length: BUCKETS }, () => [])
    const rows = this.#statements.get(READ_RUN).all(first, first + RUN_EVENTS - 1) as IndexedRow[]
    for (const [sequence, resource, holder, ended] of rows) {
      for (const name of namesOf(resource, holder, ended)) {
        const hash = hashOf(name)
        buckets[hash % BUCKETS]?.push(hash, sequence - first)
      }
    }
    for (const [bucket, pairs] of buckets.entries()) {
      if (pairs.length === 0) continue
      this.#statements.run(INSERT, this.#runKey(run), bucket, packed(pairs))
    }
  }

  #runKey(run: number): number {
    return sequenceOf(run * RUN_EVENTS, this.#names) / RUN_EVENTS
  }
}

/** In the order in which they were packed. */
function offsetsIn(entries: Uint8Array, hash: number): readonly number[] {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength)
  const offsets: number[] = []
  for (let at = 0; at + ENTRY_BYTES <= entries.byteLength; at += ENTRY_BYTES) {
    if (view.getUint32(at) === hash) offsets.push(view.getUint16(at + 4))
  }
  return offsets
}

function packed(pairs: readonly number[]): Uint8Array {
  const bytes = new Uint8Array((pairs.length / 2) * ENTRY_BYTES)
  const view = new DataView(bytes.buffer)
  for (let at = 0; at < pairs.length; at += 2) {
    view.setUint32((at / 2) * ENTRY_BYTES, pairs[at] ?? 0)
    view.setUint16((at / 2) * ENTRY_BYTES + 4, pairs[at + 1] ?? 0)
  }
  return bytes
}

/** FNV-1a over UTF-16 units: 32 bits that differ for different names but for one pair in 4 billion. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  return hash >>> 0
}
