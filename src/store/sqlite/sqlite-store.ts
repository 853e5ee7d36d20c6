/**
 * Keeps realms in one SQLite file, for any number of processes on one host.
 *
 * Every decision is made inside a write transaction (`BEGIN IMMEDIATE`), so none ever misses. What is in flight in a
 * process at the same moment shares one transaction and one sync to disk; a lone caller waits for nobody. A database
 * that another process is writing to is tried again asynchronously: the event loop never waits for it.
 */
import fs from 'node:fs'
import path from 'node:path'
import type { Commit } from '../../core/commit.ts'
import { isLeaseError, LeaseError } from '../../core/errors.ts'
import type { Footprint, Wake } from '../../core/realm.ts'
import { parseNamespace } from '../../core/resource.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { systemTickSource, type TickSource } from '../../runtime/tick-source.ts'
import type {
  Decide,
  EntryQuery,
  Found,
  HistoryQuery,
  LedgerEntry,
  Position,
  Pruned,
  PrunePolicy,
  SettingChange,
  Store,
  StoreDescription,
  Unsubscribe,
  WakeSignal,
} from '../../store-port/store.ts'
import { nowOf, readTicks, type ClockReading } from '../embedded-clock.ts'
import { FileIdentity } from './file-identity.ts'
import { electDomain } from './first-opener.ts'
import { isBusy, loadDriver, storeError, type SqliteDatabase } from './sqlite-client.ts'
import { SqliteListeners } from './sqlite-listeners.ts'
import { SqliteReader } from './sqlite-reader.ts'
import { createNamespace, migrate, refuseForeign } from './sqlite-schema.ts'
import { SqliteState } from './sqlite-state.ts'
import { SqliteWriter } from './sqlite-writer.ts'

export interface SqliteStoreOptions {
  readonly path: string
  readonly namespace?: string
  /** `full` (the default): a granted lease survives power loss. `normal`: the last commits may not. */
  readonly synchronous?: 'full' | 'normal'
  /** How long a call goes on trying while other processes keep the database busy. Default 10 s. */
  readonly busyMs?: number
  readonly ticks?: TickSource
  readonly runtime?: Runtime
}

interface SettledOptions extends SqliteStoreOptions {
  readonly namespace: string
  readonly runtime: Runtime
  readonly ticks: TickSource
  /** The clock domain where the ticks name none. */
  readonly domain: string
}

/** A piece of work for the next transaction: runs inside it, and hears how the transaction ended. */
interface Job {
  readonly sinceMs: number
  run(): void
  committed(): void
  failed(error: unknown): void
}

const GROUP_MAX = 1_000
const BUSY_MS_DEFAULT = 10_000
const BUSY_RETRY_MS_MAX = 8

export class SqliteStore implements Store {
  readonly description: StoreDescription
  readonly #database: SqliteDatabase
  readonly #runtime: Runtime
  readonly #ticks: TickSource
  readonly #fallbackBase: string
  readonly #busyMs: number
  readonly #identity: FileIdentity
  readonly #state: SqliteState
  readonly #reader: SqliteReader
  readonly #writer: SqliteWriter
  readonly #listeners: SqliteListeners
  #queue: Job[] = []
  #scheduled = false
  #retry: Timer | null = null
  #busyTries = 0
  #dirty = false
  /** Set while rows are being written: an error then leaves half of them, and the whole transaction must go. */
  #writing = false
  #wakes: Wake[] = []
  #closing: Promise<void> | null = null
  #drained: (() => void) | null = null

  static async open(options: SqliteStoreOptions): Promise<SqliteStore> {
    const namespace = parseNamespace(options.namespace ?? 'default')
    const runtime = options.runtime ?? systemRuntime
    const url = `sqlite:${options.path}`
    const Driver = await loadDriver()
    prepareDirectory(options.path, url)
    const startMs = runtime.monotonicMs()
    for (let tries = 0; ; tries += 1) {
      let database: SqliteDatabase | null = null
      try {
        database = new Driver(options.path, { timeout: 0 })
        refuseForeign(database)
        configureConnection(database, options.synchronous ?? 'full')
        prepareSchema(database, namespace, runtime.wallMs())
        const ticks = options.ticks ?? systemTickSource()
        const domain = electDomain({ database, ticks, uuid: () => runtime.uuid() })
        return new SqliteStore(database, { ...options, namespace, runtime, ticks, domain })
      } catch (error) {
        database?.close()
        const waitedMs = runtime.monotonicMs() - startMs
        if (!isBusy(error) || waitedMs > (options.busyMs ?? BUSY_MS_DEFAULT)) {
          throw storeError(error, url)
        }
        await pause(runtime, backOffMs(runtime, tries))
      }
    }
  }

