/**
 * Keeps realms in one SQLite file, for any number of processes on one host.
 *
 * Every decision is made inside a write transaction (`BEGIN IMMEDIATE`), so none ever misses. What is in flight in a
 * process at the same moment shares one transaction and one sync to disk; a lone caller waits for no other. A database
 * that another process is writing to is tried again asynchronously: the event loop never waits for it. At the end is what
 * `tenure doctor` looks at.
 */
import { setImmediate, systemRuntime } from '../../runtime/system-runtime.ts'
import { recordedEvents, type Commit, type EntryChange } from '../../core/commit.ts'
import { closedError, isLeaseError, LeaseError, show } from '../../core/errors.ts'
import { LEASE_EVENT_TYPES } from '../../core/event.ts'
import type { ReadSet, Wake, PriorEffect, RealmView } from '../../core/realm.ts'
import { pause } from '../../runtime/pause.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type { Checkup, Decide, Store, StoreDescription } from '../../store-port/store.ts'
import { nowOf } from '../embedded-clock.ts'
import {
  isBusy,
  loadSqlite,
  rollBack,
  sqliteError,
  type SqliteDatabase,
} from '../../drivers/sqlite-driver.ts'
import {
  busyPauseMs,
  connect,
  refuseReplacedFile,
  type SqliteConnection,
  type SqliteStoreOptions,
} from './sqlite-connection.ts'
import { urgentFirst } from '../urgent-first.ts'
import { SqliteHistory, typeOf, wordOf } from './sqlite-history.ts'
import { SqliteListeners, WakeFiles } from './sqlite-listeners.ts'
import { SqliteQuestions } from './sqlite-questions.ts'
import { idOf, keyOf, leaseNumberOf, type SqliteState, StatementCache } from './sqlite-state.ts'
import { ENTRY_STATES, isLive, isWaiting, type Entry, type LeaseId } from '../../core/lease.ts'
import { TTL_MS_MAX } from '../../core/limits.ts'
import type { RecordBody } from '../../core/record.ts'
import { hasEpoch, isTree, type Resource } from '../../core/resource.ts'
import {
  parseSettingKey,
  parseSettingValue,
  resolveSettings,
  SETTING_SCOPES,
} from '../../core/settings.ts'
import type { Now } from '../../core/time.ts'
import type { SqliteLive } from './sqlite-live.ts'

const GROUP_MAX = 1_000
/** A transaction that has taken this long takes no further job: other processes and this one have more to do. */
const GROUP_MS_MAX = 100
/**
 * After such a transaction the database is left to others for a moment. They look for it now and then, so a process that
 * has always more to write and begins again at once would keep them out until they give up.
 */
const LEFT_TO_OTHERS_MS = 10

/** A piece of work for the next transaction, and its caller, who hears the answer after the commit and not before. */
interface GroupJob {
  readonly readSets: readonly ReadSet[]
  readonly sinceMs: number
  /**
   * Runs inside the transaction, and again after a rollback. Returns what tells the caller. Throws only what ends the whole
   * transaction.
   */
  run(): () => void
  failed(error: unknown): void
}

export class SqliteStore implements Store {
  readonly description: StoreDescription
  readonly #connection: SqliteConnection
  readonly #database: SqliteDatabase
  readonly #runtime: Runtime
  readonly #questions: SqliteQuestions
  readonly #state: SqliteState
  readonly #ledger: SqliteHistory
  readonly #realms: SqliteRealms
  readonly #listeners: SqliteListeners
  #queue: GroupJob[] = []
  /** Until the queue is empty. */
  #working: Promise<void> | null = null
  #busyTries = 0
  /** One bad apple must not spoil a group: after a failure each of it is tried on its own. So many are left of it. */
  #apart = 0
  /** When the last transaction ended. */
  #ranAtMs = -Infinity
  #wakes: Wake[] = []
  #closing: Promise<void> | null = null

  static async open(options: SqliteStoreOptions): Promise<SqliteStore> {
    return new SqliteStore(await connect(options))
  }

  private constructor(connection: SqliteConnection) {
    const { database, runtime } = connection
    this.#connection = connection
    this.#database = database
    this.#runtime = runtime
    this.#questions = new SqliteQuestions(connection)
    const { state, live } = this.#questions
    this.#state = state
    this.#ledger = new SqliteHistory(state, live)
    this.#realms = new SqliteRealms(state, live, this.#ledger)
    this.#listeners = new SqliteListeners(connection)
    this.description = this.#questions.description
  }

