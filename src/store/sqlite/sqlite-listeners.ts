/**
 * Who wants to hear of commits: waiting sessions and followers of the ledger, of this process directly, of others through
 * wake files and, as a safety net, by a glance at `data_version`, which moves when another connection has committed.
 */
import { createHash } from 'node:crypto'
import type nodeFs from 'node:fs'
import path from 'node:path'
import type { Wake } from '../../core/realm.ts'
import { RepeatedFault, report } from '../../runtime/diagnostics.ts'
import { fs, hasCode } from '../../runtime/file-system.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import { setImmediate } from '../../runtime/system-runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import type { SqliteConnection } from './sqlite-connection.ts'
import { FOLLOWERS, MISSED, Subscribers, type WakeListener } from '../subscribers.ts'

/** Hardly ever needed, except by followers that cannot be called because no file can be made or watched. */
const POLL_MS = 500
const DEAF_POLL_MS = 50
const LISTEN_RETRY_MS = 30_000

type ListenedDatabase = Pick<SqliteConnection, 'path' | 'database' | 'runtime'>

export class SqliteListeners {
  readonly #database: SqliteDatabase
  readonly #runtime: Runtime
  readonly #wakeFiles: WakeFiles
  readonly #subscribers = new Subscribers()
  readonly #polling: RepeatedFault
  #poll: Timer | null = null
  #pollMs = 0
  #dataVersion: unknown = null
  /** The `data_version` at the last call of the followers by a process that commits. */
  #calledVersion: unknown = null
  #isNotifying = false
  /** Not before this is another try to hear of what cannot be heard worth it. */
  #hearAtMs = -Infinity

  constructor({ path: databasePath, database, runtime }: ListenedDatabase) {
    this.#database = database
    this.#runtime = runtime
    this.#wakeFiles = new WakeFiles({ databasePath, runtime })
    this.#polling = new RepeatedFault('store/sqlite/poll', runtime)
  }