  private constructor(database: SqliteDatabase, options: SettledOptions) {
    const { namespace, runtime, synchronous = 'full' } = options
    this.#database = database
    this.#runtime = runtime
    this.#ticks = options.ticks
    this.#fallbackBase = options.domain
    this.#busyMs = options.busyMs ?? BUSY_MS_DEFAULT
    this.#identity = new FileIdentity(options.path)
    this.#state = new SqliteState(database, namespace)
    this.#reader = new SqliteReader(database, namespace, this.#state)
    this.#writer = new SqliteWriter(database, namespace, this.#state)
    this.#state.load()
    this.#listeners = new SqliteListeners({ databasePath: options.path, database, runtime })
    this.description = {
      url: `sqlite:${options.path}`,
      clock: `monotonic clock of this host, domain ${this.#reading().base}`,
      durability:
        synchronous === 'full'
          ? 'every answer is on disk (WAL, synchronous=FULL)'
          : 'the last commits may be lost with power (WAL, synchronous=NORMAL)',
    }
  }

  transact<Outcome>(footprints: readonly Footprint[], decide: Decide<Outcome>): Promise<Outcome> {
    return this.#enqueue((answer) => {
      const clock = this.#state.tick(this.#reading())
      const now = nowOf(clock)
      const views = footprints.map((footprint) => this.#reader.view(footprint, now))
      const ruling = decide(views, now)
      this.#apply(ruling.commit, clock.lastWallMs)
      answer(ruling.outcome)
    })
  }

  find(query: EntryQuery): Promise<Found> {
    return this.#read(() => {
      const now = nowOf(this.#state.peek(this.#reading()))
      const entries = this.#reader.find(query, now)
      return { now, entries: entries.slice(0, query.limit), more: entries.length > query.limit }
    })
  }

  history(query: HistoryQuery): Promise<readonly LedgerEntry[]> {
    return this.#read(() => this.#reader.history(query))
  }

  end(): Promise<Position> {
    return this.#read(() => String(this.#state.lastSequence))
  }

  settings(): Promise<readonly SettingRow[]> {
    return this.#read(() => this.#state.settingRows)
  }

  configure(change: SettingChange): Promise<void> {
    return this.#enqueue((answer) => {
      this.#writer.configure(change, this.#ticks.wallMs())
      this.#dirty = true
      answer(undefined)
    })
  }

  prune(policy: PrunePolicy): Promise<Pruned> {
    this.#listeners.removeStale()
    return this.#enqueue((answer) => {
      const pruned = this.#writer.prune(policy)
      this.#dirty = true
      answer(pruned)
    })
  }

  async subscribe(session: string, listener: (signal: WakeSignal) => void): Promise<Unsubscribe> {
    this.#refuseIfClosed()
    return this.#listeners.subscribe(session, listener)
  }

  follow(listener: () => void): Unsubscribe {
    return this.#listeners.follow(listener)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    if (this.#queue.length > 0) {
      await new Promise<void>((resolve) => {
        this.#drained = resolve
      })
    }
    this.#listeners.close()
    this.#database.close()
  }

  #refuseIfClosed(): void {
    if (this.#closing !== null) throw new LeaseError('CLOSED', 'the store was closed')
  }

  #reading(): ClockReading {
    return readTicks(this.#ticks, this.#fallbackBase)
  }

  #apply(commit: Commit, wallMs: number): void {
    if (commit.changes.length === 0 && commit.events.length === 0) return
    this.#writing = true
    this.#writer.apply(commit, wallMs)
    this.#writing = false
    this.#reader.note(commit)
    this.#dirty = true
    this.#wakes.push(...commit.wakes)
  }

  /** Reads inside a snapshot. WAL readers wait for nobody, so this is done at once. */
  async #read<Result>(work: () => Result): Promise<Result> {
    this.#refuseIfClosed()
    const startMs = this.#runtime.monotonicMs()
    for (let tries = 0; ; tries += 1) {
      try {
        return this.#snapshot(work)
      } catch (error) {
        const waitedMs = this.#runtime.monotonicMs() - startMs
        if (!isBusy(error) || waitedMs > this.#busyMs) throw storeError(error, this.description.url)
        await pause(this.#runtime, backOffMs(this.#runtime, tries))
        this.#refuseIfClosed()
      }
    }
  }

  #snapshot<Result>(work: () => Result): Result {
    this.#database.exec('BEGIN')
    try {
      this.#state.load()
      return work()
    } finally {
      if (this.#database.inTransaction) this.#database.exec('COMMIT')
    }
  }

  async #enqueue<Result>(work: (answer: (result: Result) => void) => void): Promise<Result> {
    this.#refuseIfClosed()
    return new Promise<Result>((resolve, reject) => {
      let finish: (() => void) | null = null
      this.#queue.push({
        sinceMs: this.#runtime.monotonicMs(),
        run: () => {
          finish = null
          try {
            work((result) => {
              finish = () => resolve(result)
            })
          } catch (error) {
            if (this.#writing || isDatabaseError(error)) throw error
            finish = () => reject(error)
          }
        },
        committed: () => finish?.(),
        failed: reject,
      })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#scheduled || this.#retry !== null) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#flush()
    })
  }

  #flush(): void {
    this.#retry?.cancel()
    this.#retry = null
    const group = this.#queue.slice(0, GROUP_MAX)
    if (group.length === 0) return
    try {
      this.#identity.check(this.description.url)
      this.#database.exec('BEGIN IMMEDIATE')
    } catch (error) {
      if (isBusy(error)) this.#waitForOthers()
      else this.#finish(group, (job) => job.failed(storeError(error, this.description.url)))
      return
    }
    this.#busyTries = 0
    this.#runGroup(group)
  }

  /** Nothing was read or written yet: those who have waited long enough are told so, the rest try again. */
  #waitForOthers(): void {
    const nowMs = this.#runtime.monotonicMs()
    const tired = this.#queue.filter((job) => nowMs - job.sinceMs > this.#busyMs)
    this.#take(tired)
    for (const job of tired) job.failed(this.#busyError())
    if (this.#queue.length === 0) return this.#drained?.()
    const delayMs = backOffMs(this.#runtime, this.#busyTries)
    this.#busyTries += 1
    this.#retry?.cancel()
    this.#retry = this.#runtime.setTimer(delayMs, () => this.#flush(), { keepAlive: true })
  }

  #runGroup(group: readonly Job[]): void {
    this.#dirty = false
    this.#writing = false
    this.#wakes = []
    let committing = false
    try {
      this.#state.load()
      this.#reader.begin()
      for (const job of group) job.run()
      this.#dirty ||= this.#state.metDomain
      if (this.#dirty) this.#state.save()
      committing = true
      this.#database.exec(this.#dirty ? 'COMMIT' : 'ROLLBACK')
    } catch (error) {
      this.#rollBack()
      const mapped = storeError(error, this.description.url, committing)
      // Whether a COMMIT that failed has happened is not for a second try to guess.
      const inDoubt = isLeaseError(mapped) && mapped.effect === 'unknown'
      if (group.length > 1 && !inDoubt) return this.#runApart(group)
      return this.#finish(group, (job) => job.failed(mapped))
    }
    const wakes = this.#wakes
    const changed = this.#dirty
    if (changed) this.#listeners.announce(wakes)
    this.#finish(group, (job) => job.committed())
  }

  #rollBack(): void {
    this.#state.reset()
    this.#reader.forget()
    if (!this.#database.inTransaction) return
    try {
      this.#database.exec('ROLLBACK')
    } catch {
      // SQLite has rolled back by itself, as it does after some I/O errors.
    }
  }

  /** One bad apple must not spoil a group: after a failure each of it is tried on its own. */
  #runApart(group: readonly Job[]): void {
    for (const job of group) {
      try {
        this.#database.exec('BEGIN IMMEDIATE')
      } catch (error) {
        if (isBusy(error)) return this.#waitForOthers()
        this.#finish([job], () => job.failed(storeError(error, this.description.url)))
        continue
      }
      this.#runGroup([job])
    }
  }

  #busyError(): LeaseError {
    const { url } = this.description
    const busyMs = this.#busyMs
    const message = `${url} was busy for more than ${busyMs} ms`
    return new LeaseError('STORE_UNAVAILABLE', message, { details: { store: url, busyMs } })
  }

  #take(jobs: readonly Job[]): void {
    if (jobs.length === 0) return
    const taken = new Set(jobs)
    this.#queue = this.#queue.filter((job) => !taken.has(job))
  }

  #finish(jobs: readonly Job[], end: (job: Job) => void): void {
    this.#take(jobs)
    for (const job of jobs) end(job)
    if (this.#queue.length > 0) this.#schedule()
    else this.#drained?.()
  }
}