  transact<Outcome>(readSets: readonly ReadSet[], decide: Decide<Outcome>): Promise<Outcome> {
    return this.#enqueue(readSets, () => {
      const clock = this.#state.tick()
      const now = nowOf(clock)
      const views = readSets.map((readSet) => this.#realms.view(readSet, now))
      const { commit, outcome } = decide(views, now)
      this.#realms.apply(commit, clock.domain)
      this.#wakes.push(...commit.wakes)
      return outcome
    })
  }

  readonly find: Store['find'] = (query) => this.#questions.find(query)
  readonly history: Store['history'] = (query) => this.#questions.history(query)
  readonly end: Store['end'] = () => this.#questions.end()
  readonly refusals: Store['refusals'] = (query) => this.#questions.refusals(query)
  readonly settings: Store['settings'] = () => this.#questions.settings()

  readonly countRefusals: Store['countRefusals'] = (refusals) => {
    return this.#enqueue([], () => this.#ledger.countRefusals(refusals))
  }

  readonly configure: Store['configure'] = (change) => {
    return this.#enqueue([], () => this.#state.configure(change))
  }

  readonly prune: Store['prune'] = (policy) => {
    this.#listeners.removeStale()
    return this.#enqueue([], () => this.#ledger.prune(policy))
  }

  readonly subscribe: Store['subscribe'] = async (session, listener) => {
    if (this.#closing !== null) throw closedError()
    return this.#listeners.subscribe(session, listener)
  }

  readonly follow: Store['follow'] = (listener) => this.#listeners.follow(listener)

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#questions.refuse()
    await this.#working
    this.#listeners.close()
    this.#database.close()
  }

  #enqueue<Result>(readSets: readonly ReadSet[], work: () => Result): Promise<Result> {
    if (this.#closing !== null) return Promise.reject(closedError())
    return new Promise<Result>((resolve, reject) => {
      const run = (): (() => void) => {
        const { writes } = this.#state.statements
        try {
          const result = work()
          return () => resolve(result)
        } catch (error) {
          // Half of what was to be written may be there, and must go.
          if (this.#state.statements.writes > writes || isDatabaseError(error)) throw error
          return () => reject(error)
        }
      }
      const sinceMs = this.#runtime.monotonicMs()
      this.#queue.push({ readSets, sinceMs, run, failed: reject })
      this.#working ??= this.#work()
    })
  }

  /** What is asked for in one turn goes together; once some was left behind, the most urgent goes first. */
  async #work(): Promise<void> {
    let pauseMs = 0
    for (let isBehind = false; this.#queue.length > 0; isBehind = true) {
      if (pauseMs > 0) await pause(this.#runtime, pauseMs, { keepAlive: true })
      else await new Promise<void>((resolve) => void setImmediate(resolve))
      if (isBehind) this.#queue = urgentFirst(this.#queue)
      pauseMs = this.#flush()
    }
    this.#working = null
  }

  /** Says for how long the database is then left to others. */
  #flush(): number {
    const group = this.#queue.slice(0, this.#apart > 0 ? 1 : GROUP_MAX)
    try {
      refuseReplacedFile(this.#connection)
      this.#database.exec('BEGIN IMMEDIATE')
    } catch (error) {
      if (isBusy(error)) return this.#waitForOthers()
      return this.#fail(group.length, sqliteError(error, this.description.url))
    }
    this.#busyTries = 0
    this.#apart = Math.max(0, this.#apart - 1)
    return this.#runGroup(group)
  }

  /**
   * Nothing was read or written yet: calls that have waited long enough for others fail, the rest try again. While this
   * process itself had the database, its calls waited for each other.
   */
  #waitForOthers(): number {
    const busySinceMs = this.#runtime.monotonicMs() - this.#connection.busyMs
    const isTired = ({ sinceMs }: GroupJob): boolean => {
      return Math.max(sinceMs, this.#ranAtMs) < busySinceMs
    }
    for (const job of this.#queue.filter(isTired)) job.failed(this.#busyError())
    this.#queue = this.#queue.filter((job) => !isTired(job))
    this.#busyTries += 1
    return busyPauseMs(this.#runtime, this.#busyTries)
  }

  #runGroup(group: readonly GroupJob[]): number {
    const { statements } = this.#state
    this.#wakes = []
    let committing = false
    let answers: readonly (() => void)[]
    try {
      this.#realms.begin()
      answers = this.#runJobs(group)
      const hasWritten = statements.writes > 0
      if (hasWritten) this.#state.save()
      committing = true
      this.#database.exec(hasWritten ? 'COMMIT' : 'ROLLBACK')
    } catch (error) {
      this.#rollBack()
      const mapped = sqliteError(error, this.description.url, committing)
      // Whether a COMMIT that failed has happened is not for a second try to guess.
      const inDoubt = isLeaseError(mapped) && mapped.effect === 'unknown'
      if (group.length === 1 || inDoubt) return this.#fail(group.length, mapped)
      this.#apart = group.length
      return 0
    }
    if (statements.writes > 0) this.#listeners.announce(this.#wakes)
    this.#queue.splice(0, answers.length)
    this.#ranAtMs = this.#runtime.monotonicMs()
    for (const answer of answers) answer()
    return answers.length < group.length ? LEFT_TO_OTHERS_MS : 0
  }

  /** Those that were run before the time was over have an answer. */
  #runJobs(group: readonly GroupJob[]): readonly (() => void)[] {
    const untilMs = this.#runtime.monotonicMs() + GROUP_MS_MAX
    const answers: (() => void)[] = []
    for (const job of group) {
      answers.push(job.run())
      if (this.#runtime.monotonicMs() >= untilMs) break
    }
    return answers
  }

  /** The first of the queue. */
  #fail(count: number, error: unknown): number {
    for (const job of this.#queue.splice(0, count)) job.failed(error)
    return 0
  }

  #rollBack(): void {
    this.#state.reset()
    this.#realms.forget()
    rollBack(this.#database, 'store/sqlite/rollback')
  }

  #busyError(): LeaseError {
    const { url } = this.description
    const { busyMs } = this.#connection
    const message = `${url} was busy for more than ${busyMs} ms`
    return new LeaseError('STORE_UNAVAILABLE', message, { details: { store: url, busyMs } })
  }
}

