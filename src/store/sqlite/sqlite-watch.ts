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

/** How often a watcher says that it is there, and after how long without a word nobody is. */
const SIGN_EVERY_MS = 20_000
const SILENT_MS = 60_000

const PERMISSIONS = 0o7777

export class WatchDirectory {
  readonly #directory: string
  readonly #ownFile: string
  #watcher: fs.FSWatcher | null = null
  #signedAtMs = 0

  constructor(databasePath: string) {
    this.#directory = `${databasePath}-watch`
    this.#ownFile = path.join(this.#directory, randomUUID())
  }

  get isJoined(): boolean {
    return this.#watcher !== null
  }

  /** Starts to listen for calls. Where no directory can be made or watched nothing happens: the poll has to do. */
  join(wallMs: number, onCall: () => void): void {
    if (this.isJoined) return
    try {
      if (!fs.existsSync(this.#directory)) fs.mkdirSync(this.#directory)
      this.#sign(wallMs)
      const watcher = fs.watch(this.#directory, { persistent: false }, onCall)
      watcher.on('error', () => this.#drop())
      this.#watcher = watcher
    } catch {
      this.#drop()
    }
  }

  /** To be called now and then while joined. If the directory has gone, it is no longer joined. */
  stay(wallMs: number): void {
    if (!this.isJoined || Math.abs(wallMs - this.#signedAtMs) < SIGN_EVERY_MS) return
    try {
      this.#sign(wallMs)
    } catch {
      this.#drop()
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
      fs.chmodSync(this.#directory, stat.mode & PERMISSIONS)
    } catch {
      // It went meanwhile, or belongs to another user, whose watchers rely on the poll.
    }
  }

  /** Takes away what watchers that died have left, and the directory with the last of them. */
  removeSilent(wallMs: number): void {
    for (const name of listDirectory(this.#directory)) {
      const file = path.join(this.#directory, name)
      const stat = fs.statSync(file, { throwIfNoEntry: false })
      if (stat !== undefined && isSilent(stat, wallMs)) fs.rmSync(file, { force: true })
    }
    try {
      fs.rmdirSync(this.#directory)
    } catch {
      // Others still watch, or nobody ever did.
    }
  }

  #sign(wallMs: number): void {
    fs.closeSync(fs.openSync(this.#ownFile, 'a'))
    for (const place of [this.#ownFile, this.#directory]) {
      fs.utimesSync(place, wallMs / 1000, wallMs / 1000)
    }
    this.#signedAtMs = wallMs
  }

  #drop(): void {
    this.#watcher?.close()
    this.#watcher = null
  }
}

function isSilent({ mtimeMs }: fs.Stats, wallMs: number): boolean {
  return Math.abs(wallMs - mtimeMs) > SILENT_MS
}

function listDirectory(directory: string): readonly string[] {
  try {
    return fs.readdirSync(directory)
  } catch {
    return []
  }
}
