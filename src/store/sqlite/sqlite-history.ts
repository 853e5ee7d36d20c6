/**
 * What has been: the ledger, and the refusals beside it, inside the caller's transaction. It appends events, reads events and
 * entries that have ended or are asked for by id, and prunes. It stands apart from what is live so that a command which asks
 * for that does not load it. A question about one resource or holder goes by the index of full runs, and through the events
 * after them; any other in order of position.
 */
import { LEASE_EVENT_TYPES, type LeaseEventType } from '../../core/event.ts'
import { endedAtMs, type Entry, type LeaseId } from '../../core/lease.ts'
import { REFUSALS_MAX } from '../../core/limits.ts'
import { decodeEvent, encodeEvent, type RecordBody, type RecordedEvent } from '../../core/record.ts'
import { refusalOf, refusalRow, type CountedRefusal } from '../../core/refusal.ts'
import {
  boundedCut,
  isSuperseded,
  nextPruneClock,
  SUPERSEDED_TYPES,
  type PruneCut,
} from '../../core/retention.ts'
import type { Now, Tick } from '../../core/time.ts'
import { rangeOf, type Range } from '../position.ts'
import type {
  EntryQuery,
  HistoryQuery,
  LedgerEntry,
  PrunePolicy,
  Pruned,
  RefusalQuery,
} from '../../store-port/store.ts'
import { matchesEntry, matchesEvent } from '../query-matching.ts'
import type { SqliteRow, SqliteValue } from '../../drivers/sqlite-driver.ts'
import type { SqliteLive } from './sqlite-live.ts'
import {
  idOf,
  keyOf,
  leaseNumberOf,
  numberOf,
  pathOf,
  resourceOf,
  type RowNames,
  sequenceOf,
  type SqliteState,
  type StatementCache,
  Where,
} from './sqlite-state.ts'

const EVENT_COLUMNS =
  'seq, lease_id, agent_id, file_path, session, event_type, event_at, clock, fence, request_id, data'

export const INSERT_EVENT: string = `INSERT INTO lease_history
  (${EVENT_COLUMNS}, lease_number, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** The seed's words. A refused request is a failed one. */
export function wordOf(type: LeaseEventType): string {
  if (type === 'lease.issued') return 'acquired'
  return type === 'lease.denied' ? 'failed' : type.slice('lease.'.length)
}

const TYPES: ReadonlyMap<string, LeaseEventType> = new Map(
  LEASE_EVENT_TYPES.filter((type) => type !== 'lease.denied').map((type) => [wordOf(type), type]),
)

/** What a word means; `failed` that holds a ticket was a refusal. */
export function typeOf(word: string, body: RecordBody = {}): LeaseEventType {
  const type = TYPES.get(word)
  if (type === undefined) throw new Error(`event ${word} is not known`)
  return type === 'lease.failed' && 'entry' in body ? 'lease.denied' : type
}

/** An acquire is known by the id of its lease, which the row has already; no index need have it twice. */
const OWN_ID = ''

export function eventValues(
  recorded: RecordedEvent,
  { sequence, domain }: { readonly sequence: number; readonly domain: string },
  names: RowNames,
): SqliteValue[] {
  const record = encodeEvent(recorded, domain)
  const { requestId, leaseId } = record
  return [
    sequence,
    keyOf(leaseId, names),
    record.holder,
    pathOf(record.resource),
    record.session,
    wordOf(record.type),
    record.atMs,
    names.generationOf(domain),
    record.fence,
    requestId === null || requestId === leaseId ? requestId && OWN_ID : keyOf(requestId, names),
    JSON.stringify(record.body),
    leaseNumberOf(leaseId),
    recorded.ended === null ? null : endedAtMs(recorded.ended),
  ]
}

function eventOf(row: SqliteRow, names: RowNames): RecordedEvent {
  const body = JSON.parse(row[10] as string) as RecordBody
  const leaseId = idOf(row[1] as string)
  const requestKey = row[9] as string | null
  const requestId = requestKey === OWN_ID ? leaseId : requestKey && idOf(requestKey)
  return decodeEvent(
    {
      leaseId,
      resource: resourceOf(row[3] as string),
      holder: row[2] as string,
      session: row[4] as string,
      type: typeOf(row[5] as string, body),
      atMs: row[6] as number,
      requestId,
      fence: row[8] as number,
      body,
    },
    names.domainOf(row[7] as number),
  )
}

const LAST_OF_LEASE = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ? ORDER BY seq DESC LIMIT 1`
const OF_LEASE = `SELECT ${EVENT_COLUMNS} FROM lease_history
  WHERE lease_number = ? AND lease_id = ? AND seq BETWEEN ? AND ? ORDER BY seq`