function isDatabaseError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && !(error instanceof LeaseError)
}

/** What a request id has done, in one question: in the ledger under its own name or that of its lease, or by a mark. */
const PRIOR = `SELECT lease_id, event_type, data FROM lease_history
    WHERE request_id = ? AND request_id > ''
  UNION ALL SELECT lease_id, event_type, data FROM lease_history
    WHERE lease_number = ? AND lease_id = ? AND request_id = ''
  UNION ALL SELECT lease_id, event_type, '{}' FROM requests WHERE id = ? LIMIT 1`
const EPOCH_OF = 'SELECT epoch FROM epochs WHERE namespace = ? AND resource = ?'
const PUT_EPOCH = 'INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)'
const INSERT_REQUEST = 'INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)'

const RESOURCES_MAX = 20_000

/**
 * Reads the views that decisions are made on, and writes what was decided. Everything runs inside the caller's write
 * transaction, so that what is read together belongs together and is still true when it is written back.
 *
 * The live entries of recently used resources are remembered, because each of a thousand tickets in one queue is decided on
 * all the others (0.9 s of processor instead of 14), while `data_version` says that no other connection has committed since:
 * then what this connection saw and wrote is all there is.
 */
class SqliteRealms {
  readonly #state: SqliteState
  readonly #live: SqliteLive
  readonly #ledger: SqliteHistory
  readonly #known = new Map<Resource, Map<LeaseId, Entry>>()
  #dataVersion: unknown = null

  constructor(state: SqliteState, live: SqliteLive, ledger: SqliteHistory) {
    this.#state = state
    this.#live = live
    this.#ledger = ledger
  }