function isDatabaseError(error: unknown): boolean {
  return error instanceof Error && 'code' in error && !(error instanceof LeaseError)
}

function prepareDirectory(databasePath: string, url: string): void {
  try {
    makeDirectory(path.dirname(path.resolve(databasePath)))
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new LeaseError('STORE_UNAVAILABLE', `${url} cannot be used: ${why}`, {
      cause,
      details: { store: url },
    })
  }
}

/** Level by level: where a file system answers that nothing can be made, Node's own way never ends. */
function makeDirectory(directory: string): void {
  if (fs.existsSync(directory)) return
  makeDirectory(path.dirname(directory))
  try {
    fs.mkdirSync(directory)
  } catch (error) {
    if (!fs.existsSync(directory)) throw error
  }
}

/** A cache that holds the upper pages of all indexes, and checkpoints that find most pages changed again: +50 %. */
export function configureConnection(
  database: SqliteDatabase,
  synchronous: 'full' | 'normal',
): void {
  database.pragma('journal_mode = WAL')
  database.pragma(`synchronous = ${synchronous.toUpperCase()}`)
  database.pragma('foreign_keys = ON')
  database.pragma('cache_size = -16000')
  database.pragma('wal_autocheckpoint = 4000')
}

function prepareSchema(database: SqliteDatabase, namespace: string, wallMs: number): void {
  migrate(database, wallMs)
  createNamespace(database, namespace, wallMs)
}

function backOffMs(runtime: Runtime, tries: number): number {
  const ceilingMs = Math.min(BUSY_RETRY_MS_MAX, 2 ** Math.min(tries, 10))
  return Math.max(1, Math.round(ceilingMs * (0.5 + runtime.random() / 2)))
}

function pause(runtime: Runtime, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    runtime.setTimer(delayMs, resolve, { keepAlive: true })
  })
}
