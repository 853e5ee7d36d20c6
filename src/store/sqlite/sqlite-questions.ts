/**
 * The half of a SQLite store that only looks: each question is answered from one snapshot, and WAL readers wait for
 * no writer. It stands apart so that a command which only asks need not load, nor prepare, what writes.
 */
import { closedError } from '../../core/errors.ts'
import type { StoreDescription, StoreQuestions } from '../../store-port/store.ts'
import { nowOf } from '../embedded-clock.ts'
import { firstOf, isAboutEnded } from '../query-matching.ts'
import {
  connect,
  refuseReplacedFile,
  retryWhileBusy,
  type SqliteConnection,
  type SqliteStoreOptions,
} from './sqlite-connection.ts'
import type { SqliteHistory } from './sqlite-history.ts'
import { SqliteLive } from './sqlite-live.ts'
import { SqliteState } from './sqlite-state.ts'

export class SqliteQuestions implements StoreQuestions {
  readonly description: StoreDescription
  readonly state: SqliteState
  readonly live: SqliteLive
  readonly #connection: SqliteConnection
  #ledger: SqliteHistory | null = null
  #refusing = false

  static async open(options: SqliteStoreOptions): Promise<SqliteQuestions> {
    return new SqliteQuestions(await connect(options))
  }

  constructor(connection: SqliteConnection) {
    const { url, synchronous } = connection
    this.#connection = connection
    this.state = new SqliteState(connection)
    this.live = new SqliteLive(this.state)
    this.state.load()
    this.description = {
      url,
      clock: `monotonic clock of this host, domain ${connection.domain}`,
      durability:
        synchronous === 'full'
          ? 'every answer is on disk (WAL, synchronous=FULL)'
          : 'the last commits may be lost with power (WAL, synchronous=NORMAL)',
    }
  }

  readonly find: StoreQuestions['find'] = async (query) => {
    const isOfLive = query.ids === undefined && !isAboutEnded(query)
    const place = isOfLive ? this.live : await this.#loadLedger()
    return this.#read(() => {
      const now = nowOf(this.state.peek())
      return { now, ...firstOf(place.find(query, now), query.limit) }
    })
  }

  readonly history: StoreQuestions['history'] = async (query) => {
    const ledger = await this.#loadLedger()
    return this.#read(() => ledger.read(query))
  }

  readonly end: StoreQuestions['end'] = () => {
    return this.#read(() => String(this.state.lastSequence))
  }

  readonly refusals: StoreQuestions['refusals'] = async (query) => {
    const ledger = await this.#loadLedger()
    return this.#read(() => ledger.refusals(query))
  }

  readonly settings: StoreQuestions['settings'] = () => {
    return this.#read(() => this.state.settingRows)
  }

  async #loadLedger(): Promise<SqliteHistory> {
    if (this.#ledger !== null) return this.#ledger
    const { SqliteHistory: History } = await import('./sqlite-history.ts')
    if (this.#refusing) throw closedError()
    this.#ledger ??= new History(this.state, this.live)
    return this.#ledger
  }

  /** Reads inside a snapshot, at once unless another process is recovering the log. */
  async #read<Result>(work: () => Result): Promise<Result> {
    return retryWhileBusy(this.#connection, () => {
      if (this.#refusing) throw closedError()
      refuseReplacedFile(this.#connection)
      const { database } = this.#connection
      database.exec('BEGIN')
      try {
        this.state.load()
        return work()
      } finally {
        if (database.inTransaction) database.exec('COMMIT')
      }
    })
  }

  async close(): Promise<void> {
    if (!this.#refusing) this.#connection.database.close()
    this.#refusing = true
  }

  /** For a store that shares the database and closes it: from now on no question is answered. */
  refuse(): void {
    this.#refusing = true
  }
}
