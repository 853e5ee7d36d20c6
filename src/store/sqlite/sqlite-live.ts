/**
 * What is live: entries as rows of `live_leases`, found by name, state, deadline or reach, and written. Everything runs
 * inside the caller's transaction, so that what is read together belongs together. Every question of the hot path is one
 * look into one index.
 */
import type { EntryChange } from '../../core/commit.ts'
import {
  isLive,
  liveDeadline,
  type Entry,
  type EntryState,
  type LeaseId,
} from '../../core/lease.ts'
import { decodeEntry, encodeEntry, type RecordBody } from '../../core/record.ts'
import { ancestorsOf, isTree, type Extent, type Reach } from '../../core/resource.ts'
import type { Now } from '../../core/time.ts'
import type { EntryQuery } from '../../store-port/store.ts'
import type { SqliteRow, SqliteValue } from '../../drivers/sqlite-driver.ts'
import {
  idOf,
  keyOf,
  pathOf,
  resourceOf,
  type RowNames,
  type SqliteState,
  Where,
} from './sqlite-state.ts'

const COLUMNS =
  'id, file_path, agent_id, session, status, extent, fence, clock, live_until_us, body'

export const INSERT_ENTRY: string = `INSERT INTO live_leases (${COLUMNS}, due_us, namespace)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** For a new entry, and for whatever changes one: anything but its id, resource and namespace may differ. */
const PUT_ENTRY = `${INSERT_ENTRY} ON CONFLICT (id) DO UPDATE SET agent_id = excluded.agent_id,
  session = excluded.session, status = excluded.status, extent = excluded.extent,
  fence = excluded.fence, clock = excluded.clock, live_until_us = excluded.live_until_us,
  body = excluded.body, due_us = excluded.due_us`

const DELETE_ENTRY = 'DELETE FROM live_leases WHERE id = ?'
const BY_ID = `SELECT ${COLUMNS} FROM live_leases WHERE id = ?`
const LIVE_AT = `SELECT ${COLUMNS} FROM live_leases WHERE file_path = ? AND namespace = ?`
const BELOW = `SELECT ${COLUMNS} FROM live_leases
  WHERE file_path > ? AND file_path < ? AND namespace = ?`
/** Left to itself the planner may walk all that is live when there is no subtree among it. */
const ABOVE = `SELECT ${COLUMNS} FROM live_leases INDEXED BY idx_live_subtree
  WHERE file_path IN (SELECT value FROM json_each(?)) AND extent = 'subtree' AND namespace = ?`
/** Of files, which are one realm. Left to itself the planner counts among all that is live. */
const COUNT_TICKETS = `SELECT count(*) FROM live_leases INDEXED BY idx_live_pending
  WHERE status = 'pending' AND file_path >= '/' AND file_path < '0'
    AND namespace = ? AND clock = ? AND live_until_us > ?`

export class SqliteLive {
  readonly #state: SqliteState

  constructor(state: SqliteState) {
    this.#state = state
  }

  entry(id: LeaseId): Entry | undefined {
    const row = this.#state.statements.first(BY_ID, keyOf(id, this.#state))
    return row && entryOf(row, this.#state)
  }

  /** What a question about what is live finds, each with the cursor behind it. */
  *find(query: EntryQuery, now: Now): Generator<readonly [after: string | null, Entry]> {
    if (query.overlapping === undefined) return yield* this.#inOrder(query, now)
    for (const entry of this.overlapping(query.overlapping)) yield [null, entry]
  }

  /** In order of creation; one more than the limit, if there is one. */
  *#inOrder(query: EntryQuery, now: Now): Generator<readonly [after: string, Entry]> {
    const where = new Where('namespace = ?', [this.#state.namespace])
    if (query.resource !== undefined) where.and('file_path = ?', pathOf(query.resource))
    if (query.holder !== undefined) where.and('agent_id = ?', query.holder)
    if (query.session !== undefined) where.and('session = ?', query.session)
    if (query.states !== undefined) {
      const [first, ...others] = query.states.map((state) => `'${state}'`)
      where.and(
        others.length === 0 ? `status = ${first}` : `status IN (${[first, ...others].join(', ')})`,
      )
    }
    this.#addDeadline(where, query, now)
    // The sign keeps the planner from walking the whole table just because it is in the right order.
    const order = isNarrow(query) ? '+number' : 'number'
    if (query.after !== undefined) where.and(`${order} > ?`, Number(query.after))
    const sql = `SELECT ${COLUMNS}, number FROM live_leases WHERE ${where.sql}
      ORDER BY ${order} LIMIT ?`
    for (const row of this.#state.statements.all(sql, ...where.values, query.limit + 1)) {
      yield [String(row.at(-1)), entryOf(row, this.#state)]
    }
  }

  /** Ticks of an earlier clock have always passed. Where no name narrows the question, it starts from the deadlines. */
  #addDeadline(where: Where, query: EntryQuery, now: Now): void {
    if (query.deadline === undefined) return
    const generation = this.#state.ownGenerationOf(now.tick.domain)
    if (query.deadline === 'running') {
      where.and('+clock = ? AND live_until_us > ?', generation, now.tick.us)
    } else if (isNarrow(query) || query.states !== undefined) {
      where.and('(+clock < ? OR live_until_us <= ?)', generation, now.tick.us)
    } else {
      const most = query.limit + 1
      where.and(
        `number IN (
          SELECT number FROM (SELECT number FROM live_leases
            WHERE clock = ? AND due_us <= ? AND live_until_us <= ? LIMIT ?)
          UNION ALL
          SELECT number FROM (SELECT number FROM live_leases WHERE clock < ? LIMIT ?))`,
        ...[generation, now.tick.us, now.tick.us, most, generation, most],
      )
    }
  }

  /** All that is live and touches the reach. */
  overlapping({ resource, extent }: Reach): readonly Entry[] {
    const path = pathOf(resource)
    const rows = this.#rows(LIVE_AT, path)
    if (isTree(resource)) {
      // The names between `path/` and `path0`, `0` being next after `/`.
      const stem = path === '/' ? '' : path
      if (extent === 'subtree') rows.push(...this.#rows(BELOW, `${stem}/`, `${stem}0`))
      rows.push(...this.#rows(ABOVE, JSON.stringify(ancestorsOf(resource).map(pathOf))))
    }
    return rows.map((row) => entryOf(row, this.#state))
  }

  #rows(sql: string, ...names: readonly string[]): SqliteRow[] {
    return this.#state.statements.all(sql, ...names, this.#state.namespace)
  }

  /** Of the realm of files. */
  countTickets({ tick }: Now): number {
    const { namespace, statements } = this.#state
    const generation = this.#state.ownGenerationOf(tick.domain)
    return Number(statements.first(COUNT_TICKETS, namespace, generation, tick.us)?.[0])
  }

  put({ id, before, after }: EntryChange): void {
    const { statements } = this.#state
    if (after !== null && isLive(after)) {
      statements.run(PUT_ENTRY, ...entryValues(after, this.#state))
    } else if (before !== undefined && isLive(before)) {
      statements.run(DELETE_ENTRY, keyOf(id, this.#state))
    }
  }
}

/** Whether a name makes the answer small, however many leases there are. */
function isNarrow({ resource, holder, session }: EntryQuery): boolean {
  return [resource, holder, session].some((name) => name !== undefined)
}

/** In the order of `INSERT_ENTRY`. `due_us`, by which deadlines are found, may be earlier in rows of older releases. */
export function entryValues(entry: Entry, names: RowNames): SqliteValue[] {
  const live = liveDeadline(entry)
  if (live === null) throw new Error(`entry ${entry.id} has ended, and is no part of what is live`)
  const { domain, us } = live
  const record = encodeEntry(entry, domain)
  return [
    keyOf(entry.id, names),
    pathOf(entry.resource),
    entry.holder,
    entry.session,
    entry.state,
    entry.extent,
    record.fence,
    names.generationOf(domain),
    us,
    JSON.stringify(record.body),
    us,
    names.namespace,
  ]
}

function entryOf(row: SqliteRow, names: RowNames): Entry {
  const domain = names.domainOf(row[7] as number)
  return decodeEntry(
    {
      id: idOf(row[0] as string),
      resource: resourceOf(row[1] as string),
      holder: row[2] as string,
      session: row[3] as string,
      state: row[4] as EntryState,
      extent: row[5] as Extent,
      fence: row[6] as number,
      liveUntil: { domain, us: row[8] as number },
      body: JSON.parse(row[9] as string) as RecordBody,
    },
    domain,
  )
}
