/**
 * Who wants to hear of commits: waiting sessions and watchers, of this process directly, of others through wake files
 * and the watch directory and, as a safety net, by a glance at `data_version`, which moves when another connection has
 * committed.
 */
import { queueMicrotask } from '../../runtime/system-runtime.ts'
import type { Wake } from '../../core/realm.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import type { Unsubscribe, WakeSignal } from '../../store-port/store.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import { WakeFiles } from './sqlite-wake.ts'
import { WatchDirectory } from './sqlite-watch.ts'

type Listener = (signal: WakeSignal) => void

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
  readonly #sessions = new Map<string, Set<Listener>>()
  readonly #followers = new Set<() => void>()
  readonly #polling: RepeatedFault
  #poll: Timer | null = null
  #pollMs = 0
  #dataVersion: unknown = null

  constructor({ databasePath, database, runtime }: SqliteListenersOptions) {
    this.#database = database
    this.#runtime = runtime
    this.#wakeFiles = new WakeFiles(databasePath, runtime)
    this.#watchDirectory = new WatchDirectory(databasePath, runtime)
    const monotonicMs = (): number => runtime.monotonicMs()
    this.#polling = new RepeatedFault('store/sqlite/poll', { monotonicMs })
  }

  subscribe(session: string, listener: Listener): Unsubscribe {
    const listeners = this.#sessions.get(session) ?? new Set()
    listeners.add(listener)
    this.#sessions.set(session, listeners)
    this.#watchDatabase()
    if (listeners.size === 1) {
      this.#wakeFiles.listen(session, () => this.#tell(session, { leaseIds: null }))
    }
    return () => this.#unsubscribe(session, listener)
  }

  follow(listener: () => void): Unsubscribe {
    this.#followers.add(listener)
    this.#joinWatchers()
    this.#watchDatabase()
    return () => {
      this.#followers.delete(listener)
      if (this.#followers.size === 0) this.#watchDirectory.leave(this.#runtime.wallMs())
      this.#restIfIdle()
    }
  }

  /** What is committed before the directory is joined is found because a watcher reads before it first waits. */
  #joinWatchers(): void {
    this.#watchDirectory.join(this.#runtime.wallMs(), () => this.#tellFollowers())
  }

  #tellFollowers(): void {
    for (const follower of this.#followers) queueMicrotask(follower)
  }

  /** To be called after COMMIT has returned. */
  announce(wakes: readonly Wake[]): void {
    for (const { session, leaseId } of wakes) {
      if (this.#sessions.has(session)) this.#tell(session, { leaseIds: [leaseId] })
      else this.#wakeFiles.touch(session, this.#runtime.wallMs())
    }
    this.#tellFollowers()
    this.#watchDirectory.call(this.#runtime.wallMs())
  }

  removeStale(): void {
    this.#wakeFiles.removeStale(this.#runtime.wallMs())
    this.#watchDirectory.removeSilent(this.#runtime.wallMs())
  }

  close(): void {
    this.#sessions.clear()
    this.#followers.clear()
    this.#restIfIdle()
    this.#wakeFiles.close()
    this.#watchDirectory.leave(this.#runtime.wallMs())
  }

  #unsubscribe(session: string, listener: Listener): void {
    const listeners = this.#sessions.get(session)
    listeners?.delete(listener)
    if (listeners?.size === 0) {
      this.#sessions.delete(session)
      this.#wakeFiles.silence(session)
    }
    this.#restIfIdle()
  }

  #tell(session: string, signal: WakeSignal): void {
    for (const listener of this.#sessions.get(session) ?? []) {
      queueMicrotask(() => listener(signal))
    }
  }

  #watchDatabase(): void {
    const delayMs = this.#delayMs
    if (this.#poll !== null && this.#pollMs <= delayMs) return
    if (this.#poll === null) this.#dataVersion = this.#readDataVersion()
    this.#poll?.cancel()
    this.#arm(delayMs)
  }

  #restIfIdle(): void {
    if (this.#sessions.size > 0 || this.#followers.size > 0) return
    this.#poll?.cancel()
    this.#poll = null
  }

  #glance(): void {
    const version = this.#readDataVersion()
    if (version !== this.#dataVersion) {
      this.#dataVersion = version
      this.#tellFollowers()
      for (const session of this.#sessions.keys()) this.#tell(session, { leaseIds: null })
    }
    this.#poll = null
    if (this.#sessions.size === 0 && this.#followers.size === 0) return
    if (this.#followers.size > 0) {
      this.#watchDirectory.stay(this.#runtime.wallMs())
      this.#joinWatchers()
    }
    this.#arm(this.#delayMs)
  }

  get #delayMs(): number {
    return this.#followers.size > 0 && !this.#watchDirectory.isJoined ? DEAF_POLL_MS : POLL_MS
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
