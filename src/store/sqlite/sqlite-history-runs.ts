/** The index of the ledger's full runs (history-index.ts), kept in `history_index`. */
import type { EntryState } from '../../core/lease.ts'
import { bucketOf, buildIndex, RUN_EVENTS, searchBucket, type IndexName } from '../history-index.ts'
import type { SqliteRow, StatementCache } from '../../drivers/sqlite-driver.ts'
import { sequenceOf, type RowNames } from './sqlite-columns.ts'

const READ_RUN = `SELECT seq, file_path, agent_id,
    iif(ended_at IS NULL, NULL, ifnull(data ->> '$.ended.state', status_after))
  FROM lease_history WHERE seq BETWEEN ? AND ?`

const INSERT = 'INSERT INTO history_index VALUES (?, ?, ?)'
const READ_BUCKET = 'SELECT entries FROM history_index WHERE run = ? AND bucket = ?'
const REMOVE = 'DELETE FROM history_index WHERE run >= ? AND run < ?'

export class HistoryRuns {
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

  /** The position of the first event that no run covers, when the ledger has come to `lastPosition`. */
  tailFrom(lastPosition: number): number {
    return Math.floor((lastPosition + 1) / RUN_EVENTS) * RUN_EVENTS
  }

  /** Positions within a run of what may have the name, from the oldest on. */
  search(run: number, name: IndexName): readonly number[] {
    const row = this.#statements.get(READ_BUCKET).get(this.#runKey(run), bucketOf(name)) as
      SqliteRow | undefined
    if (row === undefined) return []
    const first = run * RUN_EVENTS
    return searchBucket(row[0] as Uint8Array, name).map((offset) => first + offset)
  }

  /** Forgets the runs of which no event is left. */
  removeBefore(position: number): void {
    this.#statements.run(REMOVE, this.#runKey(0), this.#runKey(Math.floor(position / RUN_EVENTS)))
  }

  #buildRun(run: number): void {
    const first = sequenceOf(run * RUN_EVENTS, this.#names)
    const rows = this.#statements.get(READ_RUN).all(first, first + RUN_EVENTS - 1) as SqliteRow[]
    const events = rows.map(([sequence, resource, holder, ended]) => ({
      offset: (sequence as number) - first,
      resource: resource as string,
      holder: holder as string,
      ended: ended as EntryState | null,
    }))
    for (const { bucket, entries } of buildIndex(events)) {
      this.#statements.run(INSERT, this.#runKey(run), bucket, entries)
    }
  }

  #runKey(run: number): number {
    return sequenceOf(run * RUN_EVENTS, this.#names) / RUN_EVENTS
  }
}
