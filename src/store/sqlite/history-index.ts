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
import type { SqliteRow } from '../../drivers/sqlite-driver.ts'
import { sequenceOf, type RowNames } from './sqlite-columns.ts'
import type { StatementCache } from './sqlite-state.ts'

export const RUN_EVENTS = 2_048
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
export function conditionOf(name: string): readonly [sql: string, value: string] {
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