  /** To be called inside each write transaction before its first view. */
  begin(): void {
    this.#state.load()
    const version = this.#state.statements.first('PRAGMA data_version')?.[0]
    if (version !== this.#dataVersion) this.forget()
    this.#dataVersion = version
  }

  /** After a rollback nothing that was noted is true. */
  forget(): void {
    this.#known.clear()
  }

  /** `domain` is the clock by which the commit was decided. */
  apply(commit: Commit, domain: string): void {
    const { statements, namespace } = this.#state
    for (const change of commit.changes) this.#put(change)
    for (const recorded of recordedEvents(commit)) this.#ledger.append(recorded, domain)
    for (const { requestId, leaseId, type, keepUntilMs } of commit.requests) {
      const keys = [keyOf(requestId, this.#state), keyOf(leaseId, this.#state)]
      statements.run(INSERT_REQUEST, ...keys, wordOf(type), keepUntilMs)
    }
    for (const { resource, epoch } of commit.epochs) {
      statements.run(PUT_EPOCH, namespace, resource, epoch)
    }
    this.#state.lastFence = Math.max(this.#state.lastFence, commit.lastFence)
  }

  #put(change: EntryChange): void {
    const { id, before, after } = change
    this.#live.put(change)
    if (after === null && before !== undefined) this.#ledger.forget(id)
    const entry = after ?? before
    const known = entry === undefined ? undefined : this.#known.get(entry.resource)
    if (after !== null && isLive(after)) known?.set(id, after)
    else known?.delete(id)
  }

  view(readSet: ReadSet, now: Now): RealmView {
    const { resource, leaseId, requestId } = readSet
    const entries = this.#claims(readSet)
    const ticketCount = readSet.depth === 'claims' ? this.#countTickets(resource, entries, now) : 0
    const prior = requestId === null ? null : this.#prior(requestId)
    for (const id of prior === null ? [leaseId] : [leaseId, prior.leaseId]) {
      const entry = entries.get(id) ?? this.#ledger.entry(id)
      if (entry !== undefined) entries.set(id, entry)
    }
    const { settingRows, lastFence } = this.#state
    const settings = resolveSettings(settingRows, resource)
    const epoch = hasEpoch(resource) ? this.#epochOf(resource) : 0
    return { entries, lastFence, ticketCount, prior, settings, epoch }
  }

  /** Changed by the caller. */
  #claims(readSet: ReadSet): Map<LeaseId, Entry> {
    const { resource, depth } = readSet
    if (depth === 'entry') return new Map()
    const known = this.#known.get(resource)
    if (known !== undefined) return new Map(known)
    const entries = this.#live.overlapping(readSet).map((entry) => [entry.id, entry] as const)
    if (isTree(resource)) return new Map(entries)
    if (this.#known.size >= RESOURCES_MAX) this.#known.clear()
    this.#known.set(resource, new Map(entries))
    return new Map(entries)
  }

  #countTickets(resource: Resource, claims: ReadonlyMap<LeaseId, Entry>, now: Now): number {
    if (isTree(resource)) return this.#live.countTickets(now)
    let count = 0
    for (const entry of claims.values()) count += Number(isWaiting(entry, now))
    return count
  }

  #epochOf(resource: Resource): number {
    const { namespace, statements } = this.#state
    return Number(statements.first(EPOCH_OF, namespace, resource)?.[0] ?? 0)
  }

  #prior(requestId: string): PriorEffect | null {
    const { statements } = this.#state
    const key = keyOf(requestId, this.#state)
    const row = statements.first(PRIOR, key, leaseNumberOf(requestId), key, key)
    if (row === undefined) return null
    const [leaseKey, word, data] = row as readonly [string, string, string]
    return { leaseId: idOf(leaseKey), type: typeOf(word, JSON.parse(data) as RecordBody) }
  }
}

/** Long enough for any honest writer to finish, short enough for a person who waits for the answer. */
const CHECKUP_BUSY_MS = 1_000

/**
 * What `tenure doctor` looks at beyond opening the store, in all namespaces: whether the file can be written to, its pages, its
 * version, its rows, told a row and a column at a time as a person with `sqlite3` sees them, and whether wake files work beside it,
 * of which a host can watch only so many. Nothing is changed: the one write is rolled back.
 */
export async function openSqliteCheckup(file: string): Promise<Checkup> {
  const Driver = await loadSqlite()
  const database = new Driver(file, { timeout: CHECKUP_BUSY_MS })
  return {
    looks: [
      { name: 'writing', look: async () => tryToWrite(database) },
      { name: 'integrity', look: async () => tellIntegrity(database) },
      { name: 'schema', look: async () => tellVersion(database) },
      { name: 'wake-ups', look: () => tryWakeFiles(file) },
      { name: 'rows', look: async () => tellRows(database) },
    ],
    close: async () => void database.close(),
  }
}

function tryToWrite(database: SqliteDatabase): string {
  database.exec('BEGIN IMMEDIATE')
  try {
    database.exec('UPDATE store_state SET last_seq = last_seq')
  } finally {
    if (database.inTransaction) database.exec('ROLLBACK')
  }
  return 'a transaction can be begun and written to'
}

function tellIntegrity(database: SqliteDatabase): string {
  const found = new StatementCache(database).all('PRAGMA quick_check(5)').join('; ')
  if (found !== 'ok') throw new Error(found)
  return 'quick_check found nothing'
}

function tellVersion(database: SqliteDatabase): string {
  const sql = "SELECT max(version) FROM migrations WHERE status = 'success'"
  return `version ${String(new StatementCache(database).first(sql))}`
}

/** Rows that cannot be what this program wrote: edited by hand, half restored, or damaged. One line for each thing that is wrong. */
function tellRows(database: SqliteDatabase): string {
  const all = [
    ...LIVE_RULES.flatMap((rule) => brokenBy(database, 'live_leases', rule)),
    ...EVENT_RULES.flatMap((rule) => brokenBy(database, 'lease_history', rule)),
    ...brokenSettings(database),
  ]
  if (all.length > 0) throw new Error(all.join('\n'))
  return 'every row can be read'
}