  subscribe(session: string, listener: WakeListener): Unsubscribe {
    const leave = this.#subscribers.subscribe(session, listener)
    if (this.#poll === null) this.#dataVersion = this.#readDataVersion()
    this.#hear(session)
    this.#arm()
    return () => {
      leave()
      if (!this.#subscribers.has(session)) this.#wakeFiles.silence(session)
      this.#restIfIdle()
    }
  }

  follow(listener: () => void): Unsubscribe {
    return this.subscribe(FOLLOWERS, () => listener())
  }

  /** What is committed before it is heard is found because a follower reads before it first waits. */
  #hear(session: string): void {
    if (this.#wakeFiles.hears(session)) return
    if (session === FOLLOWERS) this.#calledVersion = this.#readDataVersion()
    this.#wakeFiles.listen(session, () => this.#onTouch(session))
  }

  /**
   * Also of sessions whose file was removed: by hand, or by a process that found it untouched for long and took it for one of a
   * killed one.
   */
  #hearAgain(): void {
    const nowMs = this.#runtime.monotonicMs()
    if (nowMs < this.#hearAtMs) return
    for (const session of this.#subscribers.sessions) this.#hear(session)
    if (this.#wakeFiles.isFailing) this.#hearAtMs = nowMs + LISTEN_RETRY_MS
  }

  /**
   * A call of the followers by this very process is heard here as well; it has told them already, and `data_version` stands.
   */
  #onTouch(session: string): void {
    if (session === FOLLOWERS) {
      const version = this.#readDataVersion()
      if (version === this.#calledVersion) return
      this.#calledVersion = version
    }
    this.#subscribers.wake(session, MISSED)
  }

  /** After the answers of the commit are on their way: what followers read must not delay them. Once for all commits of a turn. */
  #notifyFollowersSoon(): void {
    if (this.#isNotifying || !this.#subscribers.hasFollowers) return
    this.#isNotifying = true
    setImmediate(() => {
      this.#isNotifying = false
      this.#subscribers.notifyFollowers()
    })
  }

  /** To be called after COMMIT has returned. */
  announce(wakes: readonly Wake[]): void {
    for (const { session, leaseId } of wakes) {
      if (this.#subscribers.has(session)) this.#subscribers.wake(session, { leaseIds: [leaseId] })
      else this.#wakeFiles.touch(session)
    }
    this.#notifyFollowersSoon()
    this.#wakeFiles.touch(FOLLOWERS)
  }

  removeStale(): void {
    this.#wakeFiles.removeStale()
    if (!this.#subscribers.hasFollowers) this.#wakeFiles.silence(FOLLOWERS)
  }

  close(): void {
    this.#subscribers.clear()
    this.#restIfIdle()
    this.#wakeFiles.close()
  }

  #restIfIdle(): void {
    if (this.#subscribers.sessions.length > 0) return
    this.#poll?.cancel()
    this.#poll = null
  }

  #glance(): void {
    const version = this.#readDataVersion()
    if (version !== this.#dataVersion) {
      this.#dataVersion = version
      for (const session of this.#subscribers.sessions) this.#subscribers.wake(session, MISSED)
    }
    this.#poll = null
    this.#hearAgain()
    this.#arm()
  }

  /** For the next glance, or for one that is sooner than the next. */
  #arm(): void {
    const isDeaf = this.#subscribers.hasFollowers && !this.#wakeFiles.hears(FOLLOWERS)
    const delayMs = isDeaf ? DEAF_POLL_MS : POLL_MS
    if (this.#poll !== null && this.#pollMs <= delayMs) return
    this.#poll?.cancel()
    this.#pollMs = delayMs
    this.#poll = this.#runtime.setTimer(delayMs, () => this.#glance(), { keepAlive: false })
  }

  /** A look that fails, because another process is recovering the log for example, is no news. */
  #readDataVersion(): unknown {
    try {
      const version = this.#database.pragma('data_version', { simple: true })
      this.#polling.succeeded()
      return version
    } catch (error) {
      this.#polling.failed(error)
      return this.#dataVersion
    }
  }
}

/** A file that was not touched for this long belongs to a process that is gone: no client waits longer than a day. */
const STALE_MS = 2 * 86_400_000

const UNIQUE_PATTERN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const PLAIN_NAME_PATTERN = /^[A-Za-z0-9-]{1,64}$/

interface WakeFilesOptions {
  readonly databasePath: string
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'wallMs'>
}

/**
 * Wakes waiters and watchers of other processes: each waiting session has a file beside the database, and all followers
 * of the ledger have one together. A process that commits something that concerns them touches the file after COMMIT has
 * returned. (Watching the WAL instead does not work: its last write comes before the commit is visible.)
 *
 * A wake-up that is lost costs time, not safety: the waiter's keep-alive and the poll of `data_version` make up for it. Files
 * come and go with the listeners, in whatever process, so that one is missing is no fault; anything else is reported.
 */
export class WakeFiles {
  readonly directory: string
  readonly #runtime: WakeFilesOptions['runtime']
  readonly #watchers = new Map<string, nodeFs.FSWatcher>()
  readonly #ofSessions: RepeatedFault
  readonly #ofFollowers: RepeatedFault

  constructor({ databasePath, runtime }: WakeFilesOptions) {
    this.directory = `${databasePath}-wake`
    this.#runtime = runtime
    this.#ofSessions = new RepeatedFault('store/sqlite/wake', runtime)
    this.#ofFollowers = new RepeatedFault('store/sqlite/watch', runtime)
  }

  /** Whether touches of the session's file are heard. */
  hears(session: string): boolean {
    return this.#watchers.has(session)
  }

  /** Whether the last try to listen, or to touch, came to nothing. */
  get isFailing(): boolean {
    return this.#ofSessions.count + this.#ofFollowers.count > 0
  }

  /**
   * Starts to listen for touches of the session's file; creating it tells others that a session listens. Where no file can
   * be made or watched the poll has to do until the caller tries again.
   */
  listen(session: string, onTouch: () => void): void {
    try {
      this.tryToListen(session, onTouch)
      this.#faultOf(session).succeeded()
    } catch (error) {
      this.#faultOf(session).failed(error)
      this.silence(session)
    }
  }

  /** The same, for a caller that wants to know why it cannot. */
  tryToListen(session: string, onTouch: () => void): void {
    const file = this.#fileOf(session)
    this.#makeDirectory()
    fs.closeSync(fs.openSync(file, 'a'))
    const watcher = fs.watch(file, { persistent: false }, () => {
      if (!fs.existsSync(file)) this.#drop(session)
      onTouch()
    })
    watcher.on('error', (error) => {
      this.#faultOf(session).failed(error)
      this.#drop(session)
    })
    this.#watchers.set(session, watcher)
  }

  /** Another process may make it at the same moment. */
  #makeDirectory(): void {
    try {
      if (!fs.existsSync(this.directory)) fs.mkdirSync(this.directory)
    } catch (error) {
      if (!hasCode(error, 'EEXIST')) throw error
    }
  }

  /**
   * Only a session that no other process can have takes its file along; others may be listening to the same. Followers do as
   * well: the others make the file again when they next look, and nothing stays of those that died.
   */
  silence(session: string): void {
    const isOurs = this.#drop(session) && UNIQUE_PATTERN.test(session)
    if (isOurs || session === FOLLOWERS) this.#remove(this.#fileOf(session))
  }

  /** Only the owner of a file may set its times; another user who may write it does that instead. */
  touch(session: string): void {
    const file = this.#fileOf(session)
    try {
      // No session listens under this name, or not yet: the waiter's own keep-alive finds the change.
      if (!fs.existsSync(file)) return
      const seconds = this.#runtime.wallMs() / 1000
      try {
        fs.utimesSync(file, seconds, seconds)
      } catch (error) {
        if (!hasCode(error, 'EPERM')) throw error
        fs.writeFileSync(file, '.', { flag: 'r+' })
      }
      this.#faultOf(session).succeeded()
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) this.#faultOf(session).failed(error)
    }
  }

  removeStale(): void {
    const own = new Set([...this.#watchers.keys()].map((session) => this.#fileOf(session)))
    for (const name of this.#names()) {
      const file = path.join(this.directory, name)
      const modifiedMs = fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs
      const stale = modifiedMs !== undefined && modifiedMs < this.#runtime.wallMs() - STALE_MS
      if (stale && !own.has(file)) this.#remove(file)
    }
  }

  close(): void {
    for (const session of [...this.#watchers.keys()]) this.silence(session)
    try {
      fs.rmdirSync(this.directory)
    } catch (error) {
      if (!hasCode(error, 'ENOENT', 'ENOTEMPTY', 'EEXIST')) report('store/sqlite/directory', error)
    }
  }

  #names(): readonly string[] {
    try {
      return fs.readdirSync(this.directory)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) report('store/sqlite/directory', error)
      return []
    }
  }

  #remove(file: string): void {
    try {
      if (fs.existsSync(file)) fs.rmSync(file, { force: true })
    } catch (error) {
      this.#ofSessions.failed(error)
    }
  }

  #faultOf(session: string): RepeatedFault {
    return session === FOLLOWERS ? this.#ofFollowers : this.#ofSessions
  }

  #drop(session: string): boolean {
    this.#watchers.get(session)?.close()
    return this.#watchers.delete(session)
  }

  #fileOf(session: string): string {
    const plain = PLAIN_NAME_PATTERN.test(session)
    const name = plain ? session : `h-${createHash('sha256').update(session).digest('hex')}`
    return path.join(this.directory, name)
  }
}