const BETWEEN = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq BETWEEN ? AND ?`
const OLDEST = 'SELECT min(seq) FROM lease_history WHERE seq BETWEEN ? AND ?'
const AT = `SELECT ${EVENT_COLUMNS} FROM lease_history WHERE seq = ?`

const DELETE_EVENTS = 'DELETE FROM lease_history WHERE lease_number = ? AND lease_id = ?'
const DELETE_EVENT = 'DELETE FROM lease_history WHERE seq = ?'
const DELETE_REFUSALS = 'DELETE FROM refusals WHERE namespace = ? AND last_at < ?'
const DELETE_REQUESTS = `DELETE FROM requests WHERE id IN (
  SELECT id FROM requests WHERE keep_until < ? LIMIT ?)`
/** An id that failed may have come back: only the last event of a lease tells how it ended. */
const ENDED_BEFORE = `SELECT lease_id, seq FROM lease_history AS old
  WHERE ended_at < ? AND event_at < ? AND ended_at + (data ->> '$.ended.body.ttlMs') < ? AND seq BETWEEN ? AND ?
    AND NOT EXISTS (SELECT 1 FROM lease_history AS later
      WHERE later.lease_number = old.lease_number AND later.lease_id = old.lease_id
        AND later.seq > old.seq)
  LIMIT ?`
const LATER_OF_TYPE = `SELECT 1 FROM lease_history
  WHERE lease_number = ? AND lease_id = ? AND seq > ? AND event_type = ? LIMIT 1`

/** The table of refusals; core/refusal.ts says what it is for. */
const COUNT_REFUSAL = `INSERT INTO refusals
  (namespace, file_path, agent_id, reason, count, last_at, lease_id, detail)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (namespace, file_path, agent_id, reason) DO UPDATE SET
    count = count + excluded.count,
    lease_id = iif(excluded.last_at < last_at, lease_id, excluded.lease_id),
    detail = iif(excluded.last_at < last_at, detail, excluded.detail),
    last_at = max(last_at, excluded.last_at)`

const MAKE_ROOM = `DELETE FROM refusals WHERE id IN (
  SELECT id FROM refusals WHERE namespace = ? ORDER BY last_at DESC LIMIT -1 OFFSET ?)`

/** No question about what has ended depends on the time. */
const NEVER: Tick = { domain: '', us: 0 }

/** Rows read at once while a question goes through them in order. */
const BATCH = 1_000

interface Row extends RecordedEvent {
  readonly position: number
}

export class SqliteHistory {
  readonly #index: HistoryIndex
  readonly #statements: StatementCache
  readonly #state: SqliteState
  readonly #live: SqliteLive

  constructor(state: SqliteState, live: SqliteLive) {
    this.#index = new HistoryIndex(state.statements, state)
    this.#statements = state.statements
    this.#state = state
    this.#live = live
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

  read(query: HistoryQuery): readonly LedgerEntry[] {
    const found: LedgerEntry[] = []
    const { lastSequence, prunedUpTo } = this.#state
    const range = rangeOf(query, lastSequence, prunedUpTo)
    for (const { position, event } of this.#candidates(query, range)) {
      if (!matchesEvent(event, query)) continue
      found.push({ position: String(position), event })
      if (found.length === query.limit) break
    }
    return found
  }

  /** The entry of an id in whatever state; undefined for one of which nothing is kept. */
  entry(id: LeaseId): Entry | undefined {
    const live = this.#live.entry(id)
    if (live !== undefined) return live
    const row = this.#lastOf(id)
    return row === undefined ? undefined : (this.#rowOf(row).ended ?? undefined)
  }

  /** What is asked for by id, or has ended, each with the cursor behind it. */
  find(query: EntryQuery, now: Now): Iterable<readonly [after: string | null, Entry]> {
    return query.ids === undefined ? this.#ended(query) : this.#byIds(query, now)
  }

  *#byIds(query: EntryQuery, now: Now): Generator<readonly [after: null, Entry]> {
    for (const id of new Set(query.ids)) {
      const entry = this.entry(id)
      if (entry !== undefined && matchesEntry(entry, query, now.tick)) yield [null, entry]
    }
  }

  /** In the order of the ends. A cursor is the position of one. */
  *#ended(query: EntryQuery): Generator<readonly [after: string, Entry]> {
    const from = Number(query.after ?? 0) + 1
    const range = { from, to: this.#state.lastSequence, descending: false }
    const name = endedName(query)
    for (const row of name === null ? this.#inOrder(range) : this.#named(name, range)) {
      const { position, ended } = row
      if (ended === null || !matchesEntry(ended, query, NEVER)) continue
      // An id that failed may have come back.
      if (ended.state !== 'failed' || this.#isLast(row)) yield [String(position), ended]
    }
  }

  #isLast({ position, event }: Row): boolean {
    const last = this.#lastOf(event.leaseId)
    return last !== undefined && numberOf(last[0] as number) === position
  }

  #lastOf(id: LeaseId): SqliteRow | undefined {
    return this.#statements.first(LAST_OF_LEASE, ...this.#keysOf(id))
  }

  #candidates({ leaseId, resource, holder }: HistoryQuery, range: Range): Iterable<Row> {
    if (leaseId !== undefined) return this.#ofLease(leaseId, range)
    if (resource !== undefined) return this.#named(`r${pathOf(resource)}`, range)
    return holder === undefined ? this.#inOrder(range) : this.#named(`h${holder}`, range)
  }

  #ofLease(id: LeaseId, range: Range): readonly Row[] {
    const values = [...this.#keysOf(id), ...this.#bounds(range)]
    const rows = this.#statements.all(OF_LEASE, ...values).map((row) => this.#rowOf(row))
    return range.descending ? rows.toReversed() : rows
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
        const row = this.#statements.first(AT, sequenceOf(position, this.#state))
        if (row !== undefined) yield this.#rowOf(row)
      }
    }
    if (!descending && to >= tail) yield* this.#inOrder(inTail, name)
  }

  /** Only what has the name, if there is one: SQLite passes over a row in a tenth of the time that reading it takes. */
  *#inOrder({ from, to, descending }: Range, name: string | null = null): Generator<Row> {
    const [condition, ...values] = name === null ? ['true'] : conditionOf(name)
    const sql = `${BETWEEN} AND ${condition} ORDER BY seq${descending ? ' DESC' : ''} LIMIT ?`
    let [low, high] = [from, to]
    while (low <= high) {
      const bounds = this.#bounds({ from: low, to: high })
      const rows = this.#statements.all(sql, ...bounds, ...values, BATCH)
      for (const row of rows) yield this.#rowOf(row)
      const last = rows.at(-1)
      if (last === undefined || rows.length < BATCH) return
      if (descending) high = numberOf(last[0] as number) - 1
      else low = numberOf(last[0] as number) + 1
    }
  }

  /** All events of a lease; tells how many they were. */
  forget(id: LeaseId): number {
    return this.#statements.run(DELETE_EVENTS, ...this.#keysOf(id))
  }

  /** History goes with its lease, so that what is left always folds. */
  prune({ batch, ...asked }: PrunePolicy): Pruned {
    this.#state.pruneClock = nextPruneClock(this.#state.pruneClock, asked.nowMs)
    const cut = boundedCut(asked, this.#state.pruneClock)
    const { leases, events } = this.#pruneLeases(cut, batch)
    // This one goes through all that is old: with what has ended still among it, each batch would take as long as the whole.
    const superseded = leases === batch ? 0 : this.#pruneSuperseded(cut, batch)
    const requests = this.#statements.run(DELETE_REQUESTS, cut.nowMs, batch)
    this.#statements.run(DELETE_REFUSALS, this.#state.namespace, cut.endedBeforeMs)
    const oldest = this.#statements.first(OLDEST, ...this.#bounds())?.[0] ?? null
    const { lastSequence } = this.#state
    this.#index.removeBefore(oldest === null ? lastSequence : numberOf(oldest as number))
    const more = [leases, superseded, requests].includes(batch)
    return { leases, events: events + superseded, more }
  }

  /** `mayBePruned` of retention.ts, as SQL. */
  #pruneLeases({ endedBeforeMs, nowMs }: PruneCut, batch: number): Omit<Pruned, 'more'> {
    const values = [endedBeforeMs, endedBeforeMs, nowMs, ...this.#bounds(), batch]
    const rows = this.#statements.all<readonly [string, number]>(ENDED_BEFORE, ...values)
    let events = 0
    for (const [key, sequence] of rows) {
      events += this.forget(idOf(key) as LeaseId)
      this.#state.prunedUpTo = Math.max(this.#state.prunedUpTo, numberOf(sequence))
    }
    return { leases: rows.length, events }
  }

  /**
   * Old renewals and advances of a lease say nothing once a later one is kept. Wall times of the ledger hardly ever go back,
   * so the first event that is too young ends the search.
   */
  #pruneSuperseded(cut: PruneCut, batch: number): number {
    let superseded = 0
    for (const { position, event } of this.#inOrder(this.#all())) {
      if (superseded === batch || event.atMs >= cut.endedBeforeMs) break
      if (!SUPERSEDED_TYPES.includes(event.type)) continue
      const { leaseId, type } = event
      if (!isSuperseded(event, this.#live.entry(leaseId)?.ttlMs ?? null, cut)) continue
      const sequence = sequenceOf(position, this.#state)
      const later = [...this.#keysOf(leaseId), sequence, wordOf(type)]
      if (this.#statements.first(LATER_OF_TYPE, ...later) === undefined) continue
      superseded += this.#statements.run(DELETE_EVENT, sequence)
    }
    return superseded
  }

  #all(): Range {
    return { from: 0, to: this.#state.lastSequence, descending: false }
  }

  #bounds({ from, to }: Omit<Range, 'descending'> = this.#all()): readonly [number, number] {
    return [sequenceOf(from, this.#state), sequenceOf(to, this.#state)]
  }

  /** What the events of a lease are found by. */
  #keysOf(id: LeaseId): readonly [number, string] {
    return [leaseNumberOf(id), keyOf(id, this.#state)]
  }

  /** At most `REFUSALS_MAX` rows of them are kept. */
  countRefusals(refusals: readonly CountedRefusal[]): void {
    const { namespace } = this.#state
    for (const { resource, holder, reason, count, ...last } of refusals.map(refusalRow)) {
      const key = [namespace, pathOf(resource), holder, reason]
      const values = [count, last.lastAtMs, last.leaseId, JSON.stringify(last.detail)]
      this.#statements.run(COUNT_REFUSAL, ...key, ...values)
    }
    this.#statements.run(MAKE_ROOM, namespace, REFUSALS_MAX)
  }

  refusals(query: RefusalQuery): readonly CountedRefusal[] {
    const { leaseId, resource, holder, fromMs, toMs, newestFirst, limit } = query
    const where = new Where('namespace = ?', [this.#state.namespace])
    if (leaseId !== undefined) where.and('lease_id = ?', leaseId)
    if (resource !== undefined) where.and('file_path = ?', pathOf(resource))
    if (holder !== undefined) where.and('agent_id = ?', holder)
    if (fromMs !== undefined) where.and('last_at >= ?', fromMs)
    if (toMs !== undefined) where.and('last_at <= ?', toMs)
    const order = newestFirst === true ? 'DESC' : 'ASC'
    const sql = `SELECT file_path, agent_id, reason, count, last_at, lease_id, detail FROM refusals
      WHERE ${where.sql}
      ORDER BY last_at ${order}, lease_id ${order}, reason ${order}, agent_id ${order} LIMIT ?`
    return this.#statements.all(sql, ...where.values, limit).map(countedOf)
  }

  #rowOf(row: SqliteRow): Row {
    const { event, ended } = eventOf(row, this.#state)
    return { position: numberOf(row[0] as number), event, ended }
  }
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

type IndexedRow = readonly [seq: number, resource: string, holder: string, ended: string | null]

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
    const row = this.#statements.first(READ_BUCKET, this.#runKey(run), hash % BUCKETS)
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
    const rows = this.#statements.all<IndexedRow>(READ_RUN, first, first + RUN_EVENTS - 1)
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
