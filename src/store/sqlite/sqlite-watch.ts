/**
 * Wakes watchers of other processes: while anybody watches there is a directory beside the database, in which each
 * watching process has a file of its own. Whoever commits calls all of them by changing the directory's attributes after
 * COMMIT has returned. Where nobody watches there is no directory, and a commit pays for one look at a name.
 *
 * A watcher that dies leaves its file behind. So the directory's time of modification is the watchers' own sign of life,
 * which a call leaves alone, and a directory without one is not called. A call that is lost costs time and nothing else:
 * the poll of `data_version` makes up for it.
 */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import type { Runtime } from '../../runtime/runtime.ts'
import { isAbsent, isAnothers, namesIn, removeIfEmpty, touch } from './sqlite-directory.ts'

/** How often a watcher says that it is there, and after how long without a word nobody is. */
const SIGN_EVERY_MS = 20_000
const SILENT_MS = 60_000

const JOIN_MS_MIN = 50
const JOIN_MS_MAX = 30_000

const PERMISSIONS = 0o7777

type Clock = Pick<Runtime, 'monotonicMs'>

export class WatchDirectory {
  readonly #directory: string
  readonly #ownFile: string
  #watcher: fs.FSWatcher | null = null
  #signedAtMs = 0
  /** Not before this is another try to join worth it. */
  #joinAtMs = -Infinity
  readonly #clock: Clock
  readonly #joining: RepeatedFault
  readonly #calling: RepeatedFault

  constructor(databasePath: string, clock: Clock) {
    this.#clock = clock
    this.#joining = new RepeatedFault('store/sqlite/watch', clock)
    this.#calling = new RepeatedFault('store/sqlite/call-watchers', clock)
    this.#directory = `${databasePath}-watch`
    this.#ownFile = path.join(this.#directory, randomUUID())
  }

  get isJoined(): boolean {
    return this.#watcher !== null
  }

  /** Starts to listen for calls. Where no directory can be made or watched, the poll has to do until one can. */
  join(wallMs: number, onCall: () => void): void {
    if (this.isJoined || this.#clock.monotonicMs() < this.#joinAtMs) return
    try {
      if (!fs.existsSync(this.#directory)) fs.mkdirSync(this.#directory)
      this.#sign(wallMs)
      const watcher = fs.watch(this.#directory, { persistent: false }, onCall)
      watcher.on('error', (error) => this.#fail(error))
      this.#watcher = watcher
      this.#joining.succeeded()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** To be called now and then while joined. If the directory has gone, it is no longer joined. */
  stay(wallMs: number): void {
    if (!this.isJoined || Math.abs(wallMs - this.#signedAtMs) < SIGN_EVERY_MS) return
    try {
      this.#sign(wallMs)
    } catch (error) {
      if (isAbsent(error)) this.#drop()
      else this.#fail(error)
    }
  }

  leave(wallMs: number): void {
    if (!this.isJoined) return
    this.#drop()
    fs.rmSync(this.#ownFile, { force: true })
    this.removeSilent(wallMs)
  }

  call(wallMs: number): void {
    try {
      const stat = fs.statSync(this.#directory, { throwIfNoEntry: false })
      if (stat === undefined || isSilent(stat, wallMs)) return
      this.#change(stat, wallMs)
      this.#calling.succeeded()
    } catch (error) {
      // It went meanwhile. What another user has closed to this one is told: its watchers rely on the poll.
      if (!isAbsent(error)) this.#calling.failed(error)
    }
  }

  /** Takes away what watchers that died have left, and the directory with the last of them. */
  removeSilent(wallMs: number): void {
    for (const name of namesIn(this.#directory)) {
      const file = path.join(this.#directory, name)
      const stat = fs.statSync(file, { throwIfNoEntry: false })
      if (stat !== undefined && isSilent(stat, wallMs)) fs.rmSync(file, { force: true })
    }
    removeIfEmpty(this.#directory)
  }

  /** Only the directory's owner may change its attributes; another user writes to a file in it, which is heard as well. */
  #change({ mode }: fs.Stats, wallMs: number): void {
    try {
      fs.chmodSync(this.#directory, mode & PERMISSIONS)
    } catch (error) {
      const [name] = isAnothers(error) ? namesIn(this.#directory) : []
      if (name === undefined) throw error
      touch(path.join(this.#directory, name), wallMs)
    }
  }

  /** In a directory of another user the making of the file is the sign. */
  #sign(wallMs: number): void {
    const seconds = wallMs / 1000
    fs.closeSync(fs.openSync(this.#ownFile, 'a'))
    fs.utimesSync(this.#ownFile, seconds, seconds)
    try {
      fs.utimesSync(this.#directory, seconds, seconds)
    } catch (error) {
      if (!isAnothers(error)) throw error
      fs.rmSync(this.#ownFile, { force: true })
      fs.closeSync(fs.openSync(this.#ownFile, 'a'))
    }
    this.#signedAtMs = wallMs
  }

  #fail(error: unknown): void {
    this.#joining.failed(error)
    const pauseMs = Math.min(JOIN_MS_MAX, JOIN_MS_MIN * 2 ** Math.min(this.#joining.count, 10))
    this.#joinAtMs = this.#clock.monotonicMs() + pauseMs
    this.#drop()
  }

  #drop(): void {
    this.#watcher?.close()
    this.#watcher = null
  }
}

function isSilent({ mtimeMs }: fs.Stats, wallMs: number): boolean {
  return Math.abs(wallMs - mtimeMs) > SILENT_MS
}
