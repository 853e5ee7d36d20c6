/**
 * Wakes waiters of other processes: each waiting session has a file beside the database, which whoever commits
 * something that concerns the session touches after COMMIT has returned. (Watching the WAL instead does not work: its
 * last write comes before the commit is visible.)
 *
 * A wake-up that is lost costs time, not safety: the waiter's keep-alive and the poll of `data_version` make up for it.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { isAbsent, namesIn, removeIfEmpty, touch } from './sqlite-directory.ts'

type Clock = Pick<Runtime, 'monotonicMs'>

/** A file nobody has touched for this long belongs to a process that is gone: nobody waits longer than a day. */
const STALE_MS = 2 * 86_400_000

const UNIQUE_PATTERN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const PLAIN_NAME_PATTERN = /^[A-Za-z0-9-]{1,64}$/

export class WakeFiles {
  readonly #directory: string
  readonly #watchers = new Map<string, fs.FSWatcher>()
  readonly #fault: RepeatedFault

  constructor(databasePath: string, clock: Clock) {
    this.#directory = `${databasePath}-wake`
    this.#fault = new RepeatedFault('store/sqlite/wake', clock)
  }

  /**
   * Starts to listen for touches of the session's file; creating it tells others that somebody listens. Where no file can
   * be made or watched the poll has to do; the next subscription tries again.
   */
  listen(session: string, onTouch: () => void): void {
    try {
      this.tryToListen(session, onTouch)
      this.#fault.succeeded()
    } catch (error) {
      this.#fault.failed(error)
      this.silence(session)
    }
  }

  /** The same, for whoever wants to know why it cannot. */
  tryToListen(session: string, onTouch: () => void): void {
    const file = this.#fileOf(session)
    if (!fs.existsSync(this.#directory)) fs.mkdirSync(this.#directory)
    fs.closeSync(fs.openSync(file, 'a'))
    const watcher = fs.watch(file, { persistent: false }, onTouch)
    watcher.on('error', (error) => {
      this.#fault.failed(error)
      this.#drop(session)
    })
    this.#watchers.set(session, watcher)
  }

  /** Only a session that no other process can have takes its file along; others may be listening to the same. */
  silence(session: string): void {
    if (this.#drop(session) && UNIQUE_PATTERN.test(session)) {
      fs.rmSync(this.#fileOf(session), { force: true })
    }
  }

  touch(session: string, wallMs: number): void {
    try {
      touch(this.#fileOf(session), wallMs)
      this.#fault.succeeded()
    } catch (error) {
      // Nobody listens under this name, or not yet: the waiter's own keep-alive finds the change.
      if (!isAbsent(error)) this.#fault.failed(error)
    }
  }

  removeStale(wallMs: number): void {
    const own = new Set([...this.#watchers.keys()].map((session) => this.#fileOf(session)))
    for (const name of namesIn(this.#directory)) {
      const file = path.join(this.#directory, name)
      const modifiedMs = fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs
      const stale = modifiedMs !== undefined && modifiedMs < wallMs - STALE_MS
      if (stale && !own.has(file)) fs.rmSync(file, { force: true })
    }
  }

  close(): void {
    for (const session of [...this.#watchers.keys()]) this.silence(session)
    removeIfEmpty(this.#directory)
  }

  #drop(session: string): boolean {
    this.#watchers.get(session)?.close()
    return this.#watchers.delete(session)
  }

  #fileOf(session: string): string {
    const plain = PLAIN_NAME_PATTERN.test(session)
    const name = plain ? session : `h-${createHash('sha256').update(session).digest('hex')}`
    return path.join(this.#directory, name)
  }
}
