/**
 * Who wants to hear of commits: waiting sessions and watchers, of this process directly, of others through wake files
 * and the watch directory and, as a safety net, by a glance at `data_version`, which moves when another connection has
 * committed.
 */
import type { Wake } from '../../core/realm.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import { setImmediate } from '../../runtime/system-runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import { Subscribers, type WakeListener } from '../subscribers.ts'
import { WakeFiles } from './sqlite-wake.ts'
import { WatchDirectory } from './sqlite-watch.ts'

export interface SqliteListenersOptions {
  readonly databasePath: string
  readonly database: SqliteDatabase
  readonly runtime: Runtime
}

/** Hardly ever needed, except by watchers that nobody can call because no directory can be made or watched. */
const POLL_MS = 500
const DEAF_POLL_MS = 50

export class SqliteListeners {
  readonly #database: SqliteDatabase
  readonly #runtime: Runtime
  readonly #wakeFiles: WakeFiles
  readonly #watchDirectory: WatchDirectory
  readonly #subscribers = new Subscribers()
  readonly #polling: RepeatedFault
  #poll: Timer | null = null
  #pollMs = 0
  #dataVersion: unknown = null
  /** The `data_version` at the last call by a process that commits. */
  #calledVersion: unknown = null
  #isNotifying = false

  constructor({ databasePath, database, runtime }: SqliteListenersOptions) {
    this.#database = database
    this.#runtime = runtime
    this.#wakeFiles = new WakeFiles(databasePath, runtime)
    this.#watchDirectory = new WatchDirectory(databasePath, runtime)
    this.#polling = new RepeatedFault('store/sqlite/poll', runtime)
  }

  subscribe(session: string, listener: WakeListener): Unsubscribe {
    const isFirst = !this.#subscribers.has(session)
    const leave = this.#subscribers.subscribe(session, listener)
    this.#watchDatabase()
    if (isFirst) {
      this.#wakeFiles.listen(session, () => this.#subscribers.wake(session, { leaseIds: null }))
    }
    return () => {
      leave()
      if (!this.#subscribers.has(session)) this.#wakeFiles.silence(session)
      this.#restIfIdle()
    }
  }

  follow(listener: () => void): Unsubscribe {
    const leave = this.#subscribers.follow(listener)
    this.#joinWatchers()
    this.#watchDatabase()
    return () => {
      leave()
      if (!this.#subscribers.hasFollowers) this.#watchDirectory.leave(this.#runtime.wallMs())
      this.#restIfIdle()
    }
  }

  /** What is committed before the directory is joined is found because a watcher reads before it first waits. */
  #joinWatchers(): void {
    if (!this.#watchDirectory.isJoined) this.#calledVersion = this.#readDataVersion()
    this.#watchDirectory.join(this.#runtime.wallMs(), () => this.#onCall())
  }

  /** A call by this very process is heard here as well; it has told its followers already, and `data_version` stands. */
  #onCall(): void {
    const version = this.#readDataVersion()
    if (version === this.#calledVersion) return
    this.#calledVersion = version
    this.#subscribers.notifyFollowers()
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
      else this.#wakeFiles.touch(session, this.#runtime.wallMs())
    }
    this.#notifyFollowersSoon()
    this.#watchDirectory.call(this.#runtime.wallMs())
  }

  removeStale(): void {
    this.#wakeFiles.removeStale(this.#runtime.wallMs())
    this.#watchDirectory.removeSilent(this.#runtime.wallMs())
  }

  close(): void {
    this.#subscribers.clear()
    this.#restIfIdle()
    this.#wakeFiles.close()
    this.#watchDirectory.leave(this.#runtime.wallMs())
  }

  #watchDatabase(): void {
    const delayMs = this.#delayMs
    if (this.#poll !== null && this.#pollMs <= delayMs) return
    if (this.#poll === null) this.#dataVersion = this.#readDataVersion()
    this.#poll?.cancel()
    this.#arm(delayMs)
  }

  #restIfIdle(): void {
    if (!this.#subscribers.isEmpty) return
    this.#poll?.cancel()
    this.#poll = null
  }

  #glance(): void {
    const version = this.#readDataVersion()
    if (version !== this.#dataVersion) {
      this.#dataVersion = version
      this.#subscribers.notifyAll()
    }
    this.#poll = null
    if (this.#subscribers.isEmpty) return
    if (this.#subscribers.hasFollowers) {
      this.#watchDirectory.stay(this.#runtime.wallMs())
      this.#joinWatchers()
    }
    this.#arm(this.#delayMs)
  }

  get #delayMs(): number {
    const isDeaf = this.#subscribers.hasFollowers && !this.#watchDirectory.isJoined
    return isDeaf ? DEAF_POLL_MS : POLL_MS
  }

  #arm(delayMs: number): void {
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
