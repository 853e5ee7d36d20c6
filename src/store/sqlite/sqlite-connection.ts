/**
 * Opens the database: makes its directory, refuses what is not Tenure's, brings the tables up to date. A database that
 * another process is writing to is tried again asynchronously: the event loop never waits for it.
 */
import path from 'node:path'
import { LeaseError } from '../../core/errors.ts'
import { parseNamespace } from '../../core/resource.ts'
import { fs } from '../../runtime/file-system.ts'
import { backOffMs, pause } from '../../runtime/pause.ts'
import { isProcessAlive, ownProcessId, systemRuntime } from '../../runtime/system-runtime.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import type { TickSource } from '../../runtime/tick-source.ts'
import { hostTicks } from '../embedded-clock.ts'
import {
  inWriteTransaction,
  isBusy,
  loadSqlite,
  sqliteError,
  type SqliteDatabase,
  withAccess,
} from '../../drivers/sqlite-driver.ts'
import { isPlainlyOurs, notOurs, SCHEMA_VERSION, versionOf } from './sqlite-schema.ts'
import { createNamespace } from './sqlite-state.ts'

export interface SqliteStoreOptions {
  readonly path: string
  readonly namespace?: string
  /** `full` (the default): a granted lease survives power loss. `normal`: the last commits may not. */
  readonly synchronous?: 'full' | 'normal'
  /** How long a call goes on trying while other processes keep the database busy. Default 10 s. */
  readonly busyMs?: number
  /** `force`: tables of an older layout are converted although processes may still hold leases in them. */
  readonly convert?: 'force'
  readonly ticks?: TickSource
  readonly runtime?: Runtime
}

/** An open database and what is known about it. */
export interface SqliteConnection extends Required<Omit<SqliteStoreOptions, 'convert'>> {
  readonly database: SqliteDatabase
  readonly url: string
  /** The clock domain where the ticks name none. */
  readonly domain: string
  /** Which files they are that the path named when it was opened. */
  readonly identity: string
}

const TABLES_MISSING = `its header names schema version ${SCHEMA_VERSION}, which its migrations do not`
const BUSY_MS_DEFAULT = 10_000
const BUSY_PAUSE_MS_MAX = 8

export async function connect(options: SqliteStoreOptions): Promise<SqliteConnection> {
  const settled = {
    path: options.path,
    namespace: parseNamespace(options.namespace ?? 'default'),
    synchronous: options.synchronous ?? 'full',
    busyMs: options.busyMs ?? BUSY_MS_DEFAULT,
    ticks: options.ticks ?? hostTicks(),
    runtime: options.runtime ?? systemRuntime,
    url: `sqlite:${options.path}`,
  }
  const { runtime, ticks, namespace, url } = settled
  const Driver = await loadSqlite()
  // Whose file it is need not be found out where its header says so.
  const isReady = isPlainlyOurs(options.path)
  const origin = isReady ? null : await import('./file-origin.ts')
  const migrations = isReady ? null : await import('./sqlite-migrations.ts')
  withAccess(options.path, () => makeDirectory(path.dirname(path.resolve(options.path))))
  return retryWhileBusy(settled, () => {
    let database: SqliteDatabase | null = null
    try {
      origin?.refuseForeignFile(options.path)
      makeFile(options.path)
      database = new Driver(options.path, { timeout: 0 })
      origin?.claimFile(database, options.path)
      configureConnection(database, settled.synchronous)
      if (versionOf(database, options.path) !== SCHEMA_VERSION) {
        if (migrations === null) throw notOurs(options.path, TABLES_MISSING)
        const isForced = options.convert === 'force'
        migrations.migrate(database, { wallMs: runtime.wallMs(), ticks, isForced, url })
      }
      createNamespace(database, namespace, runtime.wallMs())
      const domain = ticks.domain ?? electDomain(database, settled)
      return { ...settled, database, domain, identity: identityOf(options.path) }
    } catch (error) {
      database?.close()
      throw error
    }
  })
}

/**
 * A process that opens the path now gets another file, or the same without what is in its log, and so other leases: what is
 * open here must grant nothing any more, and what it tells is no longer true.
 */
export function refuseReplacedFile({ path: file, url, identity }: SqliteConnection): void {
  if (withAccess(file, () => identityOf(file)) === identity) return
  const message = `${url} was removed or replaced while it was open; open it again`
  throw new LeaseError('STORE_UNAVAILABLE', message, { details: { store: url } })
}

/** Of the database and its log, which is there as long as a process has the database open. */
function identityOf(file: string): string {
  const statuses = [file, `${file}-wal`].map((one) => fs.statSync(one, { throwIfNoEntry: false }))
  return statuses.map((status) => `${status?.dev}/${status?.ino}`).join(' ')
}

/** Does the work, again and again while other processes keep the database busy, and gives up after `busyMs`. */
export async function retryWhileBusy<Result>(
  { runtime, busyMs, url }: Pick<SqliteConnection, 'runtime' | 'busyMs' | 'url'>,
  work: () => Result,
): Promise<Result> {
  const startMs = runtime.monotonicMs()
  for (let failures = 1; ; failures += 1) {
    try {
      return work()
    } catch (error) {
      const waitedMs = runtime.monotonicMs() - startMs
      if (!isBusy(error) || waitedMs > busyMs) throw sqliteError(error, url)
    }
    await pause(runtime, busyPauseMs(runtime, failures), { keepAlive: true })
  }
}

/** Before the next try at a database that was found busy so often. */
export function busyPauseMs(runtime: Runtime, failures: number): number {
  const longestMs = backOffMs(failures, { firstMs: 1, maxMs: BUSY_PAUSE_MS_MAX })
  return Math.max(1, Math.round(longestMs * (0.5 + runtime.random() / 2)))
}

/** SQLite would let no user but its maker write it. What SQLite makes beside it has the mode of the file. */
function makeFile(file: string): void {
  if (!fs.existsSync(file)) withAccess(file, () => fs.closeSync(fs.openSync(file, 'a')))
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
  // Events are written after their lease and deleted with it: looking it up again for each would find nothing wrong.
  database.pragma('foreign_keys = OFF')
  database.pragma('cache_size = -16000')
  database.pragma('wal_autocheckpoint = 4000')
}

type Timed = Pick<SqliteConnection, 'runtime' | 'ticks'>

type Opener = readonly [pid: number, base: string, tickUs: number]

/**
 * The clock domain on platforms that cannot tell one boot from the next: made up by the first process that opens the
 * database, and shared by those that open it while another has it open. To be called outside of any transaction.
 *
 * The openers are rows of the database, read and written in one write transaction, so two processes cannot both be the
 * first. When none of them is alive, no process can be sure that the monotonic clock is still the same one, so the domain
 * is a new one. Its name has no boot, and therefore proves nothing about processes that used another.
 */
function electDomain(database: SqliteDatabase, { runtime, ticks }: Timed): string {
  let base = `${ticks.host}//${runtime.uuid()}`
  inWriteTransaction(database, () => {
    const openers = database.prepare('SELECT pid, base, tick_us FROM openers').raw().all()
    const tickUs = ticks.tickUs()
    const companion = (openers as Opener[]).find(
      ([pid, , us]) => isProcessAlive(pid) && us <= tickUs,
    )
    if (companion === undefined) database.exec('DELETE FROM openers')
    else base = companion[1]
    const insert = database.prepare('INSERT OR REPLACE INTO openers VALUES (?, ?, ?)')
    insert.run(ownProcessId(), base, tickUs)
  })
  return base
}