/** More lines than this say no more than that something went over the table. */
const ROWS_TOLD_MAX = 5

const quoted = (words: readonly string[]): string => words.map((word) => `'${word}'`).join(', ')

/** A column, what it must be, and SQL that is true of a row whose `value` there is not that. */
type ColumnRule = readonly [column: string, expectation: string, isWrong: string]

const LIVE_RULES: readonly ColumnRule[] = [
  ['status', `one of ${ENTRY_STATES.join(', ')}`, `value NOT IN (${quoted(ENTRY_STATES)})`],
  ['extent', 'exact or subtree', `value NOT IN ('exact', 'subtree')`],
  [
    'file_path',
    'an absolute path or kind:name',
    `value NOT GLOB '/*' AND value NOT GLOB '[a-z]*:?*'`,
  ],
  ['agent_id', '1..128 bytes', 'length(CAST(value AS BLOB)) NOT BETWEEN 1 AND 128'],
  ['fence', 'an integer', `typeof(value) <> 'integer'`],
  ['live_until_us', 'an integer (microseconds)', `typeof(value) <> 'integer'`],
  [
    'clock',
    'a generation of clock_domains',
    `NOT EXISTS (SELECT 1 FROM clock_domains AS known
       WHERE known.namespace = live_leases.namespace AND known.generation = live_leases.clock)`,
  ],
  ['body', 'JSON', 'NOT json_valid(value)'],
  [
    `body ->> '$.ttlMs'`,
    `an integer 1..${TTL_MS_MAX}`,
    `typeof(value) <> 'integer' OR value NOT BETWEEN 1 AND ${TTL_MS_MAX}`,
  ],
  [`body ->> '$.mode'`, 'exclusive or shared', `value NOT IN ('exclusive', 'shared')`],
  [`body ->> '$.metadata'`, 'an object', `json_type(body, '$.metadata') <> 'object'`],
]

const EVENT_RULES: readonly ColumnRule[] = [
  ['data', 'JSON', 'NOT json_valid(value)'],
  ['event_type', 'the word of an event', `value NOT IN (${quoted(LEASE_EVENT_TYPES.map(wordOf))})`],
]

/** Of a body that is no JSON only that is told. */
function brokenBy(database: SqliteDatabase, table: string, rule: ColumnRule): readonly string[] {
  const [column, expectation, isWrong] = rule
  const readable = column.startsWith('body ->>') ? 'json_valid(body)' : 'true'
  const sql = `SELECT id, ${column} AS value FROM ${table}
    WHERE CASE WHEN ${readable} THEN ${isWrong} END LIMIT ${ROWS_TOLD_MAX + 1}`
  const rows = new StatementCache(database).all(sql)
  const lines = rows.slice(0, ROWS_TOLD_MAX).map(([id, value]) => {
    return `${table} row ${String(id)}: ${column} must be ${expectation}, got ${show(value)}`
  })
  return rows.length > ROWS_TOLD_MAX
    ? [...lines, `${table}: more rows with such a ${column}`]
    : lines
}

function brokenSettings(database: SqliteDatabase): readonly string[] {
  const sql = 'SELECT id, config_key, config_value, scope FROM lease_configs ORDER BY rowid'
  const rows = new StatementCache(database).all(sql)
  return rows.flatMap(([id, key, value, scope]) => {
    const problem = settingProblem(key, value, scope)
    return problem === null ? [] : [`lease_configs row ${String(id)}: ${problem}`]
  })
}

function settingProblem(key: unknown, value: unknown, scope: unknown): string | null {
  try {
    parseSettingValue(parseSettingKey(key), value)
  } catch (error) {
    if (isLeaseError(error)) return error.message
    throw error
  }
  if (SETTING_SCOPES.some((known) => known === scope)) return null
  return `scope must be one of ${SETTING_SCOPES.join(', ')}, got ${show(scope)}`
}

/** As a waiting session listens, and as another process that commits touches its file. */
async function tryWakeFiles(databasePath: string): Promise<string> {
  // Loaded here, because a store that starts has no use for it.
  const { tryWake } = await import('../wake-trial.ts')
  const session = systemRuntime.uuid()
  const files = { databasePath, runtime: systemRuntime }
  const [listening, sending] = [new WakeFiles(files), new WakeFiles(files)]
  return tryWake({
    runtime: systemRuntime,
    listen: async (heard) => {
      listening.tryToListen(session, heard)
      return () => listening.close()
    },
    send: async () => sending.touch(session),
  })
}
