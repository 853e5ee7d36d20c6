/**
 * Who wants to hear of commits: waiting sessions and followers of the ledger, of this process directly, of others through
 * wake files and, as a safety net, by a glance at `data_version`, which moves when another connection has committed.
 */
import type { Wake } from '../../core/realm.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime, Timer } from '../../runtime/runtime.ts'
import { setImmediate } from '../../runtime/system-runtime.ts'
import type { Unsubscribe } from '../../store-port/store.ts'
import type { SqliteDatabase } from '../../drivers/sqlite-driver.ts'
import { Subscribers, type WakeListener } from '../subscribers.ts'
import { FOLLOWERS, WakeFiles } from './sqlite-wake.ts'

export interface SqliteListenersOptions {
  readonly databasePath: string
  readonly database: SqliteDatabase
  readonly runtime: Runtime
}

/** Hardly ever needed, except by followers that cannot be called because no file can be made or watched. */
const POLL_MS = 500
const DEAF_POLL_MS = 50
const LISTEN_RETRY_MS_MAX = 30_000

export class SqliteListeners {
  readonly #database: SqliteDatabase
  readonly #runtime: Runtime
  readonly #wakeFiles: WakeFiles
  readonly #followFile: WakeFiles
  readonly #subscribers = new Subscribers()
  readonly #polling: RepeatedFault
  #poll: Timer | null = null
  #pollMs = 0
  #dataVersion: unknown = null
  /** The `data_version` at the last call by a process that commits. */
  #calledVersion: unknown = null
  #isNotifying = false
  /** Not before this is another try to hear of the ledger worth it. */
  #followAtMs = -Infinity

  constructor({ databasePath, database, runtime }: SqliteListenersOptions) {
    this.#database = database
    this.#runtime = runtime
    this.#wakeFiles = new WakeFiles({ databasePath, runtime })
    this.#followFile = new WakeFiles({ databasePath, runtime, source: 'store/sqlite/watch' })
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
    this.#hearLedger()
    this.#watchDatabase()
    return () => {
      leave()
      if (!this.#subscribers.hasFollowers) this.#followFile.close()
      this.#restIfIdle()
    }
  }

  /** What is committed before it is heard is found because a follower reads before it first waits. */
  #hearLedger(): void {
    const nowMs = this.#runtime.monotonicMs()
    if (this.#followFile.hears(FOLLOWERS) || nowMs < this.#followAtMs) return
    this.#calledVersion = this.#readDataVersion()
    this.#followFile.listen(FOLLOWERS, () => this.#onCall())
    const pauseMs = DEAF_POLL_MS * 2 ** Math.min(this.#followFile.failures, 10)
    this.#followAtMs = nowMs + Math.min(LISTEN_RETRY_MS_MAX, pauseMs)
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
      else this.#wakeFiles.touch(session)
    }
    this.#notifyFollowersSoon()
    this.#followFile.touch(FOLLOWERS)
  }

  removeStale(): void {
    this.#wakeFiles.removeStale()
    if (!this.#subscribers.hasFollowers) this.#followFile.silence(FOLLOWERS)
  }

  close(): void {
    this.#subscribers.clear()
    this.#restIfIdle()
    this.#wakeFiles.close()
    this.#followFile.close()
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
    if (this.#subscribers.hasFollowers) this.#hearLedger()
    this.#arm(this.#delayMs)
  }

  get #delayMs(): number {
    const isDeaf = this.#subscribers.hasFollowers && !this.#followFile.hears(FOLLOWERS)
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
